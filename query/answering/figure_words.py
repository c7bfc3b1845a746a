"""Words around figures, in many languages: names of months, units of measure, halves of the day, numbers in words."""

import re
from collections.abc import Iterable
from functools import cache

from almanac.query.answering.cldr_names import cldr_names

# Short names of months that are frequent words of other languages: "children under 5 may enter", "3 out of 5", "une des
# 12 chambres", "tem 25 quartos".
_FREQUENT_WORDS = "abu ago api ara des dis ene kas kol led mag mar may oca ott out pro set sie svi tem tra vas"
AMBIGUOUS_MONTHS = frozenset(_FREQUENT_WORDS.split(" "))
# Units of measure. Years are missing: they are mostly ages, "a child of 10 years".
_UNITS = (
    "duration-minute duration-hour duration-day duration-week duration-month length-centimeter length-meter "
    "length-kilometer mass-gram mass-kilogram "
    "volume-liter volume-milliliter area-square-meter digital-gigabyte power-watt temperature-celsius"
)
_OTHER_UNITS = (
    "h min s kg g km m cm mm l ml gb mb tb w kwh hz mah °c night nights nuit nuits nacht nächte noche noches "
    "notte notti noite noites đêm ngày giờ phút tuần "
    "tháng לילה לילות ночь ночи ночей ليلة ليالي रात 泊 晚 日 天 小时 時間 分 分钟 分間 박 일 시간 분"
)
_MONEY = (
    "euro euros eur € dollar dollars usd đồng đ vnd vnđ dong pound pounds gbp franc francs chf yen jpy 円 元 块 원 "
    'rub rur руб рубль рубля рублей ₽ ש״ח ש"ח שח '
    "nis ils shekel shekels sheqalim schekel séquels שקל שקלים يورو دولار ريال درهم دينار جنيه रुपये रुपए inr "
    "rs zł pln kč czk kr sek nok dkk lira "
    "tl try baht thb peso pesos real reais brl "
    "yuan rupee rupees rupien won rubles roubles rubel franken kronen kroner kronor krone crowns couronnes "
    "zloty złotych "
    "dirham dirhams riyal riyals rand ringgit lei forint cents centimes céntimos centavos pence"
)
_MEASURES = {
    "length": (
        "length-millimeter length-centimeter length-meter length-kilometer length-mile length-foot length-inch",
        'mm cm m km mi ft in inch inches מ"מ ס"מ ק"מ 米 公里 厘米',
    ),
    "weight": ("mass-gram mass-kilogram mass-pound", 'mg g kg t lb lbs kilo kilos ký cân ק"ג 公斤 克'),
    "temperature": (
        "temperature-celsius temperature-fahrenheit",
        "° °c °f degrees degree degrés grad grados gradi graus graden độ מעלות градусов 度",
    ),
}
_SPANS = "duration-second duration-minute duration-hour duration-day duration-week duration-month duration-year"
_OTHER_SPANS = (
    "h hrs hr min mins night nights nuit nuits an ans nacht nächte noche noches notte notti noite anni anno anos "
    "ano đêm ngày giờ phút tuần tháng năm tiếng "
    "שנים שנה חודשים חודש שבועות שבוע ימים יום שעות שעה דקות דקה לילה לילות ночь ночи ночей лет ليلة ليالي "
    "weekend weekends quarter quarters"
)
# Halves of the day, before or after an hour.
BEFORE_NOON = (
    r"a\.?\s?m\b\.?|sáng|morgens|vormittags|du matin|de la mañana|da manhã|di " r"mattina|утра|ночи|בבוקר|صباح\w*|ص(?!\w)|in the morning"  # noqa: E501
)  # fmt: skip
AFTER_NOON = (
    r"p\.?\s?m\b\.?|chiều|tối|nachmittags|abends|de l['’]après-midi|du soir|de la tarde|de la noche|da tarde|da "
    r"noite|di sera|вечера|בערב|אחר הצהריים"
    r"|אחה[\"״]צ|مساء\w*|م(?!\w)|in the (?:afternoon|evening)"
)
BEFORE_NOON_FIRST, AFTER_NOON_FIRST = "午前|上午|早上|凌晨|清晨|오전|सुबह", "午後|下午|晚上|傍晚|夜|오후|शाम"
PERCENT = (
    r"%|per ?cent|prozent\w*|pour ?cent|por ?ciento|por ?cento|per ?cento|procent\w*|phần "
    r"trăm|אחוז\w*|процент\w*|відсот\w*|في المئة|في المائة|بالمئة|بالمائة"
    r"|प्रतिशत|फीसदी|パーセント|퍼센트|百分之|yüzde|prosent\w*"
)
NO = r"\s*(?:no|nope|non|nein|nee|não|không|לא|нет|ні|nie|لا|いいえ|不|不是|नहीं|아니요|아뇨)\s*[,.:;!–—、，。؛،-]"
NOT = (
    r"\b(?:not|never|no|cannot|pas|jamais|nicht|kein\w*|não|non|niet|geen|không|chưa|chẳng|не|ні|nie|ikke|inte|değ" r"il)\b|n['’]t\b"  # noqa: E501
    r"|(?<!\w)(?:לא|אינו|אינה|אינם|אין)(?!\w)|ليس\w*|(?<!\w)لا(?!\w)|不|没|ない|ません|아니|नहीं"
)  # fmt: skip
# Words for 1 to 20, then 30 to 100 by tens; `-` where one is missing or made of several words.
_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty "
    "forty fifty sixty seventy eighty ninety hundred",
    "un|une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize - - - vingt "
    "trente quarante cinquante soixante - - - cent",
    "ein|eins|eine|einen|einem|einer zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig hundert",
    "un|uno|una dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis "
    "diecisiete dieciocho diecinueve veinte "
    "treinta cuarenta cincuenta sesenta setenta ochenta noventa cien",
    "un|uno|una due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici "
    "sedici diciassette diciotto "
    "diciannove venti trenta quaranta cinquanta sessanta settanta ottanta novanta cento",
    "um|uma dois|duas três quatro cinco seis sete oito nove dez onze doze treze catorze|quatorze quinze dezesseis "
    "dezessete dezoito dezenove "
    "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa cem",
    "een|één twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien zeventien "
    "achttien negentien twintig "
    "dertig veertig vijftig zestig zeventig tachtig negentig honderd",
    "một hai ba bốn năm sáu bảy tám chín mười",
    "אחד|אחת שניים|שתיים|שני|שתי שלושה|שלוש|שלושת ארבעה|ארבע חמישה|חמש שישה|שש שבעה|שבע שמונה תשעה|תשע עשרה|עשר - "
    "- - - - - - - - עשרים שלושים "
    "ארבעים חמישים שישים שבעים שמונים תשעים מאה",
    "один|одна|одно|одного|одной два|две|двух три|трёх|трех четыре|четырёх|четырех пять|пяти шесть|шести "
    "семь|семи восемь|восьми девять|девяти "
    "десять|десяти одиннадцать двенадцать тринадцать четырнадцать пятнадцать шестнадцать семнадцать "
    "восемнадцать девятнадцать двадцать тридцать "
    "сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто сто",
    "واحد|واحدة اثنان|اثنين|اثنتان|اثنتين ثلاثة|ثلاث أربعة|أربع خمسة|خمس ستة|ست سبعة|سبع ثمانية|ثماني تسعة|تسع "
    "عشرة|عشر",
    "एक दो तीन चार पांच|पाँच छह सात आठ नौ दस",
    "jeden|jedna dwa|dwie trzy cztery pięć sześć siedem osiem dziewięć dziesięć",
)
PREFIXES = "ובלמהשכ"  # Hebrew particles are written onto the word
_WORD = re.compile(r"(?:[^\W\d_]|[\u0900-\u0dff])+(?!\s*\d)")  # vowel signs of Indic scripts are no letters to `re`
_ROMAN = re.compile(r"\b(X{0,3})(IX|IV|V?I{0,3})(?=(?:e|er|ème|º)?\b)")
_CJK = re.compile(r"([一二三四五六七八九])?(十)([一二三四五六七八九])?|[一二三四五六七八九]")


@cache
def months() -> dict[str, int]:
    """Number of the month, 1 to 12, by its name or abbreviation of three letters and more, casefolded and without a
    full stop.
    """
    return cldr_names().months | {"sept": 9}


def month_of(word: str) -> int | None:
    """Number of the month that a word names, also with a Hebrew particle before it; None where it names none."""
    plain = word.casefold().rstrip(".")
    return months().get(plain) or (months().get(plain[1:]) if plain[:1] in PREFIXES else None)


@cache
def units() -> frozenset[str]:
    """Words that stand behind a measured or paid quantity, casefolded."""
    return _words_of(_UNITS).union(_OTHER_UNITS.split(), _MONEY.split())


@cache
def time_units() -> frozenset[str]:
    """Words for spans of time behind a number, casefolded: minutes to years, and nights."""
    return _longer(_words_of(_SPANS)).union(_OTHER_SPANS.split())


@cache
def measures(kind: str) -> frozenset[str]:
    """Words and signs of units behind a number, casefolded. `kind` is `length`, `weight` or `temperature`."""
    units, signs = _MEASURES[kind]
    return _longer(_words_of(units)).union(signs.split())


def _words_of(units: str) -> frozenset[str]:
    return frozenset(word for unit in units.split() for word in cldr_names().units[unit])


def _longer(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word for word in words if len(word) > 1)


def money() -> frozenset[str]:
    """Names and signs of currencies, casefolded."""
    return frozenset(_MONEY.split())


@cache
def _values() -> dict[str, str]:
    amounts = [*range(1, 21), *range(30, 101, 10)]
    pairs = ((amount, words) for line in _NUMBERS for amount, words in zip(amounts, line.split(), strict=False))
    return {word: str(amount) for amount, words in pairs for word in words.split("|") if word != "-"}


@cache
def _tens_and_ones() -> re.Pattern[str]:
    tens, ones = (
        "|".join(word for word, value in _values().items() if int(value) in values)
        for values in (range(20, 100, 10), range(1, 10))
    )
    return re.compile(rf"\b({tens})[- ]({ones})\b", re.IGNORECASE)


def with_digits(text: str) -> str:
    """The text with numbers in words, 1 to 99 and 100, and Roman ones from II to XXXIX, as digits.

    A word before a digit stays: `năm 2026` is a year, and no five.
    """

    def tens_and_ones(match: re.Match[str]) -> str:
        return str(int(_values()[match[1].casefold()]) + int(_values()[match[2].casefold()]))

    def roman(match: re.Match[str]) -> str:
        if len(match[0]) < 2:
            return match[0]
        return str(10 * len(match[1]) + {"IX": 9, "IV": 4}.get(match[2], 5 * match[2].count("V") + match[2].count("I")))

    def digits(match: re.Match[str]) -> str:
        word = match[0].casefold()
        return _values().get(word) or (_values().get(word[1:]) if word[:1] in PREFIXES else None) or match[0]

    def cjk(match: re.Match[str]) -> str:
        if not match[2]:
            return str("一二三四五六七八九".index(match[0]) + 1)
        tens, ones = ("一二三四五六七八九".find(match[n] or "-") + 1 for n in (1, 3))
        return str(10 * (tens or 1) + ones)

    return _CJK.sub(cjk, _WORD.sub(digits, _tens_and_ones().sub(tens_and_ones, _ROMAN.sub(roman, text))))
