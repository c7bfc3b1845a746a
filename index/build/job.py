"""What a builder is told, as it travels to the child process."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from almanac.schemas.manifest import EmbedderInfo

AbsolutePath = Annotated[Path, AfterValidator(lambda path: path.absolute())]  # the child has another working directory


class BuildJob(BaseModel):
    """All that a builder needs. `records` and `documents` are None where a knowledge base has no such file.

    `language` is the declared one, a BCP 47 tag or `auto`. `parent` is the directory of a version that the new one may be made from; None asks for
    a full build.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version_dir: AbsolutePath
    kb: str
    collection: str
    language: str
    chunks: AbsolutePath
    records: AbsolutePath | None = None
    documents: AbsolutePath | None = None
    vectors_root: AbsolutePath
    embedder: EmbedderInfo
    parent: AbsolutePath | None = None
