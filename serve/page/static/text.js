// Text of others, as elements: made one by one with textContent, so that nothing in it is ever read as HTML.

const FENCED = /(```[\s\S]*?```)/;
const UNSEEN = /\p{Default_Ignorable_Code_Point}|\p{Bidi_Control}/u;
const MARKUP = /(`[^`\n]+`)|\[(\d{1,3})\]|\*\*(?=\S)([^*\n]+)\*\*/g;

// A reply as paragraphs and blocks of code. `markerFor(n)` gives the element for a citation [n], or null; within code there are none.
export function paragraphs(text, markerFor) {
  return text.split(FENCED).flatMap((part, index) => {
    if (index % 2) return [element("pre", { dir: "ltr" }, [part.replace(/^```\w*\n?|```$/g, "")])];
    const written = part.split(/\n{2,}/).filter((paragraph) => paragraph.trim());
    return written.map((paragraph) => element("p", { dir: "auto" }, inline(paragraph.trim(), markerFor)));
  });
}

function inline(text, markerFor) {
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(MARKUP)) {
    const [whole, code, number, strong] = found;
    nodes.push(text.slice(end, found.index));
    end = found.index + whole.length;
    if (code) nodes.push(element("code", { dir: "ltr" }, [code.slice(1, -1)]));
    else if (number) nodes.push(markerFor(number) ?? whole);
    else nodes.push(element("strong", {}, inline(strong, markerFor)));
  }
  nodes.push(text.slice(end));
  return nodes;
}

// A passage with its quote marked; null where the quote does not stand in it. White space may differ.
export function highlighted(text, quote) {
  const words = quote.trim().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const found = new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")).join("\\s+")).exec(text);
  if (!found) return null;
  return [text.slice(0, found.index), element("mark", {}, [found[0]]), text.slice(found.index + found[0].length)];
}

// The labels of a record's passage made bold: at the beginning of each line up to the first empty one, then on lines of their own behind empty ones.
// `nodes` are the passage as texts and elements.
export function labelled(nodes) {
  let read = "";
  return nodes.flatMap((node) => {
    const text = node.textContent ?? node;
    const made = [];
    let end = 0;
    for (const found of text.matchAll(/[^\n:]+:(?=\s)/g)) {
      const before = read + text.slice(0, found.index);
      const ownLine = text[found.index + found[0].length] === "\n";
      const isLabel = before.includes("\n\n") || (!before && ownLine) ? (!before || before.endsWith("\n\n")) && ownLine : !before || before.endsWith("\n");
      if (!isLabel) continue;
      made.push(text.slice(end, found.index), element("strong", {}, [found[0]]));
      end = found.index + found[0].length;
    }
    made.push(text.slice(end));
    read += text;
    return typeof node === "string" ? made : [element(node.localName, {}, made)];
  });
}

// What there is to read of a passage, with its quote marked: a record is shown whole, with its labels; of a document, the span that was found.
export function passageNodes({ passage, text, quote = "" }) {
  const nodes = highlighted(passage ?? text, quote) ?? [passage ?? text];
  return passage ? labelled(nodes) : nodes;
}

// A link where the address is http or https; any other stays text. With characters that turn text around or are not seen, it is shown as it is requested.
export function linkTo(address) {
  const url = httpUrl(address);
  const shown = url && UNSEEN.test(address) ? url.href : address;
  return url ? element("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, [shown]) : element("span", {}, [shown]);
}

// Null for what is no address, or one of another kind: javascript:, data:, a file's name.
export function httpUrl(address) {
  try {
    const url = new URL(address);
    return url.protocol === "http:" || url.protocol === "https:" ? url : null;
  } catch {
    return null;
  }
}

export function element(name, attributes, children = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function cloneOf(template) {
  return document.getElementById(template).content.firstElementChild.cloneNode(true);
}
