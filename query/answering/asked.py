"""What kind of thing a question asks for, in how many parts, and whether a sentence holds such a thing.

Questions are read by their interrogative words, in en fr es de it pt nl he vi, and roughly in ru ar zh ja; sentences by their figures, in any writing.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Literal, NamedTuple

from almanac.core.multiplier_words import POWERS
from almanac.index.lexical.analyzer import fold
from almanac.query.answering.figure import Atom
from almanac.query.answering.figure_words import PERCENT, money, time_units, units, weekdays, with_digits
from almanac.query.answering.figures import figures_of

Kind = Literal["hour", "date", "price", "duration", "percentage", "number", "person", "place", "yes or no", "explanation"]
Kinds = frozenset[Kind]
MEASURABLE: Kinds = frozenset({"hour", "date", "price", "duration", "percentage", "number"})
"""Kinds that `holds` can tell."""


class Part(NamedTuple):
    """A part of a question: its text, what it asks for, any of `kinds` (empty where that is not known), and whether it is an interrogative word alone."""

    text: str
    kinds: Kinds
    is_bare: bool = False


def _words(*texts: str) -> re.Pattern[str]:
    """A pattern for any of these expressions as whole words; those in scripts without spaces match anywhere. Matches texts after `_plain`."""
    spaced = "|".join(fold(text) for text in texts[:-1])
    return re.compile(rf"(?<!\w)(?:{spaced})(?!\w)|{fold(texts[-1])}")


def _of(*kinds: Kind) -> Kinds:
    return frozenset(kinds)


# Interrogative words. The first one in a question decides; of two at the same place, the longer one.
_ASKING: tuple[tuple[Kinds, re.Pattern[str]], ...] = (
    (
        _of("hour"),
        _words(
            r"(?:at |from |until |till |by )?what time|at what hour|how (?:early|late)|(?:a |des |jusqu'a |vers )?quelles? heures?",
            r"(?:a |hasta |desde )?que horas?|(?:um |ab |bis )?wie ?viel uhr|um wie ?viel uhr|(?:a |fino a )?che or[ae]|hoe laat",
            r"(?:luc )?may gio|gio nao|[במ]?איז[וה] שעה|באילו שעות|(?:עד |מ)?איזו שעה|(?:в )?котором часу|во сколько|في اي ساعة|اي ساعة",
            "几点|幾點|何時に|何時から|何時まで|何時です",
        ),
    ),
    (
        _of("date", "hour", "duration"),
        _words(
            r"(?:since |by |until |till |from )?when|how soon|how quick(?:ly)?|(?:depuis |jusqu'a )?quand|(?:desde |hasta )?cuando|(?:seit |ab |bis )?wann",
            r"(?:da |fino a |desde |ate )?quando|(?:sinds |tot |vanaf )?wanneer|(?:tu |den )?(?:khi nao|luc nao|bao gio|hoi nao)|(?:מ|עד |ב)?מתי|когда|متى",
            "什么时候|什麼時候|何时|いつ|언제",
        ),
    ),
    (
        _of("date"),
        _words(
            r"(?:on |in )?(?:what|which) (?:days?|dates?|years?|months?|century|weekdays?|season)|(?:en )?quell?e?s? (?:jours?|dates?|annees?|mois|siecle)",
            r"(?:en )?que (?:dias?|fechas?|anos?|mes)|(?:an |in )?welche[mnrs]? (?:tage?n?|datum|jahr\w*|monat\w*|wochentag\w*)|(?:in )?che (?:giorn[oi]|data|anno|mese)",
            r"(?:em )?que (?:dias?|data|ano|mes)|(?:op |in )?welke? (?:dag|dagen|datum|jaar|maand)|(?:vao )?(?:ngay|thu|nam|thang) (?:nao|may|bao nhieu)",
            r"ב?איזה (?:יום|תאריך|שנה|חודש)|ב?איזו שנה|באילו ימים|в како[йм] (?:день|год\w*|числ\w*)|في اي (?:يوم|سنة|عام|تاريخ)",
            "哪[一]?[天年日月]|何[年月日曜]",
        ),
    ),
    (
        _of("duration"),
        _words(
            r"how (?:long|much time|many (?:minutes|hours|days|weeks|months|years))|combien de (?:temps|minutes|heures|jours|semaines|mois)|combien d'(?:heures|annees)",
            r"cuant[oa]s? (?:tiempo|minutos|horas|dias|semanas|meses|anos)|wie ?lange?|wie ?viele? (?:minuten|stunden|tage|wochen|monate|jahre)",
            r"quant[oaie] (?:tempo|minut\w+|or[ae]|giorn\w+|settiman\w+|mes\w+|ann[oi]|horas|dias|semanas|anos)|hoe ?lang|hoeveel (?:tijd|uur|dagen|weken|maanden|jaar)",
            r"(?:trong )?bao lau|(?:may|bao nhieu) (?:phut|tieng|ngay|tuan|thang|nam)|כמה (?:זמן|דקות|שעות|ימים|שבועות|חודשים|שנים)|לכמה (?:זמן|שנים)",
            r"сколько (?:времени|минут|часов|дней|недель|месяцев|лет)|как долго|كم من الوقت|كم (?:دقيقة|ساعة|يوم\w*|اسبوع\w*|شهر\w*|سنة)",
            "多久|多长时间|多長時間|どのくらいの時間|何[分時日週]間|何年間|何か月",
        ),
    ),
    (
        _of("price"),
        _words(
            r"how much (?:is|are|was|were|does|do|did|will|would|to|for|extra|more|must|money)(?! \w+ (?:weigh|hold|earn))|what (?:does|do|did|would|will) .{1,50}(?:cost|charge|pay)",
            r"(?:a|c'est) combien|(?:a )?combien (?:coute\w*|ca coute|vaut|faut-il payer|dois-je payer|est|sont|pour)|cuanto (?:cuesta\w?|vale\w?|es|hay que pagar|cobran)",
            r"(?:was|wie ?viel) (?:kostet|kosten|zahlt|zahle|bezahlt)|quanto (?:costa\w*|viene|si paga|custam?|pago|e)|(?:wat|hoeveel) (?:kost|kosten|betaal\w*)",
            r"bao nhieu tien|het bao nhieu|gia (?:\w+ ){0,3}bao nhieu|ב?כמה (?:\w+ )?(?:עולה|עולים|עולות|כסף|משלמים|צריך לשלם)|сколько стоит|كم (?:سعر|يكلف|ثمن)\w*",
            "多少钱|多少錢|いくら|얼마",
        ),
    ),
    (
        _of("percentage"),
        _words(
            r"what (?:percentage|share|proportion|percent)|quelle? (?:pourcentage|part|proportion)|que porcentaje|wie ?viel prozent|welcher anteil|che percentuale",
            r"que percentagem|qual a percentagem|welk percentage|hoeveel procent|bao nhieu (?:phan tram|%)|(?:כמה|איזה|כמה) אחוז\w*|какой процент|сколько процентов",
            "百分之几|何パーセント",
        ),
    ),
    (
        _of("number"),
        _words(
            r"how (?:many|much|old|often|far|big|high|heavy|deep|wide|loud|tall|large|fast|thick|hot|warm|cold|strong|bright)|(?:d'|de )?combien|quant[oaie]s?",
            r"cuant[oa]s?|wie ?(?:viele?n?|oft|hoch|alt|schwer|gross|breit|tief|weit|laut|schnell|warm|dick)|hoe(?:veel| vaak| hoog| oud| zwaar| groot| breed| diep| ver)",
            r"bao (?:nhieu|xa|cao|rong|sau)|may (?=nguoi|ngay|gio|dem|cho|con|cai|lan|tuoi|km|phut|tieng|tuan|thang|nam|phong|ve|loai|mon)|[בלמ]?כמה|сколько|كم",
            "多少|几[个人台间]|幾[個人台]|何[人個台回本枚]|どれくらい",
        ),
    ),
    (
        _of("place"),
        _words(
            r"(?:from )?where(?: from| to)?|(?:from |in |to |at )?which (?:city|town|country|place|station)|(?:d')?ou|(?:de |a )?donde|wo(?:her|hin)?|dove|(?:de )?onde",
            r"aonde|waar(?:heen|vandaan)?|(?:o )?(?:dau|cho nao|noi nao)|[מלב]?(?:איפה|היכן|אן)|לאן|где|куда|откуда|(?:من )?اين",
            "哪里|哪裡|哪儿|在哪|どこ",
        ),
    ),
    (
        _of("person"),
        _words(r"who(?:m|se)?|qui|(?:a |de )?quien(?:es)?|wer|wen|wem|wessen|chi|quem|ai", r"(?:ל|של |עם |את )?מי|кто|кого|кому|чей", "谁|誰|だれ"),
    ),
    (
        _of("explanation"),
        _words(
            r"why|how|pourquoi|comment|por que|como|warum|wieso|weshalb|wie|perche|come|porque|waarom|hoe|tai sao|vi sao|(?:lam )?(?:sao|the nao)|nhu the nao",
            r"למה|מדוע|איך|כיצד|почему|зачем|как|لماذا|كيف",
            "为什么|為什麼|怎么|怎麼|如何|なせ|とうして|とうやって",
        ),
    ),
    (
        frozenset(),
        _words(
            r"what|which|que|quoi|quell?e?s?|qu'est-ce|was|welche[mnrs]?|cual(?:es)?|cosa|quali?|qual|quais|o que|wat|welke?|gi|nao",
            r"[בלמש]?(?:מה|איזה|איזו|אילו)|что|какой|какая|какие|какое|ما|ماذا",
            "什么|什麼|哪|何",
        ),
    ),
)
# What is asked for by a noun alone: "opening hours", "prix du parking".
_NAMED: tuple[tuple[Kinds, re.Pattern[str]], ...] = (
    (_of("hour"), _words(r"opening (?:hours|times)|horaires?|horarios?|offnungszeit\w*|uhrzeit\w*|orari\w?|openingstijd\w*|gio mo cua", "שעות (?:ה?פתיחה|הפעילות)|часы работы", "营业时间|営業時間")),
    (
        _of("price"),
        _words(
            r"prices?|costs?|fees?|fares?|charges?|prix|tarifs?|cout|couts|precios?|tarifas?|costes?|preise?|kosten|gebuhr\w*|prezz[oi]|tariff[ae]|costo|precos?|custo|prijs|prijzen",
            r"gia(?: ve| tien)?|le phi|מחיר\w*|עלות|цена|цены|стоимость|سعر|أسعار|ثمن",
            "价格|價格|料金|値段|가격",
        ),
    ),
    (_of("date"), _words(r"dates?|fechas?|datum", "תאריך|дата|تاريخ", "日期|日付")),
    (_of("duration"), _words(r"duration|duree|duracion|dauer|durata|duracao|duur|notice period|battery life", "משך|thoi gian|thoi luong|длительность|مدة", "时长|所要時間")),
    (_of("percentage"), _words(r"percentage|pourcentage|porcentaje|prozentsatz", "אחוז", "百分比")),
    (
        _of("number"),
        _words(
            r"weight|size|capacity|height|width|depth|length|temperature|distance|speed|number|age|ceiling|limit|budget|poids|taille|hauteur|largeur|longueur|profondeur|temperature",
            r"capacite|peso|tamano|altura|anchura|capacidad|gewicht|grosse|hohe|breite|lange|temperatur|kapazitat|altezza|larghezza|lunghezza|dimensioni|capacita|tamanho",
            r"gewicht|grootte|hoogte|breedte|can nang|trong luong|kich thuoc|nhiet do|do dai|משקל|גודל|גובה|רוחב|אורך|טמפרטורה|вес|размер|высота|وزن|حجم|طول",
            "重量|尺寸|大小|高度|重さ|大きさ",
        ),
    ),
)
_YES_OR_NO = re.compile(
    fold(
        r"^(?:(?:is|are|was(?! (?:ist|sind|macht|muss|kann|darf|passiert|bedeutet|heisst|gibt|wird|kost\w+)\b)|were|do|does|did|can|could|may|might|must|should|shall|will|would|has|have|had|am|isn't|aren't|don't|doesn't|can't)\b"
        r"|est-ce (?:que|qu')|(?:peut|puis|peux|pouvons|pouvez|dois|doit|devons|faut|est|sont|a|ai|avez|as|ont|y a)-(?:t-)?(?:on|je|tu|il|elle|ils|elles|nous|vous|ce)\b"
        r"|(?:on peut|peut on|est il|y a t il|c'est possible|possible de)\b"
        r"|(?:puedo|puede|se puede|pueden|podemos|hay|es|son|esta|estan|tiene|tienen|tengo que|debo|debe|hace falta|necesito|incluye|existe|aceptan)\b"
        r"|(?:ist|sind|war|kann|konnen|darf|durfen|muss|mussen|soll|gibt|hat|haben|wird|werden|habe|brauche|braucht|bekomme|bietet|bieten)\b"
        r"|(?:posso|puo|si puo|possiamo|sono|c'e|ci sono|ha|hanno|devo|deve|bisogna|serve|avete|e possibile|pode|podemos|e|sao|tem|preciso)\b"
        r"|(?:is|zijn|kan|kunnen|mag|mogen|moet|moeten|heeft|hebben|wordt|worden|krijg|heb)\b"
        r"|(?:האם|אפשר|ניתן|מותר|יש|כדאי|צריך|חייבים)\b|(?:можно|есть ли|нужно ли|могу)\b|هل\b)"
        r"|\b(?:khong|chua|ok|okay|allowed|possible|permitted)\s*[?？]*$|\bли\b|吗[？?]?$|嗎[？?]?$|ますか|てすか"
    )
)
_POLITE = re.compile(
    fold(
        r"^(?:(?:please|hi|hello|hey|bonjour|hola|hallo|ciao)[,! ]+)*(?:(?:can|could|would) you (?:please )?(?:tell|say|explain)(?: me| us)?|do you know|tell me"
        r"|i(?:'d| would) like to know|i wonder|pouvez-vous me dire|savez-vous|dites-moi|puede decirme|sabe|sabes|dime|konnen sie mir sagen|wissen sie|weisst du"
        r"|sag mir|puo dirmi|sa|pode dizer-me|sabe dizer|kunt u (?:mij|me) zeggen|weet u|cho (?:toi|minh|em) hoi|אפשר לדעת|תגידו)\b[,:]?\s*"
    )
)
# A further part begins behind one of these with an interrogative word of its own.
_FURTHER = re.compile(fold(r"[?？؟]+\s*(?:(?:and|et|y|e|und|en|va|и)\s+)?|,?\s+(?:and|et|y|e|und|en|va|и|or|plus|sowie|also)\s+|[,;，、]\s*(?:(?:and|et|y|e|und|en|va|и)\s+)?|,?\s+ו(?=\w)"))
_BEFORE = re.compile(fold(r"(?:at|from|to|in|for|until|till|by|since|on|with|and|also|a|de|en|pour|depuis|des|jusqu'a|desde|hasta|con|um|ab|seit|bis|fur|mit|per|da|para|voor|met|tu|vao|luc|cho|o)\s+"))
_MOST_PARTS = 3
_CLAUSE = re.compile(r"[.,;:!?、，。]+\s*")
_CLAUSE_BEFORE = re.compile(r"(?:[.,;:!?¿(、，。-]|\b(?:and|et|y|und|en|va|is|are|c'est|est|es|ist|do|to|of|by|from|until|since|in|at|de|a|an|um|seit|bis|per|da|para|van|tot))\s*$")
# Interrogative words that also join clauses. They ask at the beginning of a clause or at the end of the question.
_JOINING = frozenset(
    "when where who whom whose how why what which quand ou qui que quoi comment cuando donde quien como was wo wer wen wem wie dove chi come quando onde quem perche "
    "porque cosa wat waar hoe ai gi nao may מי מה איך כמה как что кто где когда ما".split()
)

_FREE = re.compile(
    r"\b(?:free(?! of\b(?! charge))|gratis|gratuit\w*|kostenlos\w*|kostenfrei|umsonst|grátis|gratuiti?|miễn phí|бесплатн\w*)\b|חינם|ללא תשלום|مجان\w*|免费|免費|無料|무료",
    re.IGNORECASE,
)
_NOON = re.compile(
    r"\b(?:noon|midday|midnight|midi|minuit|mediodía|medianoche|mittags?|mitternacht|mezzogiorno|mezzanotte|meio-dia|meia-noite|middernacht|полдень|полночь|giữa trưa|nửa đêm)\b"
    r"|בצהריים|חצות",
    re.IGNORECASE,
)
_IS_PERCENT = re.compile(rf"\d\s?(?:{PERCENT})|(?:百分之|%|yüzde)\s?\d", re.IGNORECASE)
_YEAR = re.compile(r"(?<![\d.,])(?:1\d{3}|20\d\d)(?![\d]|[.,]\d)")
_DUAL = re.compile(r"(?<!\w)[ובלהמכש]?(?:שנתיים|שעתיים|יומיים|שבועיים|חודשיים|שעה|יום אחד|שבוע|חודש|שנה)(?!\w)")  # two years, in one Hebrew word
_POWER_WORDS = "|".join(sorted(map(re.escape, [*POWERS, "mil", "billion"]), key=len, reverse=True))
_DIGIT = re.compile(r"(?<![A-Za-z\d])\d")  # a code such as TO1101 is no number
_ONE = re.compile(r"(?<![\d.,])1(?![\d.,])")


def asked_parts(question: str) -> list[Part]:
    """The parts of a question in their order, at most three: two for "What does it cost and when does it leave?", one for most."""
    plain, places = _plain_with_places(question)
    begin = polite.end() if (polite := _POLITE.match(plain)) else 0
    spans: list[tuple[int, int]] = []
    for found in _FURTHER.finditer(plain, begin):
        if len(spans) < _MOST_PARTS - 1 and _opens(plain[found.end() :]) and _asks(plain[begin : found.start()]):
            spans.append((begin, found.start()))
            begin = found.end()
    spans.append((begin, len(plain)))
    if len(spans) == 1:
        return [Part(question, _kinds_of(plain[begin:]))]
    return [Part(question[places[start] : places[end]].strip(" ?？؟¿"), _kinds_of(plain[start:end]), _is_bare(plain[start:end])) for start, end in spans]


def holds(sentence: str, kind: Kind) -> bool | None:
    """Whether a sentence holds a thing of a kind; None for kinds that cannot be told: persons, places, rules, explanations."""
    if kind not in MEASURABLE:
        return None
    return _HOLDS[kind](_Read(sentence))


def holds_any(sentence: str, kinds: Iterable[Kind]) -> bool | None:
    """Whether a sentence holds a thing of one of these kinds; None where that cannot be told of any."""
    told = [found for kind in kinds if (found := holds(sentence, kind)) is not None]
    return any(told) if told else None


def _plain_with_places(text: str) -> tuple[str, list[int]]:
    """The text in lower case and without diacritics, and for each offset in it, and its end, the offset in `text`."""
    plain, places = [], []
    for place, character in enumerate(text):
        folded = fold(character.casefold().replace("’", "'"))
        plain.append(folded)
        places += [place] * len(folded)
    return "".join(plain), [*places, len(text)]


def _kinds_of(plain: str) -> Kinds:
    clauses = [clause.lstrip("¿¡ ") for clause in _CLAUSE.split(plain)]
    found = _first(plain)
    is_rule = any(_YES_OR_NO.search(clause) for clause in clauses)
    if found and found.kinds and (found.start == 0 or not is_rule):
        return found.kinds
    if is_rule:
        return _of("yes or no")
    named = min(((match.start(), number) for number, (_, pattern) in enumerate(_NAMED) if (match := pattern.search(plain))), default=None)
    return _NAMED[named[1]][0] if named else frozenset()


class _Asking(NamedTuple):
    start: int
    end: int
    kinds: Kinds


def _first(plain: str) -> _Asking | None:
    """The first interrogative word, of two at the same place the longer one."""
    found = [_Asking(match.start(), match.end(), kinds) for kinds, pattern in _ASKING for match in pattern.finditer(plain) if _is_asking(plain, match)]
    return min(found, key=lambda one: (one.start, -one.end), default=None)


def _is_asking(plain: str, match: re.Match[str]) -> bool:
    """Whether an interrogative word asks here, and does not join clauses: "the days when it is closed", "a house where one eats"."""
    before, after = plain[: match.start()], plain[match.end() :]
    return match[0].rsplit(" ", 1)[-1] not in _JOINING or not before.strip() or not after.strip(" ?？") or bool(_CLAUSE_BEFORE.search(before))


def _is_bare(plain: str) -> bool:
    """Whether a part is an interrogative word alone: "and when?"."""
    found = _first(plain)
    return found is not None and not plain[found.end :].strip(" ?？؟") and (not plain[: found.start].strip() or bool(_BEFORE.fullmatch(plain[: found.start])))


def _opens(plain: str) -> bool:
    """Whether a question begins here, or behind a preposition."""
    plain = plain.lstrip("¿¡ ")
    before = _BEFORE.match(plain)
    for text in (plain, plain[before.end() :] if before else plain):
        rule = _YES_OR_NO.search(text)
        if ((first := _first(text)) and first.start == 0) or (rule and rule.start() == 0 and rule.end() < len(text.rstrip("?？ "))):
            return True
    return False


def _asks(plain: str) -> bool:
    return _first(plain) is not None or _YES_OR_NO.search(plain.lstrip("¿¡ ")) is not None or any(pattern.search(plain) for _, pattern in _NAMED)


class _Read:
    """A sentence, with its numbers in words as digits, and what its figures show."""

    def __init__(self, sentence: str) -> None:
        self.sentence = unicodedata.normalize("NFKC", sentence)
        self.text = with_digits(self.sentence)
        self.atoms: set[Atom] = set()
        for text in (self.sentence, self.text):
            self.atoms.update(atom for figure in figures_of(text) for reading in figure.readings for atom in reading)

    def shows(self, *names: str) -> bool:
        return any(atom[0] in names for atom in self.atoms)


def _has_hour(read: _Read) -> bool:
    return read.shows("time", "clock") or bool(_NOON.search(read.sentence))


def _has_date(read: _Read) -> bool:
    words = {word.rstrip("s") for word in re.findall(r"[^\W\d_]+", read.sentence.casefold())}
    return read.shows("date", "day", "month", "any year") or bool(_YEAR.search(read.sentence)) or bool(weekdays().search(read.sentence.casefold())) or not words


def _has_price(read: _Read) -> bool:
    return bool(_price().search(read.text)) or bool(_FREE.search(read.sentence)) or (_has_number(read) and bool(_NAMED[1][1].search(_folded(read.sentence))))


def _has_duration(read: _Read) -> bool:
    return bool(_duration().search(read.text)) or bool(_DUAL.search(read.sentence))


def _has_percentage(read: _Read) -> bool:
    return bool(_IS_PERCENT.search(read.text))


def _has_number(read: _Read) -> bool:
    """Whether there is a number. "One", which in many languages is an article, is none."""
    return bool(_DIGIT.search(read.sentence) or _DIGIT.search(_ONE.sub("", read.text)))


_HOLDS = {"hour": _has_hour, "date": _has_date, "price": _has_price, "duration": _has_duration, "percentage": _has_percentage, "number": _has_number}


def _folded(text: str) -> str:
    return fold(text.casefold())


@cache
def _price() -> re.Pattern[str]:
    words = "|".join(sorted(map(re.escape, money()), key=len, reverse=True))
    return re.compile(rf"\d\s?(?:(?:{_POWER_WORDS})\.?\s?)?-?(?:de |d['’])?(?:[₠-⃏$£¥]|(?:{words})(?!\w))|(?:[₠-⃏$£¥]|\b(?:{words}))\s?\d", re.IGNORECASE)


@cache
def _duration() -> re.Pattern[str]:
    words = "|".join(sorted(map(re.escape, time_units()), key=len, reverse=True))
    lengths = "|".join(sorted(map(re.escape, units() - time_units() - money()), key=len, reverse=True))
    return re.compile(rf"\d[\s-]?(?:[^\W\d]+\s)?(?:(?:{words})|(?:{lengths}))(?!\w)|\d\s?[年天日分時泊晚]", re.IGNORECASE)
