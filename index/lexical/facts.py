"""What is noted of a version's lexical index, and whether the next one may be made from it. Nothing here opens tantivy.

Rows that are deleted stay in tantivy's counts (how many rows there are, and how many hold a term) until their segment is written anew, which moves
scores a little. Where they are many, and where the analyzer is another by now, the index is made in full.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from almanac.core.code_fingerprint import code_fingerprint
from almanac.schemas.errors import DamagedVersion

LEXICAL = "lexical"  # the folder in a version's directory
FACTS = "lexical.json"  # in that folder
_DUE_SHARE = 0.1  # of deleted rows
ANALYSIS = ("index.lexical.writer",)  # the module with which the stage begins


def analyzer_fingerprint() -> str:
    """What decides which terms a chunk has, but for the language."""
    return code_fingerprint(*ANALYSIS)


class LexicalFacts(BaseModel):
    """How a lexical index was made. `language` is the declared one, `languages` those of the chunks, sorted; `deleted` rows count in scores still."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    analyzer: str
    language: str
    languages: list[str]
    deleted: int = 0


def lexical_facts(folder: Path) -> LexicalFacts:
    """What is noted in the folder of a lexical index. Raises DamagedVersion where there is none, or it cannot be read."""
    try:
        return LexicalFacts.model_validate_json((folder / FACTS).read_bytes())
    except FileNotFoundError as error:
        raise DamagedVersion("there is no lexical index", where=str(folder), hint="almanac run KB builds a version that has one") from error
    except ValidationError as error:
        raise DamagedVersion(
            f"{FACTS} cannot be read", where=str(folder), hint="almanac verify KB says what is wrong; almanac run KB builds a new version"
        ) from error


def is_changeable(version_dir: Path, language: str, removed: int, rows: int) -> bool:
    """Whether the version's index may be changed into one of `rows` rows, by deleting some of its own and adding others."""
    try:
        facts = lexical_facts(version_dir / LEXICAL)
    except DamagedVersion:
        return False
    return (facts.analyzer, facts.language) == (analyzer_fingerprint(), language) and facts.deleted + removed <= _DUE_SHARE * rows
