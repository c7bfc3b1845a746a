// One question and its reply, as an element of the conversation.

import { cloneOf, element, httpUrl, linkTo, paragraphs, passageNodes } from "./text.js";

const PATHWAYS = {
  "kb-only": "from the documents",
  "kb-augmented": "from the documents and the model",
  "llm-fallback": "from the model",
};

// `handlers` are {onCite(source), onAgain(turn)}.
export function turnElement(turn, baseTitle, handlers) {
  const made = cloneOf("turn-template");
  made.dataset.state = turn.state;
  made.querySelector(".question .text").textContent = turn.question;
  made.querySelector(".waiting .what").textContent = `Looking it up in ${baseTitle}…`;
  showReply(made, turn, handlers.onCite);
  if (turn.state === "done") showAnswer(made, turn.answer, handlers.onCite);
  if (turn.state === "failed") showProblem(made, turn.problem);
  if (turn.state === "stopped") made.querySelector(".notice").textContent = "Stopped before the reply was complete.";
  const again = made.querySelector(".again");
  again.hidden = turn.state !== "failed" && turn.state !== "stopped";
  again.textContent = turn.state === "failed" ? "Try again" : "Ask again";
  again.addEventListener("click", () => handlers.onAgain(turn));
  return made;
}

// What there is of the reply by now; its citations open a passage once the sources are known.
export function showReply(made, turn, onCite) {
  const sources = new Map((turn.answer?.sources ?? []).map((source) => [source.marker, source]));
  const markerFor = (number) => {
    const source = sources.get(`[${number}]`);
    if (source) return citation(number, source, onCite);
    return turn.answer ? null : element("span", { class: "marker" }, [number]);
  };
  made.querySelector(".waiting").hidden = turn.state !== "asking" || Boolean(turn.reply);
  made.querySelector(".reply > .text").replaceChildren(...paragraphs(turn.reply, markerFor));
}

function citation(number, source, onCite) {
  const button = element("button", { type: "button", class: "marker", "aria-label": `Source ${number}: ${nameOf(source)}`, "aria-haspopup": "dialog" }, [number]);
  button.addEventListener("click", () => onCite(source));
  return button;
}

function showAnswer(made, answer, onCite) {
  made.dataset.answered = answer.answered;
  made.dataset.pathway = answer.pathway;
  const notice = made.querySelector(".notice");
  if (!answer.answered) notice.textContent = "No answer was found in these documents. Other words may help, or another knowledge base.";
  else if (answer.pathway === "llm-fallback") notice.textContent = "The model wrote this without the documents. Check it elsewhere.";
  if (answer.note) notice.append(...(notice.textContent ? [" "] : []), element("span", { dir: "auto" }, [answer.note]));
  made.querySelector(".sources").replaceChildren(...answer.sources.map((source) => sourceItem(source, onCite)));
  showRelated(made.querySelector(".related"), answer.related ?? [], onCite);
  if (answer.searched) made.querySelector(".searched").replaceChildren("Searched for: ", element("span", { dir: "auto" }, [answer.searched]));
  const facts = [answer.citation, answer.answered ? PATHWAYS[answer.pathway] : null, leftOut(answer.dropped_sentences), `${answer.kb} ${answer.version}`];
  made.querySelector(".facts").replaceChildren(...facts.filter(Boolean).map((fact) => element("span", { dir: "auto" }, [fact])));
}

// What is close to a question without an answer: leads, which open as sources do and are none.
function showRelated(section, related, onOpen) {
  section.hidden = !related.length;
  section.querySelector("ul").replaceChildren(...related.map((passage) => {
    const item = cloneOf("related-template");
    item.querySelector(".open").textContent = nameOf(passage);
    item.querySelector(".open").addEventListener("click", () => onOpen(passage));
    item.querySelector(".excerpt").replaceChildren(...passageNodes(passage));
    item.querySelector(".source").replaceChildren(passage.url ? linkTo(passage.url) : "");
    return item;
  }));
}

function leftOut(count) {
  if (!count) return null;
  return count === 1 ? "1 sentence without support was left out" : `${count} sentences without support were left out`;
}

function sourceItem(source, onCite) {
  const item = cloneOf("source-template");
  item.querySelector(".marker").textContent = source.marker.slice(1, -1);
  item.querySelector(".title").textContent = nameOf(source);
  item.querySelector(".place").textContent = httpUrl(source.url)?.host ?? "";
  item.querySelector("button").setAttribute("aria-haspopup", "dialog");
  item.querySelector("button").addEventListener("click", () => onCite(source));
  return item;
}

function showProblem(made, problem) {
  const notice = made.querySelector(".notice");
  notice.setAttribute("role", "alert");
  notice.replaceChildren(...problemNodes(problem));
}

export function problemNodes({ title, detail, wait }) {
  const details = [detail, wait ? `the server asks to wait ${wait} s` : ""].filter(Boolean).join("; ");
  return [element("strong", {}, [details ? `${title}:` : title]), ` ${details}`];
}

export function nameOf(source) {
  return source.title || source.url || source.document_id;
}
