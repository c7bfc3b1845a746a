"""Types for URLs and hosts in a declaration."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError


def http_url(value: str) -> str:
    """Returns `value` if it is an http or https URL with a host and without credentials; else ValueError with the
    reason.
    """
    if "@" in re.split(r"[/?#\\]", value.partition("://")[2], maxsplit=1)[0]:
        raise PydanticCustomError(
            "secret", "must not have a user or password in it; declare politeness: {auth: {user: …, password: …}}"
        )
    parts = urlsplit(value)  # ValueError for brackets without an address
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in parts.netloc):
        raise ValueError("must be an http:// or https:// URL with a host")
    _ = parts.port  # ValueError for an invalid port
    return value


def ascii_host(host: str) -> str:
    """Returns a host in the form used for DNS: lower case, internationalised names in their ASCII form. ValueError
    where it is not a host.
    """
    if ":" in host:
        return f"[{host.lower()}]"
    try:
        return host.encode("idna").decode("ascii").lower()
    except UnicodeError as error:
        # IDNA rejects underscores and long labels, yet such names exist in DNS.
        if host.isascii():
            return host.lower()
        raise ValueError(f"not a host name: {host!r}") from error


def domain_of(value: str) -> str:
    """Returns the host of a domain in any notation: `https://Shop.example/`, `*.shop.example` and `shop.example:8080`
    give `shop.example`.

    ValueError where there is no host.
    """
    if value.count(":") > 1 and "[" not in value and "://" not in value:  # an IPv6 address on its own
        value = f"[{value}]"
    host = urlsplit(value if "://" in value else f"//{value}").hostname or ""
    host = host.removeprefix("*.").strip(".")
    if not host or any(character.isspace() or character in "*/" for character in host):
        raise ValueError("must be a host, such as shop.example; its subdomains are allowed with it")
    return ascii_host(host).strip("[]")


def _base_url(value: str) -> str:
    """Validates the address of an API server, and removes slashes behind it."""
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or port == 0:
        raise ValueError("must be an address such as https://api.example.com/v1")
    if parts.username is not None or parts.password is not None:
        raise PydanticCustomError(
            "secret",
            "must not hold a user or a password (its value is not shown); `key` names the variable with the key",
        )
    return value.rstrip("/")


def _server_url(value: str) -> str:
    """As `_base_url`, without a trailing `/v1`, which Mistral's client adds itself."""
    return _base_url(value).removesuffix("/v1").rstrip("/")


HttpUrl = Annotated[str, AfterValidator(http_url)]
Domain = Annotated[str, AfterValidator(domain_of)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]
ServerUrl = Annotated[str, AfterValidator(_server_url)]
