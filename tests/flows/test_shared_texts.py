"""Pages whose main text was not found, or is that of another page: kept, reported, and the same whether all or only
some of them are read.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from almanac.cli.run_report import show_report
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.core.tables import DOCUMENTS, read_table
from almanac.flows.artifacts import show_summary
from almanac.flows.pipeline.forget_url import forget_url
from almanac.flows.pipeline.plan import plan
from almanac.flows.pipeline.run import Run
from almanac.flows.reporting.report_tables import text_rows
from almanac.index.versions.version_store import current_version, read_manifest
from almanac.schemas.crawl_outcome import DECLARE_BODY, CrawlOutcome, SharedText
from almanac.schemas.items import Extraction
from almanac.schemas.reports import RunReport
from almanac.transforms import mapped_pages as mapped
from tests.flows.commands import carry_out
from tests.index.conftest import INFO, HashEmbedder
from tests.index.making import without_children

if TYPE_CHECKING:
    from tests.conftest import Almanac, Serve

_DECLARED = """name: press
sources:
  - {name: pages, kind: files, glob: "p/*.html", format: html}
gate: {max_lost: null, max_shrunk: null, max_changed: null}
"""


def prose(seed: str, sentences: int) -> str:
    """Sentences of ten made-up words, which no other seed gives."""
    dice = random.Random(seed)
    words = [
        "".join(dice.choices("bdfgklmnprst", k=1) + dice.choices("aeiou", k=1))
        + "".join(dice.choices("aeioklmnrst", k=5))
        for _ in range(10 * sentences)
    ]
    return " ".join(" ".join(words[10 * n : 10 * n + 10]).capitalize() + "." for n in range(sentences))


def article(comments: str = "", menu: str = "Press of the city, since 1911") -> str:
    """An article that a press agency sold to several papers, with what readers wrote below it."""
    story = "".join(f"<p>{prose(f'story {n}', 4)}</p>" for n in range(3))
    return f"""<html><head><title>Story</title></head><body><div class="menu">{menu}</div><article>{story}</article>
    <div id="comments" class="comments"><div class="comment"><p>{comments}</p></div></div><footer>Imprint</footer></body></html>"""  # noqa: E501


class Press:
    """Pages in files, and runs of their knowledge base."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = DataDir(folder / "data")
        (folder / "p").mkdir(parents=True)
        (folder / "press.yaml").write_text(_DECLARED)

    def write(self, **pages: str | None) -> None:
        for name, page in pages.items():
            path = self.folder / "p" / f"{name}.html"
            path.unlink(missing_ok=True) if page is None else path.write_text(page)

    def run(self, data: DataDir | None = None) -> RunReport:
        return RunReport.model_validate(
            carry_out(Run(load_declaration(str(self.folder / "press.yaml"), ""), data or self.data))
        )

    def texts(self) -> dict[str, str]:
        table = read_table(self.data.processed("press") / DOCUMENTS, ["url", "text"]).to_pydict()
        return dict(zip(table["url"], table["text"], strict=True))

    def digest(self, data: DataDir | None = None) -> str:
        index = (data or self.data).index("press")
        return read_manifest(index, str(current_version(index))).digest


@pytest.fixture
def press(tmp_path: Path) -> Iterator[Press]:
    with without_children(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("almanac.flows.pipeline.run.describe_embedder", lambda _: INFO)
        patch.setattr("almanac.flows.pipeline.run.load_embedder", lambda *_, **__: HashEmbedder())
        yield Press(tmp_path)


@pytest.mark.slow
def test_a_refresh_keeps_and_drops_what_a_full_run_does(press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages with one text come, go and change; each time the result is that of a run which knows nothing, and only what
    changed is read again.
    """
    cleaned: list[str] = []

    def clean(extraction: Extraction, *more: Any, **declared: Any) -> mapped.Mapped:
        cleaned.extend(draft.url for draft in extraction.drafts)
        return mapped.clean_extraction(extraction, *more, **declared)

    monkeypatch.setattr("almanac.flows.pipeline.page_batches.clean_extraction", clean)
    comments = {name: prose(f"comments of {name}", 5) for name in "abcd"}
    steps: list[tuple[dict[str, str | None], set[str], int]] = [
        ({"a": article(comments["a"]), "a2": article(comments["a"], menu="Print version")}, {"a"}, 0),
        ({"b": article(comments["b"])}, {"a", "b"}, 2),
        ({"c": article("First!"), "d": article(comments["d"])}, {"a", "b", "d"}, 3),
        ({"b": article(comments["a"])}, {"a", "d"}, 2),
        ({"a": None}, {"a2", "d"}, 2),
        ({"a2": None, "d": None}, {"b"}, 0),
        ({"a": article(comments["a"]), "d": article(comments["d"])}, {"a", "d"}, 2),
    ]
    shared: list[str] = []
    for number, (change, kept_pages, sharing) in enumerate(steps):
        cleaned.clear()
        press.write(**change)
        report = press.run()
        assert sorted(cleaned) == sorted(f"{name}.html" for name, page in change.items() if page), number
        texts = press.texts()
        assert texts.keys() == {f"{name}.html" for name in kept_pages}, number
        if not shared:
            shared = [texts["a.html"]]
        for name, text in texts.items():
            own = comments["a" if name == "a2.html" or (name == "b.html" and number > 2) else name[0]]
            printed = "\n\nPrint version" if name == "a2.html" else ""
            assert text == (f"{shared[0]}{printed}\n\n{own}" if sharing else shared[0]), (number, name)
        assert report.sources[0].pages_sharing_text == sharing
        assert report.items.in_ == len(texts) + report.items.deduplicated
        if number % 2 == 0:
            other = DataDir(press.folder / f"other{number}")
            press.run(other)
            assert press.digest(other) == press.digest(), number


def test_what_is_shared_is_reported_also_where_nothing_changed_and_a_takedown_removes_it(
    press: Press, capsys: pytest.CaptureFixture[str]
) -> None:
    menu = "Everything about bicycles, with letters of our readers"
    press.write(**{f"p{n}": article(prose(f"c{n}", 5), menu) for n in range(4)})
    planned = plan(load_declaration(str(press.folder / "press.yaml"), ""), press.data).sources
    first, again = press.run(), press.run()
    assert (first.outcome, again.outcome) == ("published", "unchanged")
    expected = [SharedText(pages=4, urls=["p0.html", "p1.html"])]
    assert planned[0].shared_texts == first.sources[0].shared_texts == again.sources[0].shared_texts == expected
    assert [
        json.loads(path.read_bytes())["sources"][0]["pages_sharing_text"]
        for path in press.data.runs("press").glob("*-??????.json")
    ] == [4, 4]
    show_report(again, "press")
    printed = " ".join(capsys.readouterr().out.split())
    assert "the same main text" in printed and "body: {css: …}; almanac test-url press URL" in printed
    forget_url(press.data, load_declaration(str(press.folder / "press.yaml"), ""), "p1.html")
    assert not [path for path in press.data.processed("press").rglob("*.json") if "p1.html" in path.read_text()]
    after = press.run()
    assert after.sources[0].shared_texts == [SharedText(pages=3, urls=["p0.html", "p2.html"])]


def test_pages_of_which_little_is_kept_are_counted(press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also such a page that shares its text with none, and one without any main text."""
    texts = {"one": "A slogan.", "two": "", "three": prose("story 1", 4)}
    monkeypatch.setattr(
        "almanac.transforms.prepare.html_to_markdown",
        lambda html, *_: next(text for name, text in texts.items() if f"page {name}" in html),
    )
    press.write(
        **{name: f"<title>page {name}</title><p>{prose(name, 12)}</p><p>{prose('story 1', 4)}</p>" for name in texts}
    )
    report = press.run()
    assert report.sources[0].pages_with_little_kept == 2
    assert report.sources[0].little_kept == ["one.html", "two.html"]
    assert press.run().sources[0].little_kept == ["one.html", "two.html"]
    forget_url(press.data, load_declaration(str(press.folder / "press.yaml"), ""), "one.html")
    assert press.run().sources[0].little_kept == ["two.html"]  # the file is still there


def test_texts_that_may_be_lost_are_a_table_in_prefect_and_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    tables: dict[str, tuple[list[dict[str, Any]], str]] = {}
    monkeypatch.setattr(
        "almanac.flows.artifacts._table", lambda _kb, what, rows, caption: tables.update({what: (rows, caption)})
    )
    outcome = CrawlOutcome(
        source="docs",
        shared_texts=[SharedText(pages=158, urls=["u/1", "u/2"])],
        pages_with_little_kept=4,
        little_kept=["a", "b", "c", "d"],
    )
    show_summary(RunReport(kb="kb", run_id="r", outcome="published", exit_code=0, sources=[outcome]))
    rows, caption = tables["texts"]
    assert [(row["source"], row["pages"], row["for example"]) for row in rows] == [
        ("docs", 158, "u/1 u/2"),
        ("docs", 4, "a b c …"),
    ]
    assert DECLARE_BODY in caption and "run r of kb" in caption
    assert text_rows([CrawlOutcome(source="all well")]) == []


_CLOSING = "Was this page helpful? Tell us what we can improve."


def _documentation(folder: Path) -> dict[str, str]:
    """Twelve pages, of which extraction may find the closing sentence alone, and two articles with one text. Gives a
    phrase of each page.
    """
    phrases = {}
    for n in range(12):
        phrases[f"docs/{n}.html"] = prose(f"docs {n}", 1)
        content = f"<p>{phrases[f'docs/{n}.html']}</p>" + "".join(
            f"<p>{prose(f'docs {n} {part}', 5)}</p>" for part in range(3)
        )
        body = f'<div class="sidebar-content">{content}</div><div class="content"><p>{_CLOSING}</p></div>'
        _put(
            folder / f"docs/{n}.html",
            f"<html><head><title>Page {n}</title></head><body><header>Docs</header>{body}<footer>Imprint</footer>"
            "</body></html>",
        )
    for paper in ("north", "south"):
        phrases[f"{paper}.html"] = prose(paper, 1)
        _put(folder / f"{paper}.html", article(f"{phrases[f'{paper}.html']} {prose(f'{paper} 2', 4)}"))
    _put(
        folder / "south.print.html", article(f"{phrases['south.html']} {prose('south 2', 4)}", menu="Printed on paper")
    )
    _put(folder / "index.html", "".join(f'<a href="{name}">{name}</a> ' for name in [*phrases, "south.print.html"]))
    return phrases


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_no_page_of_a_documentation_is_lost_as_a_duplicate(almanac: "Almanac", serve: "Serve", tmp_path: Path) -> None:
    phrases = _documentation(tmp_path / "site")
    base = serve(tmp_path / "site")
    declared = tmp_path / "docs.yaml"
    source = (
        f'{{name: site, kind: site, start_urls: ["{base}/index.html"], match: "(docs/|north|south).*html$", '
        f"politeness: {{allow_private: true, delay_s: 0}}}}"
    )
    declared.write_text(f"name: docs\nsources:\n  - {source}\n")
    done = almanac("run", str(declared), "--json")
    assert done.code == 0, done.stderr
    report = done.json
    assert (report["items"]["added"], report["items"]["deduplicated"]) == (14, 1)
    assert [(duplicate["url"], duplicate["equals"]["url"]) for duplicate in report["duplicates"]] == [
        (f"{base}/south.print.html", f"{base}/south.html")
    ]
    (outcome,) = report["sources"]
    assert {"pages": 2, "urls": [f"{base}/north.html", f"{base}/south.html"]} in outcome["shared_texts"]
    assert "different pages have the same main text" in done.stderr and "body: {css: …}" in done.stderr
    documents = {
        row["url"]: row["text"]
        for row in map(json.loads, almanac("export", str(declared), "documents").stdout.splitlines())
    }
    assert {path: phrase in documents[f"{base}/{path}"] for path, phrase in phrases.items()} == dict.fromkeys(
        phrases, True
    )
    chunks = [json.loads(line) for line in almanac("export", str(declared), "chunks").stdout.splitlines()]
    assert all(documents[chunk["url"]][chunk["start"] : chunk["end"]] == chunk["text"] for chunk in chunks)
    assert (
        almanac("search", str(declared), phrases["docs/7.html"], "--json").json["hits"][0]["url"]
        == f"{base}/docs/7.html"
    )
