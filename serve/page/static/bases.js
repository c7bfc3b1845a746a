// The knowledge bases that can be asked, as the server last told.

import { fetchBases } from "./api.js";

export let bases = []; // {kb, title, version, modes, has_workspaces}
export let mostCharacters = 0; // of a question, and of its history

// The one to begin with, or null where there is none. Throws Problem.
export async function loadBases(key) {
  const found = await fetchBases(key);
  [bases, mostCharacters] = [found.items, found.max_input_chars];
  return found.default ?? bases[0]?.kb ?? null;
}

export function baseOf(kb) {
  return bases.find((base) => base.kb === kb);
}

export function titleOf(kb) {
  return baseOf(kb)?.title || kb;
}

// Its title, with its name where another one is called the same.
export function nameOf({ kb, title }) {
  return bases.some((base) => base.kb !== kb && base.title === title) ? `${title} (${kb})` : title || kb;
}

export function hasModel(kb) {
  return Boolean(baseOf(kb)?.modes.includes("kb-llm"));
}
