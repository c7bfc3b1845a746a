"""The base of every declared model: strict, frozen, and honest about what is planned but not there yet."""

import re
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError


class DeclaredModel(BaseModel):
    """A part of a declaration. Unknown keys are errors, and so are keys and values that are `planned`.

    `planned` maps a key to the values of it that are not supported yet; an empty tuple means the key as a whole.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, hide_input_in_errors=True)  # the input may hold a secret
    planned: ClassVar[dict[str, tuple[str, ...]]] = {}

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_planned(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Planned keys are told together with everything else that is wrong here."""
        if not isinstance(data, dict):
            return handler(data)
        refused = [key for key, values in cls.planned.items() if key in data and _asks_for(data[key], values)]
        supported = {key: value for key, value in data.items() if key not in refused and cls.planned.get(key) != ()}
        if not refused:
            return handler(supported)
        errors = [_not_yet(key, data[key], cls.planned[key]) for key in refused]
        try:
            handler(supported)
        except ValidationError as error:
            # A required key that is planned in one of its values is there; it is only not supported.
            errors += [_again(e) for e in error.errors() if not (e["type"] == "missing" and e["loc"][-1:] in [(key,) for key in refused])]
        raise ValidationError.from_exception_data(cls.__name__, errors)


def _asks_for(found: Any, planned: tuple[str, ...]) -> bool:
    """An empty value of a planned key asks for nothing."""
    return found in planned if planned else found not in (None, [], {})


def _not_yet(key: str, found: Any, planned: tuple[str, ...]) -> InitErrorDetails:
    what = f"{key}: {found}" if planned else key
    return InitErrorDetails(type=PydanticCustomError("not_supported_yet", "'{what}' is not supported yet", {"what": what}), loc=(key,), input=found)


def _again(error: Any) -> InitErrorDetails:
    """A finding of pydantic's as it was, to be raised once more."""
    context = {name: value for name, value in (error.get("ctx") or {}).items() if isinstance(value, str | int | float)}
    return InitErrorDetails(type=PydanticCustomError(error["type"], error["msg"], context), loc=error["loc"], input=error["input"])


def _parse_share(value: Any) -> Any:
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value)):
        return float(match[1]) / 100
    return value


Share = Annotated[float, BeforeValidator(_parse_share), Field(ge=0)]
