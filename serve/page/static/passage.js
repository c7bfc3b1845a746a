// The passage that a citation rests on, with the quote marked in it; or one that is only close to the question, which has neither quote nor marker.

import { nameOf } from "./turns.js";
import { element, linkTo, passageNodes } from "./text.js";

const dialog = document.getElementById("passage");
const part = (name) => document.getElementById(`passage-${name}`);

export function openPassage(source) {
  part("marker").hidden = !source.marker;
  part("marker").textContent = source.marker?.slice(1, -1) ?? "";
  part("title").textContent = nameOf(source);
  part("source").replaceChildren(source.url ? linkTo(source.link ?? source.url) : "");
  part("facts").replaceChildren(...(source.marker ? factsOf(source) : []).map((fact) => element("span", { dir: "auto" }, [fact])));
  part("text").replaceChildren(...passageNodes(source));
  dialog.showModal();
  part("text").scrollTop = 0;
  part("text").querySelector("mark")?.scrollIntoView({ block: "center" });
}

function factsOf({ place, confidence, relevance, tags = [] }) {
  return [place ?? "", confidence ? `Confidence: ${confidence}` : "", oftenOf(relevance), ...tags].filter(Boolean);
}

// How often a passage as relevant as this one answers its question.
function oftenOf(relevance) {
  if (!Number.isFinite(relevance)) return "";
  const often = Math.round(relevance * 10);
  return often < 1 ? "Rarely answers" : often > 9 ? "Nearly always answers" : `Answers ${often} of 10 times`;
}
