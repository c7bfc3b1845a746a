"""Fingerprints of the stages: what was declared for each, and what computes it. A change invalidates its own stage and
what follows.

An embedder's fingerprint is none of these: it is made of the model's files, prompts and settings, and never of a
library's version. Otherwise an upgrade would embed every text anew, for vectors that are the same to the sixth digit.
"""

from collections.abc import Sequence

from almanac.core.code_fingerprint import code_fingerprint
from almanac.index.lexical.lexical_facts import analyzer_fingerprint
from almanac.query.evaluation.golden import Golden, without_history
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.reading_limits import ReadingLimits
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.hashing import short_hash
from almanac.spiders.crawling.fetching_fingerprint import fetching_of

# The modules with which each stage begins; what they import counts with them.
MAPPING = ("spiders.mapping.pages", "spiders.reading.reading_child")  # the child is started by name
CLEANING = ("transforms.mapped_pages",)
VALIDATION = ("transforms.deduplicate", "transforms.main_texts", "transforms.validate_items")
CHUNKING = ("transforms.chunking.chunker",)

# What a crawl asks for, and how; the rest of a source says what becomes of the pages.
_HOW_PAGES_COME = frozenset(
    {"politeness", "limits", "vanish_after", "gone", "fetch", "follow_links", "git", "login", "render"}
)
_READING = set(ReadingLimits.model_fields)  # of `limits`: a document beyond them is a reject


def read_code() -> None:
    """Reads the code of all stages, half a second; the fingerprints that are asked for afterwards take none of it."""
    for entries in (MAPPING, CLEANING, VALIDATION, CHUNKING):
        code_fingerprint(*entries)
    analyzer_fingerprint()


def mapping_of(source: Source, language: str) -> str:
    """How a source's pages become items."""
    declared = {
        key: value for key, value in source.model_dump(by_alias=True, mode="json").items() if key not in _HOW_PAGES_COME
    }
    noindex = source.politeness.noindex if isinstance(source, SiteSource) else None
    return short_hash(
        [
            declared,
            source.limits.model_dump(mode="json", include=_READING),
            noindex,
            language,
            code_fingerprint(*MAPPING),
        ]
    )


def cleaning_of(declaration: Declaration) -> str:
    """How fields are cleaned, records shown and main text is found. The sources' own declarations, with labels, and the
    language are part of `mapping`.
    """
    workspace = declaration.retrieve.workspace
    return short_hash([declaration.clean, workspace and workspace.model_dump(mode="json"), code_fingerprint(*CLEANING)])


def chunker_of(declaration: Declaration, embedder: str) -> str:
    """How documents are cut; where the embedder has a say in that, by which one."""
    chunk = declaration.chunk
    deciding_embedder = embedder if chunk.by == "semantic" or chunk.limits.unit == "tokens" else None
    return short_hash(
        [
            chunk.by,
            chunk.limits,
            chunk.headings,
            chunk.prefix,
            declaration.language,
            deciding_embedder,
            code_fingerprint(*CHUNKING),
        ]
    )


def index_of(declaration: Declaration, fitted_on: Sequence[Golden] = ()) -> str:
    """Where versions are kept, how their lexical index is made, and the golden questions on which relevance is fitted,
    if it is.
    """
    storage = [declaration.collection, declaration.index.model_dump(mode="json", exclude={"collection", "segment"})]
    questions = [
        [question.question, sorted(question.document_ids), sorted(question.urls), question.parts]
        for question in without_history(fitted_on)
    ]
    return short_hash([*storage, declaration.language, analyzer_fingerprint(), *([questions] if questions else [])])


def golden_of(declaration: Declaration, golden: Sequence[Golden]) -> str:
    """What golden questions a version is asked, how they are searched for, and what is demanded; empty without any."""
    gate = declaration.gate
    questions = [
        [question.question, sorted(question.document_ids), sorted(question.urls), question.parts]
        for question in without_history(golden)
    ]
    return (
        short_hash([questions, declaration.retrieve.model_dump(mode="json"), gate.min_recall, gate.max_recall_drop])
        if questions
        else ""
    )


def stages_of(declaration: Declaration, embedder: str, fitted_on: Sequence[Golden] = ()) -> dict[str, str]:
    """One short hash a stage, first to last. `embedder` is its own fingerprint, `fitted_on` the golden questions on
    which relevance is fitted.
    """
    return {
        "page": short_hash([fetching_of(source) for source in declaration.sources]),
        "mapping": short_hash([mapping_of(source, declaration.language) for source in declaration.sources]),
        "cleaning": cleaning_of(declaration),
        "validation": short_hash([declaration.validate_.model_dump(mode="json"), code_fingerprint(*VALIDATION)]),
        "chunker": chunker_of(declaration, embedder),
        "embedder": embedder,
        "index": index_of(declaration, fitted_on),
    }
