"""The inputs of verifications, as they are sent to the child process."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from almanac.schemas.manifest import EmbedderInfo, Manifest, Segment, SegmentUse


class VerifyJob(BaseModel):
    """The input of a verification of one folder, as it is sent to the child process; see `verify_version`."""

    task: Literal["folder"] = "folder"
    version_dir: Path
    manifest: Manifest | Segment | None
    vectors_root: Path
    embedder: EmbedderInfo
    inside: str = ""  # precedes the places of problems


class CompositionJob(BaseModel):
    """The input of a verification of what a version makes of its segments; see `verify_composition` and
    `index.verify.verify_composed`.
    """

    task: Literal["composition"] = "composition"
    index_dir: Path
    version_dir: Path
    segments: list[SegmentUse]
    embedder: EmbedderInfo
    chunks: Path | None = None  # table with the same chunks, which are compared
    manifest: Manifest | None = None  # whose digest and counts are compared
    trusts_seals: bool  # False: the caller verifies the segments in full
