"""Main text: no page loses it, and what surrounds it stays out. The pages are written as the tools of their kind write
them.
"""

import pytest

from almanac.transforms.html.markdown_writer import write_tree
from almanac.transforms.html.page import Part, html_to_markdown
from almanac.transforms.html.simplify import parse_page, simplify

_PROSE = [
    "The harbour was closed on Monday after a barge had struck the old lock gate, and divers found that both "
    "hinges were bent beyond repair.",
    "Work on a new gate begins in spring. Until then smaller boats use the northern canal, which was dredged last "
    "year for this purpose.",
    "The port authority expects that the whole repair will cost about four million, most of which the insurance "
    "of the barge has to bear.",
    "Fishermen welcomed the plan, since the northern canal leads straight to the market halls and spares them an "
    "hour on every trip.",
]


def _news(inside: str = "", opening: str = "", before_end: str = "", after: str = "") -> str:
    """A news page: navigation, an article with `inside` after its second paragraph, teasers, a footer."""
    menu = "".join(
        f"<li><a href='/{name}'>{name.title()} and more</a></li>"
        for name in ("politics", "sports", "culture", "weather", "travel", "cars")
    )
    teasers = "".join(
        (
            f"<div class='teaser'><h3><a href='/t{n}'>Teaser number {n} of the day</a></h3><p>Some lines that lead "
            "on.</p></div>"
        )
        for n in range(4)
    )
    first, second, *rest = (f"<p>{text}</p>" for text in _PROSE)
    return f"""<!doctype html><html><head><title>Lock gate broken - The Daily</title></head><body>
    <nav><ul>{menu}</ul></nav><div class="page"><div class="content"><article>
    <header><h1>Lock gate broken</h1>{opening}</header>
    <div class="article-body">{first}{second}{inside}{"".join(rest)}{before_end}</div></article>
    <div class="related-stories"><h2>More stories</h2>{teasers}</div>{after}</div></div>
    <footer><p>© The Daily. All rights reserved.</p></footer></body></html>"""


def _docbook(sections: int = 6) -> str:
    """A page of documentation as DocBook's style sheets write it: `div.para`, titles in boxes, notes in boxes,
    synopses, variable lists.
    """

    def section(number: int) -> str:
        return f"""<div class="section"><div class="titlepage"><div><div><h3 class="title">1.{number}. Option group {number}</h3></div></div></div>
        <div class="para">Short remark {number}.</div>
        <div class="para">The command <code>tool{number}</code> reads its settings from <code class="filename">/etc/tool{number}.conf</code>.</div>
        <div class="sidebar"><div class="titlepage"><div class="title"><strong>NOTE {number}</strong> Mind the order</div></div>
        <div class="para">Settings that are read later win over those that are read earlier, see <a href="#x">there</a>.</div></div>
        <pre class="screen">$ tool{number} --check</pre>
        <div class="variablelist"><dl><dt><span class="term">--quiet{number}</span></dt><dd><div class="para">Says nothing.</div></dd></dl></div>
        <div class="figure"><div class="figure-contents"><img src="f{number}.png"></div><div class="title">Figure {number}. The parts</div></div></div>"""  # noqa: E501

    return f"""<html><head><title>Options</title></head><body>
    <ul class="docnav"><li class="previous"><a href="a.html">Prev</a></li><li class="next"><a href="b.html">Next</a></li></ul>
    <div class="chapter"><div class="titlepage"><h2 class="title">Chapter 1. Options</h2></div>
    <div class="toc"><ul>{"".join(f"<li><a href='#s{n}'>1.{n}. Option group {n}</a></li>" for n in range(sections))}</ul></div>
    {"".join(section(n) for n in range(sections))}</div>
    <ul class="docnav"><li class="previous"><a href="a.html">Prev</a></li><li class="next"><a href="b.html">Next</a></li></ul></body></html>"""  # noqa: E501


def _main(html: str) -> str:
    return html_to_markdown(html, "main")


def test_a_news_page_is_its_article() -> None:
    text = _main(_news())
    assert text == "# Lock gate broken\n\n" + "\n\n".join(_PROSE)


@pytest.mark.parametrize(
    "opening",
    [
        "<p class='intro'>A barge has struck the old lock gate in the night to Monday, and for weeks no larger "
        "ship can pass into the harbour.</p>",
        "<div class='teaser-text'>A barge has struck the old lock gate in the night to Monday, and for weeks no "
        "larger ship can pass into the harbour.</div>",
        "<h2 class='deck'>A barge has struck the old lock gate in the night to Monday, and for weeks no larger "
        "ship can pass into the harbour.</h2>",
    ],
)
def test_an_opening_paragraph_stays(opening: str) -> None:
    assert "A barge has struck the old lock gate" in _main(_news(opening=opening))


@pytest.mark.parametrize(
    "surrounding",
    [
        "<div class='share-bar'><span>Share this</span><a href='https://x.example'>X</a><a "
        "href='https://f.example'>F</a></div>",
        "<figure><img src=a.jpg><figcaption class='caption'>The gate on Monday. Photo: J. Doe</figcaption></figure>",
        "<div class='newsletter'><p>Get the best stories of the week every Friday, straight into your mailbox, "
        "and never miss what happens in town.</p></div>",
        "<p><a href='/older'>Read also: The lock and its history</a></p>",
    ],
)
def test_what_interrupts_an_article_stays_out(surrounding: str) -> None:
    assert _main(_news(inside=surrounding)) == _main(_news())


@pytest.mark.parametrize(
    "inside",
    [
        "<ul><li><a href='/a'>Timetable of the northern canal</a></li><li><a href='/b'>Map of the harbour</a></li>"
        "</ul>",
        "<p>Not before May.</p>",
        "<table><tr><th>Canal</th><th>Depth</th></tr><tr><td>North</td><td>3 m</td></tr></table>",
        "<pre>depth = 3</pre>",
        "<blockquote><p>We shall manage.</p></blockquote>",
        "<aside class='admonition note'><p>Boats of more than three metres still have to wait outside, since the "
        "canal is too shallow for them.</p></aside>",
    ],
)
def test_parts_of_an_article_stay(inside: str) -> None:
    plain = write_tree(parse_page(f"<div>{inside}</div>"), frozenset())
    assert all(line in _main(_news(inside=inside)) for line in plain.splitlines() if line)


def test_a_heading_with_nothing_below_goes() -> None:
    assert "topic" not in _main(_news(before_end="<h3>More on this topic</h3>"))
    assert "topic" not in _main(_news(before_end="<p><b>More on this topic:</b></p>"))


def test_a_list_of_links_and_a_last_remark_at_the_end_of_a_text_stay() -> None:
    end = (
        "<p>Not before May.</p><h2>See also</h2><ul><li><a href='/a'>Timetable of the canal</a></li><li><a "
        "href='/b'>Map of the harbour</a></li></ul>"
    )
    assert "Not before May.\n\n## See also\n\n- Timetable of the canal\n- Map of the harbour" in _main(
        _news(before_end=end)
    )


def test_documentation_keeps_all_but_its_navigation() -> None:
    text = _main(_docbook())
    for number in range(6):
        assert (
            f"### 1.{number}. Option group {number}\n\nShort remark {number}.\n\nThe command tool{number} reads "
            f"its settings from /etc/tool{number}.conf."
        ) in text
        assert (
            f"NOTE {number} Mind the order\n\nSettings that are read later win over those that are read earlier, "
            "see there."
        ) in text
        assert f"```\n$ tool{number} --check\n```" in text
        assert f"--quiet{number}" in text
        assert f"Figure {number}. The parts" in text
    assert "Prev" not in text
    assert "- 1.0. Option group 0" not in text, "the table of contents repeats the headings"


def test_a_page_that_mostly_is_a_reference_does_not_become_its_only_sentence() -> None:
    calls = "".join(
        f"<div class='fn'><code>int lib_call_{n}(int a, char *b);</code></div><div class='ret'>Returns {n}.</div>"
        for n in range(40)
    )
    text = _main(
        "<html><body><div id=doc><h1>Calls</h1><p>Every call returns a number, and a negative one stands for an "
        f"error.</p>{calls}</div></body></html>"
    )
    assert all(f"lib_call_{n}(" in text and f"Returns {n}." in text for n in range(40))


def test_what_is_outside_of_main_stays_out() -> None:
    keys = (
        "<div id=help><h2>Keyboard shortcuts</h2><p>Press the left or right arrow to go from one chapter to the "
        "next one.</p></div>"
    )
    text = _main(
        f"<html><body>{keys}<main><h1>Locks</h1>{''.join(f'<p>{text}</p>' for text in _PROSE)}</main></body></html>"
    )
    assert "arrow" not in text
    assert text.endswith(_PROSE[-1])


def test_a_text_parted_by_line_breaks_is_divided_like_others() -> None:
    text = _main(_news().replace("</p><p>", "<br><br>"))
    assert text == _main(_news())


@pytest.mark.parametrize(
    "form",
    [
        "<form id=aspnetForm action=/x>{}</form>",
        "<div><form>{}<input type=hidden name=__VIEWSTATE value=x></form></div>",
    ],
)
def test_a_page_inside_a_form_is_read(form: str) -> None:
    page = _news()
    start, end = page.index("<nav>"), page.index("</body>")
    assert _main(page[:start] + form.format(page[start:end]) + page[end:]) == _main(page)


def test_a_page_of_links_is_its_links() -> None:
    text = _main(
        "<html><body><div><h1>All guides</h1><ul>"
        + "".join(f"<li><a href='/g{n}'>Guide number {n}</a></li>" for n in range(9))
        + "</ul></div></body></html>"
    )
    assert all(f"Guide number {n}" in text for n in range(9))


_OTHER_SCRIPTS = {
    "ja": """港は月曜日から閉鎖されている。古い水門にはしけが衝突し、蝶番が二つとも曲がったためである。修理には長い時間がかかると港湾局は昨日の会見で述べた。
新しい水門の工事は春に始まる。それまで小型船は北の運河を通ることになる。運河は昨年浚渫されており、市場まで直接つながっているので漁師には便利である。""",  # noqa: E501
    "vi": """Cảng đóng cửa từ thứ Hai sau khi một sà lan đâm vào cửa âu cũ, và thợ lặn thấy cả hai bản lề đã cong không thể sửa được nữa.
Việc làm cửa mới bắt đầu vào mùa xuân. Từ nay đến đó thuyền nhỏ đi theo kênh phía bắc, vốn đã được nạo vét năm ngoái.""",  # noqa: E501
    "he": """הנמל נסגר ביום שני אחרי שדוברה פגעה בשער הישן של התא, וצוללנים מצאו ששני הצירים התעקמו ואי אפשר לתקן אותם עוד.
העבודה על שער חדש תתחיל באביב. עד אז סירות קטנות ישתמשו בתעלה הצפונית, שהועמקה בשנה שעברה למטרה זו.""",  # noqa: E501
}


@pytest.mark.parametrize("language", _OTHER_SCRIPTS)
def test_texts_of_other_scripts_are_found(language: str) -> None:
    page, texts = _news(), _OTHER_SCRIPTS[language].splitlines()
    for old, new in zip(_PROSE, [*texts, *texts[::-1]], strict=True):
        page = page.replace(old, new)
    text = _main(page)
    assert all(new in text for new in texts)
    assert "Teaser" not in text
    assert "reserved" not in text


@pytest.mark.parametrize(
    ("html", "written"),
    [
        (
            "<ol start=3><li>three<li>four<ol><li>inner</ol><li value=9>nine</ol>",
            "3. three\n4. four\n  1. inner\n9. nine",
        ),
        ("<ul><li><p>one</p></li><li><p>two</p><p>more of two</p></li></ul>", "- one\n- two\n\nmore of two"),
        (
            "<table><tr><td><p>a</p></td><td><p>b</p><p>c</p></td></tr><tr><td>d</td><td></td></tr></table>",
            "| | |\n| --- | --- |\n| a | b c |\n| d | |",
        ),
        ("<p>one<br>line<br><br>next <b>one</b><br/> <br/>last</p>", "one line\n\nnext one\n\nlast"),
        ("<ul><li>a<pre>x = 1\ny</pre></li><li>b</li></ul>", "- a\n\n```\nx = 1\ny\n```\n\n- b"),
        ("<p>see <code>a</code>, <kbd>b</kbd></p>", "see a, b"),
    ],
)
def test_blocks_are_written_as_they_are_set(html: str, written: str) -> None:
    root = parse_page(html)
    simplify(root)
    assert write_tree(root) == written


_MENU = (
    "<header><a href=/>Acme</a><nav><ul><li><a href=/a>Products</a></li><li><a href=/b>Prices</a></li></ul></nav>"
    "</header>"
)
_CONSENT = "We use cookies to improve your experience on our website. By continuing you accept our use of cookies."
_SHORT_PAGES = {
    "table": (
        "<table><tr><th>City</th><th>People</th></tr><tr><td>Bern</td><td>134000</td></tr></table>",
        ["Bern | 134000"],
    ),
    "list": ("<ul><li>Milk</li><li>Bread</li><li>Butter</li></ul>", ["- Milk", "- Butter"]),
    "caption": ("<figure><img src=x alt=Sunset><figcaption>Sunset in May</figcaption></figure>", ["Sunset in May"]),
    "definitions": ("<dl><dt>Bow</dt><dd>front</dd><dt>Stern</dt><dd>back</dd></dl>", ["Bow: front", "Stern: back"]),
    "Chinese": ("<p>周一至周五九点到十七点。</p><p>周末休息。</p>", ["周一至周五", "周末休息"]),
}


@pytest.mark.parametrize("content", _SHORT_PAGES)
@pytest.mark.parametrize(
    "box",
    [
        f"<div id=cookie-banner class=cookie-consent><p>{_CONSENT}</p><button>Accept</button></div>",
        f"<amp-consent id=c><div>{_CONSENT}</div></amp-consent>",
        f"<div class=newsletter-signup><h3>News</h3><p>{_CONSENT}</p><form><input><button>Go</button></form></div>",
    ],
)
def test_a_short_page_is_not_what_its_boxes_ask(content: str, box: str) -> None:
    html, texts = _SHORT_PAGES[content]
    text = html_to_markdown(
        f"<html><body>{_MENU}<main><h1>Harbour</h1>{html}</main>{box}<footer><p>Imprint</p></footer></body></html>",
        "main",
    )
    assert [part for part in texts if part not in text] == []
    assert "Prices" not in text and (_CONSENT not in text or "newsletter" in box)


def test_a_page_about_cookies_is_read() -> None:
    box = (
        "<div class=cookie-info><p>We set a cookie named sid, which keeps you logged in for a week.</p><button>"
        "Settings</button></div>"
    )
    assert "named sid" in html_to_markdown(
        f"<html><body>{_MENU}<h1>Cookies</h1>{box}<footer><p>Imprint</p></footer></body></html>", "main"
    )


def test_a_page_of_nothing_but_a_question_is_that_question() -> None:
    assert _CONSENT in html_to_markdown(
        f"<html><body><div class=cookie-banner><p>{_CONSENT}</p><button>OK</button></div></body></html>", "main"
    )


def test_short_text_in_main_is_preferred_to_a_slogan_outside() -> None:
    page = (
        "<main><h1>Harbour</h1><figure><figcaption>Sunset in May</figcaption></figure></main><div class=bottom>"
        f"<p>{_PROSE[0]}</p></div>"
    )
    assert html_to_markdown(f"<html><body>{_MENU}{page}</body></html>", "main") == "# Harbour\n\nSunset in May"


def test_titles_of_cards_stay_where_they_are_links() -> None:
    cards = "".join(
        f"<div class=event><h3><a href=/e/{name}>{name}</a></h3><time>June {day}, 19:00</time><p>{note}.</p></div>"
        for name, day, note in (
            ("Jazz", 3, "Open air concert"),
            ("Book fair", 9, "Publishers from ten countries"),
            ("Night run", 21, "Along the river"),
        )
    )
    text = html_to_markdown(
        f"<html><body>{_MENU}<main><h1>Events</h1><div class=events>{cards}</div></main></body></html>", "main"
    )
    assert "### Jazz\n\nJune 3, 19:00\n\nOpen air concert." in text and "### Night run" in text


def _reference(entries: int = 6) -> str:
    """A reference of functions: headings that are links, a line of metadata above each text, listings in figures, types
    as links.
    """
    parts = "".join(
        f"""<section><h3><code>open{n}(path)</code><a class=mark href=#o{n}>#</a></h3><div class=api_metadata><span>Added in: v1.{n}</span></div>
        <p>Opens the file at the given path and returns a handle number {n}, which has to be closed by whoever asked for it, in every case.</p>
        <figure class=listing><pre><code>let f{n} = open{n}();</code></pre></figure><h4><a href=/t/{n}>impl Handle{n} for File{n}</a></h4>
        <p>See <a href=/h>{"Handle" * 3}</a>.</p></section>"""  # noqa: E501
        for n in range(entries)
    )
    return f"<html><body>{_MENU}<div id=content><h1>Files</h1>{parts}</div></body></html>"


def test_a_reference_keeps_code_linked_headings_and_metadata() -> None:
    text = html_to_markdown(_reference(), "main")
    assert [
        n
        for n in range(6)
        for part in (f"open{n}(path)", f"v1.{n}", f"let f{n} = open{n}();", f"impl Handle{n}")
        if part not in text
    ] == []


def test_a_reference_of_which_nearly_all_is_its_first_paragraph_keeps_the_rest() -> None:
    described = (
        f"<section class=description><h2>Class Writer</h2><div class=block>{' '.join(_PROSE * 3)}</div></section>"
    )
    details = (
        "<section class=detail><h3>write_all</h3><div class=block>Returns a number.</div><dl class=notes><dt>"
        "Throws:</dt><dd>IOException</dd></dl></section>"
    )
    page = f"<main>{described}<section class=details><ul class=member-list><li>{details}</li></ul></section></main>"
    text = html_to_markdown(f"<html><body>{_MENU}{page}</body></html>", "main")
    assert [part for part in ("write_all", "Returns a number.", "IOException") if part not in text] == []


def test_a_list_below_the_only_paragraph_stays() -> None:
    links = (
        "<div class=header><p>Next: <a href=i>Index</a>, Previous: <a href=m>Memory Usage</a>, Up: <a href=u>"
        "libffi</a> &nbsp; [<a href=i>Index</a>]</p></div>"
    )
    lines = (
        "<ul><li> Variadic closures.\n\n</li><li> There is no support for bit fields in structures.\n\n</li><li> "
        "The raw API is undocumented.\n</li></ul>"
    )
    page = (
        f"<div class=chapter>{links}<hr><h2>4 Missing Features</h2><p><code>libffi</code> is missing a few "
        f"features.  We welcome patches.</p>{lines}</div><hr>"
    )
    assert "- Variadic closures." in html_to_markdown(f"<html><body>{page}</body></html>", "main")


def test_the_title_stays_where_it_leads_to_its_page() -> None:
    prose = "".join(f"<p>{text}</p>" for text in _PROSE)

    def heading(href: str, title: str) -> str:
        page = (
            f"<header><h1><a href='{href}'>Backup fails</a></h1><nav><a href=/a>Board</a></nav></header><div "
            f"class=post>{prose}</div>"
        )
        return html_to_markdown(f"<html><head><title>{title}</title></head><body>{page}</body></html>", "main").split(
            "\n"
        )[0]

    assert heading("/t/backup-fails/1", "Backup fails - Forum") == "# Backup fails"
    assert heading("/", "Backup fails - Forum") == _PROSE[0]  # the site's name
    assert heading("https://x.example/de/", "Backup fails - Forum") == _PROSE[0]
    assert heading("/blog/x", "First post - Backup fails") == _PROSE[0]


@pytest.mark.parametrize("part", ["main", "all"])
def test_a_page_whose_text_the_parser_puts_into_its_head_is_read(part: Part) -> None:
    text = html_to_markdown(f"<!doctype html><title>Locks</title><main><p>{'</p><p>'.join(_PROSE)}</p></main>", part)
    assert text == "\n\n".join(_PROSE)


def test_a_paragraph_that_links_to_another_site_stays() -> None:
    """As trafilatura keeps it; a link to the site itself, such as to an older article, goes."""
    link = (
        "<p>See <a href='https://{}.example/x'>the harbour's own account of what happened in that night, with "
        "pictures and maps of the gate</a></p>"
    )
    page = _news(inside=link.format("HOST")).replace("href='/", "href='https://daily.example/")
    assert "pictures and maps" in _main(page.replace("HOST", "elsewhere"))
    assert "pictures and maps" not in _main(page.replace("HOST", "daily"))


def test_an_opening_below_a_title_that_is_no_first_heading_stays() -> None:
    page = (
        _news()
        .replace("<h1>", "<h3>")
        .replace("</h1></header>", "</h3></header><div class='teaser-text'>A barge has struck the gate.</div>")
    )
    assert "A barge has struck the gate." in _main(page)


def test_a_short_page_is_without_its_footer() -> None:
    content = "<main><h2>Paddle length</h2><p>Short.</p><p>In wind take less.</p></main>"
    assert (
        _main(f"<html><body><nav><a href='/'>Home</a></nav>{content}<footer>© Lyngen</footer></body></html>")
        == "## Paddle length\n\nShort.\n\nIn wind take less."
    )


_MENUS = {
    "en": ["Home", "Products", "Services", "About us", "Contact"],
    "fr": ["Accueil", "Produits", "Services", "À propos", "Contact"],
    "vi": ["Trang chủ", "Sản phẩm", "Dịch vụ", "Giới thiệu", "Liên hệ"],
    "ar": ["الرئيسية", "المنتجات", "الخدمات", "من نحن", "اتصل بنا"],
}
_TEAMS = {
    "en": (
        "Our team",
        [
            ("Ada Byrne", "Managing director", "ada@example.org", "+44 20 7946 0001"),
            ("Mei Lin", "Support", "mei@example.org", "+44 20 7946 0002"),
        ],
    ),
    "fr": (
        "Notre équipe",
        [
            ("Zoé Petit", "Comptabilité", "zoe@exemple.fr", "+33 1 23 45 67 01"),
            ("Luc Roy", "Ventes", "luc@exemple.fr", "+33 1 23 45 67 02"),
        ],
    ),
    "vi": (
        "Đội ngũ",
        [
            ("Nguyễn Văn An", "Giám đốc", "an@vidu.vn", "+84 24 3825 0001"),
            ("Lê Minh", "Hỗ trợ khách hàng", "minh@vidu.vn", "+84 24 3825 0002"),
        ],
    ),
    "ar": (
        "فريقنا",
        [
            ("ليلى حسن", "المديرة", "laila@mithal.example", "+20 2 2579 0001"),
            ("عمر سعيد", "المبيعات", "omar@mithal.example", "+20 2 2579 0002"),
        ],
    ),
}


def _in_boxes(language: str, content: str, title: str = "") -> str:
    """A page of nothing but boxes, whose navigation and footer are told by class names."""
    links = "".join(
        f"<div class=item><a href='/{number}'>{name}</a></div>" for number, name in enumerate(_MENUS[language])
    )
    footer = (
        "<div class='site-footer'><div>Example Ltd</div><div><a href='mailto:web@example.org'>web@example.org</a>"
        "</div></div><div>© 2026 Example</div>"
    )
    return (
        f"<html><head><title>{title}</title></head><body><div class=page><div class=navigation>{links}</div>"
        f"{content}{footer}</div></body></html>"
    )


@pytest.mark.parametrize("language", _TEAMS)
@pytest.mark.parametrize("name", ["<div class=name>{}</div>", "<h3><a href='/team/{0}'>{0}</a></h3>"])
@pytest.mark.parametrize(
    "intro",
    ["", f"<p>{_PROSE[0]}</p>", f"<p>{_PROSE[0]}</p><p>See <a href='/a'>{_PROSE[1]}</a>.</p><p>{_PROSE[2]}</p>"],
)
def test_cards_of_a_team_stay(language: str, name: str, intro: str) -> None:
    """Whether the page is short, all text, or has links of its own."""
    title, people = _TEAMS[language]
    cards = "".join(
        f"<div class=card>{name.format(who)}<div class=role>{role}</div><div class=mail><a href='mailto:{mail}'>"
        f"{mail}</a></div>"
        f"<div class=phone><a href='tel:{phone.replace(' ', '')}'>{phone}</a></div></div>"
        for who, role, mail, phone in people
    )
    text = _main(_in_boxes(language, f"<div class=content><h1>{title}</h1>{intro}<div class=team>{cards}</div></div>"))
    lines = [line.lstrip("# ") for line in text.split("\n") if line]
    assert lines[0] == title
    assert lines[-8:] == [line for person in people for line in person]


@pytest.mark.parametrize(
    ("before", "mail", "phone"),
    [
        ("For orders:", "sales@example.org", "+44 20 7946 0000"),
        ("Pour toute commande :", "ventes@exemple.fr", "+33 1 23 45 67 89"),
        ("ご注文：", "order@rei.jp", "03-1234-5678"),
    ],
)
@pytest.mark.parametrize(
    "links",
    [
        "<p>See <a href='/a'>the history of the port and its old lock gates, in pictures that were taken from a "
        "balloon</a>.</p>",
        "",
    ],
)
def test_lines_that_are_an_address_or_a_number_stay(before: str, mail: str, phone: str, links: str) -> None:
    box = (
        f"<div class=reach><h2>{before}</h2><div><a href='mailto:{mail}'>{mail}</a></div><div><a "
        f"href='tel:{phone}'>{phone}</a></div></div>"
    )
    text = _main(
        _in_boxes(
            "en",
            "<div class=content><h1>Port</h1><div class=text>"
            f"{''.join(f'<p>{paragraph}</p>' for paragraph in _PROSE)}{links}</div>{box}</div>",
        )
    )
    assert text.endswith(f"## {before}\n\n{mail}\n\n{phone}")


def test_links_that_share_by_mail_or_write_to_the_editors_are_no_text() -> None:
    share = "<div class=tools><a href='mailto:?subject=Lock'>Send</a> <a href='/print'>Print</a></div>"
    editors = "<div class=tools><p><a href='mailto:editors@daily.example'>Report an error</a></p></div>"
    assert _main(_news(inside=share + editors)) == _main(_news())


_SHORT_TEXTS = {
    "en": ("Opening hours", ["Monday to Friday: 9 to 17", "Sunday: closed"]),
    "fr": ("Horaires", ["Du lundi au vendredi : 9 h – 17 h", "Dimanche : fermé"]),
    "vi": ("Giờ mở cửa", ["Thứ Hai đến thứ Sáu: 9 giờ – 17 giờ", "Chủ nhật: nghỉ"]),
    "ar": ("ساعات العمل", ["من الاثنين إلى الجمعة: ٩ – ١٧", "الأحد: مغلق"]),
}


@pytest.mark.parametrize("language", _SHORT_TEXTS)
@pytest.mark.parametrize("heading", ["<h1>{}</h1>", "<h2>{}</h2>", "<div>{}</div>"])
@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("navigation", ["navigation", "n"])
def test_a_short_page_of_boxes_keeps_its_lines_and_loses_its_navigation(
    language: str, heading: str, copies: int, navigation: str
) -> None:
    """However long the navigation is, and also where its name does not tell."""
    title, lines = _SHORT_TEXTS[language]
    rows = "".join(f"<div class=row><div>{line}</div></div>" for line in lines)
    page = _in_boxes(language, f"<div class=x><div>{heading.format(title)}{rows}</div></div>", title).replace(
        "=navigation", f"={navigation}"
    )
    items = page[page.index("<div class=item>") : page.index("</div><div class=x>")]
    page = page.replace(items, items * copies)
    text = _main(page)
    assert [line.lstrip("# ") for line in text.split("\n") if line] == [title, *lines]


def test_a_page_of_links_keeps_those_below_its_heading() -> None:
    links = "".join(f"<div><a href='/g/{number}'>Guide {number}</a></div>" for number in range(12))
    for content in (
        f"<div class=a><h1>Guides</h1></div><div class=b>{links}</div>",
        f"<div class=a><div>Guides</div><div>All of ours.</div></div><div class=b>{links}</div>",
    ):
        text = _main(_in_boxes("en", content, "Guides"))
        assert "Guide 0\n\nGuide 1" in text
        assert "Products" not in text
    alone = _main(f"<html><body><div class=nav>{links}</div></body></html>")
    assert "Guide 0" in alone and "Guide 11" in alone


def test_a_menu_that_is_what_the_page_is_about_stays() -> None:
    meals = "".join(
        f"<div class=dish><div>{name}</div><div>{price} €</div></div>"
        for name, price in (("Pho", 9), ("Couscous", 11), ("Knödel", 8))
    )
    text = _main(_in_boxes("en", f"<div class=menu><h2>Menu</h2>{meals}</div>"))
    assert text == "## Menu\n\nPho\n\n9 €\n\nCouscous\n\n11 €\n\nKnödel\n\n8 €"
