"""Tells what a visitor of a page can see, so that hidden text is neither read as a field nor as part of a document.

Judged by attributes, style attributes and the plain rules of the page's own `style` elements (`styles.py`). Sheets in
other files are not fetched. What a control opens counts as seen (`controls.py`). Not believed is hiding that
scripts undo: of the whole page or nearly all its text, and fading in.
"""

import copy
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from lxml import etree, html

from almanac.spiders.selecting.controls import opened
from almanac.spiders.selecting.hiding import (
    NO_TEXT,
    PICTURES,
    fades_in,
    hides_itself,
    is_formula,
    is_inside,
    is_marked,
    not_believed,
    size_of,
)
from almanac.spiders.selecting.styles import Winners, declared_of

_CANDIDATES = etree.XPath(
    "boolean(//*[self::style or @style or @hidden or @aria-hidden='true' or @popover or self::noscript or "
    "self::template or self::dialog[not(@open)]])"
)
EMPTY: Mapping[Any, str] = MappingProxyType({})


class Visibility:
    """What is hidden on one page.

    Attributes:
        cut: the elements that are hidden with all that is in them, and how: `display: none`.
        muted: elements whose own text is hidden, though not what all their children show.
        openly: elements that are shown although their attributes hide them: a control opens them, a sheet shows them,
            or the hiding is not believed.
        silent: elements that are hidden from screen readers only.
    """

    def __init__(self, root: Any) -> None:
        self.cut: dict[Any, str] = {}
        self.muted: dict[Any, str] = {}
        self.openly: set[Any] = set()
        self.silent: frozenset[Any] = frozenset()
        if not isinstance(root, html.HtmlElement) or not _CANDIDATES(root):
            return
        self.silent = frozenset(root.xpath("//*[@aria-hidden='true']"))
        self._judge(root)

    @property
    def hides(self) -> bool:
        """Whether anything on the page is hidden."""
        return bool(self.cut or self.muted)

    def reason(self, element: Any) -> str | None:
        """How an element is hidden, by itself or by one around it; None if it is shown, or no text for readers (a
        script).
        """
        if element is not None and element.tag in NO_TEXT:
            return None
        while element is not None and self.cut:
            if element in self.cut:
                return self.cut[element]
            element = element.getparent()
        return None

    def reason_of_text(self, element: Any) -> str | None:
        """How the text directly inside an element is hidden; None if it is shown."""
        return self.muted.get(element) or self.reason(element)

    def is_silent(self, element: Any) -> bool:
        """Whether the element is hidden from screen readers."""
        while element is not None and self.silent:
            if element in self.silent:
                return True
            element = element.getparent()
        return False

    def _judge(self, root: Any) -> None:
        marked = root.xpath("//*[@hidden or @popover or self::dialog[not(@open)]]")
        winners = declared_of(root, anyhow=bool(marked))
        own = {
            element: reason
            for element in {*marked, *winners}
            if (reason := hides_itself(element, winners.get(element, {}))) is not None
        }
        own = {
            element: reason
            for element, reason in own.items()
            if element.tag not in ("html", "head", "body", *NO_TEXT) and not is_formula(element)
        }
        shown = {element for element in own if fades_in(element, own[element], winners.get(element, {}))}
        shown |= opened(
            own.keys() - shown - {e for e, reason in own.items() if reason == "clipped"}, root, is_inside=is_inside
        )
        own = {element: reason for element, reason in own.items() if element not in shown}
        own |= {element: element.tag for element in root.iter("noscript")}
        shown |= not_believed(root, own)
        self._settle(root, {element: reason for element, reason in own.items() if element not in shown}, winners)
        styled = {
            element
            for element in {*marked, *root.xpath("//*[@style]")}
            if element not in self.cut and element not in self.muted
        }
        self.openly = shown | {element for element in styled if is_marked(element)}

    def _settle(self, root: Any, own: dict[Any, str], winners: dict[Any, Winners]) -> None:
        """Turns what hides itself into what is hidden: `visibility` and `font-size` are inherited, and children may
        undo them.
        """
        inherited = {
            element: reason for element, reason in own.items() if reason in ("visibility: hidden", "font-size: 0")
        }
        self.cut = {element: reason for element, reason in own.items() if element not in inherited}
        self.cut |= {element: element.tag for element in root.iter("template")}
        outside = bool(root.xpath("boolean(//link[contains(translate(@rel, 'STYLEH', 'styleh'), 'stylesheet')])"))
        for element, reason in inherited.items():
            self._mute(element, reason, winners, outside)

    def _mute(self, top: Any, reason: str, winners: dict[Any, Winners], outside: bool) -> None:
        """Mutes `top` and what inherits from it; what has nothing shown inside is cut."""
        is_size = reason == "font-size: 0"
        shows: set[Any] = set()
        walk = etree.iterwalk(top, events=("start", "end"))
        for event, element in walk:
            if event == "start":
                style = winners.get(element, {})
                again = (size_of(style) if is_size else style.get("visibility")) if element is not top else None
                by_another_sheet = (
                    is_size and outside and element is not top and ("class" in element.attrib or "id" in element.attrib)
                )
                if by_another_sheet or again not in (None, "hidden", "collapse", "inherit", "unset"):
                    shows.update((element, *element.iterancestors()))
                    walk.skip_subtree()
                elif is_size and element.tag in PICTURES:
                    shows.update(element.iterancestors())
                else:
                    self.muted[element] = reason
            elif element in self.muted and element not in shows:
                self.cut[element] = reason


@lru_cache(maxsize=2)  # a page, and the piece of markup that is read from it
def _visibility_of(root: Any) -> Visibility:
    """What is hidden on the page with this root element; computed once per page."""
    return Visibility(root)


def visibility_around(element: Any) -> Visibility:
    """What is hidden on the page that an element is part of."""
    return _visibility_of(element.getroottree().getroot())


def hidden_in(element: Any) -> Iterator[tuple[Any, bool]]:
    """Yields what no visitor sees of an element: (hidden element, whether all in it is hidden, not its own text alone);
    nothing of what a hidden one holds.
    """
    page = visibility_around(element)
    if not page.hides:
        return
    if page.reason(element) is not None:
        yield element, True
        return
    walk = etree.iterwalk(element, events=("start",))
    for _, inner in walk:
        if inner in page.cut:
            yield inner, True
            walk.skip_subtree()
        elif inner in page.muted:
            yield inner, False


def shown_copy(element: Any, *, hidden: bool = False, styled: Mapping[Any, str] = EMPTY) -> Any:
    """The element as a visitor sees it: a copy without what is hidden; the element itself if nothing in it is; None if
    it is hidden.

    With `hidden`, what is hidden is in it too. Attributes that hide are left out where they do not, so that nothing
    that reads the copy takes them at their word; `styled` gives elements a style attribute in the copy, for what
    follows from the page's sheets, which the copy is without.
    """
    page = visibility_around(element)
    if not (page.hides or page.openly):
        return element
    if not hidden and page.reason(element) is not None:
        return None
    if not any(inner in known for inner in element.iter() for known in (page.cut, page.muted, page.openly)):
        return element
    twin = copy.deepcopy(element)
    for original, inner in list(zip(element.iter(), twin.iter(), strict=True)):
        if original in page.openly or (hidden and (original in page.cut or original in page.muted)):
            for name in ("hidden", "style", "aria-hidden", "popover"):
                inner.attrib.pop(name, None)
            inner.tag = "div" if inner.tag in ("noscript", "template") else inner.tag
        elif original in page.cut:
            _remove(inner)
        elif original in page.muted:
            emptied(inner)
        if original in styled:
            inner.set("style", styled[original])
    return twin


def _remove(element: Any) -> None:
    """Removes an element, with what is in it, but not the text that follows it."""
    above = element.getparent()
    if above is None:  # in an element that was removed
        return
    before = element.getprevious()
    if before is None:
        above.text = (above.text or "") + (element.tail or "") or None
    else:
        before.tail = (before.tail or "") + (element.tail or "") or None
    above.remove(element)


def emptied(element: Any) -> None:
    """Removes the text directly inside an element."""
    element.text = None
    for child in element:
        child.tail = None
