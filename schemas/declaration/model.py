"""Base class of all models of a declaration: strict and frozen, with explicit errors for planned features."""

import re
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError


class DeclaredModel(BaseModel):
    """Base of a declaration's models. Unknown keys are errors, as are keys and values listed in `planned`.

    `planned` maps a key to those of its values that are not supported yet; an empty tuple stands for the whole key.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, hide_input_in_errors=True)  # the input may hold a secret
    planned: ClassVar[dict[str, tuple[str, ...]]] = {}

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_planned(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Reports planned keys together with all other errors of the model."""
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
            # A required key with a planned value was removed before validation: it is not missing, only unsupported.
            errors += [_again(e) for e in error.errors() if not (e["type"] == "missing" and e["loc"][-1:] in [(key,) for key in refused])]
        raise ValidationError.from_exception_data(cls.__name__, errors)


def _asks_for(found: Any, planned: tuple[str, ...]) -> bool:
    """Whether a planned feature is requested; an empty value of a planned key requests nothing."""
    return found in planned if planned else found not in (None, [], {})


def _not_yet(key: str, found: Any, planned: tuple[str, ...]) -> InitErrorDetails:
    what = f"{key}: {found}" if planned else key
    return InitErrorDetails(type=PydanticCustomError("not_supported_yet", "'{what}' is not supported yet", {"what": what}), loc=(key,), input=found)


def _again(error: Any) -> InitErrorDetails:
    """Converts an error reported by pydantic into one that can be raised again."""
    context = {name: value for name, value in (error.get("ctx") or {}).items() if isinstance(value, str | int | float)}
    return InitErrorDetails(type=PydanticCustomError(error["type"], error["msg"], context), loc=error["loc"], input=error["input"])


def _parse_share(value: Any) -> Any:
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value)):
        return float(match[1]) / 100
    return value


Share = Annotated[float, BeforeValidator(_parse_share), Field(ge=0)]
