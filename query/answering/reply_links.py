"""Links in generated text: a model repeats what a passage talked it into, and a link or an image carries what it knows
of the conversation elsewhere.

What no passage holds is taken out of each statement: the text of a link stays, its address goes. What Markdown or HTML
could make a link, a definition or a tag of all the same gets a space: statements stay apart by white space, so that
nothing is put together from two of them.
"""

import re
from collections.abc import Iterable

LEFT_OUT = "…"  # stands for an address
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,30}://|(?:mailto|tel|sms|xmpp|javascript|vbscript):(?=\S)|data:(?=[a-z]+[/;,])"
    r"|www\.(?=[^\s.]))[^\s<>\[\]\"`|“”«»。，、；！？）】」』》]*",
    re.IGNORECASE,
)
_AFTER = ".,;:!?'*_~"  # ends a sentence, not an address
_TARGET = re.compile(r"\]\(\s*<?([^\s<>()]+)")
_LINK = re.compile(r"!?\[(?!\s*\d+\s*\])([^\[\]]*)(\]\((?:[^()]|\([^()]*\))*\))")
_TAG = re.compile(r"</?[a-z][a-z0-9-]*(?:[\s/][^<>]*)?>|<!--(?:-?>|.*?-->)|<(?:\?|!(?!--))[^<>]*>", re.DOTALL)
_TAG_BEGINS = re.compile(r"<(?=[A-Za-z/!?])")
_JOINT = re.compile(r"\](?=[(:])")
_IN_SENTENCE = re.compile(r"[^\W\d_][^\n]*\[\d{1,3}$")  # "as said in [1]: …" defines nothing


def addresses_in(texts: Iterable[str]) -> frozenset[str]:
    """The addresses that texts hold, by themselves and as targets of Markdown links."""
    addresses: set[str] = set()
    for text in texts:
        addresses.update(match[1] for match in _TARGET.finditer(text))
        addresses.update(_cut(match[0]) for match in _ADDRESS.finditer(text))
    return frozenset(addresses)


def without_foreign_links(text: str, held: frozenset[str]) -> str:
    """A text in which links and images whose address is not in `held` are their text, tags of HTML are left out, and
    other addresses are an ellipsis.
    """

    def is_held(target: re.Match[str] | None) -> bool:
        return target is not None and target[1] in held

    def joint(match: re.Match[str]) -> str:
        before, is_defined = match.string[: match.start()], match.string.startswith(":", match.end())
        is_kept = _IN_SENTENCE.search(before) if is_defined else is_held(_TARGET.match(match.string, match.start()))
        return "]" if is_kept else "] "

    before = ""
    while text != before:  # what is left may be a mark anew
        before, text = text, _TAG.sub("", text)
        text = _LINK.sub(lambda link: link[0] if is_held(_TARGET.match(link[2])) else link[1], text)
    written, end = "", 0
    while match := _ADDRESS.search(text, end):
        address = _cut(match[0])  # another one may begin behind what is cut off
        written += text[end : match.start()] + (address if address in held else LEFT_OUT)
        end = match.start() + len(address)
    return _TAG_BEGINS.sub("< ", _JOINT.sub(joint, written + text[end:]))


def _cut(address: str) -> str:
    """An address without what closes the sentence or the bracket around it."""
    depth = 0
    for place, character in enumerate(address):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            address = address[:place]
            break
    return address.rstrip(_AFTER)
