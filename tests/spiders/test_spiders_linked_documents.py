"""Documents that pages of a site lead to: fetched, told by content, named, read and left out by type, under the rules
of pages.
"""

import http.server
import io
import threading
import time
import zipfile
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from almanac.flows.pipeline.fingerprints import mapping_of
from almanac.schemas.crawl_outcome import CrawlOutcome
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import NoRecords
from almanac.schemas.items import Draft, Reject
from almanac.spiders.crawling.crawl import crawl_site, fetch_site
from almanac.spiders.crawling.fetching_fingerprint import fetching_of
from almanac.spiders.crawling.previous_crawls import PreviousCrawls
from almanac.spiders.mapping.inspect_url import inspect_url
from almanac.spiders.mapping.pages import map_pages
from almanac.spiders.reading.linked_types import (
    MEDIA_TYPES,
    may_be_document,
    sent_name,
    type_of_content,
    type_of_headers,
    type_of_name,
)
from almanac.spiders.selecting.linked_documents import LinkTexts
from almanac.spiders.store.raw import RawStore
from tests.spiders.files import column, docx, paragraph, pdf
from tests.spiders.test_spiders_crawl import source
from tests.spiders.test_spiders_previous_crawls import kill_when

if TYPE_CHECKING:
    from tests.spiders.conftest import Site

FETCH = ["html", "pdf", "docx"]
_PDF, _DOCX, _BYTES = MEDIA_TYPES["pdf"], MEDIA_TYPES["docx"], "application/octet-stream"


def report(text: str, title: str = "") -> bytes:
    """A PDF whose text is `text` and more, which has no title but a declared one."""
    return pdf(
        [
            column(
                [
                    text,
                    *[
                        f"line {number} of a paragraph that is too long to be a title of anything"
                        for number in range(9)
                    ],
                ]
            )
        ],
        title=title,
    )


def note(text: str) -> bytes:
    return docx(paragraph(text))


class Crawls:
    """Crawls of one site, one after another."""

    def __init__(self, site: "Site", folder: Path, **keys: Any) -> None:
        self.site, self.raw, self.source = site, RawStore(folder), source(site, **{"fetch": FETCH, **keys})
        self.number = 0

    def __call__(self, **keys: Any) -> CrawlOutcome:
        self.number += 1
        previous = PreviousCrawls(concluded=f"r{self.number - 1}" if self.number > 1 else None, **keys)
        self.site.requests.clear()
        self.site.sent.clear()
        return crawl_site(self.source, self.raw, f"r{self.number}", previous=previous)

    @property
    def stored(self) -> list[str]:
        return [page.url.removeprefix(self.site.base) for page in self.raw.pages(f"r{self.number}")]

    @property
    def items(self) -> dict[str, Draft]:
        extractions = map_pages(self.raw.pages(f"r{self.number}"), self.source, "en")
        return {
            draft.url.removeprefix(self.site.base): draft for extraction in extractions for draft in extraction.drafts
        }

    @property
    def rejects(self) -> dict[str, Reject]:
        extractions = map_pages(self.raw.pages(f"r{self.number}"), self.source, "en")
        return {
            reject.url.removeprefix(self.site.base): reject
            for extraction in extractions
            for reject in extraction.rejects
        }


def not_fetched(outcome: CrawlOutcome) -> dict[str, int]:
    return {unfetched.type: unfetched.documents for unfetched in outcome.not_fetched}


def test_documents_are_told_by_content_and_not_by_their_names(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    paths = [
        "/a.pdf",
        "/saved",
        "/page.pdf",
        "/b.docx",
        "/zipped",
        "/untold",
        "/mistaken",
        "/blob",
        "/archive",
        "/moved",
        "/named",
        "/label.pdf",
    ]
    site.page("/", "".join(f"<a href='{path}'>See {path}</a>" for path in paths))
    site.page("/a.pdf", report("first"), content_type=_PDF)
    site.page("/saved", report("second"), content_type=_BYTES)
    site.page("/page.pdf", "<!doctype html><title>Viewer</title><p>A page about the report", content_type=_PDF)
    site.page("/b.docx", note("third"), content_type=_DOCX)
    site.page("/zipped", note("fourth"), content_type="application/zip")
    site.page("/untold", report("fifth"), content_type=None)
    site.page("/mistaken", report("sixth"), content_type="text/html")
    site.page("/blob", b"\0\1" * 200_000, content_type=_BYTES)
    site.page("/archive", b"PK\3\4" + b"\0" * 26 + b"photo.jpg" + b"\0" * 200_000, content_type="application/zip")
    site.page("/moved", status=302, headers={"Location": "/f/landed"})
    site.page("/f/landed", report("seventh"), content_type="Application/X-PDF; qs=0.1")
    site.page(
        "/named",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" * 15_000,
        content_type=_BYTES,
        headers={"Content-Disposition": "attachment; filename=old.docx"},
    )
    site.page("/label.pdf", "<p>moved</p>", content_type="text/html")
    crawls = Crawls(site, tmp_path)
    outcome = crawls()
    assert {failure.url.removeprefix(site.base): failure.reason for failure in outcome.failures} == {
        "/blob": "not_text",
        "/archive": "not_text",
    }
    bodies = {path: (draft.body or "").strip().removeprefix("page=1\n") for path, draft in crawls.items.items()}
    assert [bodies[path].partition(" line")[0] for path in ("/a.pdf", "/saved", "/b.docx", "/zipped", "/untold",
    "/mistaken", "/f/landed")] == [
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh",
    ]  # fmt: skip
    assert "A page about the report" in bodies["/page.pdf"] and "moved" in bodies["/label.pdf"]
    assert {path: reject.reason for path, reject in crawls.rejects.items()} == {
        "/named": "it is in an old format of Office, or needs a password: save it anew, without one"
    }
    assert (outcome.not_fetched, outcome.pages.fetched) == ([], 11)


def test_a_declared_element_is_sought_in_no_document(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/", "<a href=/broken.pdf>P</a><a href=/old>O</a>" + "<p>Papers")
    site.page("/broken.pdf", b"%PDF-1.4 of which nothing can be read", content_type=_PDF)
    site.page("/old", "<p class=withdrawn>Withdrawn")
    outcome = Crawls(site, tmp_path, gone={"css": ".withdrawn"})()
    assert (outcome.finish, outcome.pages.fetched, outcome.pages.gone, outcome.limits_reached) == ("finished", 2, 1, [])


def test_without_the_type_documents_are_not_asked_for_and_counted_by_type(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site = loopback_site
    links = (
        "<a href=/a.pdf>A</a><a href='/b.PDF?v=2#page=3'>B</a><a href=/c.docx>C</a><a href=/d.doc>D</a><a "
        "href=/e/download>E</a><a href=/x.jpg>X</a>"
    )
    site.page("/", links + "<a href=/more>more</a><a href=/secret.pdf>S</a><a href=http://127.0.0.2:9/away.pdf>off</a>")
    site.page("/more", links)
    site.page("/e/download", report("a report"), content_type=_BYTES)
    outcome = Crawls(site, tmp_path, fetch=["html"], follow={"deny": ["/secret"]})()
    assert not_fetched(outcome) == {"pdf": 3, "docx": 1, "doc": 1}
    remedies = {unfetched.type: unfetched.remedy for unfetched in outcome.not_fetched}
    assert remedies == {"pdf": "fetch: [html, pdf]", "docx": "fetch: [html, docx]", "doc": "this type cannot be read"}
    assert outcome.not_fetched[0].urls == [f"{site.base}/a.pdf", f"{site.base}/b.PDF?v=2"]
    assert {path for path in site.requests if path != "/robots.txt"} == {"/", "/more", "/e/download"}
    page = inspect_url(source(site), f"{site.base}/more", "en")
    assert {unfetched.type: unfetched.documents for unfetched in page.links.not_fetched} == {
        "pdf": 2,
        "docx": 1,
        "doc": 1,
    }
    with pytest.raises(NoRecords, match="not_text") as caught:
        inspect_url(source(site), f"{site.base}/e/download", "en")
    assert caught.value.hint is not None
    site.page("/a.pdf", report("x"), content_type=_PDF)
    with pytest.raises(NoRecords, match="not_text") as caught:
        inspect_url(source(site), f"{site.base}/a.pdf", "en")
    assert "fetch: [html, pdf]" in str(caught.value.hint)


def test_policy_limits_robots_and_sizes_hold_for_documents(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page("/robots.txt", "User-agent: *\nDisallow: /kept/\n", content_type="text/plain")
    names = [
        "/in/a.pdf",
        "/in/b.pdf",
        "/out/c.pdf",
        "/in/denied.pdf",
        "/kept/d.pdf",
        "/in/large.pdf",
        "/in/quiet.pdf",
        "/in/broken.pdf",
        "/in/c.docx",
    ]
    site.page(
        "/in/",
        "".join(f"<a href='{name}'>{name}</a>" for name in names) + "<a href=http://127.0.0.2:9/in/away.pdf>off</a>",
    )
    for name in names:
        site.page(name, report(name), content_type=_PDF)
    site.page("/in/large.pdf", report("x" * 3000), content_type=_PDF)
    site.page("/in/quiet.pdf", report("quiet"), content_type=_PDF, headers={"X-Robots-Tag": "noindex"})
    site.page("/in/broken.pdf", status=503)
    keys = {
        "fetch": ["html", "pdf"],
        "follow": {"allow": ["/in/", "/kept/"], "deny": ["denied"]},
        "start_urls": [f"{site.base}/in/"],
    }
    crawls = Crawls(site, tmp_path, limits={"bytes_per_page": 3000}, **keys)
    outcome = crawls()
    assert sorted(crawls.items) == ["/in/", "/in/a.pdf", "/in/b.pdf"]
    reasons = {failure.url.removeprefix(site.base): failure.reason for failure in outcome.failures}
    assert reasons == {
        "/kept/d.pdf": "refused_by_robots", "/in/large.pdf": "too_large", "/in/quiet.pdf": "noindex",
        "/in/broken.pdf": "server_error",
    }  # fmt: skip
    assert (
        not_fetched(outcome),
        site.requests["/in/broken.pdf"],
        site.requests["/out/c.pdf"],
        site.requests["/in/denied.pdf"],
    ) == ({"docx": 1}, 3, 0, 0)
    limited = Crawls(site, tmp_path / "limited", limits={"pages": 2}, **keys)
    assert (limited().finish, len(limited.stored)) == ("pages", 2)


def test_a_document_that_did_not_change_is_not_sent_again_and_one_that_is_gone_goes(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site = loopback_site
    site.page("/", "<a href=/a.pdf>The yearly report</a><a href=/b.pdf>The plan</a><a href=/c.pdf>The budget</a>")
    for name in "abc":
        site.page(
            f"/{name}.pdf",
            report(name),
            content_type=_PDF,
            headers={"ETag": f'"{name}"', "Content-Disposition": f"inline; filename={name}-2024.pdf"},
        )
    crawls = Crawls(site, tmp_path)
    crawls()
    before = crawls.raw.index("r1").fingerprint
    assert crawls().pages.unchanged == 3
    assert [site.sent[f"/{name}.pdf"] for name in "abc"] == [0, 0, 0]
    assert crawls.raw.index("r2").fingerprint == before and crawls.items["/a.pdf"].title == "The yearly report"
    site.page("/b.pdf", status=410)
    site.page("/c.pdf", status=503)
    outcome = crawls()
    assert (outcome.pages.gone, outcome.kept, sorted(crawls.items)) == (1, 1, ["/", "/a.pdf", "/c.pdf"])
    assert crawls.items["/c.pdf"].title == "The budget"  # kept as it was
    site.page("/", "<a href=/a.pdf>The yearly report</a>")
    outcome = crawls()
    assert outcome.vanished == [f"{site.base}/c.pdf"]
    whole = Crawls(site, tmp_path / "anew")
    whole()
    assert whole.raw.index("r1").fingerprint == crawls.raw.index("r4").fingerprint
    crawls.source = source(site, fetch=["html"])
    assert crawls().vanished == [f"{site.base}/a.pdf"]


def test_a_document_without_a_title_is_called_what_its_links_call_it(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    names = {
        "/1.pdf": "Download PDF",
        "/2.pdf": "Yearly  report\n2024",
        "/3.pdf": "Statement",
        "/4.pdf": "Statement",
        "/5.pdf": "Read here",
        "/6.pdf": "Seen",
    }
    site.page(
        "/",
        "".join(f"<a href='{name}'><b>{text}</b></a>" for name, text in names.items())
        + "<a href=/more>m</a><a href=/hop>By a hop</a>",
    )
    site.page("/more", "<a href=/2.pdf>Report</a><a href=/2.pdf>Yearly report 2024</a>")
    for number, name in enumerate(names):
        headers = {"Content-Disposition": "attachment; filename*=UTF-8''%C3%9Cber%20uns.pdf"} if number == 0 else {}
        site.page(
            name,
            report(f"text {number}", title="Its own title" if name == "/6.pdf" else ""),
            content_type=_PDF,
            headers=headers,
        )
    site.page("/7.pdf", report("the seventh"), content_type=_PDF)
    site.page("/hop", status=302, headers={"Location": "/7.pdf"})
    crawls = Crawls(site, tmp_path)
    crawls()
    titles = {path: draft.title for path, draft in crawls.items.items() if path.endswith(".pdf")}
    assert titles == {
        "/1.pdf": "Über uns", "/2.pdf": "Yearly report 2024", "/3.pdf": "3", "/4.pdf": "4", "/5.pdf": "5",
        "/6.pdf": "Its own title", "/7.pdf": "By a hop",
    }  # fmt: skip
    fetch_site(crawls.source, crawls.raw, "r2", previous=PreviousCrawls(concluded="r1"), only=[f"{site.base}/2.pdf"])
    assert {page.url: page.link_text for page in crawls.raw.pages("r2")}[f"{site.base}/2.pdf"] == "Yearly report 2024"


def test_names_of_documents_do_not_depend_on_the_order_of_pages() -> None:
    pages = [
        [("a", "Plan"), ("b", "Budget")],
        [("a", "The plan"), ("b", "Budget")],
        [("a", "The plan")],
        [("c", "Budget")],
    ]
    for order in (pages, pages[::-1]):
        texts = LinkTexts()
        for document in ("c", "b", "a") if order is pages else ("a", "b", "c"):
            texts.arrived(document, f"http://x.test/{document}")
        for page in order:
            texts.note(page)
        assert texts.names() == {"http://x.test/a": "The plan", "http://x.test/b": "", "http://x.test/c": ""}


@pytest.mark.parametrize("direct", [True, False])
def test_names_of_documents_do_not_depend_on_whether_a_redirect_comes_first(
    loopback_site: "Site", tmp_path: Path, direct: bool
) -> None:
    site = loopback_site
    texts = {"/get/12": "Annual report", "/get/13": "Annual report", "/r.pdf": "The yearly report"}
    site.page("/", "".join(f"<a href={path}>{text}</a>" for path, text in sorted(texts.items(), reverse=direct)))
    site.page("/get/12", status=302, headers={"Location": "/get/13"})
    site.page("/get/13", status=302, headers={"Location": "/r.pdf"}, delay_s=0.3 if direct else 0)
    site.page("/r.pdf", report("text"), content_type=_PDF)
    crawls = Crawls(site, tmp_path, politeness={"per_domain": 1})
    crawls()
    assert [draft.title for draft in crawls.items.values() if draft.body and "line 0" in draft.body] == [
        "Annual report"
    ]


def test_a_page_that_fails_or_is_not_reached_takes_no_name_from_its_documents(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site = loopback_site
    site.page("/sitemap.txt", f"{site.base}/a.pdf\n", content_type="text/plain")
    site.page("/", "<a href=/downloads>all</a>")
    site.page("/downloads", "<a href=/a.pdf>Annual report 2024</a>")
    site.page("/a.pdf", report("text"), content_type=_PDF, headers={"ETag": '"a"'})
    crawls = Crawls(site, tmp_path, sitemaps=[f"{site.base}/sitemap.txt"])
    crawls()
    site.page("/downloads", status=503)
    crawls()
    assert crawls.items["/a.pdf"].title == "Annual report 2024"
    site.page("/downloads", "<a href=/a.pdf>Annual report 2024</a>")
    crawls.source = crawls.source.model_copy(update={"limits": crawls.source.limits.model_copy(update={"pages": 2})})
    assert (crawls().finish, crawls.items["/a.pdf"].title) == ("pages", "Annual report 2024")
    crawls.source = source(site, fetch=FETCH, sitemaps=[f"{site.base}/sitemap.txt"])
    site.page("/", "<a href=/new>new")
    site.page("/new", status=503)
    assert (crawls().finish, crawls.items["/a.pdf"].title) == ("finished", "Annual report 2024"), (
        "a page of which there is no copy may link to it"
    )
    site.page("/", "<a href=/downloads>all</a>")
    site.page("/downloads", "<p>moved")
    assert (crawls().finish, crawls.items["/a.pdf"].title) == ("finished", "a")


def test_sitemaps_and_cards_lead_to_documents(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    named = "".join(f"<url><loc>{site.base}{path}</loc></url>" for path in ("/page", "/a.pdf", "/b.docx"))
    site.page(
        "/sitemap.xml",
        f"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{named}</urlset>",
        content_type="application/xml",
    )
    site.page("/page", "<p>a page")
    site.page("/a.pdf", report("from the sitemap"), content_type=_PDF)
    crawls = Crawls(site, tmp_path / "map", start_urls=[], sitemaps=[f"{site.base}/sitemap.xml"], fetch=["html", "pdf"])
    assert not_fetched(crawls()) == {"docx": 1} and sorted(crawls.items) == ["/a.pdf", "/page"]
    site.page(
        "/", "<li><a href=/a.pdf>A</a><i>2024</i></li><li><a href=/page>P</a><i>2023</i></li><a href=/other.pdf>O</a>"
    )
    listing = {
        "match": "/$",
        "each": {"css": "li"},
        "link": {"css": "a"},
        "fields": {"year": {"css": "i", "type": "integer", "required": True}},
    }
    crawls = Crawls(site, tmp_path / "cards", listing=listing)
    outcome = crawls()
    assert {path: draft.fields for path, draft in crawls.items.items()} == {
        "/a.pdf": {"year": 2024},
        "/page": {"year": 2023},
    }
    assert not_fetched(outcome) == {"pdf": 1} and "`listing`" in outcome.not_fetched[0].remedy


def test_what_is_declared_for_pages_leaves_documents_whole(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    site.page(
        "/",
        "<main><h1>Home</h1>text</main><footer>foot</footer><a href=/a.pdf>Report A</a><a href=/locked.pdf>Locked</a>",
    )
    site.page("/a.pdf", report("all of it"), content_type=_PDF)
    site.page("/locked.pdf", b"%PDF-1.4 torn", content_type=_PDF)
    crawls = Crawls(
        site,
        tmp_path,
        body={"css": "main"},
        fields={"heading": {"css": "h1"}, "path": {"url": r"/(\w*)"}},
        title="{heading}",
    )
    crawls()
    assert (
        str(crawls.items["/a.pdf"].body).startswith("\fpage=1\nall of it line 0")
        and crawls.items["/a.pdf"].title == "Report A"
    )
    assert crawls.items["/"].title == "Home" and "foot" not in str(crawls.items["/"].body)
    assert crawls.rejects["/locked.pdf"].reason.startswith("damaged PDF file")
    shown = inspect_url(crawls.source, f"{site.base}/a.pdf", "en")
    assert (shown.content_type, shown.items[0].document_id, shown.links.count) == (_PDF, f"{site.base}/a.pdf", 0)
    shown = inspect_url(crawls.source, f"{site.base}/locked.pdf", "en")
    assert shown.items == [] and shown.rejects[0]["reason"].startswith("damaged PDF file")


@pytest.mark.parametrize("identity", ["url", "{url}"])
def test_mails_have_items_of_their_own_for_what_is_attached_however_they_are_sent(
    loopback_site: "Site", tmp_path: Path, identity: str
) -> None:
    site = loopback_site
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@x.test", "b@x.test", "Offer"
    mail.set_content("Words.")
    mail.add_attachment(report("the plan"), maintype="application", subtype="pdf", filename="plan.pdf")
    site.page("/", "<a href=/m.eml>m</a><a href=/n.eml>n</a><a href=/o.eml>o</a>")
    site.page("/m.eml", mail.as_bytes(), content_type="message/rfc822")
    site.page("/n.eml", mail.as_bytes(), content_type="text/plain; charset=utf-8")
    site.page("/o.eml", "A text about mails.", content_type="text/plain")
    crawls = Crawls(site, tmp_path, fetch=["html", "eml"], id=identity)
    crawls()
    drafts = {path: draft for path, draft in crawls.items.items() if path != "/"}
    assert sorted(drafts) == ["/m.eml", "/m.eml#plan.pdf", "/n.eml", "/n.eml#plan.pdf", "/o.eml"]
    assert all(draft.document_id == draft.url for draft in drafts.values())
    assert [drafts[path].title for path in ("/n.eml", "/n.eml#plan.pdf")] == ["Offer", "plan.pdf"] and drafts[
        "/o.eml"
    ].body == "A text about mails."


@pytest.mark.parametrize(
    ("keys", "place", "finding"),
    [
        ({"fetch": ["pdf"]}, ("fetch",), "html is missing"),
        ({"yields": "records", "fields": {"a": {"css": "b"}}}, ("fetch",), "this source yields records"),
        ({"each": {"css": "li"}}, ("each",), "each of docx, pdf is one item"),
        (
            {"fields": {"code": {"css": "b", "required": True}}},
            ("fields", "code", "required"),
            "all of them would be rejected",
        ),
        ({"fields": {"code": {"css": "b"}}, "id": "{code}"}, ("id",), "{code} is a field of pages"),
        ({"fields": {"text": {"css": "b"}}, "body": "{text}"}, ("body",), "{text} is a field of pages"),
    ],
)
def test_a_declaration_that_no_document_can_satisfy_is_refused(
    keys: dict[str, Any], place: tuple[str, ...], finding: str
) -> None:
    declared = {"name": "s", "kind": "site", "start_urls": ["http://x.test/"], "fetch": FETCH, **keys}
    with pytest.raises(ValidationError) as caught:
        SiteSource.model_validate(declared)
    (error,) = caught.value.errors()
    assert finding in error["msg"] and error["loc"] == place
    with pytest.raises(ValidationError, match="Input should be 'html'"):
        SiteSource.model_validate({**declared, "fetch": ["html", "exe"]})


def test_the_size_of_a_document_decides_nothing_about_its_type(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    names = {"/small.docx": 1, "/large.docx": 70_000}
    site.page("/", "".join(f"<a href='{name}'>{name}</a>" for name in names))
    for name, size in names.items():
        site.page(name, note("x") + b"\0" * size, content_type="application/msword")
    crawls = Crawls(site, tmp_path)
    assert (crawls().failures, sorted(crawls.stored)) == ([], ["/", "/large.docx", "/small.docx"])


def test_what_is_fetched_decides_which_pages_there_are() -> None:
    def declared(**keys: Any) -> str:
        return fetching_of(
            SiteSource.model_validate({"name": "s", "kind": "site", "start_urls": ["http://x.test/"], **keys})
        )

    assert declared() == declared(fetch=["html"]) == declared(match="x")
    assert (
        len({declared(), declared(fetch=["html", "pdf"]), declared(fetch=FETCH), declared(fetch=FETCH, match="x")}) == 4
    )
    assert declared(fetch=FETCH) == declared(fetch=FETCH[::-1]) == declared(fetch=FETCH, limits={"seconds_per_file": 5})


def test_a_document_that_takes_too_much_names_a_limit_that_a_site_can_declare(
    loopback_site: "Site", tmp_path: Path
) -> None:
    site = loopback_site
    site.page("/", "<a href=/a.docx>The report</a>")
    site.page("/a.docx", docx("".join(paragraph(f"paragraph {number}") for number in range(5))), content_type=_DOCX)
    few, many = (Crawls(site, tmp_path / str(most), limits={"elements_per_file": most}) for most in (4, 5))
    few(), many()
    assert "limits.elements_per_file" in few.rejects["/a.docx"].reason
    assert "paragraph 4" in str(many.items["/a.docx"].body)
    assert mapping_of(few.source, "en") != mapping_of(many.source, "en"), "the document is read again"


def test_a_crawl_of_documents_killed_anywhere_ends_as_if_never_killed(loopback_site: "Site", tmp_path: Path) -> None:
    site = loopback_site
    paths = [f"/{number}.pdf" for number in range(24)]
    site.page("/", "".join(f"<a href='{path}'>Report on {path[1:-4]}</a>" for path in paths))
    for number, path in enumerate(paths):
        site.page(
            path,
            report(f"text {number}"),
            content_type=_BYTES if number % 2 else _PDF,
            delay_s=0.1,
            headers={"ETag": f'"{number}"'},
        )
    declared = source(site, fetch=["html", "pdf"], politeness={"per_domain": 2})
    whole, raw = RawStore(tmp_path / "whole"), RawStore(tmp_path / "raw")
    crawl_site(declared, whole, "r1")
    again: set[str] = set()
    had: set[str] = set()
    for pages in (3, 6, None):
        site.sent.clear()
        if pages is None:
            crawl_site(declared, raw, "r2", previous=PreviousCrawls(interrupted=["r1"]))
        else:
            kill_when(pages, declared, raw, "r1", PreviousCrawls())
        again |= had & set(site.sent)
        had = {entry.url.removeprefix(site.base) for entry in raw.index("r1").in_order()}
    assert raw.index("r2").fingerprint == whole.index("r1").fingerprint
    assert {page.url: page.link_text for page in raw.pages("r2")}[f"{site.base}/3.pdf"] == "Report on 3"
    assert again == set(), "what was stored is not asked for again"


@pytest.fixture
def endless() -> Iterator[tuple[str, dict[str, int]]]:
    """A server whose files never end, and how many bytes of each it could send."""
    sent: dict[str, int] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002  # the base class's signature
            return

        def do_GET(self) -> None:
            self.send_response(200 if self.path in ("/", "/v.mp4x", "/w", "/x.pdf") else 404)
            kind = {"/": "text/html", "/v.mp4x": "video/mp4", "/w": _BYTES, "/x.pdf": _BYTES}.get(
                self.path, "text/plain"
            )
            self.send_header("Content-Type", kind)
            self.end_headers()
            if self.path == "/":
                self.wfile.write(b"<a href=/v.mp4x>v</a><a href=/w>w</a><a href=/x.pdf>x</a>")
            elif kind != "text/plain":
                try:
                    for _ in range(640):
                        self.wfile.write(b"\0" * 100_000)
                        sent[self.path] = sent.get(self.path, 0) + 100_000
                        time.sleep(0.005)
                except OSError:
                    return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", sent
    server.shutdown()
    server.server_close()


def test_a_large_file_is_stopped_at_its_headers_or_its_beginning(
    endless: tuple[str, dict[str, int]], tmp_path: Path
) -> None:
    base, sent = endless
    keys: dict[str, Any] = {
        "name": "s",
        "kind": "site",
        "start_urls": [f"{base}/"],
        "politeness": {"allow_private": True},
        "limits": {"bytes_per_page": "4MB"},
    }
    outcome = crawl_site(SiteSource.model_validate({**keys, "fetch": FETCH}), RawStore(tmp_path), "r1")
    reasons = {failure.url.removeprefix(base): failure.reason for failure in outcome.failures}
    assert reasons == {"/v.mp4x": "not_text", "/w": "not_text", "/x.pdf": "too_large"}
    assert sent.get("/v.mp4x", 0) < 4_000_000 and sent["/w"] < 4_000_000
    sent.clear()
    outcome = crawl_site(SiteSource.model_validate(keys), RawStore(tmp_path / "pages"), "r1")
    assert {failure.url.removeprefix(base): failure.reason for failure in outcome.failures} == {
        "/v.mp4x": "not_text",
        "/w": "not_text",
    }
    assert not_fetched(outcome) == {"pdf": 1} and max(sent.values(), default=0) < 4_000_000


@pytest.mark.parametrize(
    ("name", "type_name"),
    [
        ("https://x.test/a.PDF?x=1#p", "pdf"), ("https://x.test/a%2Epdf", "pdf"), ("https://x.test/?file=a.pdf", None),
        ("https://a.pdf/", None),
        ("report.final.docx", "docx"), ("https://x.test/a.docm", "docx"),
        ("show.ppsx", "pptx"), ("T.XLTM", "xlsx"), ("a.xlsb", "xlsb"), ("a.csv", None), ("a.html", None), (".pdf",
        None), ("", None),
    ],
)  # fmt: skip
def test_types_by_name(name: str, type_name: str | None) -> None:
    assert type_of_name(name) == type_name


def test_types_by_headers_and_content() -> None:
    assert type_of_headers("application/pdf; name=x", "a.docx") == "pdf"
    assert type_of_headers(_BYTES, "", "http://x.test/a.docx") == "docx"
    assert type_of_headers("image/png", "a.pdf") is None
    assert type_of_headers("application/vnd.ms-excel", "", "http://x.test/prices.xlsx") == "xlsx"
    assert type_of_headers("application/vnd.ms-excel", "old.xls", "http://x.test/prices") == "xls"
    assert type_of_headers("application/msword", "", "http://x.test/a.xlsx") == "doc"
    assert type_of_headers("application/vnd.ms-excel.sheet.macroEnabled.12") == "xlsx"
    assert type_of_content(b"\n%PDF-1.7") == "pdf" and type_of_content(b"x" * 2000 + b"%PDF-1.7") is None
    assert type_of_content(note("x")) == "docx" and may_be_document(note("x")[:1024])
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        for name, content in (
            ("[Content_Types].xml", b""),
            ("ppt/embeddings/a.docx", note("x")),
            ("ppt/presentation.xml", b""),
        ):
            archive.writestr(name, content)
    assert type_of_content(outer.getvalue()) == "pptx"
    assert not may_be_document(b"PK\3\4" + b"\0" * 26 + b"photos/1.jpg") and not may_be_document(b"<html>")
    headers = (b"", b"inline", b'attachment; filename="../a\\b.pdf"', b"attachment; filename=\xe9.pdf")
    assert [sent_name(header) for header in headers] == ["", "", "b.pdf", "é.pdf"]
