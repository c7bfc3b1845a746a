"""The model that identifies languages: one for a process, read on first use, in .3 s."""

from functools import cache
from threading import Lock, Thread
from typing import Any

_reading = Lock()


def language_model() -> Any:
    """py3langid's identifier, which gives probabilities. Safe to share among threads."""
    with _reading:
        return _read()


def read_beside() -> None:
    """Reads the model in another thread, of which the unpacking leaves Python's lock to others: for a command that is
    going to need it.
    """
    Thread(target=language_model, name="language-model", daemon=True).start()


@cache
def _read() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # type: ignore[import-untyped]  # ships no types

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
