"""The precision of a knowledge base: that of its first build, on whichever machine a run, a check or a reader comes to
it.
"""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.index.embedding import precision
from almanac.index.embedding.model_folder import describe_embedder
from almanac.index.versions.publish import finish_version, publish
from almanac.index.versions.version_store import version_dir
from almanac.query.published import open_index
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.errors import DeclarationError, EmbedderMismatch
from tests.index import making

DECLARED = "name: shop\nsources: [{name: pages, kind: files, glob: pages/*.md}]\n"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDir]:
    """`shop`, which another machine has built in bfloat16; this one has none."""
    (tmp_path / "cpuinfo").write_text("model name\t: Old Xeon\nflags\t\t: fpu avx2\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precision, "_CPU", tmp_path / "cpuinfo")
        patch.setattr(precision, "_GPU_DRIVER", tmp_path / "none")
        data = DataDir(tmp_path / "data")
        texts = {f"http://shop/{number}": f"page {number}" for number in range(3)}
        with making.without_children():
            made = making.make_version(data, "shop", "v0001", texts)
        half = describe_embedder(Embed(precision="bfloat16"))
        folder = version_dir(data.index("shop"), "v0001")
        (folder / "manifest.json").unlink()
        finish_version(data.index("shop"), made.model_copy(update={"embedder": half, "files": []}))
        publish(data.index("shop"), "v0001")
        yield data


def _run(data: DataDir, embed: str = "") -> Run:
    path = data.root.parent / "shop.yaml"
    path.write_text(DECLARED + embed)
    return Run(load_declaration(str(path), env=""), data)


def test_a_run_without_bfloat16_asks_what_to_do_with_a_base_that_has_it(data: DataDir) -> None:
    with pytest.raises(DeclarationError, match="found Old Xeon") as raised:
        _ = _run(data).embedder
    assert "reuse: tolerant" in (raised.value.hint or "")
    tolerant = _run(data, "embed: {reuse: tolerant}\n").embedder
    assert tolerant == describe_embedder(Embed(precision="bfloat16"))
    assert (
        _run(data, "embed: {precision: float32}\n").embedder
        == describe_embedder(Embed(precision="float32"))
        != tolerant
    )


def test_a_new_base_has_what_the_machine_has(data: DataDir) -> None:
    assert _run(DataDir(data.root.parent / "other")).embedder.precision == "float32"


def test_a_worker_follows_the_run_whatever_its_own_machine_has(data: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _run(DataDir(data.root.parent / "other"))
    described = run.embedder
    monkeypatch.setattr(precision, "_CPU", data.root.parent / "newer")
    (data.root.parent / "newer").write_text("flags\t\t: fpu amx_bf16\n")
    assert _run(DataDir(data.root.parent / "other")).embedder.precision == "bfloat16"
    sent = pickle.loads(pickle.dumps(run))
    assert sent.embedder == described
    assert (sent.declaration.sha256, sent.declaration.path, sent.declaration.env) == (
        run.declaration.sha256,
        run.declaration.path,
        run.declaration.env,
    )


def test_any_machine_reads_a_base_of_bfloat16_but_not_under_another_declared_precision(data: DataDir) -> None:
    path = _run(data).declaration.path
    with open_index(str(path), data=data.root) as index, index.reading(None) as retriever:
        assert retriever.opened.manifest.embedder.precision == "bfloat16"
    _run(data, "embed: {precision: float32}\n")
    with open_index(str(path), data=data.root) as index, pytest.raises(EmbedderMismatch), index.reading(None):
        pass
