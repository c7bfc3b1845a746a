"""What a plain installation does without is named where it is missing, with the command that brings it."""

import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import get_args

import pytest

from almanac.core import code_fingerprint as fingerprints
from almanac.core import extras
from almanac.core.code_fingerprint import code_fingerprint, libraries_of
from almanac.core.extras import Extra, installed_version, missing_package, require_extra
from almanac.core.store.objects import Objects
from almanac.flows.pipeline import worker
from almanac.flows.pipeline.fingerprints import MAPPING
from almanac.index.api.api_client import Api, ApiKey
from almanac.index.api.rate_limit import RateLimit
from almanac.index.api.sdks import SDKS
from almanac.index.embedding.model_folder import require_models
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import UsageError
from almanac.schemas.items import Page
from almanac.spiders.reading.content import Content
from almanac.spiders.reading.document import Interrupted
from almanac.spiders.reading.formats import DOCUMENT_TYPES
from tests.conftest import ROOT


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if no extra were installed."""
    installed = metadata.version
    brought = {
        "torch",
        "sentence-transformers",
        "transformers",
        "unstructured",
        "python-docx",
        "mistralai",
        "openai",
        "boto3",
        "distributed",
    }

    def version(name: str) -> str:
        if name in brought:
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(metadata, "version", version)
    for cached in (extras.missing_package, fingerprints._version):
        cached.cache_clear()
    yield
    for cached in (extras.missing_package, fingerprints._version):
        cached.cache_clear()


def test_extras_are_those_that_are_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    # those are imported or run by who writes code
    assert set(get_args(Extra)) == declared.keys() - {"dev", "bench", "docs", "langchain", "llamaindex"}
    assert missing_package("office") is None


@pytest.mark.usefixtures("plain")
def test_the_first_package_that_is_missing_is_named_with_the_command_that_brings_it() -> None:
    with pytest.raises(
        UsageError, match=r"run\.engine: dask needs the extra 'dask', and distributed is not installed"
    ) as raised:
        require_extra("dask", "run.engine: dask", "kb.yaml", "engine: local")
    assert raised.value.exit_code == 2
    assert raised.value.where == "kb.yaml"
    assert raised.value.hint == (
        f"make setup in a checkout; else pip install 'almanac[dask]' -c {ROOT / 'requirements.lock'}; or engine: local"
    )
    assert installed_version("unstructured") is None


@pytest.mark.usefixtures("plain")
def test_models_from_folders_and_apis_need_theirs_and_bundled_ones_nothing(tmp_path: Path) -> None:
    require_models(Embed())
    require_models(Embed(model="multilingual-e5-small-q4"))
    with pytest.raises(UsageError, match="'models', and sentence-transformers is not installed"):
        require_models(Embed(model=str(tmp_path)))
    with pytest.raises(UsageError, match="'mistral', and mistralai is not installed"):
        Api(SDKS["mistral"], Embed(provider="mistral").server, ApiKey(None), RateLimit(tmp_path / "limit"))
    with pytest.raises(UsageError, match="'openai', and openai is not installed"):
        require_models(Embed(provider="openai"))
    with pytest.raises(UsageError, match="'s3', and boto3 is not installed"):
        Objects("s3://bucket/prefix")


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx", "epub", "eml"])
def test_an_office_file_is_a_reject_that_names_the_extra_and_is_read_again(kind: str) -> None:
    content = Content(Page(f"https://x.example/a.{kind}", b"content", content_type=DOCUMENT_TYPES[kind]))
    with pytest.raises(
        Interrupted,
        match=rf"{kind.upper()} needs the extra 'office', and unstructured is not installed: .*almanac\[office\]",
    ):
        _ = content.document
    assert content.was_interrupted


def test_what_computes_results_differs_where_an_extra_is_not_installed(request: pytest.FixtureRequest) -> None:
    """Installing it maps pages anew, and a cluster's worker without it is another one."""
    there = code_fingerprint.__wrapped__(*MAPPING)
    assert worker._code.__wrapped__()["torch"] == (installed_version("torch") or "missing").partition("+")[0]
    request.getfixturevalue("plain")
    assert libraries_of(["spiders.reading.offline"]) == {"unstructured": ""}
    assert code_fingerprint.__wrapped__(*MAPPING) != there
    assert worker._code.__wrapped__()["torch"] == "missing"


def test_a_version_that_does_not_fit_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: "0.1")
    assert missing_package.__wrapped__("s3") == "boto3 0.1 does not fit (<2,>=1.40)"
