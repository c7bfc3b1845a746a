"""Reads what a browser in which somebody has logged in knows: Playwright's storage state, a file beside the declaration
that is read for each crawl and kept nowhere.
"""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import CredentialRefused

_HOW = "playwright codegen --save-storage=FILE URL writes it, once you have logged in and closed the window"


class Cookie(BaseModel):
    """A cookie; `domain` with a dot in front has its subdomains, too."""

    name: str
    value: str
    domain: str
    path: str = "/"


class LocalValue(BaseModel):
    name: str
    value: str


class Origin(BaseModel):
    """The local storage of an origin, such as `https://app.example`."""

    origin: str
    localStorage: list[LocalValue] = []  # noqa: N815  # Playwright's name


class BrowserState(BaseModel):
    """The keys of the file that are used."""

    cookies: list[Cookie] = []
    origins: list[Origin] = []


def browser_state(source: SiteSource) -> BrowserState:
    """The source's storage state, empty where none is declared. Raises CredentialRefused where its file is none."""
    if source.render is None or source.render.storage_state is None:
        return BrowserState()
    path = Path(source.render.storage_state)
    where = f"source {source.name}: render.storage_state"
    try:
        return BrowserState.model_validate_json(path.read_bytes())
    except OSError as error:
        raise CredentialRefused(f"{path} cannot be read: {error.strerror}", where=where, hint=_HOW) from error
    except ValidationError:
        finding = f"{path} is not what Playwright writes (its content is not shown)"
        raise CredentialRefused(finding, where=where, hint=_HOW) from None
