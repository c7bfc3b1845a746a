// The passage that a citation rests on, with the quote marked in it.

import { nameOf } from "./turns.js";
import { element, highlighted, labelled, linkTo } from "./text.js";

const dialog = document.getElementById("passage");
const part = (name) => document.getElementById(`passage-${name}`);

export function openPassage(source) {
  part("marker").textContent = source.marker.slice(1, -1);
  part("title").textContent = nameOf(source);
  part("source").replaceChildren(source.url ? linkTo(source.url) : "");
  part("facts").replaceChildren(...factsOf(source).map((fact) => element("span", { dir: "auto" }, [fact])));
  // A record is shown whole; of a document, the span that was found.
  const nodes = highlighted(source.passage ?? source.text, source.quote) ?? [source.passage ?? source.text];
  part("text").replaceChildren(...(source.passage ? labelled(nodes) : nodes));
  dialog.showModal();
  part("text").scrollTop = 0;
  part("text").querySelector("mark")?.scrollIntoView({ block: "center" });
}

function factsOf({ confidence, relevance, tags = [] }) {
  return [confidence ? `Confidence: ${confidence}` : "", oftenOf(relevance), ...tags].filter(Boolean);
}

// How often a passage as relevant as this one answers its question.
function oftenOf(relevance) {
  if (!Number.isFinite(relevance)) return "";
  const often = Math.round(relevance * 10);
  return often < 1 ? "Rarely answers" : often > 9 ? "Nearly always answers" : `Answers ${often} of 10 times`;
}
