"""Tells pages that hold nothing but a wall before the content: consent to cookies, a question for the visitor's age, a
check of the browser.

A wall is told by its structure: a control to accept with, a short text around it that says what for, and next to
nothing else on the page. Words alone do not make one, since articles and policies are about cookies, too. A page with a
banner and content is none.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import parsel
from lxml import etree

from almanac.spiders.reading.content import Content

_LITTLE = 200  # letters beside the wall and the page's navigation, counted by `_length`
_LONGEST = 6000  # characters of a page that is a wall; lists of purposes and partners are long
_LONGEST_UNMARKED, _LONGEST_AGE = 1500, 500  # without an element that is named for consent
_OFTEN = 400  # characters, in each of which a text about consent speaks of it
_LONGEST_CHECK, _LONGEST_MARKED_CHECK = 250, 1500
_SENTENCE = 20  # letters that a page with content has in paragraphs, lists, tables or its main part
_SYLLABLE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_FEW_WORDS = 2
_FEW_LINKS = 5
_LABEL = 60
_LEAST = 40
_HEADINGS = 2
_MOST_CONTROLS = 20

_UNREAD = (
    "ancestor-or-self::script or ancestor-or-self::style or ancestor-or-self::noscript or "
    "ancestor-or-self::template or ancestor-or-self::head"
)
_TEXTS = etree.XPath(f".//text()[normalize-space() and not({_UNREAD})]")
_CHROME = etree.XPath(
    "ancestor-or-self::*[self::nav or self::header or self::footer or self::a or self::h1 or self::select"
    " or @role = 'navigation' or @role = 'banner' or @role = 'contentinfo']"
)
_CONTENT = etree.XPath(
    "boolean(ancestor-or-self::*[self::p or self::li or self::td or self::dd or self::blockquote or self::pre or "
    "self::article or self::main])"
    " and not(ancestor-or-self::*[contains(@class, 'foot') or contains(@id, 'foot') or contains(@class, "
    "'copyright') or contains(@class, 'legal')])"
)
_ENTRIES = etree.XPath(
    "boolean(.//textarea | .//input[@type = 'email' or @type = 'password' or @type = 'tel' or @type = 'text' or "
    "@type = 'search'])"
)
_CONTROLS = etree.XPath(
    "//button | //input[@type = 'submit' or @type = 'button'] | //a"
    " | //*[@role = 'button' or @onclick or contains(@class, 'btn') or contains(@class, 'button')]"
)
_MARKED = re.compile(
    r"consent|cookie[-_]?(?:banner|wall|notice|bar|pop|modal|layer|overlay|dialog|law|message|info|hint|accept)|gd"
    r"pr|rgpd|dsgvo|\bcmp|didomi|onetrust|usercentrics"
    r"|cookiebot|sp_message|iubenda|trustarc|axeptio|klaro|tarteaucitron|\bcc-window|age[-_]?(?:gate|verif|che"
    r"ck|wall|confirm)|paywall|interstitial",
    re.IGNORECASE,
)
_ACCEPT = re.compile(
    r"accept|agree|allow|consent|understood|\bgot "
    r"it|akzept|zustimm|einverstanden|annehmen|zulassen|erlauben|autoris|acept|permitir|accett|consenti|đồng ý"
    r"|chấp nhận|cho "
    r"phép|מסכי|מאשר|אישור|קבל|akkoord|toestaan|aceit|concord|akcept|zgad|zgod|přijm|souhlas|godk|tillåt|tilla"
    r"d|godta|hyväksy|elfogad|kabul"
    r"|αποδοχ|αποδέχ|принят|принима|соглас|прийняти|погодж|同意|接受|許可|동의|허용|수락|أوافق|قبول|موافق|ยอมรับ"
    r"|prihva|sprejm|súhlas|sutik|sutinku|piekr[iī]t|nõust|приема|прихват|setuju|terima|स्वीकार|می.?پذیر",
    re.IGNORECASE,
)
# What may also mean anything else: it counts in an element that is named for consent, or under a question for the
# visitor's age.
_GO_ON = re.compile(
    r"\byes\b|\benter\b|\bcontinue|\bok(?:ay)?\b|\bja\b|\bweiter|\boui\b|\bentrer|\bsí\b|\bsì\b|\bentrar?\b|\bpros"
    r"egui|tiếp tục|^có\b|^כן|המשך|כניסה"
    r"|doorgaan|\bsim\b|prosseg|\btak\b|\bano\b|\bда\b|войти|はい|예|^是|(?:over|über|plus de|más "
    r"de|di|מעל|boven|ponad|trên|đủ) 1[68]\b",
    re.IGNORECASE,
)
_CONSENT = re.compile(
    r"cookie|kakor|\bkaker|sušenk|ciastecz[ek]|куки|עוגיות|קוקי|クッキー|쿠키|ملفات "
    r"تعريف|คุกกี้|çerez|consent|privacy|personal data|datenschutz|einwillig"
    r"|personenbezogen|vie privée|données personnelles|confidentialité|consentement|privacidad|datos "
    r"personales|dati personali|riêng tư|dữ liệu cá nhân|פרטיות"
    r"|persoonsgegevens|dados pessoais|prywatno|danych osobowych|персональн|隐私|個人|プライバシー|개인정보|الخصوصية"
    r"|eväste|\bsüti|kolačić|колачић|piškotk|бисквитк|slapuk|sīkdat|sīkfail|küpsis|informasjonskapsl|vafrakök|"
    r"कुकी|کوکی",
    re.IGNORECASE,
)
_AGE = re.compile(
    r"(?<![\d.,:-])(?:1[68]|2[01])\D{0,12}(?:year|jahr|\bans\b|año|\banni\b|tuổi|שנ|jaar|anos|\blat\b|\blet\b|år\b"
    r"|лет|歳|岁|세)"
    r"|(?:\bage\b|alter|volljährig|majeur|maggiorenn|mayor de|maior de|độ tuổi|\bגיל|pełnoletn)\D{0,30}(?:1[68]|2[01])"
    r"|(?:over|under|über|unter|ab|trên|מעל|boven|ponad) (?:1[68]|2[01])\b",
    re.IGNORECASE,
)
_AGE_NUMBER = re.compile(r"1[68]|2[01]")
_POLICY = re.compile(
    r"polic|notice|statement|richtlinie|erklärung|politique|declarac|política|informativa|chính "
    r"sách|מדיניות|beleid|verklaring|polityka|политик|政策|方針|정책",
    re.IGNORECASE,
)
_CHECK = re.compile(
    r"checking (?:your|the|if)|just a moment|verif\w+ (?:that )?you(?:'re| are)|(?:a|not a) robot"
    r"|security (?:check|verification)|ddos protection|attention required"
    r"|(?:enable|activate|turn on|allow|requires?|needs?)\W+(?:\w+\W+){0,3}(?:javascript|cookies)"
    r"|(?:javascript|cookies)\W+(?:\w+\W+){0,3}(?:disabled|required|off|enabled)\b|javascript[^.]{0,40}(?:akti"
    r"v|einschalt|désactiv|activ|desactiv|habilit|disabilit|abilit|inschakel|uitgeschakeld|ativ|włącz|wyłącz|מ"
    r"ופעל|לאפשר|הפעל|включ|有効|启用|활성)"
    r"|(?:aktiv|activ|désactiv|habilit|abilit|schakel|ativ|włącz|bật|kích "
    r"hoạt|הפעל|לאפשר|включ|启用|启动)[^.]{0,40}(?:javascript|cookies)"
    r"|(?:überprüf|prüf|vérifi|compro|verific|controll|kiểm tra|xác "
    r"minh|sprawdz|controle|בודק|מוודא|בדיק|провер|検証|验证|확인)[^.]{0,40}"
    r"(?:browser|navig|navegador|trình duyệt|przeglądark|דפדפן|браузер|浏览器|ブラウザ|브라우저|mens|huma|umano|con "
    r"người|אנוש|אדם|człowiek|人)",
    re.IGNORECASE,
)
_CHECKER = re.compile(
    r"_cf_chl|cf[-_]chl|cf-browser-verification|challenge-form|ddos-guard|captcha-delivery|datadome|px-captcha|_in"
    r"capsula_|sucuri_cloudproxy|awswaf|anubis_challenge"
    r"|h-captcha|g-recaptcha|cf-turnstile|sec-cpt",
    re.IGNORECASE,
)
_RUNS = etree.XPath(
    "boolean(//script or //form or //iframe or //noscript or //meta[translate(@http-equiv, 'REFSH', 'refsh') = "
    "'refresh'])"
)


def wall_of(content: Content, read: Callable[[], Iterable[Any]] = tuple) -> str | None:
    """What a page asks of its visitors instead of showing its content, as the end of a sentence; None if it is no wall.

    `read` gives what declared rules find on the page, markup and data: a page where some of it is neither the wall nor
    navigation is none. The text of a wall is tallied as left out.
    """
    if content.form != "html":
        return None
    root = content.selector.root
    texts = [(text.getparent(), _clean(text)) for text in _TEXTS(root)]
    shown = " ".join(text for _, text in texts)
    if not shown or len(shown) > _LONGEST:
        return None
    if _is_check(root, content.text, shown) and all(isinstance(one, parsel.Selector) for one in read()):
        content.leave_out("walls", shown, root)
        return f"it only checks the browser: {_quoted(shown)}"
    for control, label in islice(_accepting(root), _MOST_CONTROLS):
        wall = _wall_around(control, label, root, is_plain=_ACCEPT.search(label) is not None)
        if wall is not None and _stands_alone(wall, texts, read):
            content.leave_out("walls", shown, root)
            return f"it only asks for consent ({_quoted(label)}): {_quoted(_text(wall))}"
    return None


def _accepting(root: Any) -> Iterator[tuple[Any, str]]:
    """Yields the controls that accept something, with their labels."""
    for control in _CONTROLS(root):
        label = (
            _clean(control.get("value") or control.get("aria-label") or "")
            if control.tag == "input"
            else _text(control)
        )
        if label and len(label) <= _LABEL and (_ACCEPT.search(label) or _GO_ON.search(label)):
            yield control, label


def _is_check(root: Any, markup: str, shown: str) -> bool:
    if (
        len(shown) > _LONGEST_MARKED_CHECK
        or len({link.get("href") for link in root.iter("a")}) > _FEW_LINKS
        or not _RUNS(root)
    ):
        return False
    return _CHECK.search(shown) is not None and (len(shown) <= _LONGEST_CHECK or _CHECKER.search(markup) is not None)


def _wall_around(control: Any, label: str, root: Any, *, is_plain: bool) -> Any | None:
    """The element that asks: the outermost one around the control that is named for consent, else the smallest one that
    says what is asked.

    `is_plain`: the control's label speaks of accepting.
    """
    around = [element for element in control.iterancestors() if element.tag not in ("html", "body")]
    marked = [
        element
        for element in around
        if _MARKED.search(" ".join(element.get(name, "") for name in ("id", "class", "action", "name", "data-testid")))
    ]
    if marked and _asks(_text(marked[-1]), is_plain=True):
        return marked[-1]
    body = next(root.iter("body"), root)
    found = next(
        (
            element
            for element in [*around, body]
            if len(said := _text(element)) >= _LEAST and _asks(said, is_plain=is_plain)
        ),
        None,
    )
    if (
        found is None
        or len(list(found.iter("h2", "h3", "h4"))) > _HEADINGS
        or not _is_only_about_it(found, is_plain=is_plain)
    ):
        return None
    if not is_plain and len(label.split()) > _FEW_WORDS and not _AGE_NUMBER.search(label):
        return None
    heads = " ".join(_text(head) for head in root.iter("h1", "title"))
    return None if _POLICY.search(heads) else found


def _is_only_about_it(element: Any, *, is_plain: bool) -> bool:
    """Whether a text asks for the visitor's age in a few sentences, or speaks of consent all through and takes no other
    entries.
    """
    text = _text(element)
    if _AGE.search(text) is not None and len(text) <= _LONGEST_AGE:
        return True
    return (
        is_plain
        and len(text) <= _LONGEST_UNMARKED
        and len(_CONSENT.findall(text)) * _OFTEN >= len(text)
        and not _ENTRIES(element)
    )


def _asks(text: str, *, is_plain: bool) -> bool:
    return _AGE.search(text) is not None or (is_plain and _CONSENT.search(text) is not None)


def _stands_alone(wall: Any, texts: list[tuple[Any, str]], read: Callable[[], Iterable[Any]]) -> bool:
    """Whether the page says next to nothing outside of the wall and its navigation, and declared rules find nothing
    there.
    """
    inside = set(wall.iter())
    beside = [(parent, text) for parent, text in texts if parent not in inside and not _CHROME(parent)]
    if sum(_length(text) for _, text in beside) > _LITTLE:
        return False
    if sum(_length(text) for parent, text in beside if not _asks(text, is_plain=True) and _CONTENT(parent)) > _SENTENCE:
        return False
    around = inside | set(wall.iterancestors())
    return not any(_is_beside(one, around, beside) for one in read())


def _is_beside(one: Any, around: set[Any], beside: list[tuple[Any, str]]) -> bool:
    """Whether what a rule found is data, or text that stands beside the wall and the navigation."""
    if not isinstance(one, parsel.Selector):
        return bool(one)
    if isinstance(one.root, str):
        said = _clean(one.root)
        return bool(said) and any(said in text for _, text in beside)
    own = set(one.root.iter()) if isinstance(one.root, etree._Element) and one.root not in around else set()
    return any(parent in own for parent, _ in beside)


def _text(element: Any) -> str:
    return " ".join(_clean(text) for text in _TEXTS(element)) if element.tag != "title" else _clean(element.text or "")


def _length(text: str) -> int:
    """Length of a text in letters of an alphabet: a Chinese character, a kana or a Hangul syllable says as much as
    three of them.
    """
    return len(text) + 2 * len(_SYLLABLE.findall(text))


def _clean(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return f"“{text[:80]}{'…' if len(text) > 80 else ''}”"
