"""The section `answer` of a declaration: what is said where the content holds no answer."""

from pydantic import Field

from almanac.schemas.declaration.model import DeclaredModel


class AnswerWords(DeclaredModel):
    """Words of answers. Sentences that are quoted stay as they are."""

    unknown: str | None = Field(
        None,
        pattern=r"\S",
        max_length=500,
        description="the reply where nothing answers the question, whatever its language; null: a sentence that names "
        "the "
        "knowledge base, in the language "
        "of the question",
    )
