"""Files of a repository, from where they are to what is served: shown, planned, published, refreshed, taken down."""

from pathlib import Path

from tests.conftest import Almanac
from tests.spiders.test_git_files import Repository

_DECLARED = """
name: manual
language: en
sources:
  - {{name: docs, kind: files, git: {{url: "{url}", ref: main}}, glob: "docs/**/*.md", yields: documents}}
gate: {{max_lost: 0.9}}
"""


def _run(almanac: Almanac, path: Path, *keys: str) -> dict[str, int]:
    done = almanac("run", str(path), *keys, "--json")
    assert done.code == 0, done.stderr
    counts: dict[str, int] = done.json["items"]
    return counts


def test_a_repository_is_shown_published_refreshed_and_taken_down(almanac: Almanac, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    repository.commit(
        {
            "docs/oars.md": "# Oars\n\nAn oar is made of ash.",
            "docs/sails/jib.md": "# Jib\n\nThe jib is set before the mast.",
            "docs/old.md": "# Old\n\nTar the hull each spring.",
            "README.md": "# Not part of it",
        }
    )
    path = tmp_path / "manual.yaml"
    path.write_text(_DECLARED.format(url=repository.folder.as_uri()))
    shown = almanac("test-source", str(path), "docs", "--json")
    assert shown.json["items"][0]["title"] in ("Oars", "Jib", "Old")
    assert _run(almanac, path)["added"] == 3
    assert almanac("run", str(path), "--json").json["outcome"] == "unchanged"
    repository.commit({"docs/oars.md": "# Oars\n\nAn oar is made of spruce.", "docs/old.md": None})
    planned = almanac("plan", str(path), "--json").json["items"]
    second = _run(almanac, path)
    for counts in (planned, second):
        assert (counts["added"], counts["changed"], counts["removed"], counts["unchanged"]) == (0, 1, 1, 1)
    hit = almanac("search", str(path), "what is an oar made of", "--json").json["hits"][0]
    assert (hit["url"], "spruce" in hit["text"]) == ("oars.md", True)
    assert almanac("forget", str(path), "sails/jib.md").code == 0
    assert _run(almanac, path)["unchanged"] == 1
    repository.git("branch", "-m", "main", "trunk")
    failed = almanac("run", str(path), "--json")
    assert failed.code == 7 and "no ref 'main'" in failed.json["error"]["message"]
