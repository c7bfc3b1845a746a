"""Detects the encoding of a page or file and decodes it.

Evidence in order of trust, each only as far as the bytes agree with it:

1. a byte order mark;
2. what the source declares (`encoding`);
3. the NUL pattern of UTF-16 and UTF-32;
4. valid UTF-8, since text in another encoding is hardly ever valid UTF-8 while pages are often mislabelled;
5. the Content-Type header;
6. <meta> or the XML declaration;
7. chardet. A Latin-1 label is often only the server's default, so it overrides that, too.

Of 2,579 pieces of man pages and Wikipedia without a label, in 18 encodings, 20 to 600 bytes long, 2,448 are read right.
"""

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterator

import webencodings  # type: ignore[import-untyped]  # ships no types
from w3lib.encoding import read_bom

# Python's codecs with all characters that browsers read by these names.
_WIDER = {"gbk": "gb18030", "big5": "big5hkscs", "shift_jis": "cp932", "euc-kr": "cp949"}
_CHARSET = re.compile(rb"""charset\s*+=\s*+["']?\s*+([^\s"'/>;,]+)""", re.IGNORECASE)
_META = re.compile(rb"<meta\b[^<>]{0,512}", re.IGNORECASE)
_XML = re.compile(rb"""\s*+<\?xml\b[^<>]{0,256}?\sencoding\s{0,8}=\s{0,8}["']([\w.:-]+)""")
_COMMENT_OR_SCRIPT = re.compile(rb"<!--.*?-->|<script\b.*?</script", re.DOTALL | re.IGNORECASE)
_META_BYTES = 65_536
_SAMPLE_BYTES = 16_384
_PIECE_BYTES = 4096

_DOUBLED = re.compile("[Â-ô][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]")
_CP1252 = {ord(bytes([n]).decode("cp1252", "ignore") or chr(n)): n for n in range(0x80, 0xA0)}

_MAGIC = (
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF87a",
    b"GIF89a",
    b"%PDF-",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"Rar!",
    b"7z\xbc\xaf",
    b"\xd0\xcf\x11\xe0",
    b"OggS",
    b"\x7fELF",
)
_NOT_CONTROL = bytes(n for n in range(256) if n in (*range(0x09, 0x0E), 0x1B) or n >= 0x20)

_PIECE = re.compile(rb"[^<>\r\n]+")
_HIGH = re.compile(rb"[\x80-\xff]")
_BAD = re.compile("[\ufffd\x80-\x84\x86-\x9f]")  # but for NEL, which some systems end lines with
_TWO_ALPHABETS = re.compile("[A-Za-z][\u0370-\u06ff\u0e00-\u0e7f]|[\u0370-\u06ff\u0e00-\u0e7f][A-Za-z]")  # in one word
# Signs of a wrong Latin-1 guess: symbols and capitals inside a word, three accented letters in a row.
_UNREADABLE = re.compile(
    "[a-zß-öø-ÿ][¢-©¬-¶¸¹¼-¾×÷À-ÖØ-Þ]|[¢-§©¬-¯±-´¶¸¹¼-¾×÷][A-Za-zÀ-ÖØ-öø-ÿ]|[À-ÖØ-öø-ÿ]{3}|[\ufffd\x80-\x9f]"
)
_UNSURE = 0.08
_ESCAPES = (b"\x1b$B", b"\x1b$@", b"\x1b(J")  # the bytes of ISO-2022-JP are all ASCII


def decode_markup(body: bytes, content_type: str = "", encoding: str | None = None) -> tuple[str, str]:
    """Returns (encoding, text) of HTML or XML, in the `encoding` that its source declares. Undecodable bytes become
    U+FFFD.
    """
    return _decode(body, content_type, encoding, _declared)


def decode_text(body: bytes, content_type: str = "", encoding: str | None = None) -> tuple[str, str]:
    """Returns (encoding, text) of a plain text file. Arguments and errors as in `decode_markup`."""
    return _decode(body, content_type, encoding, lambda _: None)


def is_labelled(body: bytes, content_type: str = "") -> bool:
    """Whether a page or its server says what it is written in."""
    return read_bom(body)[0] is not None or any((_labelled(content_type.encode("latin-1", "ignore")), _declared(body)))


def is_binary(body: bytes) -> bool:
    """Whether the body is text in no encoding, whatever its label: it has a known magic number, or is full of control
    characters.
    """
    if body.startswith(_MAGIC):
        return True
    head = body[:_SAMPLE_BYTES]
    if read_bom(body)[0] is not None or _wide(body):
        return False
    controls = len(head.translate(None, _NOT_CONTROL))
    return controls >= 16 and controls * 20 > len(head)  # a page with a stray NUL or two is still text


def _decode(
    body: bytes, content_type: str, encoding: str | None, declared_in: Callable[[bytes], str | None]
) -> tuple[str, str]:
    marked, mark = read_bom(body)
    if marked is not None and mark is not None:
        return marked, body[len(mark) :].decode(marked, "replace")
    if encoding := encoding or _wide(body):
        return encoding, body.decode(encoding, "replace")
    labels = [_labelled(content_type.encode("latin-1", "ignore")), declared_in(body)]
    if body.isascii():
        jis = any(escape in body for escape in _ESCAPES)
        return ("iso2022_jp", body.decode("iso2022_jp", "replace")) if jis else ("utf-8", body.decode("ascii"))
    if _is_utf8(body, labelled="utf-8" in labels):
        return "utf-8", _undoubled(body.decode("utf-8", "replace"))
    sample = _sample(body)
    fitting = (
        label
        for label in labels
        if label and _agrees(body[:_SAMPLE_BYTES] if label.startswith("utf-16") else sample, label)
    )
    codec = next(fitting, None) or _detected(sample)
    return codec, body.decode(codec, "replace")


def _codec(label: str) -> str | None:
    """The Python codec that browsers use for a label; None if it names no encoding of pages."""
    encoding = webencodings.lookup(label)
    if encoding is None or encoding.name in ("x-user-defined", "replacement"):  # replacement: what no browser reads
        return None
    return _WIDER.get(encoding.name) or codecs.lookup(encoding.codec_info.name).name


def _labelled(text: bytes) -> str | None:
    """The codec that `charset=` names in a header or tag."""
    named = _CHARSET.search(text)
    return _codec(named[1].decode("latin-1")) if named else None


def _declared(body: bytes) -> str | None:
    """The codec declared in <meta> or the XML declaration. UTF-16 is ignored there: the declaration was found by
    reading ASCII.
    """
    head = body[:_META_BYTES]
    if named := _XML.match(head):
        codec = _codec(named[1].decode("latin-1"))
    else:
        tags = _META.finditer(_COMMENT_OR_SCRIPT.sub(b"", head))
        codec = next(filter(None, (_labelled(tag[0]) for tag in tags)), None)
    return None if codec and codec.startswith("utf-16") else codec


def _wide(body: bytes) -> str | None:
    """Detects UTF-16 and UTF-32 without a byte order mark: characters common to all scripts (spaces, tags) have NUL
    bytes. A stray NUL proves nothing.
    """
    head = body[:_SAMPLE_BYTES]
    head = head[: len(head) // 4 * 4]
    if len(head) < 4 or 0 not in head:
        return None
    nul = [head[i::4].count(0) / (len(head) / 4) for i in range(4)]
    if nul[2] > 0.9 and nul[3] > 0.9:
        return "utf-32-le"
    if nul[0] > 0.9 and nul[1] > 0.9:
        return "utf-32-be"
    even, odd = nul[0] + nul[2], nul[1] + nul[3]
    for encoding, many, few in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if many > 0.3 and many * len(head) / 4 >= 4 and few < 0.04:
            return encoding
    return None


def _is_utf8(body: bytes, *, labelled: bool) -> bool:
    """Whether the body is UTF-8 with characters outside ASCII: valid, cut off inside a character, or with few errors.

    Labelled UTF-8 may have as many errors as decoded characters outside ASCII; unlabelled text one error per ten of
    them.
    """
    try:
        text, _ = codecs.utf_8_decode(body, "strict", False)
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
        bad = text.count("\ufffd")
        good = len(text) - bad - sum(byte < 0x80 for byte in body)
        return bad <= good if labelled else bad * 10 <= good
    return not text.isascii()


def _undoubled(text: str) -> str:
    """Repairs text that was encoded as UTF-8 twice (`CafÃ©`).

    Only where nothing else is possible: every character outside ASCII takes part, and at least three different
    characters result. A page about such errors has other characters too, or shows one or two.
    """
    if not _DOUBLED.search(text):
        return text
    try:
        once = text.translate(_CP1252).encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text
    return once if len({c for c in once if not c.isascii()}) >= 3 else text


def _sample(body: bytes) -> bytes:
    """Text around characters outside ASCII, without markup: all that distinguishes one encoding from another."""
    return b"\n".join(_pieces(body))


def _pieces(body: bytes) -> Iterator[bytes]:
    size = 0
    for match in _PIECE.finditer(body):
        high = _HIGH.search(body, match.start(), match.end())
        if high is None:
            continue
        # The bytes before the first one outside ASCII are whole characters in every encoding.
        piece = body[
            max(match.start(), high.start() - _PIECE_BYTES // 8) : min(match.end(), high.start() + _PIECE_BYTES)
        ]
        yield piece
        size += len(piece)
        if size >= _SAMPLE_BYTES:
            return


def _agrees(sample: bytes, label: str) -> bool:
    """Whether the sample can be in the encoding that the label names."""
    if label == "utf-8":
        return False
    text = sample.decode(label, "replace")
    foreign = sum(not c.isascii() for c in text)
    if not foreign or len(_BAD.findall(text)) * 20 > foreign:
        return False
    if label.startswith("utf-16"):
        return all(unicodedata.category(c) not in ("Cn", "Co", "Cs") for c in text)
    return label != "cp1252" or _detected(sample) == label


def _detected(sample: bytes) -> str:
    """The encoding of which chardet is surest, of those that pages and spreadsheets were written in, without those in
    which the text has controls, or a word letters of two alphabets. It cannot tell a single character, or "20 °C": that
    is cp1252, unless it is unreadable so.
    """
    from chardet import EncodingEra, detect_all

    eras = EncodingEra.MODERN_WEB | EncodingEra.LEGACY_ISO | EncodingEra.LEGACY_MAC | EncodingEra.DOS
    for guess in detect_all(sample, ignore_threshold=True, encoding_era=eras, compat_names=False):
        codec = codecs.lookup(guess["encoding"] or "cp1252").name
        text = sample.decode(codec, "replace")
        if _TWO_ALPHABETS.search(text) or _BAD.search(text):
            continue
        is_unsure = guess["confidence"] < _UNSURE or len(_HIGH.findall(sample)) == 1
        return "cp1252" if is_unsure and not _UNREADABLE.search(sample.decode("cp1252", "replace")) else codec
    return "cp1252"
