"""Fingerprints of the stages: what was declared for each, and the code that does it. A change invalidates its own stage and what follows."""

import json
from functools import cache
from typing import Any

from almanac.core.settings import installation
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.hashing import canonical_json, sha256

# What a crawl asks for, and how; the rest of a source says what becomes of the pages.
_HOW_PAGES_COME = frozenset({"politeness", "limits", "vanish_after"})
_FETCHED_BY = ("start_urls", "sitemaps", "allowed_domains", "follow", "ignore_parameters", "pagination", "limits")
_READING = (
    "schemas/items.py",
    "schemas/declaration/fields.py",
    "core/templates.py",
    "spiders/selecting/links.py",
    "spiders/selecting/urls.py",
    "spiders/selecting/patterns.py",
    "spiders/reading",
    "spiders/mapping",
)
_VALIDATING = ("transforms/expectations.py", "transforms/deduplicate.py", "transforms/validate.py")
_CLEANING = (
    "core/templates.py",
    "transforms/mapped.py",
    "transforms/clean.py",
    "transforms/partition.py",
    "transforms/main_text.py",
    "transforms/simplify.py",
    "transforms/markdown.py",
    "transforms/prepare.py",
)
_READ_WITH = ("parsel", "lxml", "price-parser", "dateparser", "babel", "pypdfium2", "mammoth", "py3langid")
_CHUNKING = ("schemas/items.py", "core/templates.py", "transforms/chunking")
_CUT_WITH = ("sentencex", "regex", "markdown-it-py")
_ANALYSING = ("index/lexical/analyzer.py", "index/lexical/writer.py")
_ANALYSED_WITH = ("tantivy", "PyStemmer", "regex")


def fetching_of(source: Source) -> str:
    """What decides which pages a source has, and how they are asked for; what is read from them plays no part.

    As whom a crawl asks is not in it: what is secret stands in no fingerprint (see `spiders/crawling/requester_fingerprint.py`).
    """
    declared = source.model_dump(by_alias=True, mode="json")
    if not isinstance(source, SiteSource):
        return _short({key: declared[key] for key in ("glob", "format", "limits")})
    listing = {key: value for key, value in (declared["listing"] or {}).items() if key != "fields"}
    # A pagination ends where a page adds nothing: cards, or else items, or else what stands on pages that may be items.
    adds = ("each",) if source.each is not None else ("match",)
    ends = {key: declared[key] for key in adds} if source.pagination.is_declared and source.listing is None else {}
    manners = {key: declared["politeness"][key] for key in ("robots", "allow_private")}
    return _short({"listing": listing, "ends": ends, "politeness": manners, **{key: declared[key] for key in _FETCHED_BY}})


def mapping_of(source: Source, language: str) -> str:
    """How a source's pages become items."""
    declared = {key: value for key, value in source.model_dump(by_alias=True, mode="json").items() if key not in _HOW_PAGES_COME}
    return _short([declared, language, _code(*_READING), _versions(*_READ_WITH)])


def cleaning_of(declaration: Declaration) -> str:
    """How fields are cleaned and main text is found."""
    return _short([declaration.clean, _code(*_CLEANING), _versions("trafilatura", "unstructured", "lxml", "inscriptis")])


def chunker_of(declaration: Declaration, embedder: str) -> str:
    """How documents are cut; where the embedder has a say in that, by which one."""
    chunk = declaration.chunk
    asked = embedder if chunk.by == "semantic" or chunk.limits.unit == "tokens" else None
    return _short([chunk.by, chunk.limits, chunk.headings, chunk.prefix, declaration.language, asked, _code(*_CHUNKING), _versions(*_CUT_WITH)])


def index_of(declaration: Declaration) -> str:
    """Where versions are kept, and how their lexical index is made."""
    kept = [declaration.collection, declaration.index.model_dump(mode="json", exclude={"collection"})]
    return _short([*kept, declaration.language, analyzer_fingerprint()])


def analyzer_fingerprint() -> str:
    """What decides which terms a chunk has, but for the language."""
    return _short([_code(*_ANALYSING), _versions(*_ANALYSED_WITH)])


def stages_of(declaration: Declaration, embedder: str) -> dict[str, str]:
    """One short hash a stage, first to last. `embedder` is its own fingerprint."""
    return {
        "page": _short([fetching_of(source) for source in declaration.sources]),
        "mapping": _short([mapping_of(source, declaration.language) for source in declaration.sources]),
        "cleaning": cleaning_of(declaration),
        "validation": _short([declaration.validate_.model_dump(mode="json"), _code(*_VALIDATING), _versions("great-expectations")]),
        "chunker": chunker_of(declaration, embedder),
        "embedder": embedder,
        "index": index_of(declaration),
    }


def _short(value: Any) -> str:
    return sha256(canonical_json(json.loads(json.dumps(value, default=str))))[:16]


@cache
def _code(*places: str) -> str:
    """A hash of modules, for what they do is part of the stage: a mended selector engine reads the same page anew."""
    root = installation()
    files = [path for place in places for path in sorted((root / place).rglob("*.py") if (root / place).is_dir() else [root / place])]
    return sha256("".join(f"{path.relative_to(root)} {sha256(path.read_bytes())}\n" for path in files))


@cache
def _versions(*names: str) -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in names}
