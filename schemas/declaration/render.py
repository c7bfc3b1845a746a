"""The section `render` of a site's declaration: its pages are drawn by a browser before they are stored."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from almanac.schemas.declaration.expressions import check_css, check_xpath
from almanac.schemas.declaration.model import DeclaredModel


def _element(value: str) -> str:
    """The engine is always written, so that no other of the browser's (`text=`, `>>`) is meant by accident."""
    engine, _, selector = value.partition("=")
    if engine not in ("css", "xpath") or not selector.strip():
        raise ValueError('must be "css=…" or "xpath=…", such as "css=.card"')
    if engine == "css":
        if "::" in selector:
            raise ValueError("names an element: ::text and ::attr(…) have no place here")
        check_css(selector)
    else:
        check_xpath(selector)
    if ">>" in selector:
        raise ValueError("names an element: >> has no place here")
    return value


Element = Annotated[str, AfterValidator(_element)]


class Click(DeclaredModel):
    """An element that is clicked, once or until it is gone."""

    on: Element = Field(description='the element: "css=…" or "xpath=…"')
    times: int = Field(
        1,
        ge=1,
        le=100,
        description=(
            "how often at most: it is clicked again as long as it is visible and the page grew by the last click"
        ),
    )


def _click(value: Any) -> Any:
    return {"on": value} if isinstance(value, str) else value


class Render(DeclaredModel):
    """How a page is drawn: it is loaded, `wait_for` is waited for, then `click` and `scroll` are carried out, in this
    order.
    """

    wait_for: Element | None = Field(
        None,
        description=(
            '"css=…" or "xpath=…": the page is drawn when such an element is visible, and has failed where '
            "none comes in time. Without it: when requests are answered, or after timeout_s"
        ),
    )
    timeout_s: float = Field(
        15,
        gt=0,
        le=120,
        allow_inf_nan=False,
        description="how long loading and wait_for may take; and each click, and each scroll",
    )
    click: list[Annotated[Click, BeforeValidator(_click, json_schema_input_type=Click | Element)]] = Field(
        [],
        max_length=20,
        description=(
            'elements that are clicked, in order, where they are visible: "css=…", or {on: "css=…", times: 20} '
            'for "load more"'
        ),
    )
    scroll: int = Field(
        0, ge=0, le=100, description="how often the page is scrolled to its end at most, as long as it grows by that"
    )
    storage_state: str | None = Field(
        None,
        min_length=1,
        description=(
            "file of a browser in which somebody has logged in (`playwright codegen --save-storage=FILE`), "
            "relative to the declaration. Its cookies and local storage go to the source's own hosts"
        ),
    )
    block: list[Literal["image", "font", "media", "stylesheet"]] = Field(
        ["image", "font", "media"], description="what is not loaded for the page"
    )


def read_render(value: Any) -> Any:
    """`true` stands for a section without keys, `false` for none."""
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, dict | Render | None):
        raise ValueError('must be true, or keys such as {wait_for: "css=.card"}')
    return value
