"""Works out which of a page's style declarations win on each element: matching, specificity, order, layers,
`!important`, style attributes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from cssselect2 import ElementWrapper  # type: ignore[import-untyped]  # ships no types

from almanac.spiders.selecting.styles import GROUPS, Declared, Rule, Sheet, inline, may_hide

Winners = dict[str, str]  # the winning value by property

_MAX_STEPS = 1_000_000  # elements looked at while matching: about 1 s
_MAX_SELECTORS = 5_000
_UNLAYERED = 1_000_000


class TooCostly(Exception):
    """The page has too many selectors that could hide something, or matching them takes too many steps."""


class Cascade:
    """The declarations of a page that win, and what a visitor's deed (`:hover`, `:target`, `:checked`) would declare.

    Raises TooCostly if matching takes too long, which depends on the page alone.
    """

    def __init__(self, root: Any, sheets: list[Sheet], groups: frozenset[str] = frozenset()) -> None:
        """`groups` are groups of properties that count although nothing in the sheets hides with them."""
        self._root = root
        styled = root.xpath("//*[@style]")
        self.styled = styled if sheets or groups or any(may_hide(element.get("style")) for element in styled) else []
        rules = [(rule, number) for number, rule in enumerate(rule for sheet in sheets for rule in sheet.rules)]
        self._groups = (
            _hiding_groups(
                [d for rule, _ in rules for d in rule.declared]
                + [d for e in self.styled for d in inline(e.get("style"))]
            )
            | groups
        )
        self._rules = [
            (rule, number) for rule, number in rules if any(GROUPS[d.name] in self._groups for d in rule.declared)
        ]
        self._views = _Views()
        if sum(rule.prelude.count(",") + 1 for rule, _ in self._rules) > _MAX_SELECTORS:
            raise TooCostly

    def winners(self) -> dict[Any, Winners]:
        """The winning declarations by element, for elements that have any."""
        ranked: dict[Any, dict[str, tuple[Any, str]]] = defaultdict(dict)

        def declare(
            element: Any, declared: Iterable[Declared], is_inline: bool, layer: int | None, rank: tuple[Any, ...]
        ) -> None:
            for one in declared:
                if GROUPS[one.name] not in self._groups:
                    continue
                level = _UNLAYERED if layer is None else layer
                key = (one.important, is_inline, -level if one.important else level, *rank)
                known = ranked[element].get(one.name)
                if known is None or key >= known[0]:
                    ranked[element][one.name] = (key, one.value)

        for element, rule, specificity, number in self._matches("selectors"):
            declare(element, rule.declared, False, rule.layer, (specificity, number))
        for element in self.styled:
            declare(element, inline(element.get("style")), True, None, ((0, 0, 0), 0))
        return {element: {name: value for name, (_, value) in found.items()} for element, found in ranked.items()}

    def after_deeds(self) -> dict[Any, list[Declared]]:
        """What rules declare for elements once a visitor points, clicks or ticks."""
        found: dict[Any, list[Declared]] = defaultdict(list)
        for element, rule, _, _ in self._matches("deeds"):
            found[element] += rule.declared
        return found

    def _matches(self, kind: str) -> Iterator[tuple[Any, Rule, Any, int]]:
        """Yields (element, rule, specificity, number of the rule) for every selector that matches."""
        tests = [(selector, rule, number) for rule, number in self._rules for selector in getattr(rule, kind)]
        if not tests:
            return
        index = self._index()
        for selector, rule, number in tests:
            name = (
                f"#{selector.id}"
                if selector.id
                else f".{selector.class_name}"
                if selector.class_name
                else selector.lower_local_name or "*"
            )
            candidates = index.get(name, ())
            self._views.spend(len(candidates))
            for element in candidates:
                if selector.test(self._views.of(element)):
                    yield element, rule, selector.specificity, number

    def _index(self) -> dict[str, list[Any]]:
        """The page's elements by tag, `#id` and `.class`, in page order."""
        index: dict[str, list[Any]] = defaultdict(list)
        for element in self._root.iterdescendants():
            if not isinstance(element.tag, str):
                continue
            index["*"].append(element)
            index[element.tag].append(element)
            if name := element.get("id"):
                index[f"#{name}"].append(element)
            for name in set((element.get("class") or "").split()):
                index[f".{name}"].append(element)
        return index


def _hiding_groups(declared: Iterable[Declared]) -> frozenset[str]:
    """The groups of properties in which something on the page may hide; `motion` counts beside others."""
    found = {GROUPS[one.name] for one in declared if may_hide(f"{one.name}:{one.value}")}
    if found & {"place", "clip"}:
        found |= {"place", "clip"}
    return frozenset(found | {"motion"}) if found else frozenset()


class _Views:
    """The elements of a page as cssselect2 sees them, made on demand; counts the elements looked at."""

    def __init__(self) -> None:
        self._known: dict[Any, _View] = {}
        self._steps = 0

    def of(self, element: Any) -> "_View":
        view = self._known.get(element)
        if view is None:
            view = self._known[element] = _View(element, self)
        return view

    def spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _MAX_STEPS:
            raise TooCostly


class _View(ElementWrapper):  # type: ignore[misc]  # ships no types
    """An element as cssselect2 sees it. Parents and siblings are found when asked for, without recursion, and
    counted.
    """

    def __init__(self, element: Any, views: _Views) -> None:
        self.etree_element = element
        self.in_html_document = True
        self.transport_content_language = None
        self._views = views

    @property
    def parent(self) -> "_View | None":
        above = self.etree_element.getparent()
        return None if above is None else self._views.of(above)

    @property
    def previous(self) -> "_View | None":
        self._views.spend(1)
        return next(
            (
                self._views.of(sibling)
                for sibling in self.etree_element.itersiblings(preceding=True)
                if isinstance(sibling.tag, str)
            ),
            None,
        )

    @property
    def etree_siblings(self) -> list[Any]:
        above = self.etree_element.getparent()
        found: list[Any] = [self.etree_element] if above is None else self._views.of(above).etree_children
        self._views.spend(len(found))
        return found

    @property
    def index(self) -> int:
        above = self.parent
        return 0 if above is None else above.places[self.etree_element]

    @cached_property
    def places(self) -> dict[Any, int]:
        """The places of the children among their siblings."""
        return {child: number for number, child in enumerate(self.etree_children)}

    @property
    def ancestors(self) -> "list[_View]":
        found = [self._views.of(above) for above in self.etree_element.iterancestors()]
        self._views.spend(len(found))
        return found

    @property
    def previous_siblings(self) -> "list[_View]":
        found = [
            self._views.of(sibling)
            for sibling in self.etree_element.itersiblings(preceding=True)
            if isinstance(sibling.tag, str)
        ]
        self._views.spend(len(found))
        return found

    def iter_children(self) -> "Iterator[_View]":
        for child in self.etree_children:
            self._views.spend(1)
            yield self._views.of(child)

    def iter_next_siblings(self) -> "Iterator[_View]":
        for sibling in self.etree_element.itersiblings():
            if isinstance(sibling.tag, str):
                self._views.spend(1)
                yield self._views.of(sibling)
