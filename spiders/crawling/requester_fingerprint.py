"""Fingerprint of the identity that a crawl presents, and of how it draws pages, so that pages sent to one requester are
not reused for another.
"""

import base64
import hashlib
from typing import Any

from pydantic import SecretStr

from almanac.schemas.declaration.credentials import REVEALED
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.hashing import canonical_json
from almanac.spiders.crawling.browser_state import browser_state


def requester_fingerprint(source: SiteSource) -> str:
    """Hash of the source's user agent, language, headers, cookies, authentication, secret parameters, login, body and
    `render`, in hexadecimal.

    How long a page is waited for is left out: a page that came in time is the same page.

    Raises CredentialRefused where the file of `render.storage_state` cannot be read.

    It is stored in the crawl's journal, so it must not reveal a password: scrypt (RFC 7914) makes each guess cost 50 ms
    and 16 MiB.
    """
    drawn = {}
    if source.render is not None:
        drawn["render"] = source.render.model_dump(mode="json", exclude={"timeout_s", "storage_state"})
    if source.render is not None and source.render.storage_state is not None:
        drawn["browser"] = browser_state(source).model_dump(mode="json")
    keys: dict[str, Any] = {"parameters": source.secret_parameters.revealed()} if source.secret_parameters else {}
    if source.politeness.oauth is not None:
        keys["oauth"] = source.politeness.oauth.model_dump(mode="json", context=REVEALED)
    if source.request is not None:
        keys["request"] = source.request.model_dump(mode="json", context=REVEALED)
    user = {} if source.login is None else {"login": source.login.model_dump(mode="json", context=REVEALED)}
    carried = canonical_json(
        {
            "user_agent": source.politeness.user_agent,
            "language": source.accept_language,
            "headers": declared_headers(source),
            **keys,
            **drawn,
            **user,
        }
    )
    salt = f"almanac {source.name}".encode()
    return hashlib.scrypt(
        carried.encode("utf-8", "surrogatepass"), salt=salt, n=1 << 14, r=8, p=1, maxmem=64 << 20, dklen=32
    ).hex()


def declared_headers(source: SiteSource) -> dict[str, str]:
    """The request headers that `politeness` adds, with secrets in clear text."""
    manners = source.politeness
    headers = revealed(manners.headers)
    if manners.cookies:
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in revealed(manners.cookies).items())
    if manners.auth is not None:
        pair = f"{manners.auth.user.get_secret_value()}:{manners.auth.password.get_secret_value()}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"  # RFC 7617: UTF-8
    return headers


def revealed(secrets: dict[str, SecretStr]) -> dict[str, str]:
    """The values in clear text."""
    return {name: value.get_secret_value() for name, value in secrets.items()}
