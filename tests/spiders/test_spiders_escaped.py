"""HTML that feeds and data hold as text: escaped, in CDATA, or as elements, it is read alike."""

from html import escape
from typing import Any

import pytest

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Draft, Page
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.mapping.values import convert
from almanac.spiders.reading.markup import parse_markup
from almanac.spiders.selecting.selectors import markup_of
from almanac.transforms.html.page import html_to_markdown

_CONTENTS = {
    "en": (
        "<p>The <b>lock</b> is shut.</p><ul><li>until May &amp; longer</li></ul>",
        "The lock is shut.\n\n* until May & longer",
    ),
    "fr": (
        "<p>L&eacute;cluse est <b>ferm&#233;e</b>.</p><ul><li>jusqu'en mai</li></ul>",
        "Lécluse est fermée.\n\n* jusqu'en mai",
    ),
    "vi": ("<div><p>Cảng <i>đóng cửa</i>.</p><p>Đến tháng Năm</p></div>", "Cảng đóng cửa.\n\nĐến tháng Năm"),
    "ar": ("<p>الميناء <b>مغلق</b>.</p><p hidden>مخفي</p><script>x('<p>')</script>", "الميناء مغلق."),
}
_FEEDS = {
    "RSS": ("<rss><channel><item><title>T</title>{}</item></channel></rss>", "description", "//item", ""),
    "RSS content": (
        "<rss xmlns:content='http://purl.org/rss/1.0/modules/content/'><channel><item><title>T</title>{}</item>"
        "</channel></rss>",
        "content:encoded",
        "//item",
        "",
    ),
    "Atom": (
        "<feed xmlns='http://www.w3.org/2005/Atom'><entry><title>T</title>{}</entry></feed>",
        "content",
        "//entry",
        " type='html'",
    ),
}


def _drafts(feed: str, each: str, **keys: Any) -> list[Draft]:
    page = Page(url="http://x.test/feed", body=feed.encode(), content_type="application/xml; charset=utf-8")
    source = SiteSource.model_validate(
        {"name": "s", "kind": "site", "start_urls": ["http://x.test/"], "each": {"xpath": each}, **keys}
    )
    return [draft for extraction in map_pages([page], source, "en") for draft in extraction.drafts]


def _field(name: str, kind: str = "html") -> dict[str, Any]:
    return {"yields": "records", "fields": {"text": {"xpath": name, "type": kind}}}


@pytest.mark.parametrize("language", _CONTENTS)
@pytest.mark.parametrize("form", _FEEDS)
@pytest.mark.parametrize("write", [escape, "<![CDATA[{}]]>".format])
def test_html_in_a_feed_is_read_as_html(language: str, form: str, write: Any) -> None:
    (frame, name, each, kind), (html, text) = _FEEDS[form], _CONTENTS[language]
    feed = frame.format(f"<{name}{kind}>{write(html)}</{name}>")
    assert [draft.fields["text"] for draft in _drafts(feed, each, **_field(name))] == [text]
    for body in ({"body": {"xpath": name}}, {}):  # a document's declared body, and the whole item
        (draft,) = _drafts(feed, each, yields="documents", **body)
        assert text.split("\n")[0] in html_to_markdown(draft.body or "", "all").split("\n")
        assert "<" not in html_to_markdown(draft.body or "", "all") and "مخفي" not in (draft.body or "")


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ("<content type='text'>write &lt;p&gt; for a paragraph</content>", "write <p> for a paragraph"),
        (
            "<content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'><p>Ein <b>Hafen</b></p><p>zwei</p>"
            "</div></content>",
            "Ein Hafen\n\nzwei",
        ),
        ("<content type='html'>a &amp;amp; b</content>", "a & b"),
        ("<content>Giá &lt; 5 &amp;amp; List&lt;String&gt;</content>", "Giá < 5 & List<String>"),
        ("<content>prix &lt; 5 &amp; Map&lt;K, V&gt;</content>", "prix < 5 & Map<K, V>"),
        ("<content/>", None),
    ],
)
def test_text_in_a_feed_stays_text(element: str, text: str | None) -> None:
    feed = (
        f"<feed xmlns='http://www.w3.org/2005/Atom'><entry>{element}</entry><entry><content>z</content></entry></feed>"
    )
    assert _drafts(feed, "//entry", **_field("content"))[0].fields.get("text") == text


def test_code_in_other_xml_and_titles_stay_as_they_are_written() -> None:
    page = "<article><programlisting>&lt;p&gt;Hello&lt;/p&gt;</programlisting><para>x</para></article>"
    assert markup_of(parse_markup(page, "xml")) == page
    item = (
        "<rss><channel><item><title>The &lt;p&gt; element</title><description>&lt;p&gt;One&lt;/p&gt;</description>"
        "</item></channel></rss>"
    )
    assert "The &lt;p&gt; element" in markup_of(parse_markup(item, "xml").xpath("//item")[0])


@pytest.mark.parametrize(("value", "text"), [(escape(html), text) for html, text in _CONTENTS.values()])
def test_escaped_html_in_data_is_read_as_html(value: str, text: str) -> None:
    assert convert(value, "html") == text


@pytest.mark.parametrize(
    "value", ["&lt;p&gt; begins a <i>paragraph</i>", "<p>&lt;b&gt;fett&lt;/b&gt;</p>", "&lt;K, V&gt;", "a &lt; b"]
)
def test_escaped_characters_in_html_stay_characters(value: str) -> None:
    assert "<" in convert(value, "html")
