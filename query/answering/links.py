"""Links in generated text: a model repeats what a passage talked it into, and a link or an image carries what it knows
of the conversation elsewhere.

What no passage holds is taken out while the reply is streamed: the text of a link stays, its address goes. First links,
images, definitions and tags, then addresses that stand by themselves: what is left after something was taken out of
their middle is seen, too.
"""

import re
from collections.abc import Iterable

LEFT_OUT = "…"  # stands for an address
_LONGEST = 1000  # characters of a link's text, its address or a tag; what is longer is made no link by a space
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,30}://|(?:mailto|tel|sms|xmpp|javascript|vbscript):(?=[^\s])|data:(?=[a-z]+[/;,])|www"
    r"\.(?=[^\s.]))"
    r"[^\s<>\[\]\"`|“”«»。，、；！？）】」』》]*",
    re.IGNORECASE,
)
_MAYBE_ADDRESS = re.compile(r"(?:data:[a-z]*|[a-z0-9+.-]{1,40}(?::/?)?)$", re.IGNORECASE)  # at the end of a piece
_AFTER = ".,;:!?'*_~"  # ends a sentence, not an address
_TARGET = re.compile(r"\]\(\s*<?([^\s<>()]+)")
_PLAIN = re.compile(r"[^!\[\]<(:A-Za-z/?]+|[A-Za-z/?]+")
_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9:-]*)(?=[\s/>])[^<>]*>|<!--(?:-?>|.*?-->)|<(?:\?|!(?!--))[^<>]*>", re.DOTALL)
_BARE_NAME = re.compile(r"</?[A-Za-z][\w.]*>")  # such as List<String>, which nobody takes for a tag
_NUMBERS = re.compile(r"[\d\s,;–-]*\d[\d\s,;–-]*")
_WORD = re.compile(r"\w*")
_AUTOLINK = re.compile(r"<([a-z][a-z0-9+.-]{1,30}:[^\s<>]*)>", re.IGNORECASE)
_MAIL = re.compile(r"<([^\s<>@:/]+@[^\s<>@:/]+)>")
_NO_DEFINITION = re.compile(r"(?:^|\n)[^\n]*[^\W\d_][^\n]*\[\d{1,3}\]$")  # "as said in [1]: …"
_TAGS = frozenset(
    {
        *(
            "a",
            "abbr",
            "address",
            "applet",
            "area",
            "article",
            "aside",
            "audio",
            "b",
            "base",
            "bdi",
            "bdo",
            "big",
            "blockquote",
            "body",
            "br",
            "button",
        ),
        *(
            "canvas",
            "caption",
            "center",
            "cite",
            "code",
            "col",
            "colgroup",
            "data",
            "datalist",
            "dd",
            "del",
            "details",
            "dfn",
            "dialog",
            "dir",
            "div",
            "dl",
        ),
        *(
            "dt",
            "em",
            "embed",
            "fieldset",
            "figcaption",
            "figure",
            "font",
            "footer",
            "form",
            "frame",
            "frameset",
            "h1",
            "h2",
            "h3",
            "h4",
            "h5",
            "h6",
            "head",
        ),
        *(
            "header",
            "hr",
            "html",
            "i",
            "iframe",
            "image",
            "img",
            "input",
            "ins",
            "kbd",
            "label",
            "legend",
            "li",
            "link",
            "main",
            "map",
            "mark",
            "marquee",
        ),
        *(
            "math",
            "menu",
            "meta",
            "meter",
            "nav",
            "noscript",
            "object",
            "ol",
            "optgroup",
            "option",
            "output",
            "p",
            "param",
            "picture",
            "pre",
            "progress",
        ),
        *(
            "q",
            "rp",
            "rt",
            "ruby",
            "s",
            "samp",
            "script",
            "section",
            "select",
            "slot",
            "small",
            "source",
            "span",
            "strike",
            "strong",
            "style",
            "sub",
        ),
        *(
            "summary",
            "sup",
            "svg",
            "table",
            "tbody",
            "td",
            "template",
            "textarea",
            "tfoot",
            "th",
            "thead",
            "time",
            "title",
            "tr",
            "track",
            "tt",
            "u",
            "ul",
        ),
        *("use", "var", "video", "wbr"),
    }
)


def addresses_in(texts: Iterable[str]) -> frozenset[str]:
    """The addresses that texts hold, by themselves and as targets of Markdown links."""
    found: set[str] = set()
    for text in texts:
        found.update(one[1] for one in _TARGET.finditer(text))
        found.update(_cut(one[0]) for one in _ADDRESS.finditer(text))
    return frozenset(found)


class LinkFilter:
    """Streaming filter of generated text. The resulting text does not depend on how the input is cut into pieces.

    Links and images whose address is not in `held` become their text, tags of HTML are left out, other addresses become
    an ellipsis.
    """

    def __init__(self, held: frozenset[str]) -> None:
        self._marks, self._addresses = _Marks(held), _Addresses(held)

    def feed(self, piece: str) -> str:
        """Takes the next piece and returns the text that is final by now."""
        return self._addresses.feed(self._marks.feed(piece))

    def finish(self) -> str:
        """Ends the input and returns the rest of the text."""
        return self._addresses.feed(self._marks.finish()) + self._addresses.finish()


class _Addresses:
    """Leaves out addresses that are not held, wherever they stand."""

    def __init__(self, held: frozenset[str]) -> None:
        self._held, self._waiting = held, ""

    def feed(self, piece: str) -> str:
        return self._read(self._waiting + piece, is_final=False)

    def finish(self) -> str:
        return self._read(self._waiting, is_final=True)

    def _read(self, text: str, *, is_final: bool) -> str:
        written, position, self._waiting = "", 0, ""
        while found := _ADDRESS.search(text, position):
            if found.end() == len(text) and not is_final:
                break
            address = _cut(found[0])
            written += text[position : found.start()] + (address if address in self._held else LEFT_OUT)
            position = found.start() + len(address)
        rest = text[position:]
        if not is_final:
            begin = found.start() - position if found else len(rest)
            # also before what is one already: `www.` may turn out to be in the middle of one
            if maybe := _MAYBE_ADDRESS.search(rest, 0, begin):
                begin = maybe.start()
            rest, self._waiting = rest[:begin], rest[begin:]
        return written + rest


class _Marks:
    """Makes links and images their text, and leaves out tags; no other text is left that Markdown or HTML reads as
    one.
    """

    def __init__(self, held: frozenset[str]) -> None:
        self._held, self._waiting = held, ""
        self._line = ""  # what was written last, as far back as needed

    def feed(self, piece: str) -> str:
        return self._read(self._waiting + piece, is_final=False)

    def finish(self) -> str:
        return self._read(self._waiting, is_final=True)

    def _read(self, text: str, *, is_final: bool) -> str:
        written, position = "", 0
        while position < len(text):
            step = self._step(text, position, is_final=is_final)
            if step is None:
                break
            new, position = step
            written += new
        self._waiting = text[position:]
        return written

    def _step(self, text: str, position: int, *, is_final: bool) -> tuple[str, int] | None:
        """The output for what stands at `position`, and the next position; None where more input is needed."""
        first = text[position]
        if first == "!":
            if position + 1 == len(text) and not is_final:
                return None
            if text.startswith("![", position):
                return self._bracket(text, position + 1, is_final=is_final, mark="!")
        if first == "[":
            return self._bracket(text, position, is_final=is_final, mark="")
        if first == "<":
            return self._angle(text, position, is_final=is_final)
        plain = _PLAIN.match(text, position)
        end = plain.end() if plain else position + 1
        return self._write(text[position:end]), end

    def _bracket(self, text: str, position: int, *, is_final: bool, mark: str) -> tuple[str, int] | None:
        close = _closing(text, position, "[", "]")
        if close is None or close + 1 == len(text):
            if close is None and (is_final or _is_too_long(text, position)):
                return self._write(f"{mark}["), position + 1
            return (self._write(f"{mark}["), position + 1) if is_final else None
        if text[close + 1] != "(":
            return self._write(f"{mark}["), position + 1
        end = _closing(text, close + 1, "(", ")")
        if end is None:
            if not is_final and not _is_too_long(text, close + 1):
                return None
            return self._write(f"{mark}["), position + 1
        inner = _Marks(self._held)
        label = inner.feed(text[position + 1 : close]) + inner.finish()
        target = _TARGET.match(text, close)
        if target and target[1] in self._held:
            return self._write(f"{mark}[") + self._write(label) + self._as_it_is(f"]({target[1]})"), end + 1
        if _NUMBERS.fullmatch(label):  # a citation, or an index in code that calls what it finds
            is_call = _WORD.fullmatch(text, close + 2, end)
            return self._write(f"[{label}]"), close + 1 if is_call else end + 1
        return self._write(label), end + 1

    def _angle(self, text: str, position: int, *, is_final: bool) -> tuple[str, int] | None:
        following = text[position + 1 : position + 2]
        if not following and not is_final:
            return None
        if not following or not (following.isalpha() or following in "/!?"):
            return self._write("<"), position + 1
        is_comment = text.startswith("<!--", position)
        blank = text.find("\n\n", position)
        limit = min(position + _LONGEST, blank if blank >= 0 else len(text))
        if text.find("-->" if is_comment else ">", position, limit) < 0 and not is_final and limit == len(text):
            return None
        if address := _AUTOLINK.match(text, position, limit):
            return self._as_it_is(f"<{address[1]}>" if address[1] in self._held else LEFT_OUT), address.end()
        if mail := _MAIL.match(text, position, limit):
            return self._write(mail[1]), mail.end()
        tag = _TAG.match(text, position, limit)
        if tag and (not tag[1] or tag[1].lower() in _TAGS):
            return "", tag.end()
        if bare := _BARE_NAME.match(text, position, limit):
            return self._as_it_is(bare[0]), bare.end()
        return self._as_it_is("< "), position + 1

    def _write(self, text: str) -> str:
        """Text as it is passed on, with a space where it would become a link, a definition or a tag together with what
        was written before.
        """
        last = self._line[-1:]
        is_link, is_tag = (last + text[:1]) == "](", last == "<" and (text[:1].isalpha() or text[:1] in ("/", "!", "?"))
        is_definition = (last + text[:1]) == "]:" and not _NO_DEFINITION.search(self._line)
        return self._as_it_is(f" {text}" if is_link or is_tag or is_definition else text)

    def _as_it_is(self, text: str) -> str:
        self._line = (self._line + text)[-_LONGEST:]
        return text


def _closing(text: str, position: int, opener: str, closer: str) -> int | None:
    """Where the bracket at `position` is closed, within its paragraph; None where it is not."""
    depth = 0
    for place in range(position, min(len(text), position + _LONGEST)):
        if text[place] == "\n" and text[place + 1 : place + 2] == "\n":
            return None
        depth += (text[place] == opener) - (text[place] == closer)
        if not depth:
            return place
    return None


def _is_too_long(text: str, position: int) -> bool:
    return len(text) - position >= _LONGEST or "\n\n" in text[position:]


def _cut(address: str) -> str:
    """An address without what closes the sentence or the bracket around it."""
    depth = 0
    for place, character in enumerate(address):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            address = address[:place]
            break
    return address.rstrip(_AFTER)
