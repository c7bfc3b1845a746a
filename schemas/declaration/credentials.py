"""Secret values of a declaration, and validation of the headers and cookies sent with a crawl.

A secret is masked wherever a declaration is printed, dumped or hashed. Only a dump with `context=REVEALED` contains the
value; it is used for the job that is sent to the crawl's process.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, SecretStr, SerializationInfo, model_validator
from pydantic_core import PydanticCustomError

from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.url_types import HttpUrl

REVEALED = {"reveal_secrets": True}

MASK = "**********"
_FEWEST = 6  # letters of a secret that is looked for in a text
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


def is_revealed(info: SerializationInfo) -> bool:
    """Whether a dump contains secrets."""
    return bool(info.context and info.context.get("reveal_secrets"))


def _shown(value: SecretStr, info: SerializationInfo) -> str:
    return value.get_secret_value() if is_revealed(info) else MASK


Secret = Annotated[
    SecretStr, BeforeValidator(_written, json_schema_input_type=str | int), PlainSerializer(_shown, return_type=str)
]
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


class OAuth(DeclaredModel):
    """Client credentials (RFC 6749, 4.4): an API's token, fetched anew as it expires and where the API answers 401."""

    token_url: HttpUrl = Field(description="where the token is fetched, by https unless the API itself is by http")
    client_id: Secret = Field(description='`"${CLIENT_ID}"`')
    client_secret: Secret = Field(description='`"${CLIENT_SECRET}"` keeps it out of the file')
    scope: str | None = Field(None, min_length=1, description="what is asked for; several are separated by spaces")
    form: dict[str, Secret] = Field({}, description="what else the server wants: `{audience: https://api.example}`")
    basic: bool = Field(
        True, description="whether the client is named by HTTP basic authentication; `no` for in the form"
    )


def masked(text: str, secrets: Iterable[str]) -> str:
    """A text with a mask in place of each secret that a server repeats in it. Those of a few letters are words, too."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK) if len(secret) >= _FEWEST else text
    return text


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
        raise ValueError("headers: authorization is declared, and auth or oauth would send another; keep one of them")


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
