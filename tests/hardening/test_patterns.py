"""Patterns that take exponential time, wherever a declaration may have one, on texts that a site writes for them:
bounded time, and neighbours are fine.
"""

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from almanac.core import patterns
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.schemas.declaration.field_rules import FieldRule
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.items import Page
from almanac.spiders.mapping.fields import FieldScope, read_field
from almanac.spiders.reading.content import Content
from almanac.spiders.selecting.links import UrlPolicy
from almanac.spiders.selecting.urls import url_matcher
from almanac.transforms.matching import matched
from tests.flows.commands import carry_out
from tests.hardening.tally import some, tallied
from tests.index.making import without_children
from tests.loopback.mistral import LoopbackMistral
from tests.proof.base import TORTURE
from tests.serve.conftest import Bases

pytestmark = pytest.mark.slow
_EACH_S = 8.0  # of processor time that a try may take: a pattern is searched for once or twice, a second each
# (pattern, text): the text nearly matches, in very many ways.
_SLOW = (
    ("(a+)+$", "a" * 40 + "!"),
    ("(a|a)*$", "a" * 40 + "!"),
    ("(a|aa)+$", "a" * 60 + "!"),
    ("(.*)*x", "y" * 60),
    ("(.*a){20}", "a" * 19 + "b" * 40),
    (r"(\w+\s?)*$", "word " * 30 + "!"),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60),
    ("(x+x+)+y", "x" * 60),
    ("a{1,5000}a{1,5000}b", "a" * 5000),
    ("a*a*a*a*a*a*a*a*b", "a" * 1500),
    ("(?:a?){60}a{60}", "a" * 60),
    (r"(a?|b)*\1c", "ab" * 40),
    (r"(?=(a+)+!)a", "a" * 40),
    (r"^(\d+)*-(\d+)*$", "1" * 60),
    (r"(\S*?\s*?)*z", "ab " * 30),
    (r"(.+)+\1{3}z", "ab" * 60),
    (r"^([\w.]+)+@([\w.]+)+\.x$", "a." * 60),
    (r"(?:(?:a+)+b?)+c", "a" * 60),
)


def _page(body: str, url: str = "https://shop.example/1") -> Content:
    return Content(Page(url, f"<html><body><p>{body}</p></body></html>".encode(), content_type="text/html"))


def _field(content: Content, **rule: Any) -> object:
    return read_field("f", FieldRule.model_validate(rule), FieldScope(None, content, "en"))


def _policy(url: str, **declared: Any) -> bool:
    source = {"name": "s", "kind": "site", "start_urls": ["https://shop.example/"], **declared}
    return UrlPolicy(SiteSource.model_validate(source)).may_follow(url, "link")


def _places() -> dict[str, Callable[[str, str], object]]:
    def judged(expectation: str, **more: Any) -> Callable[[str, str], object]:
        return lambda pattern, text: matched(
            text, expectation, {"regex": pattern, "regex_list": [pattern] if "list" in expectation else None, **more}
        )

    quoted = "'{}'".format
    return {
        "follow.allow": lambda pattern, text: _policy(f"https://shop.example/{text}", follow={"allow": [pattern]}),
        "follow.deny": lambda pattern, text: _policy(f"https://shop.example/{text}", follow={"deny": [pattern]}),
        "match": lambda pattern, text: url_matcher(pattern)(f"https://shop.example/{text}"),
        "url of a field": lambda pattern, text: _field(_page("x", f"https://shop.example/{text}"), url=pattern),
        "pattern of a field": lambda pattern, text: _field(_page(text), css="p", pattern=pattern),
        "pattern of a list": lambda pattern, text: _field(
            _page(f"{text}</p><p>fine"), css="p", pattern=pattern, many=True
        ),
        "re:test in XPath": lambda pattern, text: _field(_page(text), xpath=f"//p[re:test(., {quoted(pattern)})]"),
        "re:match in XPath": lambda pattern, text: _field(
            _page(text), xpath=f"string(re:match(//p, {quoted(pattern)}, 'g'))"
        ),
        "re:replace in XPath": lambda pattern, text: _field(
            _page(text), xpath=f"re:replace(//p, {quoted(pattern)}, 'g', 'x')"
        ),
        "match_regex": judged("expect_column_values_to_match_regex"),
        "not_match_regex": judged("expect_column_values_to_not_match_regex"),
        "match_regex_list": judged("expect_column_values_to_match_regex_list", match_on="all"),
        "not_match_regex_list": judged("expect_column_values_to_not_match_regex_list"),
    }


@pytest.fixture(autouse=True)
def _unspent() -> None:
    patterns._spent.clear()


def _used_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def test_no_pattern_takes_longer_than_its_time() -> None:
    tried = [(place, read, pattern, text) for place, read in _places().items() for pattern, text in _SLOW]
    promise = f"a second for a text, then a hundredth and a thousandth ({', '.join(_places())})"
    with tallied("Patterns against catastrophic backtracking", promise, 190) as tally:
        for place, read, pattern, text in some(tried, 12):
            patterns._spent.clear()
            begun = _used_s()
            read(pattern, text)
            used_s = _used_s() - begun
            tally.note(f"{place}: {pattern} on {text[:20]!r}", None if used_s < _EACH_S else f"took {used_s:.1f} s")


def test_a_page_of_links_costs_no_hours() -> None:
    """What a site can make of a pattern: a thousand links, each as bad as it can be."""
    pattern = "a{1,5000}a{1,5000}b"
    matches = url_matcher(pattern)
    with tallied(
        "Patterns: 1,000 URLs as bad as can be", "all judged within 90 s; those that are fine match", 1_000
    ) as tally:
        patterns._spent[pattern] = 0.0 if TORTURE else 10.0
        begun = _used_s()
        for number in some(range(1_000), 12):
            tally.note(f"link {number}", held=not matches(f"https://shop.example/{number}/{'a' * 2000}"))
        assert _used_s() - begun < 90
        assert matches("https://shop.example/aaab")


def test_a_run_publishes_what_is_not_slow(tmp_path: Path, mistral: LoopbackMistral) -> None:
    """A hostile row is rejected with its reason, by the pattern of a field and by an expectation; its neighbours are
    published.
    """
    bases = Bases(tmp_path, mistral)
    rows = [
        {
            "title": f"Row {n}",
            "code": "a" * 8,
            "note": "b" * 5,
            "text": f"Row {n} tells of gardens.",
            "url": f"https://x.example/{n}",
        }
        for n in range(6)
    ]
    rows[2]["code"] = rows[4]["note"] = "a" * 5000
    (tmp_path / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    slow = "^b{5}$|a{1,5000}a{1,5000}c"
    declared = bases.declare(
        "slow",
        validate={"expect": [{"field": "note", "pattern": f"(?:{slow})"}], "max_rejected": "90%"},
        gate={"max_lost": None},
    )
    path = Path(declared)
    tree = json.loads(path.read_text(encoding="utf-8"))
    fields = {name: {"json": name} for name in ("title", "text", "url", "note")}
    tree["sources"][0] |= {
        "fields": fields | {"code": {"json": "code", "pattern": "a{1,5000}a{1,5000}c|^a{8}$"}},
        "metadata": ["code"],
    }
    path.write_text(json.dumps(tree), encoding="utf-8")
    with (
        tallied("Patterns: a run over hostile rows", "rejected with the reason, neighbours published", 6) as tally,
        without_children(),
    ):
        report = carry_out(Run(load_declaration(declared), DataDir(tmp_path / "data")))
        rejects = {
            json.loads(line)["url"]: json.loads(line)
            for line in (tmp_path / "data/processed/slow/rejects.jsonl").read_text().splitlines()
        }
        for number in range(6):
            is_rejected = any(url.endswith(f"/{number}") or f"#{number}" in url for url in rejects)
            tally.note(f"row {number}", held=is_rejected == (number in (2, 4)))
        assert report["outcome"] == "published_with_rejects", report
