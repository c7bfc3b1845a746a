"""Whether a sentence holds a way to reach somebody: a telephone number, an e-mail address, a street with its number."""

import re

# begun at the beginning of its name alone, so that a long text is read once
_EMAIL = re.compile(r"(?<![^\s@<>()\[\],;:])[^\s@<>()\[\],;:]+@[^\s@<>()\[\],;:]+\.[^\W\d_]{2,}")
# Groups of digits, with what stands between them in a telephone number: "+49 89 5550-1422", "01.23.45.67.89", "(555)
# 010-4477", "1-800-555-TECH".
_NUMBER = re.compile(
    r"(?<![\w.,/–-])(?:\+|00)?\(?\d{1,4}\)?(?:[ \u00a0./()–-]{0,2}(?:\d{2,4}|[A-Z]{4,7}\b))+(?![\w%€$£₫]|[.,]\d)"
)
_DIGITS = range(7, 16)
_DATE = re.compile(
    r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./-]\d{1,2}[./-]\d{1,2}"
    r"|(?:1[5-9]|20)\d\d\s?[–-]\s?(?:1[5-9]|20)\d\d|\d{1,2}[.]\d\d\s?[–-]\s?\d{1,2}[.]\d\d"
)
_THOUSANDS = re.compile(r"\d{1,3}(?:[., \u00a0]\d{3})+")
_STREET = re.compile(
    r"(?i:(?<!\w)\d{1,4}\w?(?:\s?[-–/]\s?\d{1,4})?(?:\s?(?:bis|ter))?,?\s+(?:rue|avenue|av\.|boulevard|bd|place|qu"
    r"ai|chemin|impasse|allée|route|cours|square)\s+\w)"
    r"|(?<!\w)\d{1,5}[A-Za-z]?,?\s+(?:[A-Z][\w.’'-]*\s+){1,3}(?:Street|St|Road|Rd|Avenue|Ave|Lane|Drive|Square"
    r"|Way|Boulevard|Blvd|Court|Terrace|Close|Quay)\b"
    r"|(?i:\w(?:straße|strasse|str\.|weg|platz|gasse|allee|ufer|damm|straat|laan|plein|gracht|kade)\s+\d)"
    r"|(?<!\w)(?:Am|An der|Im|Auf der)\s(?:[A-ZÄÖÜ][\w.-]+\s){1,3}\d{1,4}[a-z]?(?=\s*(?:,|$|\n))"
    r"|(?i:(?<!\w)(?:calle|c/|avenida|avda?\.|plaza|paseo|via|viale|piazza|corso|largo|rua|praça|travessa|ул\."
    r"|улица|проспект|пр\.|площадь|רחוב|רח'|שדרות|شارع)"
    r"\s+[^\d\n.;]{2,40}\d)"
    r"|(?i:\d\s+(?:đường|phố|ngõ)\s|(?:đường|phố)\s[^\d\n.;]{2,40}\d)"
    r"|\d\s*(?:号|號|番地|丁目)|〒\s?\d{3}"
)
_ISBN = re.compile(r"97[89][- ]\d")


def holds_email(text: str) -> bool:
    """Whether a text has an e-mail address."""
    return _EMAIL.search(text) is not None


def holds_phone(text: str) -> bool:
    """Whether a text has a telephone number: seven to fifteen digits, or letters for them, in groups. Dates, years and
    amounts are none.
    """
    return any(_is_phone(found[0]) for found in _NUMBER.finditer(text))


def holds_address(text: str) -> bool:
    """Whether a text has a street or square with a number."""
    return _STREET.search(text) is not None


def _is_phone(text: str) -> bool:
    if (
        _DATE.fullmatch(text)
        or _THOUSANDS.fullmatch(text)
        or _ISBN.match(text)
        or sum(c.isdigit() or c.isupper() for c in text) not in _DIGITS
    ):
        return False
    return text.startswith(("+", "0", "(")) or len(re.findall(r"\w+", text)) > 2
