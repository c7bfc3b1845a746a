"""Relevance: what it is made of, that more evidence never makes it less, and where it is unknown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from almanac.core.load import load_declaration
from almanac.core.settings import DataDir
from almanac.flows.pipeline.run import Run
from almanac.index.build.builder import build_version
from almanac.index.embedding.embedder import describe_embedder
from almanac.index.embedding.score_thresholds import E5_PROMPTS, E5_REVISION, calibration_of, score_thresholds
from almanac.index.lexical.lexical_reader import AnalyzedQuery
from almanac.index.reader import OpenVersion
from almanac.index.upkeep.rebuild import rebuild_version
from almanac.index.versions.version_store import read_manifest
from almanac.query import open_index
from almanac.query.evaluation.golden_calibration import fit_curve
from almanac.query.retrieval.relevance import Evidence, Features, confidence_in, features, relevance_by
from almanac.query.retrieval.request import Request
from almanac.query.retrieval.retriever import Retriever
from almanac.query.retrieval.term_coverage import term_coverage, term_weights
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.hashing import canonical_json
from almanac.schemas.manifest import Calibration, Curve, EmbedderInfo, Verdict
from tests.flows.commands import carry_out
from tests.index.conftest import Base, HashEmbedder, make_chunks
from tests.index.making import without_children
from tests.index.small_models import save_embedder
from tests.proof.base import LONG

_E5 = EmbedderInfo(
    provider="local", model="multilingual-e5-small-q4", revision=E5_REVISION, dimension=384, fingerprint="any",
    query_prompt=E5_PROMPTS[0], document_prompt=E5_PROMPTS[1],
)  # fmt: skip
_BUNDLED = {"minilm": describe_embedder(Embed()), "e5": _E5}
_CURVE = Curve(intercept=-3, cosine=4, coverage=2, cosine_margin=2, coverage_margin=2)


def _calibrated(name: str) -> Calibration:
    calibration = calibration_of(_BUNDLED[name])
    assert calibration is not None
    return calibration


@given(
    st.sampled_from([(name, curve) for name in _BUNDLED for curve in ("known", "unknown", "foreign")]),
    st.tuples(*[st.floats(-1, 1)] * 4),
    st.tuples(*[st.floats(0, 1)] * 4),
)
def test_more_of_anything_is_never_less_relevant(
    name_and_curve: tuple[str, str], feature_values: tuple[float, ...], more: tuple[float, ...]
) -> None:
    curve = getattr(_calibrated(name_and_curve[0]), name_and_curve[1])
    if curve is not None:
        less, greater = (
            Features(*values).on(curve)
            for values in (feature_values, [a + b for a, b in zip(feature_values, more, strict=True)])
        )
        assert 0 <= less <= greater <= 1


def _by(calibration: Calibration, evidence: dict[str, Evidence]) -> dict[str, float | None]:
    features_by_chunk = features(evidence, evidence)
    return {
        chunk_id: relevance_by(calibration, features_by_chunk[chunk_id], evidence[chunk_id].curve)
        for chunk_id in evidence
    }


@pytest.mark.parametrize(("name", "near", "far"), [("minilm", 0.75, 0.1), ("e5", 0.92, 0.78)])
def test_an_exact_answer_is_relevant_and_nonsense_is_not(name: str, near: float, far: float) -> None:
    known = {"hit": Evidence(near, 0.9, 0.5, True), "other": Evidence(far, 0.1, 0.05, True)}
    relevances = _by(_calibrated(name), known)
    assert relevances["hit"] is not None and relevances["other"] is not None
    assert relevances["hit"] > 0.9 and relevances["other"] < 0.02
    nonsense = {"hit": Evidence(far + 0.02, 0.0, 0.0, True), "other": Evidence(far, 0.0, 0.0, True)}
    assert max(value or 0 for value in _by(_calibrated(name), nonsense).values()) < 0.15


def test_a_hit_is_compared_with_all_but_its_copies() -> None:
    evidence = {
        "first": Evidence(0.6, 0.5, 0.4, True),
        "copy": Evidence(0.6, 0.5, 0.4, True),
        "second": Evidence(0.5, 0.3, 0.2, True),
        "later": Evidence(0.1, 0.1, 0.1, True),
    }
    features_by_chunk = features(evidence, ["first", "copy", "second"])
    assert features_by_chunk["first"] == features_by_chunk["copy"] == pytest.approx(Features(0.6, 0.4, 0.1, 0.2))
    assert features_by_chunk["second"] == pytest.approx(Features(0.5, 0.2, -0.1, -0.2))
    assert features_by_chunk["later"] == pytest.approx(Features(0.1, 0.1, -0.5, -0.3)), (
        "beyond the rivals, it is compared with them all the same"
    )
    assert features({"only": evidence["first"]}, ["only"])["only"] == Features(0.6, 0.4, 0.0, 0.0)


def test_confidence_is_made_of_relevance() -> None:
    assert [confidence_in(value) for value in (None, 0.0, 0.399, 0.4, 0.699, 0.7, 1.0)] == [
        None,
        "low",
        "low",
        "medium",
        "medium",
        "high",
        "high",
    ]


def test_without_a_curve_for_a_language_relevance_is_unknown() -> None:
    evidence = {
        "hit": Evidence(0.6, 0.5, 0.4, False),
        "known": Evidence(0.6, 0.5, 0.3, True),
        "foreign": Evidence(0.6, 0.5, 0.2, True, True),
    }
    relevances = _by(Calibration(known=_CURVE), evidence)
    assert [chunk_id for chunk_id, value in relevances.items() if value is None] == ["hit", "foreign"]


@pytest.mark.parametrize(
    ("question", "least"),
    [("yes", 0.0), ("42", 0.0), ("When was the railway bridge across the river Besbre built?", 0.4)],
)
def test_a_question_of_a_common_word_is_never_covered_in_full(question: str, least: float) -> None:
    texts = ["Yes, all 42 of them.", "The railway bridge across the river Besbre was built when coal was found."]
    reading = AnalyzedQuery("en", False, {}, 2)
    counted = {term: sum(term in reading.terms_of(text) for text in texts) for term in reading.terms_of(question)}
    best = max(term_coverage([reading._replace(frequencies=counted)], question, texts))
    assert best.share > 0.8
    assert least <= best.cautious < (0.3 if least == 0 else best.share)


def test_a_common_word_weighs_little_though_another_language_of_the_version_does_not_know_it() -> None:
    german, vietnamese = (AnalyzedQuery(language, False, {"der": 0, "kraulkurs": 0}, 60) for language in ("de", "vi"))
    for readings in ([german, vietnamese], [vietnamese, german]):
        weights = term_weights(readings, "der Kraulkurs")
        assert weights == term_weights([german], "der Kraulkurs")
        assert weights["der"] < weights["kraulkurs"] / 5


def test_only_what_was_measured_is_calibrated() -> None:
    prompted = _BUNDLED["minilm"].model_copy(update={"query_prompt": "q: "})
    for other in (
        prompted,
        _E5.model_copy(update={"document_prompt": ""}),
        _E5.model_copy(update={"revision": "other weights"}),
    ):
        assert calibration_of(other) is None
        assert score_thresholds(other).floor == 0
    assert score_thresholds(_E5).floor == 0.82
    assert calibration_of(_E5.model_copy(update={"model": "/models/a-copy"})) == calibration_of(_E5), (
        "a copy of the folder gives the same vectors"
    )
    assert all(calibration_of(info) for info in _BUNDLED.values())


def _drawn(count: int, seed: int = 0) -> tuple[list[Features], list[bool]]:
    """Hits of which the first cosine in five answers, as a curve would have it."""
    random = np.random.default_rng(seed)
    hit_features = [
        Features(*values) for values in random.uniform([0.6, 0, -0.2, -0.3], [0.9, 0.5, 0.2, 0.3], (count, 4))
    ]
    return hit_features, [
        bool(random.random() < 1 / (1 + np.exp(-(20 * hit.cosine + 4 * hit.coverage + 8 * hit.cosine_margin - 17))))
        for hit in hit_features
    ]


def test_a_fit_finds_the_curve_that_made_the_answers() -> None:
    hit_features, answers = _drawn(20000)
    curve = fit_curve(hit_features, answers)
    likely = np.array([hit.on(curve) for hit in hit_features])
    assert (
        curve.cosine == pytest.approx(20, abs=2)
        and curve.coverage == pytest.approx(4, abs=0.5)
        and curve.coverage_margin == pytest.approx(0, abs=0.5)
    )
    assert likely.mean() == pytest.approx(np.mean(answers), abs=1e-3)


def test_a_fit_never_turns_a_feature_around_nor_trusts_one_alone() -> None:
    """A feature that speaks against answers gets no weight, and one by which all are told apart no infinite one."""
    random = np.random.default_rng(1)
    against = [Features(0.5, float(random.random()), 0.0, 0.0) for _ in range(300)]
    assert fit_curve(against, [hit.coverage < 0.5 for hit in against]).coverage == 0
    apart = [Features(0.8 if number % 5 == 0 else 0.6, 0.2, 0.0, 0.0) for number in range(250)]
    curve = fit_curve(apart, [hit.cosine > 0.7 for hit in apart])
    assert 5 < curve.cosine < 100
    assert 0.5 < Features(0.8, 0.2, 0.0, 0.0).on(curve) < 1 and Features(0.6, 0.2, 0.0, 0.0).on(curve) < 0.1
    with pytest.raises(ValueError, match="hits that answer"):
        fit_curve(apart, [True] * len(apart))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenVersion]:
    base, rows = Base(tmp_path_factory.mktemp("relevance")), make_chunks(30)
    base.embed(rows)
    build_version(base.job())
    manifest = base.manifest("v0001", rows, Verdict(verdict="passed", checks=[]))
    with OpenVersion(
        base.index_dir,
        "v0001",
        manifest=manifest.model_copy(update={"calibration": Calibration(known=_CURVE, unknown=_CURVE)}),
    ) as version:
        yield version


def _relevances(
    opened: OpenVersion,
    k: int = 3,
    *,
    has_vector: bool = True,
    mode: Any = "hybrid",
    retrieve: Any = None,
    **request_fields: Any,
) -> dict[str, float | None]:
    declared = Declaration.model_validate(
        {"name": "kb", "sources": [{"name": "s", "kind": "files", "glob": "*"}], "retrieve": retrieve or {}}
    )
    vector = HashEmbedder().embed_queries(["Title. text 3"])[0] if has_vector else None
    retrieved = Retriever(declared, opened, HashEmbedder().embed_queries).find(
        Request("text 3", vector, k, mode, **request_fields)
    )
    assert all(hit.confidence == confidence_in(hit.relevance) for hit in retrieved.hits)
    return {hit.chunk_id: hit.relevance for hit in retrieved.hits}


def test_relevance_is_the_same_for_any_number_of_hits_and_whatever_orders_them(opened: OpenVersion) -> None:
    three, ten = _relevances(opened), _relevances(opened, 10)
    assert len(three) == 3 and len(ten) == 10
    assert three.items() <= ten.items()
    assert max(value or 0 for value in three.values()) > 0.9, "its text is the question"
    tagged = _relevances(opened, 10, retrieve={"tags": {"field": "tags"}})
    assert tagged == ten
    floored = _relevances(opened, 3, floor=0.9)
    assert floored and floored.items() <= ten.items()


def test_relevance_is_known_in_every_mode_that_has_a_vector(opened: OpenVersion) -> None:
    best = {
        mode: max(value or 0 for value in _relevances(opened, 10, mode=mode).values())
        for mode in ("hybrid", "dense", "lexical")
    }
    assert min(best.values()) > 0.9, best
    assert set(_relevances(opened, mode="lexical", has_vector=False).values()) == {None}


def test_a_filter_takes_rivals_away(opened: OpenVersion) -> None:
    relevances = _relevances(opened, 3, where={"number": {"$gte": 3}})
    assert len(relevances) == 3 and None not in relevances.values()
    (alone,) = _relevances(opened, 3, where={"number": 3}).values()
    assert alone is not None and alone < 1


def _write(folder: Path, questions: int, *, answered: bool = True) -> Path:
    names = [
        f"{a} {b}"
        for a in ("amber", "basalt", "coral", "diamond", "emerald", "flint", "garnet", "halite")
        for b in ("bridge", "castle", "harbour", "mill")
    ]
    rows = [
        {"id": f"r{n}", "text": f"The {name} was opened in {1800 + n} and has {n + 2} gates."}
        for n, name in enumerate(names)
    ]
    (folder / "rows.jsonl").write_text("".join(canonical_json(row) + "\n" for row in rows))
    golden_rows = [
        {
            "question": f"{('When was', 'How many gates has', 'Who built')[n % 3]} the {names[n % 32]}?",
            **({"document_id": f"r{n % 32}"} if answered else {}),
        }
        for n in range(questions)
    ]
    (folder / "golden.jsonl").write_text("".join(canonical_json(row) + "\n" for row in golden_rows))
    fields = {"id": {"json": "id", "required": True}, "text": {"json": "text", "required": True}}
    source = {
        "name": "rows",
        "kind": "files",
        "glob": "rows.jsonl",
        "yields": "records",
        "id": "{id}",
        "title": "{id}",
        "fields": fields,
        "text": "{text}",
    }
    declared = {
        "name": "gates",
        "language": "en",
        "sources": [source],
        "embed": {"model": str(folder / "model")},
        "retrieve": {"dense_weight": 0.1},
    }
    gate = {"golden": "golden.jsonl", "min_recall": None, "max_recall_drop": None}
    (folder / "gates.yaml").write_text(canonical_json({**declared, "gate": gate}))
    return folder / "gates.yaml"


def _run(folder: Path) -> dict[str, Any]:
    with without_children():
        return carry_out(Run(load_declaration(str(folder / "gates.yaml")), DataDir(folder / "data")))


def _read_calibration(folder: Path, version: str) -> Calibration | None:
    return read_manifest(DataDir(folder / "data").index("gates"), version).calibration


@LONG
@pytest.mark.slow
def test_another_embedder_is_calibrated_on_enough_golden_questions(tmp_path: Path) -> None:
    save_embedder(tmp_path / "model")
    _write(tmp_path, 49)
    assert (_run(tmp_path)["version"], _read_calibration(tmp_path, "v0001")) == ("v0001", None)
    path = _write(tmp_path, 50)
    assert _run(tmp_path)["version"] == "v0002", (
        "the questions are what relevance is fitted on: the same content makes another version"
    )
    fitted = _read_calibration(tmp_path, "v0002")
    assert fitted is not None and fitted.questions == 50 and fitted.known == fitted.unknown
    assert _run(tmp_path)["outcome"] == "unchanged"
    with open_index(str(path), data=tmp_path / "data") as index:
        # its text, since this embedder understands nothing
        question = "The coral castle was opened in 1809 and has 11 gates?"
        hits = index.search(question).hits
        assert hits[0].document_id == "r9"
        assert (hits[0].relevance or 0) > max(hit.relevance or 0 for hit in hits[1:])
        assert index.search(question, version="v0001").hits[0].relevance is None
        sources = index.ask(question).sources
        assert sources and sources[0].relevance == hits[0].relevance and sources[0].confidence is not None
    data = DataDir(tmp_path / "data")
    rebuild_version(data.index("gates"), "v0002", data.vectors)
    assert _read_calibration(tmp_path, "v0002") == fitted


@pytest.mark.slow
def test_questions_that_nothing_answers_calibrate_nothing(tmp_path: Path) -> None:
    save_embedder(tmp_path / "model")
    _write(tmp_path, 50, answered=False)
    assert (_run(tmp_path)["version"], _read_calibration(tmp_path, "v0001")) == ("v0001", None)


@pytest.mark.parametrize(
    ("brought", "floor", "confident"),
    [
        ({"floor": 0.1, "confident": 0.4}, 0.1, 0.4),
        ({"floor": 0.7}, 0.7, 0.7),
        ({"confident": 0.6}, 0.0, 0.6),
        ({"floor": 0.0, "confident": 0.0}, 0.0, 0.0),
    ],
)
def test_thresholds_that_an_embedder_brings_go_before_measured_ones(
    brought: dict[str, float], floor: float, confident: float
) -> None:
    thresholds = score_thresholds(_E5.model_copy(update=brought))
    assert (thresholds.floor, thresholds.confident) == (floor, confident)
