"""Whatever is wrong with what one gives it: the right exit code, a message that teaches, no traceback, nothing
half-published.
"""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from almanac.cli.main import run
from almanac.core.load import load_declaration
from almanac.schemas.errors import DeclarationError
from tests.conftest import Almanac, Finished, Serve

_RECORDS = {
    "yields": "records",
    "fields": {"name": {"css": "h1", "required": True}, "code": {"css": ".code", "required": True}},
    "text": "{name}",
}


def _declare(folder: Path, **source: Any) -> str:
    path = folder / "shop.yaml"
    YAML().dump(
        {
            "name": "shop",
            "sources": [
                {"name": "pages", "kind": "site", "politeness": {"allow_private": True, "robots": False}, **source}
            ],
        },
        path,
    )
    return str(path)


def _site(folder: Path, **pages: str) -> Path:
    for name, body in pages.items():
        (folder / f"{name}.html").write_text(
            f"<html><head><title>{name}</title></head><body>{body}</body></html>", encoding="utf-8"
        )
    return folder


def _refused(done: Finished, code: int, kind: str, *says: str) -> dict[str, Any]:
    """The one document on stdout names the finding, and stderr tells it without a traceback."""
    assert done.code == code, done.stderr
    error: dict[str, Any] = done.json["error"]
    assert error["kind"] == kind
    assert error["hint"]
    message = f"{error['where']} {error['message']} {error['hint']}"
    assert [text for text in says if text not in message] == []
    assert "Traceback" not in done.stderr
    return error


def _nothing_published(almanac: Almanac, kb: str) -> None:
    assert almanac("versions", kb, "--json").json["versions"] == []
    _refused(almanac("search", kb, "anything", "--json"), 2, "nothing_published", f"almanac run {kb}")


def test_an_unknown_knowledge_base(almanac: Almanac) -> None:
    _refused(almanac("run", "nowhere", "--json"), 2, "not_found", "nowhere", "handbook")


def test_a_malformed_declaration(almanac: Almanac, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: [bad\nsources: {")
    _refused(
        almanac("run", str(tmp_path / "bad.yaml"), "--json"), 2, "declaration_error", "bad.yaml:", "not valid YAML"
    )


def test_an_unknown_key(almanac: Almanac, tmp_path: Path) -> None:
    declared = _declare(tmp_path, start_urls=["http://127.0.0.1:9/"], selector="h1")
    _refused(almanac("validate", declared, "--json"), 2, "declaration_error", "sources[0].selector: unknown key")


@pytest.mark.parametrize(
    "arguments", [["search", "handbook", "--json"], ["run", "handbook", "--fast", "--json"], ["fly", "--json"]]
)
def test_a_command_that_does_not_exist_or_lacks_something(almanac: Almanac, arguments: list[str]) -> None:
    _refused(almanac(*arguments), 2, "usage_error")


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("name: kb\nsources:\n\t- name: x\n", "YAML is indented by spaces"),
        ("name: kb\n---\nname: other\n", "expected a single document in the stream, but found another document"),
        ("# nothing yet\n", "is empty"),
        ("name: kb\nsources: 7\n", "sources: must be a list, as in [a, b] or in lines that begin with -; found 7"),
        ("name: kb\nsources: [notes]\n", "sources[0]: must be a mapping of keys"),
        (
            "name: 5\nsources: [{name: n, kind: files, glob: x}]\n",
            "name: must be a text; a number or a date is quoted; found 5",
        ),
        (
            "name: kb\nlanguage: english\nsources: [{name: n, kind: files, glob: x}]\n",
            "language: must be a tag of BCP 47, such as en",
        ),
        (
            "name: kb\nchunk: {overlap: much}\nsources: [{name: n, kind: files, glob: x}]\n",
            "chunk.overlap: must be a whole number; found 'much'",
        ),
    ],
)
def test_what_is_wrong_in_yaml_is_said_in_words_of_yaml(tmp_path: Path, written: str, says: str) -> None:
    (tmp_path / "kb.yaml").write_text(written)
    with pytest.raises(DeclarationError) as caught:
        load_declaration(str(tmp_path / "kb.yaml"))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["search", "shop", "words", "-k", "many"], "almanac search --help"),
        (["search", "shop", "words", "--mode", "fuzzy"], "'--mode': 'fuzzy' is not one of"),
        (["serch", "shop"], "almanac --help lists the commands"),
        (["versions", "KB", "--data", ""], "--data: is empty"),
        *(
            (["versions", "KB", "--data", place], "s3://BUCKET/PREFIX, or the path")
            for place in ("gs://bucket/x", "S3://bucket/x", "file:///tmp/x")
        ),
        (["forget", "KB", " ", "--anyway"], "the URL is empty"),
        (["test-url", "KB", "FOLDER"], "is a folder, and no file"),
    ],
)
def test_what_is_mistyped_is_told_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    declared = _declare(tmp_path, start_urls=["http://127.0.0.1:9/"])
    given = [{"KB": declared, "FOLDER": str(tmp_path)}.get(argument, argument) for argument in arguments]
    assert run(given) == 2
    printed = capsys.readouterr().err
    assert says in printed and "→" in printed


def test_an_unwritable_data_directory(almanac: Almanac, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = almanac("run", "handbook", "--json", data=tmp_path / "file" / "data")
    _refused(done, 7, "storage_error", "file", "--data DIR")


@pytest.mark.slow
def test_an_embedder_that_is_not_there_ends_the_run_before_the_first_request(almanac: Almanac, tmp_path: Path) -> None:
    declared = _declare(tmp_path, start_urls=["http://127.0.0.1:9/"])
    with Path(declared).open("a") as file:
        file.write("embed: {model: ./no-such-model}\n")
    done = almanac("run", declared, "--json")
    _refused(done, 2, "declaration_error", "no-such-model")
    assert done.json["pages"]["fetched"] == done.json["pages"]["failed"] == 0


@pytest.mark.slow
def test_an_unreachable_host(almanac: Almanac, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    declared = _declare(tmp_path, start_urls=[f"http://127.0.0.1:{port}/"])
    done = almanac("run", declared, "--json")
    _refused(done, 7, "unreachable", f"127.0.0.1:{port}")
    assert (done.json["outcome"], done.json["exit_code"], done.json["version"]) == ("failed", 7, None)
    _nothing_published(almanac, declared)


@pytest.mark.slow
def test_a_seed_that_is_404(almanac: Almanac, tmp_path: Path, serve: Serve) -> None:
    declared = _declare(tmp_path, start_urls=[f"{serve(tmp_path)}/gone.html"])
    done = almanac("run", declared, "--json")
    _refused(done, 3, "no_records", "gone.html", "404")
    assert done.json["outcome"] == "no_records"
    _nothing_published(almanac, declared)


@pytest.mark.slow
def test_no_page_yields_an_item(almanac: Almanac, tmp_path: Path, serve: Serve) -> None:
    url = serve(_site(tmp_path, index="<p>Welcome, but there is nothing to buy.</p>"))
    declared = _declare(tmp_path, start_urls=[f"{url}/"], match="/product/", **_RECORDS)
    done = almanac("run", declared, "--json")
    _refused(done, 3, "no_records", "test-url")
    _nothing_published(almanac, declared)


@pytest.mark.slow
def test_a_required_field_that_is_nowhere_names_its_selector(almanac: Almanac, tmp_path: Path, serve: Serve) -> None:
    links = "".join(f"<a href='p{n}.html'>p{n}</a>" for n in range(3))
    url = serve(_site(tmp_path, index=links, **{f"p{n}": f"<h1>Product {n}</h1>" for n in range(3)}))
    declared = _declare(tmp_path, start_urls=[f"{url}/"], match="/p\\d", **_RECORDS)
    done = almanac("run", declared, "--json")
    _refused(done, 3, "no_records", "code", ".code", "test-url")
    _nothing_published(almanac, declared)


@pytest.mark.slow
def test_an_item_without_a_required_field_is_quarantined_and_the_rest_published(
    almanac: Almanac, tmp_path: Path, serve: Serve
) -> None:
    names = [f"p{n}" for n in range(4)]
    pages = {name: f"<h1>Product {name}</h1><p class=code>C{name}</p>" for name in names[:3]} | {
        "p3": "<h1>No code</h1>"
    }
    url = serve(_site(tmp_path, index="".join(f"<a href='{n}.html'>{n}</a>" for n in names), **pages))
    declared = _declare(tmp_path, start_urls=[f"{url}/"], match="/p\\d", **_RECORDS)
    with Path(declared).open("a") as file:
        file.write("validate: {max_rejected: 50%}\n")
    done = almanac("run", declared, "--json")
    report = done.json
    assert (done.code, report["outcome"], report["version"]) == (5, "published_with_rejects", "v0001")
    assert report["items"] == {
        "in": 4,
        "added": 3,
        "changed": 0,
        "moved": 0,
        "unchanged": 0,
        "deduplicated": 0,
        "quarantined": 1,
        "removed": 0,
    }
    (reject,) = [json.loads(line) for line in Path(report["rejects_file"]).read_text().splitlines()]
    assert set(reject) == {"source", "url", "document_id", "stage", "reason", "field", "value", "rule"}
    assert (reject["url"], reject["field"], reject["rule"]) == (f"{url}/p3.html", "code", "css: .code")
    assert almanac("run", declared, "--json", "--rejects-ok").code == 0


@pytest.mark.slow
def test_too_many_rejects_are_refused_by_the_gate_and_the_live_version_serves_on(
    almanac: Almanac, tmp_path: Path, serve: Serve
) -> None:
    names = [f"p{n}" for n in range(4)]
    pages = {name: f"<h1>Product {name}</h1><p class=code>C{name}</p>" for name in names}
    url = serve(_site(tmp_path, index="".join(f"<a href='{n}.html'>{n}</a>" for n in names), **pages))
    declared = _declare(tmp_path, start_urls=[f"{url}/"], match="/p\\d", **_RECORDS)
    assert almanac("run", declared, "--json").code == 0
    _site(tmp_path, **dict.fromkeys(names[1:], "<h1>No code any more</h1>"))
    done = almanac("run", declared, "--json")
    assert (done.code, done.json["outcome"]) == (4, "gate_refused")
    assert {c["name"] for c in done.json["gate"]["checks"] if not c["ok"]} == {"max_rejected", "max_lost"}
    listed = almanac("versions", declared, "--json").json
    assert (listed["current"], [(v["version"], v["state"]) for v in listed["versions"]]) == (
        "v0001",
        [("v0002", "refused"), ("v0001", "current")],
    )
    _refused(almanac("publish", declared, "v0002", "--json"), 4, "gate_refused", "--override-gate")
    assert (
        almanac("publish", declared, "v0002", "--override-gate", "they are gone for good", "--json").json["current"]
        == "v0002"
    )
    [row] = [row for row in almanac("versions", declared, "--json").json["versions"] if row["version"] == "v0002"]
    assert row["override"] == "they are gone for good"
