"""Metadata of a lexical index (`lexical.json`), and the decision whether the next version may change a copy of it. Nothing here opens tantivy.

Deleted rows stay in tantivy's statistics (number of rows, document frequencies) until their segment is rewritten, which shifts scores slightly. The index is
built in full when its deleted rows would exceed 10 % of the live ones, or when the analyzer or the declared language has changed.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from almanac.core.code_fingerprint import code_fingerprint
from almanac.schemas.errors import DamagedVersion

LEXICAL = "lexical"  # the folder in a version's directory
FACTS = "lexical.json"  # in that folder
_DUE_SHARE = 0.1  # deleted rows as a share of the live ones, at most
ANALYSIS = ("index.lexical.writer",)  # entry module of the stage, for its fingerprint


def analyzer_fingerprint() -> str:
    """Fingerprint of the code and libraries that determine a chunk's terms; the language is not part of it."""
    return code_fingerprint(*ANALYSIS)


class LexicalFacts(BaseModel):
    """How a lexical index was built."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    analyzer: str  # `analyzer_fingerprint` at the time
    language: str  # as declared: a BCP 47 tag or `auto`
    languages: list[str]  # languages of the chunks, sorted
    deleted: int = 0  # deleted rows that still count in tantivy's statistics


def lexical_facts(folder: Path) -> LexicalFacts:
    """Reads the metadata of the lexical index in `folder`. Raises DamagedVersion where it is missing or cannot be read."""
    try:
        return LexicalFacts.model_validate_json((folder / FACTS).read_bytes())
    except FileNotFoundError as error:
        raise DamagedVersion("there is no lexical index", where=str(folder), hint="almanac run KB builds a version that has one") from error
    except ValidationError as error:
        raise DamagedVersion(
            f"{FACTS} cannot be read", where=str(folder), hint="almanac verify KB says what is wrong; almanac run KB builds a new version"
        ) from error


def is_changeable(version_dir: Path, language: str, removed: int, rows: int) -> bool:
    """Whether a copy of a version's index may be changed into the next version's, instead of building that in full.

    Args:
        version_dir: Directory of the parent version.
        language: Declared language of the next version.
        removed: Number of rows to delete from the copy.
        rows: Number of rows of the next version.
    """
    try:
        facts = lexical_facts(version_dir / LEXICAL)
    except DamagedVersion:
        return False
    return (facts.analyzer, facts.language) == (analyzer_fingerprint(), language) and facts.deleted + removed <= _DUE_SHARE * rows
