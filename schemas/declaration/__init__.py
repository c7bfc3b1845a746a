"""What a YAML file under `knowledge/` may say: one module for each section, and the whole in `knowledge_base`."""

from almanac.schemas.declaration.knowledge_base import Declaration

__all__ = ["Declaration"]
