// The chats of this tab, and the settings. They survive a reload by sessionStorage and are sent to nobody but as history of a question.
//
// A chat is {id, kb, mode, turns}; a turn {id, question, kb, mode, state, reply, answer, problem} with state: asking | done | stopped | failed.

const PLACE = "almanac.1";
const HISTORY_MESSAGES = 6;

export const store = { chats: [], active: null, settings: { k: null, temperature: null, workspace: "" } };

export function load() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(PLACE));
    if (kept) Object.assign(store, kept);
  } catch {
    // Storage may be forbidden; then chats end with the page.
  }
  for (const turn of store.chats.flatMap((chat) => chat.turns)) if (turn.state === "asking") turn.state = "stopped";
  if (!activeChat()) createChat(null);
}

// Where all is too much for the storage, the oldest chats are not kept over a reload.
export function save() {
  for (let skipped = 0; skipped < store.chats.length; skipped++) {
    const chats = store.chats.slice(0, store.chats.length - skipped);
    try {
      sessionStorage.setItem(PLACE, JSON.stringify({ ...store, chats }));
      return;
    } catch (failure) {
      if (failure.name !== "QuotaExceededError") return;
    }
  }
}

export function activeChat() {
  return store.chats.find((chat) => chat.id === store.active);
}

// The newest chat stands first; one that nobody wrote in is used again.
export function createChat(kb) {
  let chat = store.chats.find(({ turns }) => !turns.length);
  if (!chat) {
    chat = { id: newId(), kb, mode: "kb-only", turns: [] };
    store.chats.unshift(chat);
  }
  store.active = chat.id;
  save();
  return chat;
}

export function removeChat(chat) {
  store.chats = store.chats.filter((other) => other !== chat);
  if (!activeChat()) store.active = store.chats[0]?.id ?? createChat(chat.kb).id;
  save();
}

export function addTurn(chat, question) {
  const turn = { id: newId(), question, kb: chat.kb, mode: chat.mode, state: "asking", reply: "", answer: null, problem: null };
  chat.turns.push(turn);
  save();
  return turn;
}

// The last messages before a turn, of questions to the same knowledge base that were answered to the end; no more than `most` characters of them.
export function historyBefore(chat, turn, most) {
  const earlier = chat.turns.slice(0, chat.turns.indexOf(turn)).filter(({ kb, state }) => kb === turn.kb && state === "done");
  const messages = earlier.flatMap(({ question, reply }) => [{ role: "user", content: question }, { role: "assistant", content: reply }]);
  const last = messages.slice(-HISTORY_MESSAGES);
  while (last.reduce((sum, { content }) => sum + lengthOf(content), 0) > most) last.splice(0, 2);
  return last;
}

// Characters as the server counts them; JavaScript's own length counts some twice.
export function lengthOf(text) {
  let length = 0;
  for (const _ of text) length++;
  return length;
}

function newId() {
  return Array.from(crypto.getRandomValues(new Uint32Array(2)), (part) => part.toString(36)).join("");
}
