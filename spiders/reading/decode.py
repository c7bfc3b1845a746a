"""Detects the encoding of a page or file and decodes it.

Evidence in order of trust, each only as far as the bytes agree with it:

1. a byte order mark;
2. the NUL pattern of UTF-16 and UTF-32;
3. valid UTF-8, since text in another encoding is hardly ever valid UTF-8 while pages are often mislabelled;
4. the Content-Type header;
5. <meta> or the XML declaration;
6. the alphabet of the language that the page or its declaration names, in one of the encodings that were usual for it;
7. statistical detection.

A Latin-1 label is often only the server's default, so the last two override it when they are sure of another encoding.
"""

import codecs
import math
import re
import unicodedata
from collections.abc import Iterator

from w3lib.encoding import html_body_declared_encoding, http_content_type_encoding, read_bom, resolve_encoding
from webencodings.labels import LABELS  # type: ignore[import-untyped]  # ships no types

from almanac.core.locales import primary

# Encodings that a label may name, with the codec to use. Others (utf-7, punycode, unicode_escape …) are never those of
# pages, and some take quadratic time.
_CODECS = {
    **{name: name for name in ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "cp866", "mac-roman",
    "mac-cyrillic")},
    **{f"cp{n}": f"cp{n}" for n in range(1250, 1259)},
    **{f"iso8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    "ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "cp874": "cp874",
    "gb2312": "gb18030", "gbk": "gb18030", "cp936": "gb18030", "gb18030": "gb18030", "big5": "big5hkscs",
    "cp950": "big5hkscs", "big5hkscs": "big5hkscs",
    "shift_jis": "cp932", "cp932": "cp932", "shift_jis_2004": "cp932", "euc_jp": "euc_jp", "euc_jis_2004": "euc_jp",
    "iso2022_jp": "iso2022_jp", "iso2022_jp_2": "iso2022_jp", "euc_kr": "cp949", "cp949": "cp949",
}  # fmt: skip
# Python's names of encodings that browsers call otherwise.
_PYTHON_NAMES = {
    "iso-8859-8-i": "iso-8859-8",
    "macintosh": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "windows-874": "cp874",
}
_DETECTABLE = [
    *(f"cp{n}" for n in (1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258, 866, 874, 932, 949)),
    *(
        "iso-8859-2",
        "iso-8859-5",
        "iso-8859-6",
        "iso-8859-7",
        "koi8-r",
        "koi8-u",
        "euc-jp",
        "iso-2022-jp",
        "gb18030",
        "big5hkscs",
    ),
]
_LEGIBLE = re.compile(r"[\w-]+")  # the labels that w3lib can read
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
_CONTROLS = re.compile("[\x80-\x84\x86-\x9f]")  # but for NEL, which some systems end lines with
# Windows' code pages have letters and quotation marks where ISO 8859 has controls, and for the most part the same
# letters elsewhere.
_WINDOWS = {"iso8859-2": "cp1250", "iso8859-5": "cp1251", "iso8859-6": "cp1256", "iso8859-7": "cp1253"}
_COMMENT_OR_SCRIPT = re.compile(rb"<!--.*?-->|<script\b.*?</script", re.DOTALL | re.IGNORECASE)
_ESCAPES = (b"\x1b$B", b"\x1b$@", b"\x1b(J")  # the bytes of ISO-2022-JP are all ASCII
_TWO_ALPHABETS = re.compile("[A-Za-z][\u0370-\u06ff\u0e00-\u0e7f]|[\u0370-\u06ff\u0e00-\u0e7f][A-Za-z]")  # in one word
# Signs of a wrong Latin-1 guess: symbols and capitals inside a word, three accented letters in a row.
_UNREADABLE = re.compile(
    "[a-zß-öø-ÿ][¢-©¬-¶¸¹¼-¾×÷À-ÖØ-Þ]|[¢-§©¬-¯±-´¶¸¹¼-¾×÷][A-Za-zÀ-ÖØ-öø-ÿ]|[À-ÖØ-öø-ÿ]{3}|[\ufffd\x80-\x9f]"
)
_UNSURE = 0.15
_ICELANDIC = re.compile("[ðþÐÞ]")  # of which chardet is sure; elsewhere these are Turkish ğ, ş, Ğ, Ş or Baltic š, ž
# Text from Mac OS, DOS or in Latin-9 (œ, €), decoded as a Windows code page, shows controls, or symbols inside words.
# These encodings are not in _DETECTABLE because detection would confuse them with too many others.
_NOT_WINDOWS = re.compile(
    "[\ufffd\x80-\x84\x86-\x9f]|[a-zß-öø-ÿš][À-ÖØ-ÞŠŤŽŸˆ‡†ƒ‰‹›”„‚§¤][a-zß-öø-ÿš‹]|[a-zß-öø-ÿ][ŽŸˆ](?!\\w)"
    r"|[A-Za-zß-öø-ÿ][¼½¾\u2500-\u259f][a-zß-öø-ÿ]|\d\s?¤"
)
_OLD_PAGES = ("iso8859-15", "mac-roman", "cp850")
# Letters outside ASCII of languages of which a few sentences are too little for detection, with the encodings that were
# usual for them, the likeliest first, and those of DOS and Mac OS, which were not usual on the web.
_CENTRAL = (("cp1250", "iso8859-2"), ("cp852", "iso8859-16"))
_BALTIC = (("cp1257",), ("iso8859-4", "cp775"))
_TURKISH = (("cp1254",), ("cp857",))
_WESTERN = (("cp1252",), ("mac-roman", "cp850"))
_ALPHABETS = {
    "bs": (_CENTRAL, "čćđšž"), "cs": (_CENTRAL, "áčďéěíňóřšťúůýž"), "hr": (_CENTRAL, "čćđšž"), "hu": (_CENTRAL,
    "áéíóöőúüű"), "pl": (_CENTRAL, "ąćęłńóśźż"),
    "ro": (_CENTRAL, "ăâîşţșț"), "sk": (_CENTRAL, "áäčďéíĺľňóôŕšťúýž"), "sl": (_CENTRAL, "čćđšž"),
    "et": ((("cp1257", "cp1252"), _BALTIC[1]), "äõöüšž"), "lt": (_BALTIC, "ąčęėįšųūž"), "lv": (_BALTIC, "āčēģīķļņšūž"),
    "tr": (_TURKISH, "çğıİöşüâîû"),
    "ca": (_WESTERN, "àçèéíïòóúü·"), "da": (_WESTERN, "æøåéü"), "de": (_WESTERN, "äöüßé"), "es": (_WESTERN, "áéíñóúü"),
    "fi": (_WESTERN, "äöåéšž"),
    "fr": (_WESTERN, "àâæçéèêëîïôœùûüÿ"), "is": (_WESTERN, "áðéíóúýþæö"), "it": (_WESTERN, "àèéìíîòóùú"),
    "nb": (_WESTERN, "æøåéòô"),
    "nl": (_WESTERN, "áéëèïíóöüú"), "no": (_WESTERN, "æøåéòô"), "pt": (_WESTERN, "áâãàçéêíóôõúü"), "sv": (_WESTERN,
    "åäöéü"),
}  # fmt: skip
# Least shares of letters of the alphabet among so many characters outside ASCII, and of those of an encoding of DOS or
# Mac OS, which have to be three.
_SHARES = ((8, 0.5), (20, 0.8), (math.inf, 0.9))
_OLD_SHARE, _OLD_LETTERS = 0.8, 3
# difference of two shares that says nothing, and characters from which on chardet tells two encodings of a region apart
_ALIKE, _TOLD_APART = 0.1, 8
# Signs where a word is: letters of another encoding. A letter beside a digit is a sign there: "£5".
_IN_WORD = re.compile(r"[©®¶±µ](?=[^\W\d_]{3})|(?<=[^\W\d_])[»«µ](?=[^\W\d_])|(?<=[^\W\d_])[±¶]")
_LANGUAGE = re.compile(rb"<html\b[^<>]*?\s(?:xml:)?lang\s*=\s*[\"']?([a-z]{2,3})\b", re.IGNORECASE)
_WIDE_PAGES = frozenset({"cp932", "cp949", "gb18030", "big5hkscs", "euc_jp", "iso2022_jp"})
_PRINTED = frozenset("‘’‚“”„«»‹›–—…•°€£§©®™¿¡ªº½¼¾²³×±´µ\xa0")


def decode_markup(body: bytes, content_type: str = "", language: str = "") -> tuple[str, str]:
    """Returns (encoding, text) of HTML or XML. `language` is a BCP 47 tag for a page that names none itself.
    Undecodable bytes become U+FFFD.
    """
    own = _LANGUAGE.search(body, 0, 4096)
    return _decode(body, content_type, _declared(body), own[1].decode() if own else language)


def decode_text(body: bytes, content_type: str = "", language: str = "") -> tuple[str, str]:
    """Returns (encoding, text) of a plain text file, which is in `language`, a BCP 47 tag, where that is known.
    Undecodable bytes become U+FFFD.
    """
    return _decode(body, content_type, None, language)


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


def _decode(body: bytes, content_type: str, declared: str | None, language: str) -> tuple[str, str]:
    marked, mark = read_bom(body)
    if marked is not None and mark is not None:
        return marked, body[len(mark) :].decode(marked, "replace")
    if wide := _wide(body):
        return wide, body.decode(wide, "replace")
    labels = [_codec(http_content_type_encoding(_known(content_type))), declared]
    if body.isascii():
        jis = any(escape in body for escape in _ESCAPES)
        return ("iso2022_jp", body.decode("iso2022_jp", "replace")) if jis else ("utf-8", body.decode("ascii"))
    if _is_utf8(body, labelled="utf-8" in labels):
        return "utf-8", _undoubled(body.decode("utf-8", "replace"))
    sample = _sample(body)
    fitting = (
        label
        for label in labels
        if label and _agrees(body[:_SAMPLE_BYTES] if label.startswith("utf-16") else sample, label, language)
    )
    encoding = next(fitting, None) or _detected(sample, language)
    return encoding, body.decode(encoding, "replace")


def _codec(label: str | None) -> str | None:
    """The Python codec that browsers use for a label; None if it names no encoding of pages."""
    name = resolve_encoding(label) if label else None
    return _CODECS.get(codecs.lookup(name).name) if name else None


# Labels that browsers know, and w3lib does not, or cannot read. They are replaced before it reads a header or
# declaration, since it drops those.
_LABELS = {
    label: python_name
    for label, python_name in ((label, _PYTHON_NAMES.get(name, name)) for label, name in LABELS.items())
    if _codec(python_name) is not None and (_codec(label) is None or not _LEGIBLE.fullmatch(label))
}
_LABELLED = re.compile(
    rf"((?:charset|encoding)\s*+=\s*+(?:[\"']\s*+)?)({'|'.join(map(re.escape, _LABELS))})(?![\w-])", re.IGNORECASE
)


def _known(text: str) -> str:
    """The text with labels that w3lib knows."""
    return _LABELLED.sub(lambda at: at[1] + _LABELS[at[2].lower()], text)


def _declared(body: bytes) -> str | None:
    """The codec declared in <meta> or the XML declaration. UTF-16 is ignored there: the declaration was found by
    reading ASCII.
    """
    label = html_body_declared_encoding(_known(body[:4096].decode("latin-1")))
    if label is None and b"<meta" in body[4096:_META_BYTES].lower():
        rest = _COMMENT_OR_SCRIPT.sub(b"", body[:_META_BYTES])
        tags = (
            _known(rest[at.start() : at.start() + 512].decode("latin-1")) for at in re.finditer(rb"(?i)<meta", rest)
        )
        label = next(filter(None, map(html_body_declared_encoding, tags)), None)
    codec = _codec(label)
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


def _agrees(sample: bytes, label: str, language: str) -> bool:
    """Whether the sample can be in the encoding that the label names."""
    if label == "utf-8":
        return False
    text = sample.decode(label, "replace")
    foreign = sum(not c.isascii() for c in text)
    if not foreign or len(_BAD.findall(text)) * 20 > foreign:
        return False
    if label.startswith("utf-16"):
        return all(unicodedata.category(c) not in ("Cn", "Co", "Cs") for c in text)
    return label != "cp1252" or _detected(sample, language) == label


def _detected(sample: bytes, language: str) -> str:
    """The encoding in which the sample has the letters of its language, else the likeliest one.

    If text in that one has controls or odd words, an encoding of Mac OS, DOS or Latin-9 is taken in which it has none.
    """
    if usual := _by_alphabet(sample, primary(language)):
        return usual
    likeliest = _likeliest(sample)
    is_wrong = likeliest not in _WIDE_PAGES and _NOT_WINDOWS.search(sample.decode(likeliest, "replace"))
    return (_as_old_page(sample) if is_wrong else None) or likeliest


def _by_alphabet(sample: bytes, language: str) -> str | None:
    """The encoding of a language in which most of the sample's characters outside ASCII are letters of its alphabet;
    None where there is none.

    Others are in names. Of two encodings in which they are alike, the one that chardet prefers, or, of a few
    characters, the more usual one.
    """
    (usual, old), alphabet = _ALPHABETS.get(language, (((), ()), ""))
    letters = "".join(c for c in alphabet + alphabet.upper() if not c.isascii())
    own_letter = re.compile(rf"(?<!\d)[{letters}](?!\d)") if letters else _IN_WORD
    fitting: dict[str, tuple[float, int]] = {}
    for encoding in (*usual, *old):
        text = sample.decode(encoding, "replace")
        foreign = sum(not c.isascii() and c not in _PRINTED for c in text) + len(_IN_WORD.findall(text))
        own = len(own_letter.findall(text))
        share = own / foreign if foreign else 0.0
        least = next(least for size, least in _SHARES if foreign < size) if encoding in usual else _OLD_SHARE
        if share >= least and own >= (1 if encoding in usual else _OLD_LETTERS):
            fitting[encoding] = (share, foreign)
    best = max(fitting, key=lambda encoding: fitting[encoding][0], default=None)
    if best is None or fitting[best][1] < _TOLD_APART:
        return best
    alike = [one for one in usual if one in fitting and fitting[one][0] >= fitting[best][0] - _ALIKE]
    sure = _sureness(sample) if best in alike and len(alike) > 1 else {}
    return max(alike, key=lambda encoding: sure.get(encoding, 0.0)) if sure else best


def _sureness(sample: bytes) -> dict[str, float]:
    """How sure chardet is of each encoding, 0 to 1; without those in which words have letters of two alphabets."""
    from chardet import detect_all

    sure: dict[str, float] = {}
    for candidate in detect_all(sample, include_encodings=_DETECTABLE, compat_names=False):
        codec = _codec(candidate["encoding"])
        if codec and not _TWO_ALPHABETS.search(sample.decode(codec, "replace")):
            sure.setdefault(codec, float(candidate["confidence"]))
    return sure


def _likeliest(sample: bytes) -> str:
    """The encoding that chardet detects; cp1252 where the evidence is weak, as in a short title, and the text is
    readable in it.
    """
    sure = _sureness(sample)
    if not sure:
        return "cp1252"
    best = max(sure, key=lambda codec: sure[codec])
    twin = _WINDOWS.get(best, "")
    if 2 * sure.get(twin, 0.0) >= sure[best] and _CONTROLS.search(sample.decode(best, "replace")):
        best = twin
    close = sure[best] < _UNSURE and sure.get("cp1252", 0.0) * 3 >= sure[best]
    few = len(_HIGH.findall(sample)) < 4
    western = sample.decode("cp1252", "replace")
    is_readable = not _UNREADABLE.search(western) and (few or not _ICELANDIC.search(western))
    return "cp1252" if (close or few) and is_readable else best


def _as_old_page(sample: bytes) -> str | None:
    """The first of Latin-9, Mac Roman and cp850 in which every character outside ASCII is a letter or a typographic
    mark; None if there is none.
    """
    for encoding in _OLD_PAGES:
        foreign = [c for c in sample.decode(encoding) if not c.isascii()]
        if all(c.isalpha() or c in _PRINTED for c in foreign) and not _UNREADABLE.search(sample.decode(encoding)):
            return encoding
    return None
