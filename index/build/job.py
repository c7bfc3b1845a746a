"""The input of a build, as it is sent to the child process."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from almanac.schemas.manifest import EmbedderInfo

AbsolutePath = Annotated[Path, AfterValidator(lambda path: path.absolute())]  # the child has another working directory


class BuildJob(BaseModel):
    """Everything needed to build a version directory. Relative paths are made absolute."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version_dir: AbsolutePath  # directory to build: empty, not there yet, or with these tables in it
    kb: str
    collection: str  # name of the Chroma collection
    language: str  # as declared: a BCP 47 tag or `auto`
    chunks: AbsolutePath
    records: AbsolutePath | None = None  # None where the knowledge base has no such table
    documents: AbsolutePath | None = None  # likewise
    vectors_root: AbsolutePath  # folder of the vector store
    embedder: EmbedderInfo
    parent: AbsolutePath | None = None  # directory of a version of one segment to go on from; None for a full build
    # folders of segments whose analyzed terms are taken over for the rows that they share
    known_from: list[AbsolutePath] = []
    name: str | None = None  # of the content, by which rows are found that a killed build has sent; None sends all
