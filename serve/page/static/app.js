// The page: what is chosen and written in it, and what that sets going.

import { Problem, ask } from "./api.js";
import { baseOf, bases, hasModel, loadBases, mostCharacters, nameOf, titleOf } from "./bases.js";
import { activeChat, addTurn, createChat, historyBefore, lengthOf, load, removeChat, save, store } from "./chats.js";
import { openPassage } from "./passage.js";
import { askForKey, fitSettings, key, onApply, optionsFor, workspaceFor } from "./settings.js";
import { cloneOf, element } from "./text.js";
import { problemNodes, showReply, turnElement } from "./turns.js";

const NEAR_THE_END = 80; // pixels; who reads further up is not pulled down

const at = (id) => document.getElementById(id);
const [log, scroll, message] = [at("log"), at("scroll"), at("message")];
const running = new Map(); // turn → AbortController
const shown = new Map(); // turn of the active chat → its element

// Knowledge bases

async function showBases() {
  at("welcome").replaceChildren(element("p", { class: "note" }, ["Loading…"]));
  try {
    const first = await loadBases(key);
    for (const chat of store.chats) if (!baseOf(chat.kb)) chat.kb = first;
  } catch (problem) {
    showWelcome(problem);
    if (problem.status === 401) askForKey();
    return;
  }
  at("kb").replaceChildren(...bases.map((base) => element("option", { value: base.kb }, [nameOf(base)])));
  at("kb").disabled = !bases.length;
  showChat();
}

function showBase() {
  const chat = activeChat();
  const base = baseOf(chat.kb);
  if (base && !hasModel(chat.kb)) chat.mode = "kb-only";
  at("kb").value = chat.kb;
  at("live").hidden = !base;
  at("version").textContent = base?.version ?? "";
  for (const input of document.querySelectorAll("input[name=mode]")) {
    input.disabled = input.value === "kb-llm" && !hasModel(chat.kb);
    input.checked = input.value === chat.mode;
  }
  at("mode-note").textContent = base && !hasModel(chat.kb) ? "No model is declared here." : "";
  fitSettings();
  showCount();
}

// Chats

function showChat() {
  const chat = activeChat();
  shown.clear();
  log.replaceChildren(...chat.turns.map(elementOf));
  log.setAttribute("aria-busy", "false");
  showWelcome();
  showBase();
  showChats();
  scrollToTheEnd();
}

function showChats() {
  at("chat-list").replaceChildren(...store.chats.map((chat) => {
    const item = cloneOf("chat-template");
    const title = chat.turns[0]?.question ?? "New chat";
    item.querySelector("span").textContent = title;
    item.querySelector(".open").setAttribute("aria-current", chat.id === store.active);
    item.querySelector(".open").classList.toggle("busy", chat.turns.some((turn) => running.has(turn)));
    item.querySelector(".open").addEventListener("click", () => openChat(chat));
    item.querySelector(".remove").setAttribute("aria-label", `Remove chat: ${title}`);
    item.querySelector(".remove").addEventListener("click", () => dropChat(chat));
    return item;
  }));
}

function openChat(chat) {
  store.active = chat.id;
  save();
  at("chats").hidePopover();
  showChat();
  message.focus();
}

function dropChat(chat) {
  for (const turn of chat.turns) running.get(turn)?.abort();
  removeChat(chat);
  showChat();
  at("new-chat").focus();
}

function showWelcome(problem) {
  const chat = activeChat();
  const base = baseOf(chat.kb);
  if (problem) {
    const again = element("button", { type: "button", class: "again" }, ["Try again"]);
    again.addEventListener("click", showBases);
    const said = element("p", { class: "notice", role: "alert" }, problemNodes(problem));
    at("welcome").replaceChildren(said, again);
  } else if (chat.turns.length) {
    at("welcome").replaceChildren();
  } else if (base) {
    at("welcome").replaceChildren(
      element("h2", { dir: "auto" }, [`Ask ${titleOf(chat.kb)}`]),
      element("p", {}, ["Every answer names the passages that it rests on, and the version that they come from. What the documents do not say is not guessed."]),
      element("p", { class: "note keys" }, [element("kbd", {}, ["Enter"]), " sends, ", element("kbd", {}, ["Shift"]), " ", element("kbd", {}, ["Enter"]), " starts a new line."]),
    );
  } else {
    at("welcome").replaceChildren(element("h2", {}, ["Nothing is published yet"]), element("p", {}, ["Run ", element("code", {}, ["almanac run NAME"]), ", then load this page again."]));
  }
}

// Turns

function elementOf(turn) {
  const made = turnElement(turn, titleOf(turn.kb), { onCite: openPassage, onAgain: askAgain });
  shown.set(turn, made);
  return made;
}

function showTurn(turn) {
  const old = shown.get(turn);
  if (!old) return;
  const hadFocus = old.contains(document.activeElement);
  keepingTheEnd(() => old.replaceWith(elementOf(turn)));
  if (hadFocus) shown.get(turn).focus({ preventScroll: true });
}

function keepingTheEnd(change) {
  const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_THE_END;
  change();
  if (isAtEnd) scrollToTheEnd();
}

// The last turn begins in sight: of a refusal, what is said, and not the last of the passages below it.
function scrollToTheEnd() {
  scroll.scrollTop = scroll.scrollHeight;
  const last = log.lastElementChild;
  if (last) scroll.scrollTop -= Math.max(0, scroll.getBoundingClientRect().top - last.getBoundingClientRect().top);
}

function send() {
  const chat = activeChat();
  const question = message.value.trim();
  if (!canSend()) return;
  message.value = "";
  const turn = addTurn(chat, question);
  log.append(elementOf(turn));
  showWelcome();
  scrollToTheEnd();
  write(chat, turn);
}

function askAgain(turn) {
  const chat = activeChat();
  if (chat.turns.some((other) => running.has(other))) return;
  Object.assign(turn, { state: "asking", reply: "", answer: null, problem: null });
  showTurn(turn);
  write(chat, turn);
}

// Asks, and shows the reply as it is written; other chats go on meanwhile.
async function write(chat, turn) {
  const control = new AbortController();
  running.set(turn, control);
  showRunning();
  let isDrawn = true;
  const onText = (text) => {
    turn.reply += text;
    if (!isDrawn) return;
    isDrawn = false;
    requestAnimationFrame(() => {
      isDrawn = true;
      if (turn.state !== "asking" || !shown.has(turn)) return;
      log.setAttribute("aria-busy", "true"); // read out once, when it is complete
      keepingTheEnd(() => showReply(shown.get(turn), turn, openPassage));
    });
  };
  try {
    const answer = await ask(bodyOf(chat, turn), { key, signal: control.signal, onText });
    Object.assign(turn, { state: "done", reply: answer.reply, answer });
    if (baseOf(answer.kb)) baseOf(answer.kb).version = answer.version;
  } catch (failure) {
    if (control.signal.aborted) turn.state = "stopped";
    else Object.assign(turn, { state: "failed", problem: problemOf(failure) });
    if (turn.problem?.status === 401) askForKey();
  }
  running.delete(turn);
  save();
  if (shown.has(turn)) log.setAttribute("aria-busy", "false");
  showTurn(turn);
  showRunning();
}

function bodyOf(chat, turn) {
  const workspace = workspaceFor(turn.kb);
  return {
    message: turn.question,
    kb: turn.kb,
    history: historyBefore(chat, turn, mostCharacters),
    options: { mode: turn.mode, ...optionsFor(turn.kb) },
    ...(workspace ? { workspace } : {}),
  };
}

function problemOf(failure) {
  if (!(failure instanceof Problem)) console.error(failure);
  const { title, detail, status, wait } = failure instanceof Problem ? failure : new Problem({ title: "The page failed", detail: String(failure) });
  return { title, detail, status, wait };
}

// The line to write in

function canSend() {
  const isRunning = activeChat().turns.some((turn) => running.has(turn));
  return !isRunning && Boolean(baseOf(activeChat().kb)) && Boolean(message.value.trim()) && lengthOf(message.value.trim()) <= mostCharacters;
}

function showCount() {
  const length = lengthOf(message.value.trim());
  const isTooLong = bases.length > 0 && length > mostCharacters;
  at("count").textContent = bases.length ? `${length.toLocaleString("en")} / ${mostCharacters.toLocaleString("en")}` : "";
  at("count").classList.toggle("wrong", isTooLong);
  message.setAttribute("aria-invalid", isTooLong);
  at("send").disabled = !canSend();
}

function showRunning() {
  const isRunning = activeChat().turns.some((turn) => running.has(turn));
  const hadFocus = document.activeElement === at("stop");
  at("stop").hidden = !isRunning;
  at("send").hidden = isRunning;
  if (hadFocus && !isRunning) message.focus();
  showBase();
  showChats();
}

// What people do

at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
message.addEventListener("input", showCount);
message.addEventListener("keydown", (event) => {
  // While an input method composes, Enter chooses a word.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  send();
});
at("stop").addEventListener("click", () => {
  for (const turn of activeChat().turns) running.get(turn)?.abort();
});
at("new-chat").addEventListener("click", () => openChat(createChat(activeChat().kb)));
at("kb").addEventListener("change", () => {
  activeChat().kb = at("kb").value;
  save();
  showBase();
  showWelcome();
});
at("mode").addEventListener("change", (event) => {
  activeChat().mode = event.target.value;
  save();
});
onApply(() => {
  if (!bases.length) showBases();
});
for (const dialog of document.querySelectorAll("dialog")) dialog.querySelector(".close").addEventListener("click", () => dialog.close());

load();
showChat();
showBases();
