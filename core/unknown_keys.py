"""Explains a key that a declaration does not know at its place: by the one that was meant, by the place where it
belongs, or by what there is instead.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, get_args

from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.model import DeclaredModel
from almanac.schemas.declaration.near_words import nearest

_BROWSER = (
    '`render` of a site has Chromium draw its pages: render: {wait_for: "css=…"}. Data that a page\'s scripts '
    "hold is read without it, by json rules with "
    "`from: {script: …}`; of data that they fetch, the URL is declared in start_urls"
)
_PROXY = "the proxy that the environment names (HTTPS_PROXY) is used with politeness: {allow_private: true}"
_INSTEAD = {
    **dict.fromkeys(
        ("javascript", "js", "enable_js", "render_js", "rendering", "browser", "headless", "dynamic", "spa"), _BROWSER
    ),
    **dict.fromkeys(("playwright", "selenium", "puppeteer", "splash", "chrome", "chromium", "firefox"), _BROWSER),
    **dict.fromkeys(("proxy", "proxies"), _PROXY),
}
_SHOWN_PLACES = 3


def explain_unknown_key(key: str, keys: Sequence[str]) -> str:
    """Returns the finding about `key` at a place whose keys are `keys`: `unknown key; did you mean required?`. It names
    no key that the place lacks.
    """
    instead = _INSTEAD.get(key.casefold().replace("-", "_"))
    if instead is not None and key not in _places():
        return f"unknown key, and there is none for it: {instead}"
    meant = nearest(key, keys)
    if meant is not None:
        return f"unknown key; did you mean {meant}?"
    places = _places().get(key, [])
    if 0 < len(places) <= _SHOWN_PLACES:
        return f"unknown key here; it is a key of {' and of '.join(places)}"
    return f"unknown key; the keys here are {', '.join(keys)}"


@cache
def _places() -> dict[str, list[str]]:
    """Key → the places where it may stand, such as `sources[].politeness`."""
    places: dict[str, list[str]] = {}
    for place, model in _models(Declaration, "", ()):
        for key in model.declared_keys():
            if place not in places.setdefault(key, []):
                places[key].append(place)
    return places


def _models(
    model: type[DeclaredModel], place: str, above: tuple[type[DeclaredModel], ...]
) -> Iterator[tuple[str, type[DeclaredModel]]]:
    """Yields (place, model) for a model and all models inside it. One that contains itself is gone into once."""
    kind = get_args(model.model_fields["kind"].annotation) if "kind" in model.model_fields else ()
    yield f"{place} of kind: {kind[0]}" if kind else place or "the knowledge base", model
    for key, field in model.declared_keys().items():
        for inner, suffix in _inside(field.annotation, ""):
            if inner not in (*above, model):
                yield from _models(inner, f"{place}.{key}{suffix}".lstrip("."), (*above, model))


def _inside(annotation: Any, suffix: str) -> Iterator[tuple[type[DeclaredModel], str]]:
    """Yields the models in a type, each with what leads to them: `[]` for a list, `.NAME` for a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, DeclaredModel):
        yield annotation, suffix
    origin = getattr(annotation, "__origin__", None)
    suffix += "[]" if origin is list else ".NAME" if origin is dict else ""
    for argument in get_args(annotation):
        yield from _inside(argument, suffix)
