"""Secret values of a declaration, and validation of the headers and cookies sent with a crawl.

A secret is masked wherever a declaration is printed, dumped or hashed. Only a dump with `context=REVEALED` contains the
value; it is used for the job that is sent to the crawl's process.
"""

import re
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, SecretStr, SerializationInfo, model_validator
from pydantic_core import PydanticCustomError

from almanac.schemas.declaration.model import DeclaredModel

REVEALED = {"reveal_secrets": True}

_MASK = "**********"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
TOKEN = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"  # RFC 9110, 5.6.2
_OTHER_KEY = {"cookie": "cookies", "user-agent": "user_agent"}
# Headers that a declaration may not set: they frame the message, belong to the connection, or request less than a whole
# page.
_OWN = frozenset(
    {
        "host",
        "content-length",
        "content-encoding",
        "content-type",
        "transfer-encoding",
        "te",
        "trailer",
        "expect",
        "accept-encoding",
    }
    | {"connection", "keep-alive", "upgrade", "proxy-authorization", "proxy-connection", "range", "if-range"}
    | {"if-match", "if-none-match", "if-modified-since", "if-unmodified-since"}
)


def _written(value: Any) -> Any:
    """Accepts a text without control characters, or an integer. Error messages never show the value."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # such as a PIN, which YAML parses as a number
    if not isinstance(value, str | SecretStr):
        raise PydanticCustomError("secret", "must be a text (its value is not shown)")
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if _CONTROL.search(text):
        raise PydanticCustomError("secret", "has a line break or another control character (its value is not shown)")
    return value


def _shown(value: SecretStr, info: SerializationInfo) -> str:
    return value.get_secret_value() if info.context and info.context.get("reveal_secrets") else _MASK


Secret = Annotated[SecretStr, BeforeValidator(_written), PlainSerializer(_shown, return_type=str)]
Token = Annotated[str, Field(pattern=TOKEN)]


class Auth(DeclaredModel):
    """HTTP basic authentication."""

    user: Secret = Field(description="without a colon")
    password: Secret = Field(description='`"${SHOP_PASSWORD}"` keeps it out of the file')

    @model_validator(mode="after")
    def _user_ends_at_the_colon(self) -> Self:
        if ":" in self.user.get_secret_value():
            raise PydanticCustomError("secret", "user: must not have a colon")
        return self


def check_headers(headers: dict[str, SecretStr], *, has_auth: bool) -> None:
    """Raises ValueError for a header that a declaration may not set, or sets twice. Messages never show a value."""
    names = [name.lower() for name in headers]
    for name in names:
        if name in _OTHER_KEY:
            raise ValueError(f"headers: {name} has a key of its own, politeness.{_OTHER_KEY[name]}")
        if name in _OWN:
            raise ValueError(f"headers: {name} is set by the crawl itself")
        if names.count(name) > 1:
            raise ValueError(f"headers: {name} is declared twice")
    if has_auth and "authorization" in names:
        raise ValueError("headers: authorization is declared, and auth would send another one; keep one of them")


def check_cookies(cookies: dict[str, SecretStr]) -> None:
    """Raises ValueError for a cookie value with a semicolon, which would begin another cookie. Messages never show a
    value.
    """
    for name, value in cookies.items():
        if ";" in value.get_secret_value():
            raise ValueError(
                f"cookies: the value of {name} has a semicolon, which would begin another cookie (its value is "
                "not shown)"
            )
