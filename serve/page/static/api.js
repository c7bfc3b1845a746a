// The server's answers, as promises: the knowledge bases, and one question's reply while it is written.

export class Problem extends Error {
  // What a problem document (RFC 9457) says. `status` is 0 where no answer came; `wait` are the seconds that the server asks for.
  constructor({ title, detail = "", status = 0, wait = null }) {
    super(title);
    Object.assign(this, { title, detail, status, wait });
  }
}

export async function fetchBases(key) {
  const response = await send("api/kbs", { headers: headers(key, "application/json") });
  return response.json();
}

// The full answer. `onText` gets each piece of the reply as it comes. Throws Problem, or AbortError once `signal` is aborted.
export async function ask(question, { key, signal, onText }) {
  const response = await send("api/chat", {
    method: "POST",
    headers: { ...headers(key, "text/event-stream"), "Content-Type": "application/json" },
    body: JSON.stringify(question),
    signal,
  });
  for await (const { event, data } of eventsOf(response.body, signal)) {
    if (event === "token") onText(data.text);
    else if (event === "done") return data;
    else if (event === "error") throw problemFrom(data, data.status ?? 500, null);
  }
  throw brokenOff();
}

async function send(path, request) {
  let response;
  try {
    response = await fetch(path, { ...request, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    throw new Problem({ title: "The server cannot be reached", detail: "is almanac serve running, and this machine online?" });
  }
  if (response.ok) return response;
  const wait = Number.parseInt(response.headers.get("Retry-After"), 10);
  const document = await response.json().catch(() => ({}));
  throw problemFrom(document, response.status, Number.isNaN(wait) ? null : wait);
}

function headers(key, accept) {
  return key ? { Accept: accept, Authorization: `Bearer ${key}` } : { Accept: accept };
}

function problemFrom(document, status, wait) {
  const title = typeof document.title === "string" ? document.title : "The server could not answer";
  const detail = [document.detail, document.hint].filter((part) => typeof part === "string" && part).join("; ");
  return new Problem({ title, detail, status, wait });
}

function brokenOff() {
  return new Problem({ title: "The answer broke off", detail: "the connection ended before it was complete" });
}

// Server-sent events: blocks of `field: value` lines with an empty line after each; data is JSON here.
async function* eventsOf(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (text + value).split(/\r\n\r\n|\n\n|\r\r/);
      text = blocks.pop();
      for (const block of blocks) {
        const event = eventFrom(block);
        if (event) yield event;
      }
    }
  } catch (failure) {
    if (signal.aborted || failure instanceof Problem) throw failure;
    throw brokenOff();
  } finally {
    reader.cancel().catch(() => {});
  }
}

function eventFrom(block) {
  let event = "message";
  const data = [];
  for (const line of block.split(/\r\n|\n|\r/)) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
  if (!data.length) return null;
  try {
    return { event, data: JSON.parse(data.join("\n")) };
  } catch {
    throw new Problem({ title: "The answer cannot be read", detail: "what the server sent is no valid event" });
  }
}
