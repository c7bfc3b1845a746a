"""Metadata of a segment's lexical index: `lexical.json`, in the folder `lexical/`."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from almanac.core.code_fingerprint import code_fingerprint
from almanac.core.verified import as_damaged
from almanac.schemas.errors import DamagedVersion

LEXICAL = "lexical"  # the folder in a version's or a segment's directory
FACTS = "lexical.json"  # in that folder
ANALYSIS = ("index.lexical.writer",)  # entry module of the stage, for its fingerprint
CALLED = "the lexical index"  # in messages


def analyzer_fingerprint() -> str:
    """Fingerprint of the code and libraries that determine a chunk's terms; the language is not part of it."""
    return code_fingerprint(*ANALYSIS)


class LexicalFacts(BaseModel):
    """How a lexical index was built."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    analyzer: str  # `analyzer_fingerprint` at the time
    language: str  # as declared: a BCP 47 tag or `auto`
    languages: list[str]  # those that rows were analyzed for; `languages.npy` has their numbers
    chunks: str  # `hash_of_ids` of the rows


def lexical_facts(folder: Path) -> LexicalFacts:
    """Reads the metadata of the lexical index in `folder`. Raises DamagedVersion where it is missing or unreadable."""
    try:
        content = (folder / FACTS).read_bytes()
    except FileNotFoundError as error:
        hint = "almanac run KB builds a version that has one"
        raise DamagedVersion("there is no lexical index", where=str(folder), hint=hint) from error
    with as_damaged(CALLED, folder):
        return LexicalFacts.model_validate_json(content)
