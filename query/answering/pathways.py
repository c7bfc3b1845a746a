"""Pathways of an answer: from the documents alone, from the documents and the model's own knowledge, or from the latter
alone.
"""

from typing import Literal

from almanac.schemas.errors import UsageError

AnswerMode = Literal["kb-only", "kb-llm"]
Pathway = Literal["kb-only", "kb-augmented", "llm-fallback"]
MODES = ("kb-only", "kb-llm")


def choose_pathway(mode: str, *, is_confident: bool) -> Pathway:
    """Pathway of a question: `kb-only` in that mode; in mode `kb-llm` `kb-augmented` if a hit is confident, else
    `llm-fallback`, without documents.
    """
    if mode == "kb-only":
        return "kb-only"
    return "kb-augmented" if is_confident else "llm-fallback"


def require_mode(mode: str, *, is_generated: bool) -> None:
    """Raises UsageError for an unknown mode, and for `kb-llm` without a generating model."""
    if mode not in MODES:
        raise UsageError(f"there is no mode '{mode}'", where="--mode", hint=f"one of {', '.join(MODES)}")
    if mode == "kb-llm" and not is_generated:
        raise UsageError(
            f"mode {mode} needs a generating model, and the declaration names none",
            where="--mode",
            hint="leave it at kb-only, or declare generate: {provider: mistral or openai, model: …}",
        )
