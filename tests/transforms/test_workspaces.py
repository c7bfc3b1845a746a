"""Names of workspaces are compared as they are written: what cleaning would make another's name is quarantined, and
copies of one tenant are not another's.
"""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DeclarationError
from almanac.schemas.items import Draft, Item, Page, Reject
from almanac.spiders.mapping.item_mapping import map_page
from almanac.spiders.reading.content import Content
from almanac.transforms.clean import clean_value
from almanac.transforms.deduplicate import Deduplication
from almanac.transforms.prepare import prepare_items
from almanac.transforms.shared_texts import SharedTexts

# Spellings that cleaning folds into `alpha`, as a person sees them and as a machine does.
FOLDED = [
    *(f"alpha{c}" for c in (" \u00a0\u2003\u3000\n" "\r\t\u2028\u0085\u200b\ufeff\u2060\u00ad\u200e\u202e\ufe0f\u3164" "\U000e0020\x00\x1f")),  # noqa: E501
    *(f"{c}alpha" for c in " \u200b\ufeff\u202d\n"),
    "al\u200bpha", "al\u00adpha", "al\U000e0070pha", "al&#112;ha", "al&#x70;ha",
]  # fmt: skip
# Spellings that stay what they are, and so are workspaces of their own.
APART = [
    "Alpha",
    "ALPHA",
    "ａｌｐｈａ",
    "аlpha",
    "al\u200dpha",
    "al\u200cpha",
    "alphа",
    "alpha2",
    "al-pha",
    "α",
    "ﬁ",
    "1",
    "1.0",
    "true",
    "beta alpha",
]


def _declaration(
    workspace: Any = "team", *, clean: str = "standard", yields: str = "records", **rule: Any
) -> Declaration:
    rule = rule or {"json": "team"}
    fields = {"team": rule, "note": {"json": "note"}}
    source = {
        "name": "s",
        "kind": "files",
        "glob": "x.jsonl",
        "yields": yields,
        "fields": fields,
        "text": "{note}",
        "body": "{note}",
        "metadata": ["team"],
    }
    return Declaration.model_validate(
        {"name": "kb", "clean": clean, "sources": [source], "retrieve": {"workspace": workspace}}
    )


def _prepared(declaration: Declaration, team: Any, markup: Any = "plain") -> Item | Reject:
    draft = Draft(
        "s",
        "record",
        "1",
        "u",
        "t",
        {"team": team, "note": "A note."},
        None,
        markup,
        "raw",
        "2026-01-01T00:00:00+00:00",
    )
    workspace = declaration.retrieve.workspace
    (prepared,) = prepare_items([draft], declaration.sources[0], declaration.clean, language="en", workspace=workspace)
    return prepared


@pytest.mark.parametrize("name", FOLDED, ids=ascii)
@pytest.mark.parametrize(
    "value", [lambda name: name, lambda name: [name], lambda name: ["beta", name], lambda name: ["alpha", name]]
)
def test_a_name_that_cleaning_would_change_quarantines_its_item(name: str, value: Any) -> None:
    prepared = _prepared(_declaration(), value(name))
    assert isinstance(prepared, Reject)
    assert (prepared.stage, prepared.field) == ("clean", "team")
    assert "which is the name of another" in prepared.reason
    assert "json: team" in str(prepared.rule)


@pytest.mark.parametrize("name", [*APART, "alpha"], ids=ascii)
def test_a_name_that_cleaning_leaves_alone_is_kept_as_it_is_written(name: str) -> None:
    prepared = _prepared(_declaration(), name)
    assert isinstance(prepared, Item)
    assert prepared.metadata == {"team": name}


@pytest.mark.parametrize(
    "value",
    [
        1,
        0,
        1.0,
        True,
        False,
        {"name": "alpha"},
        [["alpha"]],
        [1],
        ["alpha", None],
        "",
        " ",
        "\u2003",
        [""],
        ["alpha", ""],
    ],
    ids=ascii,
)
def test_what_is_no_name_quarantines_its_item(value: Any) -> None:
    prepared = _prepared(_declaration(), value)
    assert isinstance(prepared, Reject)
    assert "is no text" in prepared.reason or "is blank" in prepared.reason


@pytest.mark.parametrize(("value", "is_kept"), [(None, False), ([], False), (["alpha"], True), ("alpha", True)])
def test_an_item_without_a_workspace_is_quarantined_where_one_is_required(value: Any, is_kept: bool) -> None:
    assert isinstance(_prepared(_declaration(), value), Item)
    assert isinstance(_prepared(_declaration({"field": "team", "required": True}), value), Item) == is_kept


@given(st.text(max_size=8), st.sampled_from(["standard", "none"]), st.sampled_from(["plain", "html"]))
def test_whatever_the_name_an_item_keeps_it_or_goes(name: str, clean: str, markup: str) -> None:
    prepared = _prepared(_declaration(clean=clean), name, markup)
    if isinstance(prepared, Item):
        assert prepared.metadata == {"team": name} == {"team": clean_value(name, clean, entities=markup != "html")}  # type: ignore[arg-type]
    else:
        assert not name.strip() or clean == "standard"


def _mapped(body: bytes, url: str, declaration: Declaration) -> list[Any]:
    (source,) = declaration.sources
    mapped = map_page(Content(Page(url, body, content_type="text/html" if url.endswith("html") else "")), source, "en")
    return [item.draft.fields["team"] for item in mapped.items if item.draft]


_SPACES = "\u00a0\u2003\u3000\u200b\u2028\u0085"


@pytest.mark.parametrize("space", _SPACES, ids=ascii)
@pytest.mark.parametrize("rule", [{}, {"type": "text"}, {"process": ["split", "first"]}, {"many": True}], ids=str)
def test_reading_drops_nothing_of_a_name_but_the_layout_of_markup(space: str, rule: dict[str, Any]) -> None:
    """Or an item would belong to `alpha` before cleaning could notice."""
    name = f"alpha{space}"
    page = f"<p class=team data-team='{name}'>\n  {name}\n</p><p class=note>A note.</p>"
    for origin in ({"css": ".team"}, {"css": ".team::text"}, {"css": ".team", "attr": "data-team"}):
        files = {"name": "s", "kind": "files", "glob": "x.html", "fields": {"team": {**origin, **rule}}}
        declaration = Declaration.model_validate({"name": "kb", "sources": [files], "retrieve": {"workspace": "team"}})
        (team,) = _mapped(page.encode(), "x.html", declaration)
        assert team in (name, [name]), origin
        other = Declaration.model_validate({"name": "kb", "sources": [files]})
        assert _mapped(page.encode(), "x.html", other)[0] not in (name, [name]) or space == "\u200b", (
            "a field of prose is normalised"
        )
    (team,) = _mapped(json.dumps({"team": name, "note": "n"}).encode(), "x.jsonl", _declaration(json="team", **rule))
    assert team in (name, [name])


def test_layout_of_markup_is_no_part_of_a_name() -> None:
    files = {"name": "s", "kind": "files", "glob": "x.html", "fields": {"team": {"css": ".team"}}}
    declaration = Declaration.model_validate({"name": "kb", "sources": [files], "retrieve": {"workspace": "team"}})
    assert _mapped(b"<div class=team>\r\n\t <b>alpha</b>\n beta\n</div>", "x.html", declaration) == ["alpha beta"]


def test_a_copy_of_one_workspace_is_no_duplicate_of_another() -> None:
    """Or a tenant could make the item of another vanish by repeating it."""
    item = Item(
        "s", "document", "1", "u", "t", "The same text.", {}, {"team": "alpha"}, "raw", "2026-01-01T00:00:00+00:00"
    )
    copies = [
        item,
        replace(item, document_id="2", metadata={"team": "beta"}),
        replace(item, document_id="3"),
        replace(item, document_id="4", metadata={}),
    ]
    assert [item.document_id for item in Deduplication(workspace="team").keep_first(copies)] == ["1", "2", "4"]
    assert [item.document_id for item in Deduplication().keep_first(copies)] == ["1"]


def test_a_mirror_in_another_workspace_takes_no_page_away() -> None:
    """Four pages of one main text in `alpha`, and the same pages in `beta`: each workspace is told apart as if it were
    alone.
    """
    own = [
        [" ".join(f"Line {n} of the page tells of {word} alone." for n in range(9))]
        for word in ("boats", "gardens", "trains", "clocks")
    ]

    def tell_apart(teams: list[str]) -> list[tuple[Any, str]]:
        pages = [
            (Item("s", "document", f"{team}{n}", f"{team}/{n}", "t", "The same.", {}, {"team": team}, "raw", ""),
            side_blocks)
            for team in teams for n, side_blocks in enumerate(own)
        ]  # fmt: skip
        shared = SharedTexts("team")
        for item, side_blocks in pages:
            shared.note(item, side_blocks)
        shared.settle(lambda: iter(pages))
        return [(item.metadata["team"], item.text) for item in shared.told_apart(pages, lambda *_: None)]

    alone = tell_apart(["alpha"])
    assert len({text for _, text in alone}) == 4
    assert [pair for pair in tell_apart(["alpha", "beta"]) if pair[0] == "alpha"] == alone


@pytest.mark.parametrize(
    "declared", ["", {"field": ""}, {"required": True}, {"field": "team", "needed": True}, 3, ["team"]], ids=str
)
def test_a_workspace_that_is_declared_wrongly_is_refused(declared: Any) -> None:
    with pytest.raises((ValueError, DeclarationError)):
        _declaration(declared)


def test_a_name_alone_declares_the_field() -> None:
    assert (
        _declaration("team").retrieve.workspace == _declaration({"field": "team", "required": False}).retrieve.workspace
    )
