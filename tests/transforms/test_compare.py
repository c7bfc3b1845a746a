"""What a run finds, against what is live: added, changed, moved, unchanged, removed, and since when."""

from typing import Any

from almanac.schemas.hashing import sha256
from almanac.schemas.items import Item
from almanac.transforms.compare import Brief, Change, compare_items


def _brief(document_id: str, *, text: str = "", url: str = "", price: int = 1, at: str = "2026-02-02", source: str = "s") -> Brief:
    text, url = text or f"text of {document_id}", url or f"u/{document_id}"
    item = Item(source, "record", document_id, url, "t", text, {"price": price}, {}, "raw", at)
    return Brief(source, document_id, "record", url, item.content_sha256, sha256(text), at)


def _live(document_id: str, **keys: Any) -> Brief:
    return _brief(document_id, at="2020-01-01", **keys)


def _changes(found: list[Brief], live: list[Brief], **keys: Any) -> tuple[list[Change], list[str]]:
    result = compare_items(found, live, **keys)
    return result.changes, [item.document_id for item in result.removed]


def test_content_that_is_known_keeps_its_time() -> None:
    found = [_brief("same"), _brief("other", price=2), _brief("new")]
    result = compare_items(found, [_live("same"), _live("other"), _live("gone")])
    assert result.changes == ["unchanged", "changed", "added"]
    assert result.first_seen == ["2020-01-01", "2026-02-02", "2026-02-02"]
    assert [item.document_id for item in result.removed] == ["gone"]
    assert result.unchanged == {("s", "same")}


def test_the_same_text_at_another_url_has_moved_and_keeps_its_time() -> None:
    by_id = compare_items([_brief("A", url="v")], [_live("A")])
    by_text = compare_items([_brief("B", text="text of A")], [_live("A")])
    assert [(one.changes, one.first_seen, one.removed) for one in (by_id, by_text)] == [(["moved"], ["2020-01-01"], [])] * 2


def test_a_page_that_redirects_has_moved_though_its_text_is_another() -> None:
    result = compare_items([_brief("new", text="edited")], [_live("old", url="u/old")], {("s", "u/old"): "u/new"})
    assert (result.changes, result.first_seen, result.removed) == (["moved"], ["2026-02-02"], [])


def test_one_live_item_moves_once_and_never_into_another_source() -> None:
    live = [_live("A", text="same"), _live("B", text="same")]
    assert _changes([_brief(name, text="same") for name in "XYZ"], live) == (["moved", "moved", "added"], [])
    assert _changes([_brief("X", text="same", source="other")], live) == (["added"], ["A", "B"])
    assert _changes([_brief("A", text="same"), _brief("X", text="same")], live) == (["unchanged", "moved"], [])


def test_an_item_with_new_text_at_a_new_url_under_its_id_is_changed() -> None:
    assert _changes([_brief("A", url="v", text="edited")], [_live("A")]) == (["changed"], [])


def test_what_is_still_there_moved_nowhere() -> None:
    """A copy of a page that is live is a new item, however equal."""
    assert _changes([_brief("A"), _brief("B", text="text of A")], [_live("A")]) == (["unchanged", "added"], [])
