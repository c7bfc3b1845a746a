"""Metadata of a lexical index (`lexical.json`). Nothing here opens tantivy."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from almanac.core.code_fingerprint import code_fingerprint
from almanac.index.lexical.terms import FIELDS
from almanac.schemas.errors import DamagedVersion

LEXICAL = "lexical"  # the folder in a version's directory
FACTS = "lexical.json"  # in that folder
ANALYSIS = ("index.lexical.writer",)  # entry module of the stage, for its fingerprint


def analyzer_fingerprint() -> str:
    """Fingerprint of the code and libraries that determine a chunk's terms; the language is not part of it."""
    return code_fingerprint(*ANALYSIS)


class LexicalFacts(BaseModel):
    """How a lexical index was built."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    analyzer: str  # `analyzer_fingerprint` at the time
    language: str  # as declared: a BCP 47 tag or `auto`
    languages: dict[str, int]  # language of chunks → number of rows, sorted by language
    rows: int
    terms: dict[str, int]  # field → number of its terms in all rows, repeated ones included
    longest: dict[str, int]  # field → number of terms of the longest row

    @field_validator("terms", "longest")
    @classmethod
    def _require_fields(cls, value: dict[str, int]) -> dict[str, int]:
        if set(value) != set(FIELDS):
            raise ValueError(f"not of the fields {', '.join(FIELDS)}")
        return value


def lexical_facts(folder: Path) -> LexicalFacts:
    """Reads the metadata of the lexical index in `folder`. Raises DamagedVersion where it is missing or cannot be
    read.
    """
    try:
        return LexicalFacts.model_validate_json((folder / FACTS).read_bytes())
    except FileNotFoundError as error:
        raise DamagedVersion(
            "there is no lexical index", where=str(folder), hint="almanac run KB builds a version that has one"
        ) from error
    except ValidationError as error:
        raise DamagedVersion(
            f"{FACTS} cannot be read",
            where=str(folder),
            hint="almanac verify KB says what is wrong; almanac run KB builds a new version",
        ) from error
