"""Sentences of a text: sentencex's, but for ends that are none: of abbreviations and of ordinal numbers ("am 3. Mai",
"M. Dupont", "approx. 12 km").

A sentence that is cut in the middle is worse than two that are taken for one: a quote of it says something else.
"""

import re
from collections.abc import Iterator

import regex  # type: ignore[import-untyped]  # ships no types
from sentencex import get_sentence_boundaries


def _sets(listed: dict[str, str]) -> dict[str, frozenset[str]]:
    return {tag: frozenset(words.split()) for tag, words in listed.items()}


# Abbreviations that end no sentence, whatever follows, by language. Only those that sentencex does not know, or not in
# all places.
_BEFORE_ANYTHING = _sets(
    {
        "cs": "doc dr ing judr mgr mudr nám např p prof sv tj tzn tzv ul",
        "da": "bl.a dr f.eks hr prof st",
        "de": "abzgl bzw dipl dr einschl exkl frl gem ggf hl hr inkl prof sog st vgl zzgl z.b d.h u.a",
        "en": "capt col dr gen gov hon lt messrs mr mrs ms mt prof rep rev sen sgt st",
        "es": "arq avda dña dr dra ing lic mtro prof profa sr sra sres srta sta sto ud uds vd",
        "fr": "bd boul dr env fbg ing mgr mlle mlles mm mme mmes pr prof st ste",
        "hr": "dr g gđa ing npr prof str sv tj tzv ul",
        "hu": "dr id ifj ill özv pl prof u ún",
        "it": "arch avv cav dott dott.ssa geom ing mons on prof prof.ssa sig sig.ra sigg ss",
        "nl": "bijv d.w.z dhr dr drs ing ir mevr mr o.a prof st",
        "no": "bl.a dr f.eks hr prof st",
        "pl": "abp al bp dr gen hab im inż itp ks m.in mgr np os pl płk por prof św tj tzn tzw ul woj zob",
        "pt": "arq av d dr dra eng profa prof sr sra srs srta sta sto",
        "ro": "bd dl dna dr prof sf str",
        "ru": "акад д им корп обл пер пл пр проф св т.е т.д ул",
        "sk": "doc dr ing mgr mudr nám napr p prof sv tj tzv ul",
        "sl": "dr npr prof sv t.i ul",
        "sr": "dr npr prof sv tj tzv ul",
        "sv": "bl.a dr fr.o.m prof st t.ex t.o.m",
        "tr": "bkz cad doç dr mah müh prof sn sok vb",
        "uk": "акад вул ім обл пл пров проф св т.д т.зв",
    }
)
# Abbreviations that end none before a number, also a Roman one, or a word that begins small. After a number they are
# units: "It takes 5 min. 3 guides wait."
_BEFORE_A_NUMBER = _sets(
    {
        "": "approx ca cca fax fig kap max min nr pp tel vol",
        "cs": "č čl kap obr odst příl r s str tab tel",
        "da": "kap kl maks s tlf",
        "de": "abb abs anm art bd etwa höchst jh kap mind rd s str tab ziff",
        "en": "art ch circa est no p sec",
        "es": "aprox art arts cap máx mín nº núm núms p pág págs s sec sig tomo",
        "fi": "klo krs n nro noin puh s",
        "fr": "apr art av chap circa env n no p réf sect tél",
        "hr": "br čl god oko r s sl str tel",
        "hu": "kb sz",
        "it": "art artt c cap circa civ n nn p pag pagg sec tav",
        "nl": "afb art blz circa no p",
        "no": "kap kl maks s tlf",
        "pl": "art godz nr ok pkt poz r rys s str tel ust",
        "pt": "aprox art cap máx mín n nº núm p pág págs séc",
        "ro": "aprox art cap cca nr p pag sec tel",
        "ru": "г гл д им кв оф п рис с см ст стр тел",
        "sk": "č čl kap obr ods r s str tab",
        "sl": "čl npr okr pribl s str št tel",
        "sr": "br čl god oko s str tel",
        "sv": "kap kl s",
        "tr": "no s tel yak yakl",
        "uk": "буд див кв оф п рис с ст стор тел",
    }
)
# Languages that write an ordinal with a full stop, and what stands before one in those where a capital may follow it.
_ORDINALS = frozenset(
    (
        "bs",
        "cs",
        "da",
        "de",
        "et",
        "eu",
        "fi",
        "fo",
        "hr",
        "hu",
        "is",
        "lb",
        "lv",
        "nb",
        "nn",
        "no",
        "pl",
        "sk",
        "sl",
        "sr",
        "tr",
    )
)
_BEFORE_AN_ORDINAL = _sets(
    {
        "da": "de den det fra hver i på siden til",
        "de": (
            "ab als am an ans auf beim bis das dem den der des die ein einem einen einer im in ins jede jedem "
            "jeden jeder oder pro seit und vom von zum zur"
        ),
        "no": "de den det fra hver i på siden til",
    }
)
# Months written big, German ones: behind a day they continue a date, also where German text stands in a knowledge base
# of another language.
_MONTH = re.compile(
    r"(?:(?:Jänner|Januar|Feber|Februar|März|Juni|Juli|Oktober|Dezember|(?P<word>"
    r"April|Mai|August|September|November))\b(?P<year>\s\d{4}[.,;:)]*(?:\n|$))?"
    r"|(?:Jan|Feb|Febr|Apr|Aug|Sept?|Okt|Nov|Dez)\.)"
)
# What shows that a month which is a word of many languages, or a name, is one: a German word before the day. In
# English, "I am" is none.
_BEFORE_A_DAY = frozenset(("ab", "bis", "dem", "den", "der", "seit", "vom", "zum"))
_LAST_DAY = 31
_KIN = {"nb": "no", "nn": "no", "bs": "hr", "lb": "de", "fo": "da"}

_LAST = regex.compile(r"(?:^|\s)[\p{Ps}\p{Pi}\"'„]*((?:\p{L}[\p{L}\p{M}]*(?:\.-?|-))*\p{L}[\p{L}\p{M}]*|\d+|nº)\.\s*$")
_WORD_BEFORE = regex.compile(r"([\p{L}\p{M}\p{N}]+)\s*$")
_PARAGRAPH_ENDS = re.compile(r"\n\s*\n\s*$")
_ROMAN = re.compile(r"[IVXLC]+\b")
_SHORT = 4  # letters of a word that a full stop abbreviates where a small letter follows
_LOOKED_AT = 40  # characters at the end of a sentence


def sentence_spans(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each sentence, in order, with the white space behind it; together they are the text.
    `language` is a BCP 47 tag.

    Takes quadratic time on text without line breaks, some 13 s for 160,000 characters of Chinese: give it a part at a
    time.
    """
    tag = language.replace("_", "-").partition("-")[0].lower()
    start = end = 0
    for boundary in get_sentence_boundaries(tag, text):
        if end > start and not _goes_on(text, start, end, _KIN.get(tag, tag)):
            yield start, end
            start = boundary["start_index"]
        end = boundary["end_index"]
    if end > start:
        yield start, end


def _goes_on(text: str, start: int, end: int, tag: str) -> bool:
    """Whether a sentence goes on behind `end`, although its part up to there ends with a full stop."""
    following = text[end]
    if _PARAGRAPH_ENDS.search(text, max(start, end - _LOOKED_AT), end):
        return False
    if following in ",;)-" and not text[end - 1].isspace():
        return True
    begin = max(start, end - _LOOKED_AT)
    if (match := _LAST.search(text[begin:end])) is None:
        return False
    last, before = match[1], _WORD_BEFORE.search(text[begin : begin + match.start()])
    word_before = before[1].lower() if before else ""
    if last.isdecimal():
        is_day = 0 < int(last) <= _LAST_DAY and text[end - 1].isspace()
        if is_day and (month := _MONTH.match(text, end)):
            may_be_word = month["word"] is not None and tag not in _ORDINALS and tag != "und"
            is_am = before is not None and (
                before[1] == "Am" or (before[1] == "am" and (tag != "en" or month["word"] == "Mai"))
            )
            if not may_be_word or month["year"] or word_before in _BEFORE_A_DAY or is_am:
                return True
        return _is_ordinal(last, word_before, following, tag, is_first=begin + match.start(1) == start)
    word = last.lower()
    # not in a text without capitals
    if following.islower() and (len(last) <= _SHORT or "." in last) and not text[start].islower():
        return True
    if word_before.isdecimal():
        return False  # a unit
    if word in _BEFORE_ANYTHING.get(tag, ()) or (tag == "fr" and last == "M" and following.isupper()):
        return True
    has_number = following.isdecimal() or following.islower() or bool(_ROMAN.match(text, end))
    return has_number and (word in _BEFORE_A_NUMBER[""] or word in _BEFORE_A_NUMBER.get(tag, ()))


def _is_ordinal(number: str, before: str, following: str, tag: str, *, is_first: bool) -> bool:
    if tag not in _ORDINALS or len(number) > 2 or not following.isalpha():
        return False
    return following.islower() or is_first or before in _BEFORE_AN_ORDINAL.get(tag, ())
