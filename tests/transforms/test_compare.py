"""What a run finds, against what is live: added, changed, moved, unchanged, removed, and since when."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from almanac.schemas.hashing import sha256
from almanac.schemas.items import Item
from almanac.transforms.item_changes import CHANGES, Brief, Briefs, Change, compare_items


def _brief(
    document_id: str, *, text: str = "", url: str = "", price: int = 1, at: str = "2026-02-02", source: str = "s"
) -> Brief:
    text, url = text or f"text of {document_id}", url or f"u/{document_id}"
    item = Item(source, "record", document_id, url, "t", text, {"price": price}, {}, "raw", at)
    return Brief(source, document_id, "record", url, item.content_sha256, sha256(text), at)


def _live(document_id: str, **keys: Any) -> Brief:
    return _brief(document_id, at="2020-01-01", **keys)


def _compared(items: list[Brief], live: list[Brief], **keys: Any) -> tuple[list[Change], list[str], list[str]]:
    """The change of each item, the times since when they are known, and the ids of what is removed."""
    result = compare_items(Briefs.from_briefs(items), Briefs.from_briefs(live), **keys)
    return (
        [CHANGES[change] for change in result.changes],
        result.first_seen.to_pylist(),
        [live[row].document_id for row in result.removed],
    )


def _changes(items: list[Brief], live: list[Brief], **keys: Any) -> tuple[list[Change], list[str]]:
    changes, _, removed = _compared(items, live, **keys)
    return changes, removed


def test_content_that_is_known_keeps_its_time() -> None:
    briefs = [_brief("same"), _brief("other", price=2), _brief("new")]
    live = [_live("same"), _live("other"), _live("gone")]
    assert _compared(briefs, live) == (
        ["unchanged", "changed", "added"],
        ["2020-01-01", "2026-02-02", "2026-02-02"],
        ["gone"],
    )
    items = Briefs.from_briefs(briefs)
    assert compare_items(items, Briefs.from_briefs(live)).unchanged.has(items.keys).tolist() == [True, False, False]


def test_the_same_text_at_another_url_has_moved_and_keeps_its_time() -> None:
    assert _compared([_brief("A", url="v")], [_live("A")]) == (["moved"], ["2020-01-01"], [])
    assert _compared([_brief("B", text="text of A")], [_live("A")]) == (["moved"], ["2020-01-01"], [])


def test_a_page_that_redirects_has_moved_though_its_text_is_another() -> None:
    redirects = {("s", "u/old"): "u/new"}
    assert _compared([_brief("new", text="edited")], [_live("old", url="u/old")], led_to=redirects) == (
        ["moved"],
        ["2026-02-02"],
        [],
    )


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


_versions = st.dictionaries(
    st.sampled_from([("s", "a"), ("s", "b"), ("s", "c"), ("t", "a"), ("t", "b"), ("t", "d")]),
    st.tuples(st.sampled_from("xyz"), st.sampled_from("uvw"), st.integers(1, 2), st.sampled_from(["2020", "2021"])),
    max_size=6,
)


@given(
    _versions,
    _versions,
    st.dictionaries(st.tuples(st.sampled_from("st"), st.sampled_from("uvw")), st.sampled_from("uvw"), max_size=3),
)
def test_columns_are_compared_as_items_one_by_one_would_be(
    new: dict[Any, Any], live: dict[Any, Any], led_to: dict[tuple[str, str], str]
) -> None:
    items, before = (
        [
            _brief(name, source=source, text=text, url=url, price=price, at=at)
            for (source, name), (text, url, price, at) in version.items()
        ]
        for version in (new, live)
    )
    assert _compared(items, before, led_to=led_to) == _one_by_one(items, before, led_to)


def _one_by_one(
    items: list[Brief], live: list[Brief], led_to: dict[tuple[str, str], str]
) -> tuple[list[str], list[str], list[str]]:
    known, keys = {item.key: item for item in live}, {item.key for item in items}
    gone = sorted(item for item in live if item.key not in keys)
    moved: dict[Any, Brief] = {}
    for by_redirect, by_text in ((True, True), (True, False), (False, True)):
        for item in sorted(item for item in items if item.key not in known):
            for old in gone:
                same = (old.source, old.kind) == (item.source, item.kind) and old not in moved.values()
                redirects = led_to.get((old.source, old.url)) == item.url
                if (
                    item.key not in moved
                    and same
                    and (redirects or not by_redirect)
                    and (old.text_sha256 == item.text_sha256 or not by_text)
                ):
                    moved[item.key] = old
    changes, times = [], []
    for item in items:
        old_one = known.get(item.key) or moved.get(item.key)
        same_text = old_one is not None and old_one.text_sha256 == item.text_sha256
        if old_one is None:
            change = "added"
        elif old_one.content_sha256 == item.content_sha256:
            change = "unchanged"
        else:
            change = "moved" if old_one.key != item.key or (old_one.url != item.url and same_text) else "changed"
        changes.append(change)
        times.append(
            old_one.fetched_at if old_one is not None and same_text and change != "changed" else item.fetched_at
        )
    return changes, times, [item.document_id for item in live if item.key not in keys and item not in moved.values()]
