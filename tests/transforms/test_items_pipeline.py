"""From drafts to what is kept: prepared, de-duplicated, validated, compared, judged."""

from dataclasses import replace
from typing import Any

import pytest

from almanac.schemas.crawl_outcome import PageCounts
from almanac.schemas.declaration import Declaration
from almanac.schemas.items import Draft, Duplicate, Item, Reject
from almanac.schemas.reports import ItemCounts
from almanac.transforms.deduplicate import Deduplication
from almanac.transforms.gate import judge
from almanac.transforms.prepare import prepare_items
from almanac.transforms.validate_items import validate_items


def _declaration(**more: Any) -> Declaration:
    fields = {
        "code": {"json": "code", "required": True},
        "price": {"json": "price", "many": True},
        "n": {"json": "n", "type": "number"},
    }
    source = {
        "name": "s",
        "kind": "files",
        "glob": "x.jsonl",
        "yields": "records",
        "fields": fields,
        "text": "{code}. {n}",
        "metadata": ["code"],
    }
    return Declaration.model_validate({"name": "kb", "sources": [source], **more})


def _draft(**fields: Any) -> Draft:
    return Draft(
        "s",
        "record",
        str(fields.get("code")),
        "u",
        "A\u00a0title",
        fields,
        None,
        "plain",
        "raw",
        "2026-01-01T00:00:00+00:00",
    )


def _item(code: str | None, price: Any = (1,), n: Any = 1, document_id: str | None = None) -> Item:
    fields = {"code": code, "price": list(price), "n": n}
    return Item(
        "s",
        "record",
        document_id or str(code),
        "u",
        "t",
        f"{code} {n}",
        fields,
        {"code": code},
        "raw",
        "2026-02-02T00:00:00+00:00",
    )


def test_a_record_is_cleaned_and_its_template_filled() -> None:
    (item,) = prepare_items(
        [_draft(code="A\u201d1", n=2)], _declaration().sources[0], "standard", language="en", workspace=None
    )
    assert isinstance(item, Item)
    assert (item.title, item.text, item.metadata) == ("A title", 'A"1. 2', {"code": 'A"1'})


def test_entities_are_decoded_in_json_of_scripts_and_not_in_what_an_html_parser_has_read() -> None:
    fields = {
        "name": {"json": "name", "from": "json-ld"},
        "brand": {"json": "brand", "from": "microdata"},
        "note": {"css": "p"},
    }
    source = {
        "name": "s",
        "kind": "files",
        "glob": "*.html",
        "yields": "records",
        "fields": fields,
        "text": "{name}. {note}",
        "title": "{name}",
    }
    declaration = Declaration.model_validate({"name": "kb", "sources": [source]})
    draft = replace(
        _draft(name="Lamp &amp; Shade 11 &quot;XL&quot;", brand="A &amp; B", note="write &lt;br&gt;"),
        markup="html",
        title="Lamp &amp; Shade",
    )
    (item,) = prepare_items([draft], declaration.sources[0], "standard", language="en", workspace=None)
    assert isinstance(item, Item)
    assert (item.title, item.text) == ("Lamp & Shade", 'Lamp & Shade 11 "XL". write &lt;br&gt;')
    assert item.fields == {"name": 'Lamp & Shade 11 "XL"', "brand": "A &amp; B", "note": "write &lt;br&gt;"}


def test_a_draft_without_text_is_rejected_with_its_rule() -> None:
    (reject,) = prepare_items(
        [_draft(code=None, n=None)], _declaration().sources[0], "standard", language="en", workspace=None
    )
    assert isinstance(reject, Reject)
    assert (reject.stage, reject.rule) == ("clean", "text: {code}. {n}")
    source = {"name": "s", "kind": "files", "glob": "*.html", "yields": "documents", "body": {"css": "main"}}
    documents = Declaration.model_validate({"name": "kb", "sources": [source]})
    draft = replace(_draft(), kind="document", markup="html", body="")
    (reject,) = prepare_items([draft], documents.sources[0], "standard", language="en", workspace=None)
    assert isinstance(reject, Reject)
    assert (reject.stage, reject.reason, reject.rule) == ("clean", "no text found", "body: css: main")


def test_the_same_item_twice_is_counted_and_another_one_under_its_id_quarantined() -> None:
    first, other, once = _item("A"), _item("A", n=7), Deduplication()
    assert [i.document_id for i in once.keep_first([first, first, other, _item("B")])] == ["A", "B"]
    assert once.duplicates == [Duplicate("s", "u", "A", "equal", {"url": "u", "document_id": "A"})]
    assert [r.stage for r in once.rejects] == ["deduplicate"]


def test_a_document_under_two_urls_is_one() -> None:
    page, once = replace(_item("A"), kind="document", text="the same text"), Deduplication()
    assert list(once.keep_first([page, replace(page, document_id="B", url="v")])) == [page]
    assert once.duplicates == [Duplicate("s", "v", "B", "equal", {"url": "u", "document_id": "A"})]


def test_an_item_whose_page_calls_the_first_one_right_is_a_duplicate_of_it() -> None:
    """Even where they differ, in a counter or a token."""
    first, other = replace(_item("A"), url="u"), replace(_item("A"), url="u?s=1", text="another")
    once = Deduplication(lambda item: {"u?s=1": "u"}.get(item.url))
    assert (list(once.keep_first([first, other])), once.rejects) == ([first], [])
    assert once.duplicates == [Duplicate("s", "u?s=1", "A", "canonical", {"url": "u", "document_id": "A"})]
    elsewhere = Deduplication(lambda _: "elsewhere")
    assert (list(elsewhere.keep_first([first, other])), len(elsewhere.rejects)) == ([first], 1)


def test_items_that_break_expectations_are_quarantined_and_the_rest_kept() -> None:
    expect = [
        {"field": "code", "unique": True},
        {"field": "price", "min_length": 1},
        {"field": "n", "min": 0, "max": 5},
    ]
    declaration = _declaration(validate={"expect": expect})
    items = [_item("A"), _item("A", document_id="A2"), _item("B", price=()), _item("C", n=9), _item("D", n=None)]
    result = validate_items(items, declaration)
    assert result.rejects.keys() == {1, 2, 3}
    assert {r.document_id: r.rule for r in result.rejects.values()} == {
        "A2": "unique: true",
        "B": "min_length: 1",
        "C": "min: 0, max: 5",
    }
    assert {(rule.rule, rule.broken) for rule in result.results} >= {("required: true", 0), ("unique: true", 1)}


def test_one_value_that_is_no_number_quarantines_its_item_only() -> None:
    declaration = _declaration(validate={"expect": [{"field": "n", "min": 0}]})
    result = validate_items([_item("A"), _item("B", n="N/A"), _item("C", n=None)], declaration)
    assert {number: (r.field, r.value) for number, r in result.rejects.items()} == {1: ("n", "N/A")}


def test_a_list_is_allowed_when_each_of_its_entries_is() -> None:
    declaration = _declaration(validate={"expect": [{"field": "price", "one_of": ["x", "y"]}]})
    result = validate_items(
        [_item("A", price=("x", "y")), _item("B", price=("x", "z")), _item("C", price=())], declaration
    )
    assert result.rejects.keys() == {1}


def test_a_first_version_compares_with_nothing_and_says_so() -> None:
    verdict = judge(_declaration(), PageCounts(fetched=10), ItemCounts(in_=10, added=10), None)
    assert verdict.verdict == "passed"
    assert {c.name: c.value for c in verdict.checks}["max_lost"] is None


@pytest.mark.parametrize(
    ("pages", "items", "refused"),
    [
        (PageCounts(fetched=10, failed=1), ItemCounts(in_=10, unchanged=10), "max_failed"),
        (PageCounts(fetched=9), ItemCounts(in_=8, unchanged=8, removed=2), "max_lost"),
        (PageCounts(fetched=9), ItemCounts(in_=10, unchanged=9, quarantined=1), "max_rejected"),
        (PageCounts(fetched=9), ItemCounts(), "min_items"),
    ],
)
def test_a_share_over_its_limit_is_refused(pages: PageCounts, items: ItemCounts, refused: str) -> None:
    verdict = judge(_declaration(gate={"at_least": 10}), pages, items, 10)
    assert verdict.verdict == "refused"
    assert [c.name for c in verdict.checks if not c.ok] == [refused]
