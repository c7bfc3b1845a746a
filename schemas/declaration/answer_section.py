"""The section `answer` of a declaration: replies without a model, and what is said where nothing answers."""

from pydantic import Field

from almanac.schemas.declaration.model import DeclaredModel


class AnswerWords(DeclaredModel):
    """Words of answers. Sentences that are quoted stay as they are."""

    unknown: str | None = Field(
        None,
        pattern=r"\S",
        max_length=500,
        description=(
            "the reply where nothing answers, whatever the language; null: a sentence that names the "
            "knowledge base, in the question's language"
        ),
    )
    keep_vectors: bool = Field(
        True,
        description=(
            "whether vectors of quoted sentences are kept beside the version, some 550 bytes each; else "
            "they are made at each question"
        ),
    )
