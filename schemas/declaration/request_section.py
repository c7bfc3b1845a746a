"""The section `request` of a site's declaration: pages of an API that are asked for by POST, with a body."""

import copy
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, JsonValue, PlainSerializer, SerializationInfo

from almanac.schemas.declaration.credentials import MASK, is_revealed, masked
from almanac.schemas.declaration.model import DeclaredModel


def _shown(value: Any, info: SerializationInfo) -> Any:
    """The body; without its texts, any of which may be a secret, where these are not revealed."""
    if is_revealed(info):
        return value
    if isinstance(value, dict):
        return {key: _shown(part, info) for key, part in value.items()}
    if isinstance(value, list):
        return [_shown(part, info) for part in value]
    return MASK if isinstance(value, str) else value


class Request(DeclaredModel):
    """A body, of which a page's URL may fill some values: `?filter.kind=lamp&page=2` stands for
    `{"filter": {"kind": "lamp"}, "page": 2}`, and is not sent as a query.
    """

    json_: Annotated[dict[str, JsonValue], PlainSerializer(_shown)] = Field(
        alias="json",
        min_length=1,
        repr=False,
        description='the body, sent as JSON: `{query: "…", variables: {after: null}}`. A query parameter of a start '
        "URL or a pagination that names a value in it (`variables.after`) goes there: as a number where one is "
        "declared, else as text",
    )

    def has(self, name: str) -> bool:
        """Whether a dotted name leads to a value of the body."""
        return _place(self.json_, name) is not None

    def body(self, values: Mapping[str, str]) -> dict[str, Any]:
        """The body with the values of these dotted names; names that lead nowhere are passed over."""
        filled = copy.deepcopy(self.json_)
        for name, value in values.items():
            if (place := _place(filled, name)) is not None:
                where, key = place
                is_number = isinstance(where[key], int) and not isinstance(where[key], bool)
                where[key] = int(value) if is_number and value.removeprefix("-").isdecimal() else value
        return filled

    def masked(self, text: str) -> str:
        """A text of the server without those of the body."""
        return masked(text, _texts(self.json_))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value


def _place(body: Any, name: str) -> tuple[Any, Any] | None:
    """The dict or list that has the value of a dotted name, and its key; None where there is none."""
    where, key = None, None
    for part in name.split("."):
        where, key = body, int(part) if isinstance(body, list) and part.isdecimal() else part
        try:
            body = where[key]
        except (LookupError, TypeError):
            return None
    return where, key
