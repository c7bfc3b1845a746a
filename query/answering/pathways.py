"""Which way a question is answered: from the documents alone, from them and what the model knows, or from what it knows."""

from typing import Literal

from almanac.query.answering.refusal import UNKNOWN
from almanac.schemas.errors import UsageError

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

__all__ = ["MODES", "UNKNOWN", "Mode", "Pathway", "choose_pathway", "fallback_notice", "require_mode"]


def choose_pathway(mode: str, *, is_confident: bool) -> Pathway:
    """In mode kb-llm the documents are used where one hit can be relied on; else the model answers without them.

    A hit can be relied on where its dense cosine reaches `retrieve.confident`. In a language that the embedder does not know, cosines tell little: there
    it has to hold enough of the question's words (`almanac.query.retrieval.relevance`).
    """
    if mode == "kb-only":
        return "kb-only"
    return "kb-augmented" if is_confident else "llm-fallback"


def require_mode(mode: str, *, is_generated: bool) -> None:
    """Raises UsageError for a mode that there is not, and for kb-llm where no generating model is declared."""
    if mode not in MODES:
        raise UsageError(f"there is no mode '{mode}'", where="--mode", hint=f"one of {', '.join(MODES)}")
    if mode == "kb-llm" and not is_generated:
        raise UsageError(
            f"mode {mode} needs a generating model, and the declaration names none",
            where="--mode",
            hint="leave it at kb-only, or declare generate: {provider: mistral, model: …}",
        )


def fallback_notice(title: str, language: str | None) -> str:
    """In the question's language, where it is one of those that are in use here."""
    return _NOTICES.get(language or "en", _NOTICES["en"]).format(title=title)
