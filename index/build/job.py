"""What a folder of Chroma, words and vectors is built from, as it is sent to the child process, and how it was built,
as its manifest says it.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

from almanac.core.code_fingerprint import code_fingerprint
from almanac.index.lexical.lexical_facts import analyzer_fingerprint
from almanac.index.vectors.quantized import quantized_layout
from almanac.schemas.hashing import canonical_json, sha256, short_hash
from almanac.schemas.manifest import FORMAT, EmbedderInfo, Sealed

AbsolutePath = Annotated[Path, AfterValidator(lambda path: path.absolute())]  # the child has another working directory


class SegmentSpec(BaseModel):
    """What the segments of a version have in common. With a segment's rows, it determines its content. Relative paths
    are made absolute.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kb: str
    collection: str  # name of the Chroma collection
    language: str  # as declared: a BCP 47 tag or `auto`
    embedder: EmbedderInfo
    vectors_root: AbsolutePath  # folder of the vector store

    @classmethod
    def from_manifest(cls, sealed: Sealed, vectors_root: Path) -> Self:
        """What a version or segment was made with."""
        return cls(
            kb=sealed.kb,
            collection=sealed.collection,
            language=sealed.language,
            embedder=sealed.embedder,
            vectors_root=vectors_root,
        )

    @property
    def making(self) -> str:
        """Fingerprint of how segments are made: those of another one have to be made again."""
        made = [
            FORMAT,
            self.kb,
            self.collection,
            self.language,
            self.embedder.fingerprint,
            row_layout(),
            quantized_layout(),
            analyzer_fingerprint(),
        ]
        return sha256(canonical_json(made))[:16]


def content_name(spec: SegmentSpec, digest: str) -> str:
    """Returns a name for the content of a version of one segment, from the digest of its chunks."""
    return sha256(f"{spec.making} {digest}")[:32]


class BuildJob(SegmentSpec):
    """Everything needed to build a folder of one segment: of a version, or of a segment that versions share."""

    version_dir: AbsolutePath  # directory to build: empty or not there yet
    chunks: AbsolutePath
    records: AbsolutePath | None = None  # None where the knowledge base has no such table
    documents: AbsolutePath | None = None  # likewise
    parent: AbsolutePath | None = None  # directory of a version of one segment to go on from; None for a full build
    # folders of segments whose analyzed terms are taken over for the rows that they share
    known_from: list[AbsolutePath] = []
    name: str | None = None  # of the content, by which rows are found that a killed build has sent; None sends all


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
