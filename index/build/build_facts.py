"""How a folder of Chroma, words and vectors was built, as its manifest says it."""

from importlib.metadata import version
from typing import Literal

from pydantic import BaseModel, ConfigDict

from almanac.core.code_fingerprint import code_fingerprint
from almanac.schemas.hashing import short_hash


class BuildFacts(BaseModel):
    """How the collection of a version was built; recorded in the manifest as `lineage["build"]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["full", "delta", "segments"]  # segments: at least one of the parent's was kept
    added: int  # rows sent to Chroma
    removed: int  # rows deleted from what there was
    found: int = 0  # rows that were there already: in a copy of the parent's collection, or in what a kill had left
    slots: int = 0  # rows that the vector index has room for, those of deleted rows among them
    layout: str  # `row_layout` at the time
    why_full: str | None = None  # why there was a full build despite a parent; None for a delta or without a parent
    parent_damaged: bool = False
    merged: int = 0  # segments of the parent that were merged


def row_layout() -> str:
    """Fingerprint of what a row is in Chroma: changes with the code that makes it, and with Chroma's version, which
    rules out a delta.
    """
    return short_hash([code_fingerprint("index.chroma.chroma_rows"), version("chromadb")])
