"""A project is a folder of the user's: which one is found from where, what is written into it, and what is said where
it lacks something.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from almanac.cli.main import run
from almanac.core.load import load_declaration
from almanac.core.settings import DataDir, Project, installation
from almanac.query import open_index
from almanac.schemas.errors import NotFound, NothingPublished
from tests.index.making import make_version, without_children

_DECLARED = "name: NAME\nsources: [{name: notes, kind: files, glob: '../notes/*.md'}]\n"
RunCommand = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine's says which folder is meant; a command's `--project` is undone after each test."""
    monkeypatch.setenv("ALMANAC_PROJECT", "")
    monkeypatch.delenv("ALMANAC_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # whatever lies above is not looked at


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Runs a command in this process: its exit code, and all that it printed, without line breaks."""

    def say(*arguments: str) -> tuple[int, str]:
        code = run(list(arguments))
        captured = capsys.readouterr()
        return code, " ".join(f"{captured.out} {captured.err}".split())

    return say


def _project(root: Path, *names: str) -> Path:
    (root / "knowledge").mkdir(parents=True, exist_ok=True)
    for name in names:
        (root / "knowledge" / f"{name}.yaml").write_text(_DECLARED.replace("NAME", name))
    return root


def _enter(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(folder)
    return folder


def test_the_nearest_folder_upwards_that_declares_something_is_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer, inner = _project(tmp_path / "outer", "shop"), _project(tmp_path / "outer" / "inner", "jobs")
    (inner / "deeper" / "knowledge").mkdir(parents=True)  # which declares nothing
    for folder, root in (
        (outer, outer),
        (outer / "notes" / "old", outer),
        (inner, inner),
        (inner / "deeper" / "still", inner),
    ):
        _enter(monkeypatch, folder)
        assert Project.locate().root == root
        assert DataDir.locate().root == root / "data"


def test_overlays_alone_and_other_files_declare_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = _project(tmp_path / "project", "shop")
    (project / "knowledge" / "shop.dev.yaml").write_text("title: Dev\n")
    (project / "knowledge" / "notes.txt").write_text("no declaration")
    (project / "knowledge" / "folder.yaml").mkdir()
    (project / "knowledge" / ".#shop.yaml").symlink_to("somebody@somewhere.1")  # an editor's lock
    (project / "knowledge" / "jobs.yml").write_text(_DECLARED.replace("NAME", "jobs"))
    assert [path.name for path in Project(project).declarations()] == ["jobs.yml", "shop.yaml"]
    _enter(monkeypatch, project)
    assert load_declaration("jobs").name == "jobs"


def test_beyond_the_home_directory_nothing_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    _project(tmp_path, "shop")  # above the home directory
    here = _enter(monkeypatch, tmp_path / "home" / "work")
    assert Project.locate().root == here
    _project(tmp_path / "home", "own")  # in it: as far as is looked
    assert Project.locate().root == tmp_path / "home"
    _enter(monkeypatch, tmp_path / "elsewhere" / "below")
    assert Project.locate().root == tmp_path


def test_an_option_counts_before_the_variable_and_the_variable_before_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    roots = {name: _project(tmp_path / name, name) for name in ("here", "variable", "option")}
    _enter(monkeypatch, roots["here"])
    assert run_command("validate", "here")[0] == 0
    monkeypatch.setenv("ALMANAC_PROJECT", str(roots["variable"]))
    assert run_command("validate", "variable")[0] == 0
    for arguments in (
        ("validate", "option", "--project", "../option"),
        ("--project", "../option", "validate", "option"),
    ):
        monkeypatch.setenv("ALMANAC_PROJECT", str(roots["variable"]))
        assert run_command(*arguments)[0] == 0
    assert os.environ["ALMANAC_PROJECT"] == str(roots["option"])  # children are told


def test_a_name_that_is_not_found_says_which_folder_was_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    _enter(monkeypatch, _project(tmp_path / "project", "shop", "jobs"))
    code, output = run_command("run", "handbook")
    assert code == 2
    assert f"no knowledge base 'handbook' in {tmp_path / 'project' / 'knowledge'}" in output
    assert "declared there: jobs, shop" in output
    _enter(monkeypatch, tmp_path / "empty")
    code, output = run_command("versions", "handbook")
    assert (code, f"in {tmp_path / 'empty' / 'knowledge'}" in output, "almanac init handbook" in output) == (
        2,
        True,
        True,
    )
    assert list((tmp_path / "empty").iterdir()) == []
    for arguments in (("status", "shop"), ("serve",), ("server",), ("mcp",)):
        code, output = run_command(*arguments, "--project", str(tmp_path / "nowhere"))
        assert (code, f"{tmp_path / 'nowhere'}: no such project folder" in output) == (2, True), arguments


def test_init_writes_into_the_project_or_makes_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    here = _enter(monkeypatch, tmp_path / "fresh")
    assert run_command("init", "shop")[0] == 0
    written = ["knowledge", "knowledge/declaration.schema.json", "knowledge/shop.yaml"]
    assert sorted(path.relative_to(here).as_posix() for path in here.rglob("*")) == written
    _enter(monkeypatch, here / "notes" / "old")
    assert run_command("init", "jobs")[0] == 0  # the project is further up
    assert sorted(path.name for path in (here / "knowledge").glob("*.yaml")) == ["jobs.yaml", "shop.yaml"]
    assert run_command("init", "wiki", "--project", str(tmp_path / "made" / "by-option"))[0] == 0
    assert run_command("validate", "wiki", "--project", str(tmp_path / "made" / "by-option"))[0] == 0


@pytest.mark.parametrize(
    ("tag", "model"),
    [
        *((tag, "all-MiniLM-L6-v2") for tag in ("en", "en-GB", "EN-us", "eng")),
        *((tag, "multilingual-e5-small-q4") for tag in ("fr", "pt-BR", "he", "vi", "auto", "enm")),
    ],
)
def test_init_proposes_an_embedder_that_knows_the_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand, tag: str, model: str
) -> None:
    here = _enter(monkeypatch, tmp_path / "fresh")
    assert run_command("init", "shop", "--language", tag)[0] == 0
    declaration = load_declaration("shop")
    assert (declaration.language, declaration.embed.model) == (tag, model)
    [line] = [
        line
        for line in (here / "knowledge" / "shop.yaml").read_text(encoding="utf-8").splitlines()
        if line.startswith("embed:")
    ]
    assert "# knows" in line and "all-MiniLM-L6-v2" in line and "multilingual-e5-small-q4" in line


def test_init_refuses_what_is_no_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    here = _enter(monkeypatch, tmp_path / "fresh")
    code, output = run_command("init", "shop", "--language", "français")
    assert (code, "'français' is no language" in output, list(here.iterdir())) == (2, True, [])


def test_hints_name_what_the_project_declares_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = _project(tmp_path / "project", "shop")
    _enter(monkeypatch, project / "below")
    assert load_declaration("shop").handle == "shop"
    assert load_declaration("../knowledge/shop.yaml").handle == "shop"
    (tmp_path / "link").symlink_to(project)
    _enter(monkeypatch, tmp_path / "link")
    assert load_declaration("shop").handle == "shop"
    _enter(monkeypatch, tmp_path / "elsewhere")
    assert load_declaration(str(project / "knowledge" / "shop.yaml")).handle == str(project / "knowledge" / "shop.yaml")


def test_python_finds_the_project_as_commands_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = _project(tmp_path / "project", "shop")
    _enter(monkeypatch, tmp_path / "elsewhere")
    with pytest.raises(NotFound, match="no knowledge base 'shop'"):
        open_index("shop")
    with pytest.raises(NothingPublished) as raised:
        open_index("shop", project=project)
    assert str(project / "data") in str(raised.value)


@pytest.mark.slow
def test_serve_names_what_is_published_and_declared_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from almanac.cli.serve import served
    from almanac.serve.catalog import Catalog

    project = _project(tmp_path / "project", "shop", "jobs")
    data = DataDir(project / "data")
    with without_children():
        for name in ("shop", "wiki"):
            make_version(data, name, "v0001", {"http://x/1": "a text"})
            (data.index(name) / "CURRENT").write_text("v0001\n")
    _enter(monkeypatch, project)
    (answering, undeclared) = served(Catalog(data))
    assert answering == "It answers from shop"
    assert f"Published in {data.root}, and not declared in {project / 'knowledge'}: wiki v0001." in undeclared
    (project / "knowledge" / "shop.other.yaml").write_text("name: shop-other\n")
    assert not any("not declared" in line and "shop" in line for line in served(Catalog(data, env="other"))), (
        "an overlay's name hides no declaration"
    )
    (project / "knowledge" / "shop.other.yaml").unlink()
    manifest = data.versions("shop") / "v0001" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 1}))
    (project / "knowledge" / "jobs.yaml").write_text("name: [")
    lines = list(served(Catalog(data)))
    assert [line.split(":")[0] for line in lines[:2]] == [
        "jobs cannot be asked",
        "shop cannot be asked",
    ] and "has format 1" in lines[1]
    assert "almanac run shop builds a version of this format" in lines[1]
    empty = _enter(monkeypatch, _project(tmp_path / "new", "jobs"))
    (nothing,) = served(Catalog(DataDir(empty / "data")))
    assert str(empty / "data") in nothing and "almanac run jobs" in nothing


@pytest.mark.slow
def test_deployments_are_those_of_the_projects_file_and_every_other_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ruamel.yaml import YAML

    from almanac.flows.server.deployments import deployment_files

    project, data = Project(_project(tmp_path / "project", "shop", "my-jobs", "wiki")), DataDir(tmp_path / "data")
    with (project.knowledge / "my-jobs.yaml").open("a") as file:
        file.write('schedule: "0 5 * * *"\n')
    (project.knowledge / "wiki.yaml").write_text("name: wiki\nsources: nonsense\n")

    def entries(path: Path) -> dict[str, Any]:
        return {deployment["parameters"]["kb"]: deployment for deployment in YAML(typ="safe").load(path)["deployments"]}

    monkeypatch.setenv("ALMANAC_PROJECT", str(project.root))  # as the server sets it
    (derived,) = deployment_files(project, data, "local")
    deployments = entries(derived)
    assert sorted(deployments) == ["my-jobs", "shop", "wiki"]
    assert (deployments["my-jobs"]["entrypoint"], deployments["my-jobs"]["schedules"]) == (
        "almanac.flows.deployed.my-jobs",
        [{"cron": "0 5 * * *", "timezone": "UTC", "active": True}],
    )
    assert deployments["shop"]["schedules"] == []
    odd = ("_old.shop", "old-shop", "日本", "中国")
    for stem in odd:
        (project.knowledge / f"{stem}.yaml").write_text(_DECLARED.replace("NAME", "odd"))
    names = [
        entries(deployment_files(project, data, "local")[0])[stem]["entrypoint"].rpartition(".")[2] for stem in odd
    ]
    assert len({*names}) == len(odd) and all(re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]*", name) for name in names)
    for stem in odd:
        (project.knowledge / f"{stem}.yaml").unlink()
    own = project.root / "prefect.yaml"
    own.write_text(json.dumps({"deployments": [{"name": "refresh", "parameters": {"kb": "shop"}}]}))
    files = deployment_files(project, data, "local")
    assert files[0] == own and sorted(entries(files[1])) == ["my-jobs", "wiki"]
    own.write_text(
        json.dumps({"deployments": [{"name": "refresh", "parameters": {"kb": name}} for name in deployments]})
    )
    assert deployment_files(project, data, "local") == [own]


def test_examples_are_copied_where_nothing_else_is_declared_and_beside_what_is(tmp_path: Path) -> None:
    from almanac.cli.demo import _with_examples

    checkout = Project(installation())
    assert _with_examples(checkout) == checkout
    fresh = Project(tmp_path / "fresh")
    assert _with_examples(fresh) == fresh
    assert {path.stem for path in fresh.declarations()} == {path.stem for path in checkout.declarations()}
    assert (fresh.root / "examples" / "voyago" / "site" / "tours" / "index.html").is_file()
    (fresh.knowledge / "handbook.yaml").unlink()
    assert _with_examples(fresh) == fresh  # a copy that was cut off is completed
    assert (fresh.knowledge / "handbook.yaml").is_file()
    for name in ("shop", "products"):  # also where it is called as an example is
        mine = Project(_project(tmp_path / name, name))
        assert _with_examples(mine).root == mine.root / "almanac-demo"
        assert [path.stem for path in mine.declarations()] == [name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cron", "is_scheduled"),
    [
        ("0 5 * * 1-5", True),
        ("30 2 1 * *", True),
        ("0 5 LW * *", False),
        ("0 5 * * 5L", False),
        ("0 5 1 * */2", False),
        ("*/10 * * * * *", False),
    ],
)
def test_a_schedule_that_prefect_reads_otherwise_is_not_handed_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cron: str, is_scheduled: bool
) -> None:
    """Declarations follow one dialect of cron and Prefect another: neither a run at the wrong time, nor a server that
    does not start.
    """
    from almanac.flows.server.deployments import _deployment

    project = _enter(monkeypatch, _project(tmp_path / "project", "shop"))
    with (project / "knowledge" / "shop.yaml").open("a") as file:
        file.write(f'schedule: "{cron}"\n')
    assert [
        schedule["cron"] for schedule in _deployment(project / "knowledge" / "shop.yaml", "local")["schedules"]
    ] == ([cron] if is_scheduled else [])


def test_where_only_some_have_an_overlay_the_others_are_read_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from almanac.flows.server.deployments import _deployment

    project = _enter(monkeypatch, _project(tmp_path / "project", "shop", "jobs"))
    (project / "knowledge" / "shop.dev.yaml").write_text("title: Shop in development\n")
    monkeypatch.setenv("ALMANAC_ENV", "dev")
    shop, jobs = (_deployment(project / "knowledge" / f"{name}.yaml", "local") for name in ("shop", "jobs"))
    assert (shop["description"], shop["parameters"]) == ("Shop in development", {"kb": "shop"})
    assert (jobs["description"], jobs["parameters"]) == ("jobs", {"kb": "jobs", "env": ""})


def test_the_installation_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    """It holds the examples' declarations, and is only read. A checkout is one."""
    installed = _project(tmp_path / "site-packages" / "almanac", "handbook")
    monkeypatch.setattr("almanac.core.settings.installation", lambda: installed)
    here = _enter(monkeypatch, installed / "docs")
    assert Project.locate().root == here
    code, output = run_command("status", "handbook", "--project", str(installed))
    assert (code, "no project" in output) == (2, True)
    (installed / "pyproject.toml").touch()
    assert Project.locate().root == installed


def test_names_and_folders_that_cannot_be_are_usage_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    _enter(monkeypatch, tmp_path / "empty")
    assert run_command("ask", "unknown", "why " * 100)[0] == 2
    assert run_command("versions", "shop", "--project", "~nobody-of-that-name/x")[0] == 2


@pytest.mark.parametrize(
    "kb",
    [
        "x" * 300,
        f"{'x' * 300}.yaml",
        f"{'日本' * 60}",
        "a/b",
        "..",
        ".",
        "/",
        "",
        "a\nb",
        "*",
        "~",
        "con",
        "shop.yaml/x",
    ],
)
def test_a_name_that_no_file_has_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand, kb: str
) -> None:
    _enter(monkeypatch, _project(tmp_path / "project", "shop"))
    for command in (("validate", kb), ("versions", kb), ("run", kb), ("search", kb, "words"), ("serve", "--kb", kb)):
        code, output = run_command(*command)
        assert (code, "not found" in output, "Traceback" in output) == (2, True, False), (command, output)
    assert not (tmp_path / "project" / "data").exists()


def test_what_lies_elsewhere_or_is_a_folder_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    _enter(monkeypatch, _project(tmp_path / "project", "shop"))
    assert "the project declares it as shop" in run_command("validate", "shop.yaml")[1]
    assert "is a folder, and no declaration" in run_command("validate", "./knowledge")[1]


def test_the_demo_leaves_out_what_needs_a_model_that_is_not_installed_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from almanac.cli.demo import _installed_examples
    from almanac.index.embedding import four_bits

    monkeypatch.setattr(four_bits, "WEIGHTS", replace(four_bits.WEIGHTS, package="no-such"))
    assert _installed_examples() == ["handbook", "workspace"]
    output = capsys.readouterr().out
    assert "Left out: voyago, products, versailles." in output
    assert "pip install 'almanac[multilingual]'" in output


def _called(root: Path, **names: str) -> Path:
    """A project with a declaration for each file, which has that name."""
    project = _project(root)
    for stem, name in names.items():
        (project / "knowledge" / f"{stem}.yaml").write_text(_DECLARED.replace("NAME", name))
    return project


def test_declarations_of_one_name_share_an_index_and_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    knowledge = _enter(monkeypatch, _called(tmp_path / "project", shop="shop", old="shop", jobs="jobs")) / "knowledge"
    for command in ("validate", "run", "plan"):
        for kb, other in (("shop", "old"), ("old", "shop"), (str(knowledge / "old.yaml"), "shop")):
            code, output = run_command(command, kb)
            assert code == 2, (command, kb, output)
            assert (
                f"{knowledge / Path(kb).stem}.yaml:1: name: 'shop' is also the name in {knowledge / other}.yaml:1"
                in output
            )
            assert "another `name:`" in output
    assert run_command("validate", "jobs")[0] == 0
    assert not (tmp_path / "project" / "data").exists()
    (knowledge / "old.yaml").rename(tmp_path / "old.yaml")
    assert run_command("validate", "shop")[0] == 0
    assert run_command("validate", str(tmp_path / "old.yaml"))[0] == 0  # which lies elsewhere


@pytest.mark.parametrize(
    "written",
    ['"name": shop', "name:\n  shop", "name: ${KB_NAME:-shop}", "'name' : 'shop' # as ever", "name: >-\n  shop"],
)
def test_a_name_counts_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand, written: str
) -> None:
    project = _enter(monkeypatch, _called(tmp_path / "project", shop="shop", other="other"))
    other = project / "knowledge" / "other.yaml"
    other.write_text(other.read_text().replace("name: other", written, 1))
    assert run_command("validate", "shop")[0] == 2
    other.write_text(_DECLARED.replace("NAME", "${NOT_SET_ANYWHERE}"))  # which cannot be run
    assert run_command("validate", "shop")[0] == 0


def test_a_name_that_an_overlay_gives_counts_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    project = _enter(monkeypatch, _called(tmp_path / "project", shop="shop", old="old"))
    (project / "knowledge" / "old.dev.yaml").write_text("name: shop\n")
    (project / "knowledge" / "shop.dev.yaml").write_text("title: In development\n")
    (project / "knowledge" / "shop.prod.yaml").write_text("title: In production\n")
    assert [run_command("validate", "shop", "--env", env)[0] for env in ("", "dev", "prod")] == [0, 2, 0]
    assert run_command("validate", "old", "--env", "dev")[0] == 2


def test_a_declaration_and_a_link_to_it_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    project = _enter(monkeypatch, _called(tmp_path / "project", shop="shop"))
    (project / "knowledge" / "store.yaml").symlink_to("shop.yaml")
    assert [run_command("validate", kb)[0] for kb in ("shop", "store")] == [0, 0]


def test_the_schema_that_init_names_is_there_and_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    here = _enter(monkeypatch, tmp_path / "fresh")
    assert run_command("init", "shop")[0] == 0
    [first, *_] = (here / "knowledge" / "shop.yaml").read_text(encoding="utf-8").splitlines()
    named = here / "knowledge" / first.removeprefix("# yaml-language-server: $schema=")
    schema = json.loads(named.read_text(encoding="utf-8"))
    declared = YAML(typ="safe").load((here / "knowledge" / "shop.yaml").read_text(encoding="utf-8"))
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(declared)) == []
    code, output = run_command("schema")
    assert (code, json.loads(output)) == (0, schema)
    assert run_command("schema", "--overlay", "--out", str(here / "overlay.json"))[0] == 0
    overlay = json.loads((here / "overlay.json").read_text(encoding="utf-8"))
    assert list(jsonschema.Draft202012Validator(overlay).iter_errors({"retrieve": {"k": 6}})) == []
