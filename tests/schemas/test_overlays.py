"""Overlays: what is different in one environment, and errors that name the file and line that a value comes from."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from almanac.core.load import find_declaration, is_declared, load_declaration
from almanac.core.overlays import _NULL_MEANS_OFF
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.errors import DeclarationError, NotFound, UsageError

_BASE = """\
name: kb
title: The base
sources:
  - name: site
    kind: site
    start_urls: ["http://site.test/", "http://site.test/more"]
    limits: {pages: 100, depth: 3}
    politeness: {delay_s: 0.5, user_agent: "almanac (+mailto:you@example.org)"}
    yields: records
    fields:
      name: {css: h1, required: true}
  - {name: notes, kind: files, glob: "notes/*.md"}
chunk: {size: 500, overlap: 50}
gate: {max_lost: 30%}
"""
Load = Callable[..., Declaration]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Writes an overlay beside the base and reads both."""
    monkeypatch.delenv("ALMANAC_ENV", raising=False)

    def written(overlay: str, *, env: str | None = "dev", base: str = _BASE) -> Declaration:
        (tmp_path / "kb.yaml").write_text(base, encoding="utf-8")
        (tmp_path / "kb.dev.yaml").write_text(overlay, encoding="utf-8")
        return load_declaration(str(tmp_path / "kb.yaml"), env)

    return written


def test_mappings_are_merged_sources_by_name_and_lists_replaced(load: Load) -> None:
    overlay = """\
sources:
  - {name: notes, glob: "fewer/*.md"}
  - name: site
    start_urls: ["http://staging.test/"]
    limits: {pages: 5}
    fields: {name: {css: h2}, code: {css: .code}}
  - {name: extra, kind: files, glob: "extra/*.txt"}
chunk: {size: 300}
"""
    declared = load(overlay).model_dump(mode="json")
    site, notes, extra = declared["sources"]
    assert [site["name"], notes["name"], extra["name"]] == ["site", "notes", "extra"]
    assert site["start_urls"] == ["http://staging.test/"]
    assert (site["limits"]["pages"], site["limits"]["depth"], site["politeness"]["delay_s"]) == (5, 3, 0.5)
    assert (site["fields"]["name"]["css"], site["fields"]["name"]["required"], site["fields"]["code"]["css"]) == (
        "h2",
        True,
        ".code",
    )
    assert (notes["glob"], extra["glob"]) == ("fewer/*.md", "extra/*.txt")
    assert declared["chunk"] == {**declared["chunk"], "size": 300, "overlap": 50}
    assert declared["title"] == "The base"


def test_null_takes_a_key_back_to_its_default(load: Load) -> None:
    declared = load("title: null\nchunk: null\nsources: [{name: site, limits: {pages: null}}]\n")
    assert (declared.title, declared.chunk.limits.size) == (None, 600)
    assert declared.sources[0].model_dump()["limits"]["pages"] == 10_000


def test_null_switches_a_check_of_the_gate_off(load: Load) -> None:
    declared = load("gate: {max_lost: null, max_failed: null, max_added: null, max_shrunk: null}\n")
    assert (declared.gate.max_lost, declared.gate.max_failed, declared.gate.max_added, declared.gate.max_shrunk) == (
        None,
    ) * 4
    assert load("gate: null\n").gate.max_lost == 0.1


def test_null_has_a_meaning_of_its_own_nowhere_else() -> None:
    """A key that admits null and has another default would need it: the list of those is complete."""

    def parts(model: type[DeclaredModel]) -> set[type[DeclaredModel]]:
        return {model}.union(*(parts(part) for part in model.__subclasses__()))

    nullable = {
        (model.__name__.lower(), name)
        for model in parts(DeclaredModel)
        for name, field in model.model_fields.items()
        if type(None) in get_args(field.annotation)
        and not field.is_required()
        and field.get_default(call_default_factory=True) is not None
    }
    assert nullable == _NULL_MEANS_OFF


def test_the_hash_is_that_of_what_was_merged(load: Load) -> None:
    base = load("", env=None)
    assert load("").sha256 == base.sha256
    assert load("title: The base\n").sha256 == base.sha256
    changed = load("title: Another\n")
    assert changed.sha256 != base.sha256
    assert changed.sha256 == load("", env=None, base=_BASE.replace("The base", "Another")).sha256


def test_a_declaration_knows_its_environment(load: Load) -> None:
    declared = load("name: kb-dev\n")
    assert (declared.name, declared.env, declared.handle) == ("kb-dev", "dev", f"{declared.path} --env dev")
    assert declared.path.name == "kb.yaml"
    assert load("name: kb-dev\n", env="").env is None


def test_the_variable_asks_for_an_overlay_and_the_option_goes_before_it(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ALMANAC_ENV", "dev")
    assert load("title: Dev\n", env=None).title == "Dev"
    (tmp_path / "kb.staging.yml").write_text("title: Staging\n")
    assert load("title: Dev\n", env="staging").title == "Staging"
    monkeypatch.setenv("ALMANAC_ENV", "production")
    with pytest.raises(NotFound, match="which ALMANAC_ENV asks for") as caught:
        load("title: Dev\n", env=None)
    assert caught.value.where == str(tmp_path / "kb.production.yaml")
    assert caught.value.hint == "overlays there are: dev, staging"


def test_variables_of_the_base_that_are_replaced_need_not_be_set(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    base = _BASE.replace("The base", "${UNSET_TITLE}")
    monkeypatch.setenv("OVERLAID", "From outside")
    assert load("title: ${OVERLAID}\n", base=base).title == "From outside"
    with pytest.raises(DeclarationError, match="title: environment variable UNSET_TITLE is not set") as caught:
        load("chunk: {size: 300}\n", base=base)
    assert str(caught.value.where).endswith("kb.yaml:2")
    with pytest.raises(DeclarationError, match="NOT_THERE") as caught:
        load("\ntitle: ${NOT_THERE}\n", base=base)
    assert str(caught.value.where).endswith("kb.dev.yaml:2")


@pytest.mark.parametrize(
    ("overlay", "where", "says"),
    [
        ("\ntitel: x\n", "kb.dev.yaml:2", "titel: unknown key; did you mean title?"),
        ("chunk:\n  size: nine\n", "kb.dev.yaml:2", "chunk.size:"),
        ("\nchunk: {size: 40}\n", "kb.dev.yaml:2", "overlap 50 must be smaller than size 40"),
        ("sources:\n  - name: notes\n    glob: ''\n", "kb.dev.yaml:3", "sources[1]"),
        ("sources:\n  - name: new\n    glob: x\n", "kb.dev.yaml:2", "sources[2].kind: is required"),
        ("sources:\n  - {name: new, kind: site}\n", "kb.dev.yaml:2", "start_urls: is required"),
        ("sources:\n  - {glob: x}\n", "kb.dev.yaml:2", "sources[0].name: is required"),
        ("sources:\n  - notes\n", "kb.dev.yaml:2", "sources[0].name: is required"),
        ("sources:\n  - {name: notes}\n  - {name: notes}\n", "kb.dev.yaml:3", "'notes' is there twice"),
        ("sources: null\n", "kb.yaml with kb.dev.yaml", "sources: is required"),
        ("sources: none\n", "kb.dev.yaml:1", "sources"),
        (
            "sources: [{name: notes, fields: {a: {json: a}}}]\nvalidate: {expect: [{field: nowhere}]}\n",
            "kb.dev.yaml:2",
            "no field 'nowhere'",
        ),
        ("- a\n", "kb.dev.yaml", "is not a mapping of keys"),
        ("title: [\n", "kb.dev.yaml:2:1", "not valid YAML"),
        (f"a: {'[' * 500}\n", "kb.dev.yaml:1", "more than 100 levels"),
    ],
)
def test_errors_name_the_file_that_the_value_comes_from(
    load: Load, tmp_path: Path, overlay: str, where: str, says: str
) -> None:
    with pytest.raises(DeclarationError) as caught:
        load(overlay)
    assert says in str(caught.value)
    assert caught.value.where == str(tmp_path / where)


def test_an_error_of_the_base_names_the_base_and_findings_of_both_are_told(load: Load) -> None:
    with pytest.raises(DeclarationError) as caught:
        load("chunk: {size: nine}\n", base=_BASE + "retrieve: {k: many}\n")
    assert str(caught.value.where).endswith("kb.yaml:15")
    first, second = caught.value.message.splitlines()[1:]
    assert first.startswith("  - line 15: retrieve.k")
    assert second.startswith("  - kb.dev.yaml line 1: chunk.size")


@pytest.mark.parametrize("env", ["Dev", "../kb", "a.b", "dev ", "-x"])
def test_what_cannot_be_an_environment(load: Load, env: str) -> None:
    with pytest.raises(UsageError, match="cannot be an environment's name"):
        load("", env=env)


def test_an_overlay_is_no_knowledge_base(load: Load, tmp_path: Path) -> None:
    load("")
    path = str(tmp_path / "kb.dev.yaml")
    with pytest.raises(UsageError, match="is the overlay 'dev' of kb") as caught:
        load_declaration(path)
    assert caught.value.hint == f"write {tmp_path / 'kb.yaml'} --env dev"
    assert not is_declared(path)
    with pytest.raises(UsageError, match="is the overlay 'dev' of voyago"):
        find_declaration("voyago.dev")
    with pytest.raises(NotFound) as unknown:
        find_declaration("nowhere")
    assert "voyago.dev" not in (unknown.value.hint or "")


def test_a_name_with_a_dot_and_no_base_beside_it_is_a_declaration(tmp_path: Path) -> None:
    path = tmp_path / "books.shop.yaml"
    path.write_text(_BASE)
    (tmp_path / "books.shop.dev.yaml").write_text("title: Dev\n")
    assert load_declaration(str(path), "").title == "The base"
    assert load_declaration(str(path), "dev").title == "Dev"


def test_the_example_overlay_is_valid() -> None:
    declared = load_declaration("voyago", "dev")
    assert (declared.name, declared.gate.max_lost, declared.schedule) == ("voyago-dev", None, None)
    assert declared.gate.golden == "voyago.golden.jsonl"
