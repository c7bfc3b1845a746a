"""Templates: what is between braces is a name that the declaration proves, or an error where it is declared."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from almanac.core.load import load_declaration
from almanac.core.templates import fill
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import DeclarationError

_FIELDS = {
    "name": {"css": "h1"},
    "code": {"css": ".code"},
    "price": {"css": ".price", "type": "price"},
    "prices": {"css": ".price", "type": "price", "many": True},
    "count": {"css": ".price", "type": "price", "many": True, "process": ["count"]},
    "tags": {"css": "li", "many": True},
    "author": {"json": "author"},
    "maker": {"const": {"name": "Jar & Co", "seat": {"city": "Huế"}}},
    "offers": {"css": ".offer", "many": True, "fields": {"size": {"css": "b"}, "price": {"css": "i", "type": "price"}}},
}
_VALUES = {
    "name": "Jar", "code": "J1", "price": {"amount": "2.50", "currency": "€"}, "tags": ["red", "blue"],
    "author": {"name": "Lan"}, "url": "http://x.test/1",
    "prices": [{"amount": "1", "currency": "€"}, {"amount": "2", "currency": None}], "maker": {"name": "Jar & Co",
    "seat": {"city": "Huế"}},
    "offers": [{"size": "small", "price": {"amount": "1.00", "currency": "€"}}, {"size": None,
    "price": {"amount": "2.00", "currency": "€"}}],
}  # fmt: skip


def _load(tmp_path: Path, source: dict[str, Any], **sections: Any) -> Declaration:
    path = tmp_path / "kb.yaml"
    declared = {
        "name": "s",
        "kind": "site",
        "start_urls": ["http://x.test/"],
        "yields": "records",
        "id": "{code}",
        "fields": _FIELDS,
        **source,
    }
    YAML().dump({"name": "kb", "sources": [declared], **sections}, path)
    return load_declaration(str(path))


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{name}: {price}", "Jar: 2.50 €"),
        ("{name} costs {price.amount} in {price.currency}", "Jar costs 2.50 in €"),
        ("{prices.amount}", "1, 2"),
        ("{offers.size}: {offers.price.amount}", "small: 1.00, 2.00"),
        ("{offers.price.currency}", "€, €"),
        ("{maker.name}, {maker.seat.city}", "Jar & Co, Huế"),
        ("{{{name}}} {{1, 2}} {tags}", "{Jar} {1, 2} red, blue"),
        ("{name}", "Jar"),
    ],
)
@pytest.mark.parametrize("key", ["text", "title", "id"])
def test_names_that_the_declaration_proves_are_filled_in(tmp_path: Path, key: str, template: str, filled: str) -> None:
    source = _load(tmp_path, {key: template}).sources[0]
    assert fill(getattr(source, key), _VALUES) == filled


_WRONG = [
    ("{nmae}", "no field 'nmae'; did you mean {name}?; declared: author, code, count"),
    ("{price.amout}", "field 'price' has no 'amout'; did you mean {price.amount}?; it has amount, currency"),
    ("{offers.price.amuont}", "did you mean {offers.price.amount}?"),
    ("{offers.colour}", "field 'offers' has no 'colour'; it has size, price"),
    ("{prices.0}", "field 'prices' has no '0'; did you mean {prices}?; it has amount, currency"),
    ("{count.amount}", "field 'count' has no parts"),
    ("{tags.first}", "field 'tags' has no parts"),
    ("{url.host}", "field 'url' has no parts"),
    ("{author.name}", "what field 'author' holds is not declared; declare author_name: {json: …} for its part 'name'"),
    ("{ price }", "{ price }: a placeholder has no spaces around its name; write {price}"),
    (
        "{price[0]}",
        "{price[0]}: a placeholder is a field's name alone; write {price}, and process: [first] in its rule",
    ),
    ("{price!r}", "{price!r}: a placeholder is a field's name alone; write {price}"),
    ("{price.amount:>10}", "write {price.amount}"),
    (
        "{{price}}",
        "{{price}}: a placeholder has one pair of braces; write {price}, or {{{price}}} for braces around its value",
    ),
    ("{{ price | round }}", "write {price}"),
    ("{% if price %}", "a placeholder is a field's name in braces; a brace itself is written twice"),
    ("{name} {}", "{}: a placeholder is a field's name in braces"),
    ("{name", "unbalanced braces"),
    ("{name} } {", "unbalanced braces"),
    ("{tên}", "no field 'tên'"),
    ("{.amount}", "no field '.amount'"),
    ("{price.}", "field 'price' has no ''"),
]


@pytest.mark.parametrize(("template", "says"), _WRONG)
@pytest.mark.parametrize("key", ["text", "title", "id", "body"])
def test_what_cannot_be_filled_in_is_refused_at_its_place(tmp_path: Path, key: str, template: str, says: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        _load(tmp_path, {key: f"{{code}} {template}"})
    assert f"sources[0].{key}: " in caught.value.message
    assert says in caught.value.message
    line = next(
        number
        for number, line in enumerate((tmp_path / "kb.yaml").read_text(encoding="utf-8").splitlines(), 1)
        if line.strip().startswith(f"{key}:")
    )
    assert caught.value.where == f"{tmp_path / 'kb.yaml'}:{line}"


def test_all_that_is_wrong_with_templates_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as caught:
        _load(tmp_path, {"text": "{nmae} {price.amout}", "title": "{titel}", "metadata": ["name", "prize"]})
    for says in (
        "{name}?",
        "{price.amount}?",
        "did you mean {title}?",
        "sources[0].metadata[1]: no field 'prize'; did you mean price?",
    ):
        assert says in caught.value.message
    with pytest.raises(DeclarationError, match=r"(?s)\{price!r\}.*\{ name \}.*title: \{code:>4\}") as caught:
        _load(tmp_path, {"text": "{price!r} { name }", "title": "{code:>4}"})


@pytest.mark.parametrize("section", ["chunk: {prefix: VALUE}", "retrieve: {query: VALUE}"])
@pytest.mark.parametrize("template", ["{ title }", "{title!r}", "{{title}}", "{title"])
def test_other_templates_are_written_in_the_same_way(tmp_path: Path, section: str, template: str) -> None:
    path = tmp_path / "kb.yaml"
    path.write_text(
        f"name: kb\nsources: [{{name: s, kind: files, glob: '*.md'}}]\n{section.replace('VALUE', repr(template))}\n"
    )
    with pytest.raises(DeclarationError, match=r"placeholder|unbalanced"):
        load_declaration(str(path))


def test_a_prefix_names_what_some_source_declares(tmp_path: Path) -> None:
    assert _load(tmp_path, {}, chunk={"prefix": "{title}, {price.amount}"}).chunk.prefix
    with pytest.raises(DeclarationError, match=r"chunk\.prefix: field 'price' has no 'amout'"):
        _load(tmp_path, {}, chunk={"prefix": "{title}, {price.amout}"})


def test_fields_that_a_file_names_itself_are_found_by_any_name() -> None:
    own = {
        "Product name": "Jar",
        "tên": "Lọ",
        "price.net": "2",
        "offer": {"price": {"amount": 3.0}},
        "many": [{"a": {"b": 1}}, {"a": None}, "x"],
    }
    assert fill("{Product name} {tên} {price.net} {offer.price.amount} {many.a.b}", own) == "Jar Lọ 2 3 1"
    assert fill("{offer.price.tax}, {offer}", own) == "3"  # a part that is missing takes the text after it along


def test_a_body_is_a_word_a_selector_or_a_template(tmp_path: Path) -> None:
    fine: list[Any] = ["main", {"css": "main"}, "{name}: {price.amount}"]
    for body in fine:
        assert _load(tmp_path, {"body": body, "yields": "documents"}).sources
    wrong: list[tuple[Any, str]] = [
        ("mian", "must be main, all"),
        ({"cs": "p"}, "body.cs: unknown key"),
        (3, "body: must be a text"),
    ]
    for body, says in wrong:
        with pytest.raises(DeclarationError) as caught:
            _load(tmp_path, {"body": body, "yields": "documents"})
        assert says in caught.value.message
