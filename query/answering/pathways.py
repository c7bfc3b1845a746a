"""Pathways of an answer: from the documents alone, from the documents and the model's own knowledge, or from the latter
alone.
"""

from typing import Literal, get_args

from almanac.schemas.errors import UsageError

AnswerMode = Literal["kb-only", "kb-llm"]
Pathway = Literal["kb-only", "kb-augmented", "llm-fallback"]


def require_mode(mode: str, *, is_generated: bool) -> None:
    """Raises UsageError for an unknown mode, and for `kb-llm` without a generating model."""
    if mode not in get_args(AnswerMode):
        raise UsageError(f"there is no mode '{mode}'", where="--mode", hint=f"one of {', '.join(get_args(AnswerMode))}")
    if mode == "kb-llm" and not is_generated:
        raise UsageError(
            f"mode {mode} needs a generating model, and the declaration names none",
            where="--mode",
            hint="leave it at kb-only, or declare generate: {provider: mistral or openai, model: …}",
        )
