"""The base of every declared model: strict, frozen, and honest about what is planned but not there yet."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError


class Declared(BaseModel):
    """A part of a declaration. Unknown keys are errors, and so are keys and values that are `planned`.

    `planned` maps a key to the values of it that are not supported yet; an empty tuple means the key as a whole.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, str_strip_whitespace=False)
    planned: ClassVar[dict[str, tuple[str, ...]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_planned(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for key, values in cls.planned.items():
            found = data.get(key)
            if key in data and (found in values if values else found not in (None, [], {})):
                what = f"{key}: {found}" if values else key
                raise PydanticCustomError("not_supported_yet", "'{what}' is not supported yet", {"what": what, "key": key})
        if not set(data).isdisjoint(k for k, v in cls.planned.items() if not v):
            return {k: v for k, v in data.items() if cls.planned.get(k) != ()}
        return data
