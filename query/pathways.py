"""Which way a question is answered: from the documents alone, from them and what the model knows, or from what it knows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from query.abstention import UNKNOWN
from schemas.errors import UsageError
from schemas.reports import Hit

if TYPE_CHECKING:
    from query.generators import Generator

Mode = Literal["kb-only", "kb-llm"]
Pathway = Literal["kb-only", "kb-augmented", "llm-fallback"]
MODES = ("kb-only", "kb-llm")

# What stands before a reply that rests on no document; a model that is asked to say so itself does it now and then.
_NOTICES = {
    "en": "This is not in {title}; it is what the model knows:",
    "fr": "Ceci ne figure pas dans {title} ; c'est ce que sait le modèle :",
    "vi": "Điều này không có trong {title}; đây là hiểu biết của mô hình:",
    "he": "המידע הזה אינו מופיע ב-{title}; זה מה שהמודל יודע:",
    "es": "Esto no figura en {title}; es lo que sabe el modelo:",
    "de": "Das steht nicht in {title}; es ist, was das Modell weiß:",
}

__all__ = ["MODES", "UNKNOWN", "Mode", "Pathway", "choose_pathway", "cosine", "fallback_notice"]


def choose_pathway(mode: str, hits: Sequence[Hit], confident: float, generator: "Generator | None") -> Pathway:
    """In mode kb-llm the documents are used where one hit reaches `confident`, a dense cosine; else the model answers without them.

    Raises UsageError for a mode that there is not, and for kb-llm where no generating model is declared.
    """
    if mode not in MODES:
        raise UsageError(f"there is no mode '{mode}'", where="--mode", hint=f"one of {', '.join(MODES)}")
    if mode == "kb-only":
        return "kb-only"
    if generator is None:
        raise UsageError(
            f"mode {mode} needs a generating model, and the declaration names none",
            where="--mode",
            hint="leave it at kb-only, or declare generate: {provider: mistral, model: …}",
        )
    return "kb-augmented" if any(cosine(hit) >= confident for hit in hits) else "llm-fallback"


def cosine(hit: Hit) -> float:
    """The dense cosine that floors and thresholds are on."""
    dense = hit.scores.get("dense")
    return hit.score if dense is None else dense


def fallback_notice(title: str, language: str | None) -> str:
    """In the question's language, where it is one of those that are in use here."""
    return _NOTICES.get(language or "en", _NOTICES["en"]).format(title=title)
