"""Declarations are strict, and their errors teach."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from almanac.core.load import load_declaration
from almanac.core.unknown_keys import explain_unknown_key
from almanac.schemas.declaration.expressions import check_xpath
from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.errors import DeclarationError, NotFound

_SITE = "{name: s, kind: site, start_urls: ['http://site.test/']"


def _write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "kb.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_least_that_is_needed(tmp_path: Path) -> None:
    declaration = load_declaration(_write(tmp_path, f"name: kb\nsources:\n  - {_SITE}}}\n"))
    assert declaration.collection == "kb-kb-kb"  # Chroma takes no name of two letters
    assert declaration.chunk.limits.size == 600
    assert declaration.path == tmp_path / "kb.yaml"


@pytest.mark.parametrize(
    ("keys", "workspace", "says"),
    [
        (
            "fields: {a: {css: h1}, team: {css: h2}}",
            "tema",
            "line 4: retrieve.workspace: no field 'tema'; did you mean team?",
        ),
        ("fields: {a: {css: h1}}", "{field: team, required: true}", "retrieve.workspace: no field 'team'; declared: a"),
        (
            "fields: {a: {css: h1}, team: {css: h2}}, metadata: [a]",
            "team",
            "sources[0].metadata: leaves out 'team', by which",
        ),
    ],
)
def test_the_field_of_workspaces_is_one_that_items_keep(tmp_path: Path, keys: str, workspace: str, says: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        load_declaration(
            _write(tmp_path, f"name: kb\nsources:\n  - {_SITE}, {keys}}}\nretrieve: {{workspace: {workspace}}}\n")
        )
    assert says in str(raised.value)


@pytest.mark.parametrize(
    "keys", ["fields: {team: {css: h2}}", "fields: {a: {css: h1}, team: {css: h2}}, metadata: [team]"]
)
def test_a_source_of_no_workspace_may_stand_beside_one_that_has_it(tmp_path: Path, keys: str) -> None:
    other = _SITE.replace("name: s", "name: other")
    assert load_declaration(
        _write(
            tmp_path,
            f"name: kb\nsources:\n  - {_SITE}, {keys}}}\n  - {other}, fields: {{a: {{css: h1}}}}}}\nretrieve: "
            f"{{workspace: team}}\n",
        )
    )
    for field in ("source", "language"):
        assert load_declaration(
            _write(tmp_path, f"name: kb\nsources:\n  - {other}}}\nretrieve: {{workspace: {field}}}\n")
        )
    files = "{name: files, kind: files, glob: 'notes/*.md'}"
    assert load_declaration(_write(tmp_path, f"name: kb\nsources:\n  - {files}\nretrieve: {{workspace: team}}\n"))


@pytest.mark.parametrize("kb", ["voyago", "handbook"])
def test_the_examples_are_valid(kb: str) -> None:
    assert load_declaration(kb).name == kb


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (f"name: Big\nsources: [{_SITE}}}]\n", 1, "name: String should match pattern"),
        (f"name: kb\nsources:\n  - {_SITE}, yeilds: records}}\n", 3, "sources[0].yeilds: unknown key"),
        (f"name: kb\nsources: [{_SITE}}}]\nindex: {{backend: server}}\n", 3, "index.backend: Input should be 'local'"),
        (f"name: kb\nsources:\n  - {_SITE}, fields: {{a: {{css: 'h1['}}}}}}\n", 3, "not a CSS selector"),
        (f"name: kb\nsources:\n  - {_SITE}, fields: {{a: {{xpath: '//a['}}}}}}\n", 3, "not an XPath expression"),
        (
            f"name: kb\nsources:\n  - {_SITE}, fields: {{a: {{xpath: '//a[matches(., \"x\")]'}}}}}}\n",
            3,
            "XPath 1.0 has no function matches(); use re:test(",
        ),
        (
            f"name: kb\nsources:\n  - {_SITE}, fields: {{a: {{xpath: 'dd[count(dt | current()) = 1]'}}}}}}\n",
            3,
            "XPath 1.0 has no function current()",
        ),
        (
            f"name: kb\nsources:\n  - {_SITE}, fields: {{a: {{xpath: '//a[@id = $id]'}}}}}}\n",
            3,
            "nothing gives the variable $id a value",
        ),
        (
            f"name: kb\nsources:\n  - {_SITE}, fields: {{a: {{css: h1, xpath: //h1}}}}}}\n",
            3,
            "takes exactly one of css, xpath, json, url, const",
        ),
        (f"name: kb\nsources:\n  - {_SITE}, id: '{{code}}'}}\n", 3, "id: no field 'code'"),
        (
            "name: kb\nsources:\n  - {name: s, kind: site, start_urls: ['ftp://x/']}\n",
            3,
            "must be an http:// or https:// URL",
        ),
        (
            f"name: kb\nsources:\n  - {_SITE}}}\n  - {_SITE}}}\n",
            4,
            "sources[1].name: another source has this name; found 's'; the first is on line 3",
        ),
        (
            f"name: kb\nsources: [{_SITE}}}]\nchunk: {{size: 10, overlap: 10}}\n",
            3,
            "overlap 10 must be smaller than size 10",
        ),
        (f"name: kb\nsources: [{_SITE}}}]\nvalidate: {{max_rejected: 300%}}\n", 3, "validate.max_rejected"),
        (f"name: kb\nsources: [{_SITE}}}]\nschedule: every day\n", 3, "schedule: not a cron expression"),
        ("name: kb\nsources: []\n", 2, "sources"),
        ("name: kb\n", 0, "sources: is required"),
        ("name: kb\nname: other\n", 2, "not valid YAML: the key 'name' is there twice, first on line 1"),
        ("name: [kb\n", 0, "not valid YAML"),
        ("- a\n- b\n", 0, "is not a mapping"),
        ("", 0, "is empty"),
    ],
)
def test_errors_name_file_line_key_and_finding(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        load_declaration(_write(tmp_path, text))
    assert says in str(caught.value)
    assert str(tmp_path / "kb.yaml") + (f":{line}" if line else "") in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "xpath",
    [
        "//a[normalize-space(string(.)) = 'matches(x) $y' and not(@id)]/text()",
        "//p[has-class('x')][re:test(., '\\d')]/descendant::node()[position() mod (2) = 0]",
        "set:difference(//a, //b) | //comment() | //processing-instruction('x')",
        "//empty[@exists]/replace/child::matches[1]",
        "//dc:creator[ count (a) div (2) > 1]",
    ],
)
def test_xpath_with_names_that_are_known_is_valid(xpath: str) -> None:
    assert check_xpath(xpath) == xpath


def test_all_findings_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as caught:
        load_declaration(_write(tmp_path, f"name: K\nlanguage: 3\nsources: [{_SITE}}}]\nextra: 1\n"))
    assert all(key in caught.value.message for key in ("name:", "language:", "extra: unknown key"))


def test_a_value_that_is_wrong_hides_nothing_else(tmp_path: Path) -> None:
    site = f"{_SITE}, fields: {{a: {{css: h1, requird: true}}}}}}"
    text = f"name: kb\nsources:\n  - {site}\nindex: {{backend: server, collection: '-'}}\n"
    with pytest.raises(DeclarationError) as caught:
        load_declaration(_write(tmp_path, text))
    findings = [line.strip(" -") for line in caught.value.message.splitlines()[1:]]
    assert findings == [
        "line 3: sources[0].fields.a.requird: unknown key; did you mean required?",
        "line 4: index.backend: Input should be 'local'; found 'server'",
        "line 4: index.collection: String should match pattern '^[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]$'; "
        "found '-'",
    ]


_AUTH = "name: kb\nsources:\n  - name: s\n    kind: site\n    start_urls: ['http://site.test/']\n    politeness:\n"


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            "{SITE, javascript: true}",
            "sources[0].javascript: unknown key, and there is none for it: `render` of a site has Chromium draw "
            "its pages",
        ),
        ("{SITE, wait_for: css=.x}", "unknown key here; it is a key of sources[].render"),
        ("{SITE, start_url: 'http://x.test/'}", "did you mean start_urls?"),
        ("{SITE, urls: ['http://x.test/']}", "did you mean start_urls?"),
        ("{SITE, startUrls: ['http://x.test/']}", "did you mean start_urls?"),
        ("{SITE, nmae: s}", "did you mean name?"),
        ("{SITE, user_agent: me}", "unknown key here; it is a key of sources[].politeness"),
        ("{SITE, glob: '*.md'}", "unknown key here; it is a key of sources[] of kind: files"),
        ("{SITE, schedule: '0 3 * * *'}", "unknown key here; it is a key of the knowledge base"),
        ("{SITE, script: data}", "unknown key; the keys here are name, yields, encoding, drop, each, "),
        ("{SITE, pagination: {css: .next}}", "unknown key; the keys here are next, parameter, first, step, json"),
        (
            "{SITE, pagination: {paramter: page}}",
            "sources[0].pagination.paramter: unknown key; did you mean parameter?",
        ),
        ("{SITE, fields: {a: {selector: h1}}}", "the keys here are css, xpath, json, from, url"),
        (
            "{SITE, fields: {a: {css: b, fields: {c: {xpth: //b}}}}}",
            "sources[0].fields.a.fields.c.xpth: unknown key; did you mean xpath?",
        ),
        (
            "{SITE, fields: {a: {json: a, from: {scirpt: d}}}}",
            "sources[0].fields.a.from.scirpt: unknown key; did you mean script?",
        ),
        (
            "{name: f, kind: files, glob: '*.md', start_urls: []}",
            "unknown key here; it is a key of sources[] of kind: site",
        ),
    ],
)
def test_a_hint_names_keys_that_fit_their_place(tmp_path: Path, keys: str, says: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        load_declaration(_write(tmp_path, f"name: kb\nsources:\n  - {keys.replace('{SITE', _SITE)}\n"))
    assert says in caught.value.message
    assert caught.value.where == f"{tmp_path / 'kb.yaml'}:3"


def test_every_key_that_a_hint_may_name_is_one_of_its_place() -> None:
    """Whatever is written wrongly at a place, the key that may have been meant is one that the place has."""
    for model in _models(DeclaredModel):
        for other in _models(DeclaredModel):
            for key in other.declared_keys().keys() - model.declared_keys().keys():
                _, _, meant = explain_unknown_key(key, list(model.declared_keys())).partition("did you mean ")
                assert not meant or meant.rstrip("?") in model.declared_keys()


def _models(model: type[DeclaredModel]) -> set[type[DeclaredModel]]:
    return {
        model,
        *(
            below
            for part in model.__subclasses__()
            if part.__module__.startswith("almanac.")
            for below in _models(part)
        ),
    }


def test_a_key_that_is_there_twice_shows_no_value_and_one_without_value_no_name(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as caught:
        load_declaration(
            _write(
                tmp_path, _AUTH + "      auth:\n        password: SECRET\n        user: x\n        password: SECRET2\n"
            )
        )
    assert (caught.value.where, "SECRET" in str(caught.value)) == (f"{tmp_path / 'kb.yaml'}:10:9", False)
    assert "the key 'password' is there twice, first on line 8" in caught.value.message
    with pytest.raises(
        DeclarationError, match=r"politeness\.auth: unknown key; the keys here are user, password"
    ) as caught:
        load_declaration(_write(tmp_path, _AUTH + "      auth: {'x:SECRET'}\n"))
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("glob", "says"),
    [
        (
            "notes/*.{md,txt}",
            "braces are not expanded; declare a source for each of notes/*.md, notes/*.txt ([{] is a brace in a name)",
        ),
        ("{a,b}/*.{md,txt}", "declare a source for each of a/*.{md,txt}, b/*.{md,txt}"),
        ("notes/{1..9}.md", "write a class such as [0-9]"),
        ("notes/*.@(md|txt)", "@(md|txt) is not expanded"),
        ("notes/!(draft|old).md", "is not expanded"),
        ("notes/**.md", "write **/*.md"),
        ("notes**/a.md", "** stands for folders only between slashes"),
        ("notes/[^a]*.md", "write [!…]"),
        ("~/notes/*.md", "~ is not expanded"),
    ],
)
def test_a_glob_that_would_match_nothing_without_a_word_is_refused(tmp_path: Path, glob: str, says: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        load_declaration(_write(tmp_path, f"name: kb\nsources:\n  - {{name: f, kind: files, glob: '{glob}'}}\n"))
    assert f"sources[0].glob: {says}" in caught.value.message or says in caught.value.message


@pytest.mark.parametrize(
    "glob",
    [
        "a.md",
        "**/*.md",
        "**",
        "a/**/b/*.md",
        "report (1).pdf",
        "{1}.md",
        "[{]a,b}.md",
        "[!a]*.md",
        "[]a]*.md",
        "~a.md",
        "../x/*",
        "/tmp/a?.md",
    ],
)
def test_globs_that_python_knows_are_taken(tmp_path: Path, glob: str) -> None:
    assert load_declaration(
        _write(tmp_path, f"name: kb\nsources:\n  - {{name: f, kind: files, glob: '{glob}'}}\n")
    ).sources


def test_variables_are_replaced_and_missing_ones_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "name: kb\ntitle: ${TITLE}\nsources:\n  - {name: s, kind: site, start_urls: "
        "['${SITE_URL:-http://site.test}/']}\n"
    )
    with pytest.raises(DeclarationError, match="title: environment variable TITLE is not set"):
        load_declaration(_write(tmp_path, text))
    monkeypatch.setenv("TITLE", "A title")
    declaration = load_declaration(_write(tmp_path, text))
    assert declaration.title == "A title"
    assert declaration.sources[0].model_dump()["start_urls"] == ["http://site.test/"]


_CRAWLED = """
name: kb
title: {title}
sources:
  - name: api
    kind: site
    start_urls: ["https://x.test/items?key=${{API_TOKEN}}", "${{BASE_URL}}/more", "https://${{API_HOST}}/"]
    allowed_domains: ["${{API_HOST}}"]
    limits: {{pages: {pages}}}
    politeness: {{headers: {{Authorization: "Bearer ${{API_TOKEN}}"}}, cookies: {{session: "${{SESSION}}"}}}}
  - {{name: notes, kind: files, glob: "${{NOTES}}/**/*.md"}}
"""


def test_reading_needs_no_variable_of_a_source(tmp_path: Path) -> None:
    path = _write(tmp_path, _CRAWLED.format(title="Items", pages=10))
    assert len(load_declaration(path, to_read=True).sources) == 2
    with pytest.raises(DeclarationError, match="environment variable API_TOKEN is not set"):
        load_declaration(path)
    with pytest.raises(DeclarationError, match="title: environment variable TITLE is not set"):
        load_declaration(_write(tmp_path, _CRAWLED.format(title="${TITLE}", pages=10)), to_read=True)


def test_what_nothing_can_stand_for_is_named_as_not_set(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"sources\[0\].limits.pages: environment variable PAGES is not set"):
        load_declaration(_write(tmp_path, _CRAWLED.format(title="Items", pages='"${PAGES}"')), to_read=True)


@pytest.mark.parametrize(
    "written",
    [
        "${NOPE",
        "see ${",
        "${}",
        "${1BAD}",
        "${BAD-x}",
        "${BAD:x}",
        "${BAD NAME}",
        "${ BAD}",
        "${A:-${B}}",
        "${A:-x",
        "$${}",
        "${{A}}",
    ],
)
@pytest.mark.parametrize("key", ["title", "password"])
def test_what_looks_like_a_variable_and_is_none_is_an_error(tmp_path: Path, written: str, key: str) -> None:
    title, password = (written, "x") if key == "title" else ("x", f"hidden {written}")
    text = (
        f'name: kb\ntitle: "{title}"\nsources:\n  - {{name: s, kind: site, start_urls: [http://x.test/], auth: '
        f'{{user: me, password: "{password}"}}}}\n'
    )
    with pytest.raises(DeclarationError) as caught:
        load_declaration(_write(tmp_path, text))
    assert "begins a variable, and there is none" in str(caught.value) and "${NAME:-default}" in (
        caught.value.hint or ""
    )
    assert (caught.value.where or "").endswith(":2" if key == "title" else ":4")
    assert ("found $" in caught.value.message) == (key == "title") and "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("$${WORD}", "$word"),
        ("$WORD and $ and {WORD}", "$WORD and $ and {WORD}"),
        ("${NONE:-$}{WORD", "${WORD"),
        ("${WORD}${WORD}", "wordword"),
        ("${NONE:-}", ""),
    ],
)
def test_a_dollar_sign_that_begins_no_variable_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, value: str
) -> None:
    monkeypatch.setenv("WORD", "word")
    monkeypatch.delenv("NONE", raising=False)
    assert load_declaration(_write(tmp_path, f"name: kb\ntitle: '{written}'\nsources: [{_SITE}}}]\n")).title == value


def test_a_template_may_have_a_dollar_sign_before_a_field(tmp_path: Path) -> None:
    fields = "fields: {price: {css: .price, type: price}, amount: {css: .amount}}"
    source = f"{_SITE}, yields: records, {fields}, text: 'TEXT'}}"
    for text in ("It costs ${price.amount}", "It costs ${NONE:-$}{amount}"):
        assert load_declaration(_write(tmp_path, f"name: kb\nsources: [{source.replace('TEXT', text)}]\n")).sources
    with pytest.raises(DeclarationError, match="variable amount is not set") as caught:
        load_declaration(_write(tmp_path, f"name: kb\nsources: [{source.replace('TEXT', 'It costs ${amount}')}]\n"))
    assert "a dollar sign before a field is ${NONE:-$}{amount}" in (caught.value.hint or "")


def test_no_is_a_language_and_not_false(tmp_path: Path) -> None:
    assert load_declaration(_write(tmp_path, f"name: kb\nlanguage: no\nsources: [{_SITE}}}]\n")).language == "no"


def test_an_unknown_knowledge_base_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        load_declaration("nowhere")
    assert "handbook" in (caught.value.hint or "")
    with pytest.raises(NotFound):
        load_declaration(str(tmp_path / "missing.yaml"))


def test_declarations_are_frozen() -> None:
    declaration = load_declaration("voyago")
    with pytest.raises(ValidationError):
        declaration.__setattr__("name", "other")


_SHARES = [
    "gate: {max_failed: VALUE}", "gate: {max_lost: VALUE}", "gate: {max_added: VALUE}",
    "gate: {golden: g.jsonl, min_recall: VALUE}",
    "gate: {golden: g.jsonl, max_recall_drop: VALUE}", "validate: {max_rejected: VALUE}",
    "retrieve: {dense_weight: VALUE}", "retrieve: {share: VALUE}",
    "retrieve: {diversity: VALUE}", "retrieve: {tags: {weight: VALUE}}", "retrieve: {tags: {cluster_weight: VALUE}}",
]  # fmt: skip


@pytest.mark.parametrize("keys", _SHARES)
def test_a_share_without_its_percent_sign_is_refused_and_no_limit_without_effect(tmp_path: Path, keys: str) -> None:
    load_declaration(_write(tmp_path, f"name: kb\nsources: [{_SITE}}}]\n{keys.replace('VALUE', '5 %')}\n"))
    with pytest.raises(DeclarationError) as caught:
        load_declaration(_write(tmp_path, f"name: kb\nsources: [{_SITE}}}]\n{keys.replace('VALUE', '5')}\n"))
    assert "line 3" in caught.value.message
    assert "did you mean 5%?" in caught.value.message


@pytest.mark.parametrize(
    "written",
    [
        "150%",
        "100.1%",
        "1.5",
        "-1",
        "-5%",
        ".nan",
        ".inf",
        "true",
        "no",
        "[5%]",
        "'5,5%'",
        "'5 percent'",
        "''",
        "1e400",
    ],
)
def test_what_is_no_share_is_refused(tmp_path: Path, written: str) -> None:
    with pytest.raises(
        DeclarationError, match="must be a share: a number from 0 to 1, or a percentage from 0% to 100%"
    ):
        load_declaration(_write(tmp_path, f"name: kb\nsources: [{_SITE}}}]\ngate: {{max_lost: {written}}}\n"))


def test_where_more_than_as_much_again_may_come_the_limit_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"max_added: .*leave the limit out; found '150%'"):
        load_declaration(_write(tmp_path, f"name: kb\nsources: [{_SITE}}}]\ngate: {{max_added: 150%}}\n"))


@pytest.mark.parametrize(
    ("written", "share"),
    [("0", 0), ("1", 1), ("0.5%", 0.005), (".5%", 0.005), ("'0.25'", 0.25), ("100%", 1), ("12.5 %", 0.125)],
)
def test_shares_are_numbers_or_percentages(tmp_path: Path, written: str, share: float) -> None:
    declaration = load_declaration(_write(tmp_path, f"name: kb\nsources: [{_SITE}}}]\ngate: {{max_lost: {written}}}\n"))
    assert declaration.gate.max_lost == pytest.approx(share)


@pytest.mark.parametrize(
    "keys",
    ["validate: {expect: [{field: title, min: .nan}]}", "retrieve: {floor: .nan}", "retrieve: {tags: {floor: .nan}}"],
)
def test_a_limit_that_no_number_breaks_is_refused(tmp_path: Path, keys: str) -> None:
    with pytest.raises(DeclarationError):
        load_declaration(_write(tmp_path, f"name: kb\nsources: [{_SITE}}}]\n{keys}\n"))


def test_sizes_and_shares_are_read_as_people_write_them() -> None:
    declaration = load_declaration("voyago")
    limits = declaration.sources[0].model_copy(update={}).model_dump()["limits"]
    assert limits["bytes_per_page"] == 16 * 1024 * 1024
    assert declaration.validate_.max_rejected == pytest.approx(0.05)
