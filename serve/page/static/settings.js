// The settings' dialog: how to ask, and the key of a server that wants one.

import { baseOf, hasModel } from "./bases.js";
import { activeChat, save, store } from "./chats.js";

export let key = ""; // in memory only

const at = (id) => document.getElementById(id);
const dialog = at("settings");

// Shows what there is to set for the chat's knowledge base; also while the dialog is open, for the bases may arrive later than it.
export function fitSettings() {
  const { kb } = activeChat();
  at("workspace-field").hidden = !baseOf(kb)?.has_workspaces;
  at("temperature").disabled = !hasModel(kb);
  at("temperature-note").textContent = hasModel(kb) ? "From 0 to 2. Empty: as declared." : "No model is declared for this knowledge base: nothing to set.";
}

export function openSettings() {
  fitSettings();
  at("key").value = key;
  at("k").value = store.settings.k ?? "";
  at("temperature").value = store.settings.temperature ?? "";
  at("workspace").value = store.settings.workspace;
  at("settings-error").textContent = "";
  if (!dialog.open) dialog.showModal();
}

export function askForKey() {
  openSettings();
  at("key-field").hidden = false;
  at("settings-error").textContent = key ? "This key was refused." : "";
  at("key").focus();
}

// What of the settings goes with a question to a knowledge base, beside its mode.
export function optionsFor(kb) {
  const { k, temperature } = store.settings;
  return { ...(k === null ? {} : { retrievalK: k }), ...(temperature === null || !hasModel(kb) ? {} : { temperature }) };
}

export function workspaceFor(kb) {
  return (baseOf(kb)?.has_workspaces && store.settings.workspace) || null;
}

// Calls back when something was set.
export function onApply(callback) {
  at("open-settings").addEventListener("click", openSettings);
  at("settings-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (apply()) callback();
  });
}

function apply() {
  const wrong = [at("key"), at("k"), at("temperature")].find((input) => !input.checkValidity());
  at("settings-error").textContent = wrong ? `${wrong.labels[0].textContent}: ${wrong.validationMessage}` : "";
  if (wrong) {
    wrong.focus();
    return false;
  }
  store.settings = { k: numberIn(at("k")), temperature: numberIn(at("temperature")), workspace: at("workspace").value.trim() };
  save();
  key = at("key").value.trim();
  dialog.close();
  return true;
}

function numberIn(input) {
  return input.value === "" ? null : input.valueAsNumber;
}
