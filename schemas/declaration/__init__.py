"""Models of a declaration, a YAML file under `knowledge/`: one module per section, combined in `knowledge_base`."""

from almanac.schemas.declaration.knowledge_base import Declaration

__all__ = ["Declaration"]
