"""Bytes to text: which encoding a page or a file is in.

Whom to believe, in this order, each as far as the bytes agree: a byte order mark; the pattern of wide characters; UTF-8, because text in
another encoding hardly ever happens to be valid UTF-8 while pages are often mislabelled; the header; <meta> or the XML declaration; detection.
A label of Latin-1 is what servers write when nobody told them anything: detection that is sure of something else wins over it.
"""

import codecs
import re
import unicodedata
from collections.abc import Iterator

from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom, resolve_encoding

# What a label may name. Others (utf-7, punycode, unicode_escape …) are no encodings of pages, and some of Python's take quadratic time.
_CODECS = {
    **{name: name for name in ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "cp866", "mac-roman", "mac-cyrillic")},
    **{f"cp{n}": f"cp{n}" for n in range(1250, 1259)},
    **{f"iso8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874", "cp874": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "cp936": "gb18030", "gb18030": "gb18030", "big5": "big5hkscs", "cp950": "big5hkscs", "big5hkscs": "big5hkscs",
    "shift_jis": "cp932", "cp932": "cp932", "shift_jis_2004": "cp932", "euc_jp": "euc_jp", "euc_jis_2004": "euc_jp",
    "iso2022_jp": "iso2022_jp", "iso2022_jp_2": "iso2022_jp", "euc_kr": "cp949", "cp949": "cp949",
}  # fmt: skip
_LABELS = {"iso-8859-8-i": "iso8859-8", "x-sjis": "cp932", "windows-31j": "cp932", "windows-874": "cp874", "x-mac-cyrillic": "mac-cyrillic"}
_DETECTABLE = [
    *(f"cp{n}" for n in (1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258, 866, 874, 932, 949)),
    *("iso-8859-2", "iso-8859-5", "iso-8859-6", "iso-8859-7", "koi8-r", "koi8-u", "euc-jp", "iso-2022-jp", "gb18030", "big5hkscs"),
]
_SAMPLE_BYTES = 16_384
_PIECE_BYTES = 4096
_META_BYTES = 65_536

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
_BAD = re.compile("[\ufffd\x80-\x84\x86-\x9f]")
_COMMENT_OR_SCRIPT = re.compile(rb"<!--.*?-->|<script\b.*?</script", re.DOTALL | re.IGNORECASE)
_ESCAPES = (b"\x1b$B", b"\x1b$@", b"\x1b(J")  # ISO-2022-JP is ASCII too
_TWO_ALPHABETS = re.compile("[A-Za-z][\u0370-\u06ff\u0e00-\u0e7f]|[\u0370-\u06ff\u0e00-\u0e7f][A-Za-z]")  # in one word
# Nobody writes this in Latin-1: signs and capitals inside a word, three accented letters in a row.
_UNREADABLE = re.compile("[a-zß-öø-ÿ][¢-©¬-¶¸¹¼-¾×÷À-ÖØ-Þ]|[¢-§©¬-¯±-´¶¸¹¼-¾×÷][A-Za-zÀ-ÖØ-öø-ÿ]|[À-ÖØ-öø-ÿ]{3}|[\ufffd\x80-\x9f]")
_UNSURE = 0.15
# What Mac OS and DOS wrote shows controls as a Windows page, and signs inside words, and so does Latin-9 with its œ and €. Detection would
# confuse them with too much else.
_NOT_WINDOWS = re.compile(
    "[\ufffd\x80-\x84\x86-\x9f]|[a-zß-öø-ÿš][À-ÖØ-ÞŠŤŽŸˆ‡†ƒ‰‹›”„‚§¤][a-zß-öø-ÿš‹]|[a-zß-öø-ÿ][ŽŸˆ](?!\\w)"
    r"|[A-Za-zß-öø-ÿ][¼½¾\u2500-\u259f][a-zß-öø-ÿ]|\d\s?¤"
)
_OLD_PAGES = ("iso8859-15", "mac-roman", "cp850")
_WIDE_PAGES = frozenset({"cp932", "cp949", "gb18030", "big5hkscs", "euc_jp", "iso2022_jp"})
_PRINTED = frozenset("‘’‚“”„«»‹›–—…•°€£§©®™¿¡ªº½¼¾²³×±´µ\xa0")


def decode_markup(body: bytes, content_type: str = "") -> tuple[str, str]:
    """Encoding and text of HTML or XML. What no character stands for becomes U+FFFD."""
    return _decode(body, content_type, _declared(body))


def decode_text(body: bytes, content_type: str = "") -> tuple[str, str]:
    """Encoding and text of a plain text file. What no character stands for becomes U+FFFD."""
    return _decode(body, content_type, None)


def is_binary(body: bytes) -> bool:
    """Whether bytes are no text in any encoding, whatever their label says: a known kind of file, or full of control characters."""
    if body.startswith(_MAGIC):
        return True
    head = body[:_SAMPLE_BYTES]
    if read_bom(body)[0] is not None or _wide(body):
        return False
    controls = len(head.translate(None, _NOT_CONTROL))
    return controls >= 16 and controls * 20 > len(head)  # a page with a stray NUL or two is one


def _decode(body: bytes, content_type: str, declared: str | None) -> tuple[str, str]:
    marked, mark = read_bom(body)
    if marked is not None and mark is not None:
        return marked, body[len(mark) :].decode(marked, "replace")
    if wide := _wide(body):
        return wide, body.decode(wide, "replace")
    labels = [_codec(http_content_type_encoding(content_type)), declared]
    if body.isascii():
        jis = any(escape in body for escape in _ESCAPES)
        return ("iso2022_jp", body.decode("iso2022_jp", "replace")) if jis else ("utf-8", body.decode("ascii"))
    if _is_utf8(body, labelled="utf-8" in labels):
        return "utf-8", _undoubled(body.decode("utf-8", "replace"))
    sample = _sample(body)
    encoding = next((label for label in labels if label and _agrees(body[:_SAMPLE_BYTES] if label.startswith("utf-16") else sample, label)), None) or _detected(
        sample
    )
    return encoding, body.decode(encoding, "replace")


def _codec(label: str | None) -> str | None:
    """The codec that a label means to a browser; None for what is no encoding of pages."""
    if not label:
        return None
    name = _LABELS.get(label.lower()) or resolve_encoding(label)
    return _CODECS.get(codecs.lookup(name).name) if name else None


def _declared(body: bytes) -> str | None:
    """What <meta> or the XML declaration says. It was read as ASCII, so that it is not UTF-16 whatever it says."""
    label = html_body_declared_encoding(body[:4096])
    if label is None and b"<meta" in body[4096:_META_BYTES].lower():
        rest = _COMMENT_OR_SCRIPT.sub(b"", body[:_META_BYTES])
        label = next(filter(None, (html_body_declared_encoding(rest[at.start() : at.start() + 512]) for at in re.finditer(rb"(?i)<meta", rest))), None)
    codec = _codec(label)
    return None if codec and codec.startswith("utf-16") else codec


def _wide(body: bytes) -> str | None:
    """UTF-16 and UTF-32 without a mark: every other byte of what is common to all scripts (spaces, tags) is NUL. A stray NUL proves nothing."""
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
    """Valid, cut off in the middle of a character, or valid but for a few bytes: more good characters than bad where the label says so, else ten to one."""
    try:
        text, _ = codecs.utf_8_decode(body, "strict", False)
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace")
        bad = text.count("\ufffd")
        good = len(text) - bad - sum(byte < 0x80 for byte in body)
        return bad <= good if labelled else bad * 10 <= good
    return not text.isascii()


def _undoubled(text: str) -> str:
    """Text that was written as UTF-8 twice (`CafÃ©`), read twice.

    Only where nothing else is possible: every character outside ASCII takes part, and there are several sequences; a page *about* such
    errors has other characters too, or shows one or two.
    """
    if not _DOUBLED.search(text):
        return text
    try:
        once = text.translate(_CP1252).encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text
    return once if len({c for c in once if not c.isascii()}) >= 3 else text


def _sample(body: bytes) -> bytes:
    """Some text around characters that are not ASCII, without markup: all that tells one encoding from another."""
    return b"\n".join(_pieces(body))


def _pieces(body: bytes) -> Iterator[bytes]:
    size = 0
    for match in _PIECE.finditer(body):
        high = _HIGH.search(body, match.start(), match.end())
        if high is None:
            continue
        # What stands before the first byte that is not ASCII is whole characters in every encoding.
        piece = body[max(match.start(), high.start() - _PIECE_BYTES // 8) : min(match.end(), high.start() + _PIECE_BYTES)]
        yield piece
        size += len(piece)
        if size >= _SAMPLE_BYTES:
            return


def _agrees(sample: bytes, label: str) -> bool:
    """Whether the bytes can be what the label says."""
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
    """The likeliest encoding. One in which the text has controls or odd words gives way to an older one in which it has none."""
    likeliest = _likeliest(sample)
    is_wrong = likeliest not in _WIDE_PAGES and _NOT_WINDOWS.search(sample.decode(likeliest, "replace"))
    return (_as_old_page(sample) if is_wrong else None) or likeliest


def _likeliest(sample: bytes) -> str:
    """What detection says. Where little speaks for any, as in a short title, and the text reads as a Western one, it is one."""
    from chardet import detect_all

    sure: dict[str, float] = {}
    for candidate in detect_all(sample, include_encodings=_DETECTABLE, compat_names=False):
        codec = _codec(candidate["encoding"])
        if codec and not _TWO_ALPHABETS.search(sample.decode(codec, "replace")):
            sure.setdefault(codec, float(candidate["confidence"]))
    if not sure:
        return "cp1252"
    best = max(sure, key=lambda codec: sure[codec])
    close = sure[best] < _UNSURE and sure.get("cp1252", 0.0) * 3 >= sure[best]
    few = len(_HIGH.findall(sample)) < 4
    return "cp1252" if (close or few) and not _UNREADABLE.search(sample.decode("cp1252", "replace")) else best


def _as_old_page(sample: bytes) -> str | None:
    """The encoding of Mac OS or DOS in which all is letters and printers' marks, if there is one."""
    for encoding in _OLD_PAGES:
        foreign = [c for c in sample.decode(encoding) if not c.isascii()]
        if all(c.isalpha() or c in _PRINTED for c in foreign) and not _UNREADABLE.search(sample.decode(encoding)):
            return encoding
    return None
