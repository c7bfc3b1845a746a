// What is in the page and not a part of its own, as a list of findings. Of texts of others, no elements are made but those of `SHOWN`.
(own) => {
  const SHOWN = new Set(["P", "PRE", "CODE", "STRONG", "MARK", "BUTTON", "SPAN", "A"]);
  const OWN = new Set([
    ...SHOWN,
    ..."HTML HEAD BODY META LINK SCRIPT TITLE TEMPLATE NAV MAIN HEADER SECTION ARTICLE DIV UL OL LI H1 H2 H3 I KBD BLOCKQUOTE DIALOG".split(" "),
    ..."FORM LABEL SELECT OPTION TEXTAREA FIELDSET LEGEND INPUT OUTPUT svg symbol use path rect circle".split(" "),
  ]);
  const HANDLES = /^(on.*|style|srcdoc|srcset|form.*|action|ping|background|poster|data|code|is|slot|nonce|xlink:.*|v-.*|x-.*|ng-.*|hx-.*)$/;
  const PLACES = ".question .text, .reply > .text, .notice, .searched, .facts, .sources .title, .sources .place, .related .open, .related .excerpt, .related .source";
  const OPENED = "#passage-title, #passage-source, #passage-facts, #passage-text, #chat-list span";
  const UNSEEN = /\p{Default_Ignorable_Code_Point}|\p{Bidi_Control}/u;
  const TURNS = /[\u202a-\u202e\u2066-\u2069]/;
  const found = [];

  for (const one of document.querySelectorAll("*")) {
    if (!OWN.has(one.tagName)) found.push(`element ${one.tagName}`);
    if (one.id && !own.ids.includes(one.id)) found.push(`id ${one.id}`);
    if (one.shadowRoot) found.push(`shadow of ${one.tagName}`);
    for (const { name } of one.attributes) if (HANDLES.test(name)) found.push(`attribute ${name} of ${one.tagName}`);
    if (one.tagName === "use" && !one.getAttribute("href").startsWith("#icon-")) found.push("a foreign symbol");
  }
  for (const [name, count] of Object.entries(own.counts)) {
    const now = document.getElementsByTagName(name).length;
    if (now !== count) found.push(`${now} ${name}, were ${count}`);
  }
  for (const place of document.querySelectorAll(`${PLACES}, ${OPENED}`)) {
    for (const one of place.querySelectorAll("*")) if (!SHOWN.has(one.tagName)) found.push(`${one.tagName} in ${place.className || place.id}`);
  }
  for (const link of document.querySelectorAll("a:not(.skip)")) {
    if (!/^https?:$/.test(link.protocol)) found.push(`link to ${link.href}`);
    if (!link.relList.contains("noopener") || link.target !== "_blank") found.push(`link with rel ${link.rel}, target ${link.target}`);
    if (UNSEEN.test(link.textContent)) found.push(`link that reads otherwise than it leads: ${link.href}`);
  }

  // What turns text around ends with its line, or with a box that is its own.
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (!TURNS.test(text.data)) continue;
    let box = text.parentElement;
    while (getComputedStyle(box).display === "inline" && !/isolate|plaintext/.test(getComputedStyle(box).unicodeBidi)) box = box.parentElement;
    const isByLine = getComputedStyle(box).whiteSpaceCollapse.startsWith("preserve");
    if (box.textContent !== text.data && !isByLine) found.push(`text turned around in ${box.className || box.id || box.tagName}`);
  }

  const [page, scroll] = [document.documentElement, document.getElementById("scroll")];
  if (page.scrollWidth > innerWidth || scroll.scrollWidth > innerWidth) found.push("wider than the screen");
  if ("attacked" in window || document.title !== "Almanac" || location.href !== own.address || document.cookie) found.push("something ran");
  return [...new Set(found)];
}
