"""Base class of all models of a declaration: strict and frozen, with errors that name the keys that there are."""

import math
import re
from collections.abc import Sequence
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, NamedTuple, Self, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError


class DeclaredModel(BaseModel):
    """Base of a declaration's models. Unknown keys are errors."""

    # the input may hold a secret
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, hide_input_in_errors=True)

    @classmethod
    def declared_keys(cls) -> dict[str, FieldInfo]:
        """Returns the keys as they are written in a declaration, in order."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_strange_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Reports unknown keys with those that there are, together with all other errors of the model."""
        refuse(
            cls,
            [
                Finding((key,), "must be a number", data[key])
                for key in _numbers(cls)
                if isinstance(data, dict) and isinstance(data.get(key), bool)
            ],
        )
        try:
            return handler(data)
        except ValidationError as error:
            errors = error.errors()
            if not any(_is_unknown_key(e) for e in errors):
                raise
            raise ValidationError.from_exception_data(
                cls.__name__, [_unknown_key(e, cls) if _is_unknown_key(e) else _again(e) for e in errors]
            ) from None


@cache
def _numbers(model: type[DeclaredModel]) -> list[str]:
    """The keys of a model that take a number and no truth value, which pydantic would read as 1 or 0."""
    plain = {
        key: field
        for key, field in model.declared_keys().items()
        if not any(isinstance(annotation, BeforeValidator) for annotation in field.metadata)
    }
    return [
        key for key, field in plain.items() if (kinds := _kinds(field.annotation)) & {int, float} and bool not in kinds
    ]


def _kinds(annotation: Any) -> set[Any]:
    """The types of a union. What has a validator of its own, such as a share, is left to that."""
    return (
        set().union(*map(_kinds, get_args(annotation)))
        if get_origin(annotation) in (Union, UnionType)
        else {annotation}
    )


class Finding(NamedTuple):
    """What a model finds wrong once all of its values are valid: the keys that lead to the value, the finding, and the
    value itself.

    `first` are the keys of an earlier value that this one contradicts; the message names its line.
    """

    keys: tuple[str | int, ...]
    finding: str
    value: Any
    first: tuple[str | int, ...] = ()


def refuse(model: type[BaseModel], findings: Sequence[Finding]) -> None:
    """Raises a ValidationError with all findings, each at its own place in the declaration; does nothing without
    findings.
    """
    if findings:
        raise ValidationError.from_exception_data(model.__name__, [_error_of(finding) for finding in findings])


def _error_of(finding: Finding) -> InitErrorDetails:
    kind = PydanticCustomError("value_error", "{finding}", {"finding": finding.finding, "first": finding.first})
    return InitErrorDetails(type=kind, loc=finding.keys, input=finding.value)


def _is_unknown_key(error: Any) -> bool:
    """Whether the error is about a key of the model itself, and not of one inside it."""
    return error["type"] == "extra_forbidden" and len(error["loc"]) == 1


def _unknown_key(error: Any, model: type[DeclaredModel]) -> InitErrorDetails:
    """The error with the model's keys, for the message."""
    kind = PydanticCustomError("unknown_key", "unknown key", {"keys": " ".join(model.declared_keys())})
    return InitErrorDetails(type=kind, loc=error["loc"], input=error["input"])


def _again(error: Any) -> InitErrorDetails:
    """Converts an error reported by pydantic into one that can be raised again."""
    context = {name: value for name, value in (error.get("ctx") or {}).items() if isinstance(value, str | int | float)}
    return InitErrorDetails(
        type=PydanticCustomError(error["type"], error["msg"], context), loc=error["loc"], input=error["input"]
    )


_PERCENTAGE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*")
_A_SHARE = "must be a share: a number from 0 to 1, or a percentage from 0% to 100%"


def _parse_share(value: Any, beyond: str = "") -> float:
    """Returns the share that a number or a percentage stands for. `beyond` says in the error what to do where more than
    all is meant.
    """
    percentage = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    try:
        share = float(percentage[1]) / 100 if percentage else math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        share = math.nan
    if not share >= 0:  # NaN, too
        raise ValueError(_A_SHARE)
    if share > 1:
        is_forgotten = percentage is None and share <= 100
        raise ValueError(_A_SHARE + (f"; did you mean {share:.12g}%?" if is_forgotten else "") + beyond)
    return share


# as it is written
_WrittenShare = Annotated[float, Field(ge=0, le=1)] | Annotated[str, Field(pattern=f"^{_PERCENTAGE.pattern}$")]
Share = Annotated[float, BeforeValidator(_parse_share, json_schema_input_type=_WrittenShare), Field(ge=0, le=1)]
Growth = Annotated[
    float,
    BeforeValidator(
        partial(_parse_share, beyond="; where more than as much again may come, leave the limit out"),
        json_schema_input_type=_WrittenShare,
    ),
    Field(ge=0, le=1),
]
