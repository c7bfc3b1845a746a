"""Pages that show a wall in place of their content, and pages that only look like it."""

import pytest

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.walls import wall_of

_NAV = (
    "<header><a href=/>Home</a></header><nav><a href=/a>Tours</a> <a href=/b>Hotels</a> <a href=/c>About us</a></nav>"
)
_FOOT = "<footer><a href=/imprint>Imprint</a> © 2026 Voyago</footer>"
_ARTICLE = (
    "<article><h1>The harbour</h1>"
    + "<p>The harbour was built in 1887 by people who had come from the hills and stayed.</p>" * 6
    + "</article>"
)


def page(body: str, title: str = "Voyago") -> Content:
    return Content(
        Page(
            "http://x.test/a",
            f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>".encode(),
            content_type="text/html",
        )
    )


CONSENT = {
    "en": (
        "We value your privacy. We and our partners use cookies to store and access information on your device.",
        "Accept all",
        "Reject",
    ),
    "fr": (
        "Nous respectons votre vie privée. Nos partenaires et nous déposons des cookies sur votre appareil pour "
        "mesurer l'audience.",
        "Tout accepter",
        "Refuser",
    ),
    "de": (
        "Wir verwenden Cookies und ähnliche Verfahren, um diese Seite zu betreiben und Anzeigen zu messen.",
        "Alle akzeptieren",
        "Ablehnen",
    ),
    "es": (
        "Utilizamos cookies propias y de terceros para medir la audiencia y mostrar publicidad en su dispositivo.",
        "Aceptar todo",
        "Rechazar",
    ),
    "it": (
        "Utilizziamo i cookie per misurare il traffico e mostrare annunci. Puoi cambiare la tua scelta in ogni "
        "momento.",
        "Accetta tutto",
        "Rifiuta",
    ),
    "vi": (
        "Chúng tôi sử dụng cookie để đo lường lượng truy cập và hiển thị quảng cáo phù hợp với bạn.",
        "Đồng ý",
        "Từ chối",
    ),
    "he": (
        "אנו משתמשים בעוגיות כדי למדוד את התנועה באתר ולהציג פרסומות המתאימות לך. המדיניות חלה על כל העמודים.",
        "אני מסכים",
        "דחה",
    ),
    "nl": (
        "Wij gebruiken cookies om het verkeer te meten en advertenties te tonen die bij u passen, ook van derden.",
        "Alles accepteren",
        "Weigeren",
    ),
    "pt": (
        "Usamos cookies para medir a audiência e mostrar publicidade adequada ao seu perfil, também de terceiros.",
        "Aceitar tudo",
        "Recusar",
    ),
    "pl": (
        "Używamy ciasteczek, aby mierzyć ruch i wyświetlać reklamy dopasowane do zainteresowań, także partnerów.",
        "Zgadzam się",
        "Odrzuć",
    ),
    "cs": (
        "Používáme soubory cookie k měření návštěvnosti a k zobrazování reklam, a to i od našich partnerů.",
        "Přijmout vše",
        "Odmítnout",
    ),
    "ru": (
        "Мы используем файлы cookie, чтобы измерять посещаемость сайта и показывать подходящую вам рекламу.",
        "Принять все",
        "Отклонить",
    ),
    "ja": (
        "当サイトでは、アクセス解析と広告の表示のためにクッキーを使用しています。詳しい内容をご確認のうえ、続けるには次のいずれかを選んでください。設定はいつでも変更できます。"
        * 2,
        "同意する",
        "拒否",
    ),
}
CONSENT |= {
    "hu": (
        "Weboldalunk sütiket használ a felhasználói élmény javítása érdekében és statisztikai célból, "
        "partnereinkkel együtt.",
        "Elfogadom",
        "Nem",
    ),
    "fi": (
        "Käytämme evästeitä parantaaksemme käyttökokemustasi ja näyttääksemme sinulle sopivaa mainontaa.",
        "Hyväksy kaikki",
        "Hylkää",
    ),
    "hr": (
        "Koristimo kolačiće kako bismo mjerili posjećenost i prikazivali oglase koji su prilagođeni vama.",
        "Prihvaćam sve",
        "Odbij",
    ),
    "bg": (
        "Използваме бисквитки, за да измерваме посещенията и да показваме подходящи за вас реклами.",
        "Приемам всички",
        "Отказ",
    ),
}
AGE = {
    "en": (
        "You must be 18 years or older to visit this shop. Please tell us your age before you go on to our wines.",
        "Yes, I am over 18",
    ),
    "fr": (
        "La vente d'alcool est interdite aux mineurs. Vous devez avoir 18 ans pour entrer sur ce site de vins.",
        "Entrer",
    ),
    "de": (
        "Sie müssen mindestens 18 Jahre alt sein, um diesen Laden zu besuchen. Bitte bestätigen Sie Ihr Alter.",
        "Ja",
    ),
    "vi": (
        "Bạn phải đủ 18 tuổi để vào trang này. Vui lòng xác nhận độ tuổi của bạn trước khi tiếp tục xem rượu vang.",
        "Tiếp tục",
    ),
    "he": (
        "האתר מיועד לבני 18 שנים ומעלה בלבד. יש לאשר את גילך לפני הכניסה לחנות היין שלנו ולעמודי המוצרים שבה.",
        "אישור",
    ),
}
CHECKS = {
    "en": ("Checking your browser before accessing voyago.test. Please allow up to 5 seconds.", "Just a moment..."),
    "en, scripts": ("Please enable JavaScript and cookies to continue.", "Voyago"),
    "fr": ("Veuillez activer JavaScript pour continuer.", "Un instant"),
    "de": ("Bitte aktivieren Sie JavaScript in Ihrem Browser, um fortzufahren.", "Moment"),
    "es": ("Comprobando su navegador antes de acceder. Habilite JavaScript.", "Un momento"),
    "it": ("Stiamo verificando il tuo browser. Attendi qualche secondo.", "Attendi"),
    "vi": ("Đang kiểm tra trình duyệt của bạn trước khi truy cập. Vui lòng bật JavaScript.", "Vui lòng chờ"),
    "he": ("בודק את הדפדפן שלך לפני הכניסה לאתר. יש לאפשר JavaScript.", "רק רגע"),
    "nl": ("Schakel JavaScript in om verder te gaan.", "Een ogenblik"),
    "pt": ("Verificando o seu navegador antes de continuar. Ative o JavaScript.", "Aguarde"),
    "pl": ("Sprawdzamy Twoją przeglądarkę. Włącz obsługę JavaScript, aby kontynuować.", "Chwileczkę"),
}


@pytest.mark.parametrize("around", ["", _NAV + "{}" + _FOOT], ids=["alone", "within the site's own"])
@pytest.mark.parametrize("markup", ["form", "named", "dialog", "links"])
@pytest.mark.parametrize("language", CONSENT)
def test_a_page_that_only_asks_for_consent_is_a_wall(language: str, markup: str, around: str) -> None:
    said, accept, reject = CONSENT[language]
    wall = {
        "form": (
            f"<form method=post><h2>Voyago</h2><p>{said}</p><input type=submit value='{accept}'><input "
            f"type=submit value='{reject}'></form>"
        ),
        "named": (
            f"<div id='cookie-consent-banner'><div><p>{said}</p><p>{said}</p></div><div><button>{reject}</button>"
            f"<button>{accept}</button></div></div>"
        ),
        "dialog": (
            f"<div role=dialog aria-modal=true><h1>Voyago</h1><p>{said}</p><p><b class='btn'>{accept}</b> <b "
            f"class='btn'>{reject}</b></p></div>"
        ),
        "links": f"<main><p>{said}</p><a href='/?consent=1'>{accept}</a> <a href='/?consent=0'>{reject}</a></main>",
    }[markup]
    found = wall_of(page(around.format(wall) if around else wall))
    assert found is not None and accept in found
    # Before or after content, the same is a banner.
    for body in (_NAV + wall + _ARTICLE, _NAV + _ARTICLE + wall):
        assert wall_of(page(body)) is None


@pytest.mark.parametrize("language", AGE)
def test_a_page_that_only_asks_for_the_visitors_age_is_a_wall(language: str) -> None:
    said, accept = AGE[language]
    wall = f"<div class=overlay><p>{said}</p><button>{accept}</button></div>"
    assert wall_of(page(_NAV + wall + _FOOT)) is not None
    assert wall_of(page(wall + _ARTICLE)) is None


@pytest.mark.parametrize("language", CHECKS)
def test_a_page_that_only_checks_the_browser_is_a_wall(language: str) -> None:
    said, title = CHECKS[language]
    assert wall_of(page(f"<h1>{title}</h1><p>{said}</p><script src=/check.js></script>", title)) is not None
    assert wall_of(page(f"{_NAV}<noscript><p>{said}</p></noscript>{_ARTICLE}<script></script>")) is None
    assert wall_of(page(f"{_NAV}<p class=hint>{said}</p>{_ARTICLE}<script></script>")) is None


_HALL = (
    "市役所は月曜日から金曜日まで開いています。<br>受付の時間は午前九時から午後五時までです。<br>" * 2
    + "土曜日と日曜日は休みです。"
)
_CAR = "<p>The car is returned with a full tank, or we fill it.</p>"
_RACK = "<p>Let them cool on a rack before you eat them.</p>"
_COOKIES = (
    "<p>A cookie is a small file that a server leaves with a browser, which sends it back each time that it asks "
    "for a page of the same site.</p>"
)


@pytest.mark.parametrize(
    ("title", "body"),
    [
        ("What cookies are",
        f"{_NAV}<article><h1>What cookies are</h1>{_COOKIES * 5}<p>You accept one without knowing.</p></article>"),
        ("Privacy policy",
        f"{_NAV}<main><h1>Privacy policy</h1>{_COOKIES * 4}<form><button>Accept cookies</button></form></main>"),
        ("Datenschutzerklärung",
        f"<main><h1>Datenschutzerklärung</h1><p>Wir verwenden Cookies.</p>{_COOKIES}<button>Akzeptieren</button>" "</main>"),  # noqa: E501
        ("Terms", f"{_NAV}<main><h1>Terms</h1><p>Guests must be 18 years old to rent a car.</p>{_CAR * 6}</main>"),
        ("Cookies",
        f"{_NAV}<main><h1>Chocolate cookies</h1><p>Bake the cookies for 12 minutes.</p>{_RACK * 5}<button>Yes, " "save this</button></main>"),  # noqa: E501
        ("Cookies",
        "<main><h1>Chocolate cookies</h1><p>Twelve cookies, baked this morning in our own oven.</p><button>Add to " "basket</button></main>"),  # noqa: E501
        ("Sign in", "<form><p>Sign in to see your bookings.</p><input name=user><button>Continue</button></form>"),
        ("How to",
        f"{_NAV}<h1>How do I turn it on?</h1><p>Open the settings and enable JavaScript.</p>{_RACK * 9}<script>" "</script>"),  # noqa: E501
        ("Cup",
        "<h1>Cup</h1><p>€ 9.90 A blue cup from clay.</p><div id=cookie-banner>We use cookies and measure visits. " "<button>Accept all</button></div>"),  # noqa: E501
        ("Climbing",
        f"<main><h1>Climbing</h1><p>From 16 years. Bring shoes and water.</p>{_RACK * 10}<a class=btn>Continue</a>" "</main>"),  # noqa: E501
        ("Youth",
        "<h1>Youth club</h1><p>For guests from 16 years, on Mondays at 6 pm at the market.</p><a class=btn " "href=/b>Yes, I will come</a>"),  # noqa: E501
        ("Contact",
        f"<main><h1>Write to us</h1><p>See our privacy notes.</p>{_RACK * 12}<button>Agree and send</button></main>"),
        ("News",
        "<form><p>I agree to the privacy notes and to receive mails about wine.</p><input type=email name=m>" "<button>I agree</button></form>"),  # noqa: E501
        ("Player",
        f"<h1>Player</h1><p>This player requires JavaScript. It plays music.</p>{_RACK * 5}<script></script>"),
        ("お知らせ", f"<h1>お知らせ</h1><div>{_HALL}</div><div id=cookie-banner>クッキーを使用しています。<button>同意する</button></div>"),  # noqa: E501
        ("Empty", ""),
    ],
    ids=lambda value: value[:20],
)  # fmt: skip
def test_pages_about_such_things_are_none(title: str, body: str) -> None:
    assert wall_of(page(body, title)) is None


@pytest.mark.parametrize("banner", [f"<div class=cookie-banner>{CONSENT['en'][0]} <button>Accept all</button></div>"])
@pytest.mark.parametrize(
    ("content", "rule", "is_page"),
    [
        ("<div class=p>€ 9</div>", {"css": ".p"}, True),
        ("<div class=p>€ 9</div>", {"css": ".p::text"}, True),
        (
            '<script type="application/ld+json">{"@type": "Product", "price": 9}</script>',
            {"json": "[0].price", "from": "json-ld"},
            True,
        ),
        ("<div class=p></div>", {"css": ".p"}, False),
        ("<header><h1 class=p>Shop</h1></header>", {"css": ".p"}, False),
        ("", {"css": "div"}, False),
        ("", {"css": "body"}, False),
    ],
)
def test_a_banner_beside_what_rules_read_is_no_wall(
    banner: str, content: str, rule: dict[str, str], is_page: bool
) -> None:
    source = SiteSource.model_validate(
        {"name": "s", "kind": "site", "start_urls": ["http://x.test/"], "yields": "records", "fields": {"p": rule}}
    )
    (mapped,) = map_pages([page(content + banner).page], source, "en")
    assert (len(mapped.drafts), len(mapped.rejects)) == ((1, 0) if is_page else (0, 1))


def test_a_wall_is_a_reject_with_its_reason() -> None:
    source = SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["http://x.test/"]})
    said, accept, _ = CONSENT["en"]
    (mapped,) = map_pages([page(f"<form><p>{said}</p><button>{accept}</button></form>").page], source, "en")
    (reject,) = mapped.rejects
    assert (mapped.drafts, reject.url, reject.stage) == ([], "http://x.test/a", "map")
    assert reject.reason.startswith(
        "the page shows a wall and no content: it only asks for consent (“Accept all”): “We value your privacy."
    )
