"""Limits on reading a file: PDF, office formats, EPUB and mail."""

from pydantic import Field

from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.sizes import Bytes


class ReadingLimits(DeclaredModel):
    """What reading one file may take; one that takes more is a reject."""

    seconds_per_file: int = Field(
        60,
        gt=0,
        description="processor time for reading a PDF, office file, EPUB or mail; one that takes more is a reject",
    )
    memory_per_file: Bytes = Field(
        1 << 30,
        ge=256 << 20,
        description="memory of the process that reads such files, of which 150 MiB are its own; a number or `1GiB`",
    )
    elements_per_file: int = Field(
        250_000, gt=0, description="paragraphs, headings, list items and table cells of such a file"
    )
