"""The declaration of a knowledge base, as it is written in YAML: one model for each section."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from almanac.schemas.declaration.knowledge_base import Declaration

__all__ = ["Declaration"]


def __getattr__(name: str) -> Any:
    """Imports the whole declaration where it is asked for: an embedder needs its own section alone."""
    if name == "Declaration":
        from almanac.schemas.declaration import knowledge_base

        return knowledge_base.Declaration
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
