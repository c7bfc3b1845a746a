"""The section `login` of a site's declaration: a form that is filled before the first page is fetched."""

from typing import Annotated

from pydantic import Field

from almanac.schemas.declaration.credentials import Secret
from almanac.schemas.declaration.item_rules import MarkupSelector
from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.url_types import HttpUrl


class Login(DeclaredModel):
    """A page with a form, what goes into its fields, and how a page tells that somebody is logged in."""

    url: HttpUrl = Field(description="the page with the form, on a host of the source; it is no page of the crawl")
    form: dict[Annotated[str, Field(min_length=1)], Secret] = Field(
        min_length=1,
        description=(
            'values by the names of inputs: `{user: "${SHOP_USER}", password: "${SHOP_PASSWORD}"}`. Hidden '
            "fields go along as the page has them"
        ),
    )
    check: MarkupSelector = Field(
        description=(
            "an element that only somebody who is logged in sees, on each HTML page that may yield items or "
            "belongs to a listing: `{css: \"a[href='/logout']\"}`"
        )
    )
