"""The things that a page describes in JSON-LD or microdata, and which of them a record is read from: all its fields
come from one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jmespath.visitor import TreeInterpreter

from almanac.spiders.selecting.selectors import search_json

# Properties by which an object, such as a WebPage, holds what it is about (schema.org), or other objects (JSON-LD).
_HOLDING = ("mainEntity", "mainEntityOfPage", "@graph", "@included")
# Types of what describes the site, its publisher, the page and the way to it. Most pages have them, whatever they are
# about.
_OF_THE_SITE = frozenset(
    {
        "WebSite",
        "Organization",
        "Corporation",
        "LocalBusiness",
        "BreadcrumbList",
        "SiteNavigationElement",
        "WPHeader",
        "WPFooter",
        "ImageObject",
    }
    | {"SearchAction", "ContactPoint", "PostalAddress", "Person"}
    | {
        "WebPage",
        "AboutPage",
        "CheckoutPage",
        "CollectionPage",
        "ContactPage",
        "ItemPage",
        "ProfilePage",
        "SearchResultsPage",
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Things:
    """The objects that a page describes, in page order. Objects of one `@id` and a common type are one, as JSON-LD has
    it.

    Attributes:
        each: the objects that stand by themselves.
        wholes: the blocks as written, with their `@graph`.
        inner: what the objects are about, where they hold it (`mainEntity`).
    """

    each: list[Any]
    wholes: list[Any] = field(default_factory=list)
    inner: list[Any] = field(init=False)
    _lists: list[Any] = field(init=False)
    _lenient: "_Lenient" = field(init=False)
    _agreed: dict[str, bool] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "each", _joined(self.each))
        object.__setattr__(self, "inner", list(_held_by(self.each)))
        lists = [_All(self.each), *self.wholes, *([_All([*self.each, *self.inner])] if self.inner else [])]
        object.__setattr__(self, "_lists", lists)
        object.__setattr__(
            self,
            "_lenient",
            _Lenient({thing["@id"]: thing for thing in (*self.inner, *self.each) if isinstance(thing.get("@id"), str)}),
        )

    @property
    def every(self) -> list[Any]:
        """All of them: those that stand by themselves, then those that they are about."""
        return [*self.each, *self.inner]

    def subject_of(self, wanted: Sequence[tuple[str, bool]]) -> "Subject":
        """What a record is read from by these expressions, each with whether its field is required.

        It is the first thing in which most required fields find something; of several, one that is not about the site;
        and of these, the one with most fields.
        """
        best, best_thing, equal = (0, False, 0), None, 0
        for thing in self.every:
            required_flags = [
                is_required for expression, is_required in wanted if not is_nothing(self.within(thing, expression))
            ]
            held = (sum(required_flags), not is_of_the_site(thing), len(required_flags))
            if required_flags and held > best:
                best, best_thing, equal = held, thing, 0
            elif required_flags and held == best:
                equal += 1
        return Subject(self, best_thing, equal)

    def within(self, thing: Any, expression: str) -> Any:
        """What an expression finds in one thing: as it is, else leniently (`_Lenient`)."""
        value = search_json(expression, thing)
        return search_json(expression, thing, self._lenient) if is_nothing(value) else value

    def search(self, expression: str, thing: Any) -> Any:
        """The first result of the expression on the thing, and on all of them together, as one list and by blocks; then
        on these again, leniently.

        An expression over all of them, such as `[?"@type"=='Product']`, says itself what it reads.
        """
        for interpreter in (None, self._lenient):
            for scope in (thing, *self._lists):
                if not is_nothing(value := search_json(expression, scope, interpreter)):
                    return value
        return None

    def agree_on(self, expression: str) -> bool:
        """Whether all objects that have a value for the expression have the same one. With several products, none
        describes a card that has no data.
        """
        if expression not in self._agreed:  # which a page with thousands of cards asks for each of them
            self._agreed[expression] = self._agree_on(expression)
        return self._agreed[expression]

    def _agree_on(self, expression: str) -> bool:
        for things in (self.each, self.inner):
            if values := [value for thing in things if not is_nothing(value := search_json(expression, thing))]:
                return all(value == values[0] for value in values)
        return True


@dataclass(frozen=True, slots=True)
class Subject:
    """What the fields of one record are read from.

    Attributes:
        thing: the one of `things` that holds most of the fields; None where none holds any.
        equal: how many other things hold as many.
        is_shared: whether the things describe the page around a card, and the card only where they agree.
    """

    things: Things
    thing: Any
    equal: int = 0
    is_shared: bool = False

    def of_part(self, node: Any) -> "Subject":
        """The subject of a part of the page: the part itself, where it is one of the things."""
        return replace(self, thing=node, equal=0) if any(node is thing for thing in self.things.every) else self

    def find(self, expression: str) -> Any:
        """What an expression finds; None if nothing."""
        return None if self._is_of_others(expression) else self.things.search(expression, self.thing)

    @property
    def name(self) -> str | None:
        """The type of the thing and its place among all, and whether others might be meant: `Product, 2 of 3`; None
        where no thing holds any field.
        """
        every = self.things.every
        number = next((number for number, thing in enumerate(every, start=1) if thing is self.thing), None)
        if number is None:
            return None
        others = (
            f" (the first of {self.equal + 1} that hold as many of the fields)"
            if self.equal and not self.is_shared
            else ""
        )
        return f"{_kind_of(self.thing)}, {number} of {len(every)}{others}"

    def gave(self, expression: str) -> bool:
        """Whether what the expression finds is in the thing, and not in a list of all of them."""
        return (
            self.thing is not None
            and not self._is_of_others(expression)
            and not is_nothing(self.things.within(self.thing, expression))
        )

    def why_nothing(self, expression: str) -> str | None:
        """That an expression which finds nothing in the thing finds something in another one, with the expression that
        reads it there; None otherwise.
        """
        if self.thing is None:
            return None
        if self._is_of_others(expression):
            return (
                "this part of the page has no data of its own, and the things of the page differ in what the "
                "expression finds"
            )
        other = next(
            (thing for thing in self.things.every if not is_nothing(self.things.within(thing, expression))), None
        )
        if other is None:
            return None
        finding = (
            f"the fields of a record are read from one thing of the page, here {self.name}, and {_kind_of(other)} "
            "has this one"
        )
        return (
            finding
            if not types_of(other)
            else f"{finding}: where that is meant, write {_first_of_type(other)} | {expression}"
        )

    def _is_of_others(self, expression: str) -> bool:
        return self.is_shared and not self.things.agree_on(expression)


Subjects = Mapping[str, Subject]
"""By the kind of data, `json-ld` or `microdata`."""


def types_of(thing: Any) -> list[str]:
    """The types of a thing."""
    kinds = thing.get("@type") if isinstance(thing, dict) else None
    return [kind for kind in as_list(kinds) or [] if isinstance(kind, str)]


def is_of_the_site(thing: Any) -> bool:
    """Whether a thing describes the site, its publisher, the page or the way to it."""
    return not _OF_THE_SITE.isdisjoint(types_of(thing)[:1])


def _kind_of(thing: Any) -> str:
    return next(iter(types_of(thing)), "a thing without @type")


def _first_of_type(thing: Any) -> str:
    kind = types_of(thing)[0]
    return (
        f"""[?"@type"=='{kind}'] | [0]"""
        if isinstance(thing["@type"], str)
        else f"""[?contains(not_null("@type", ''), '{kind}')] | [0]"""
    )


class _All(list[Any]):
    """All things of a page: which of them is meant, only an expression can say."""


class _Lenient(TreeInterpreter):
    """JMESPath for linked data: a single value equals a list of one, and an object given by its `@id` alone is
    resolved.
    """

    def __init__(self, by_id: dict[str, Any]) -> None:
        super().__init__()
        self._by_id = by_id

    def visit_field(self, node: Any, value: Any) -> Any:
        if isinstance(value, list) and not isinstance(value, _All):
            value = value[0] if value else None
        if isinstance(value, dict) and value.keys() == {"@id"}:
            value = self._by_id.get(value["@id"], value) if isinstance(value["@id"], str) else value
        return super().visit_field(node, value)

    def visit_index(self, node: Any, value: Any) -> Any:
        return super().visit_index(node, as_list(value))

    def visit_flatten(self, node: Any, value: Any) -> Any:
        flattened = super().visit_flatten(node, value)
        return as_list(self.visit(node["children"][0], value)) if flattened is None else flattened


def as_list(value: Any) -> Any:
    """A list of the value, unless it is one, or nothing."""
    return value if value is None or isinstance(value, list) else [value]


def is_nothing(value: Any) -> bool:
    """Whether an expression found nothing, or nothing but empty values."""
    if isinstance(value, dict | list):
        return all(part is None for part in (value.values() if isinstance(value, dict) else value))
    return value is None or value == ""


def _joined(things: list[Any]) -> list[Any]:
    """The objects, those of one `@id` as one: what the first does not say, the next ones do. One `@id` for things of
    different types is a mistake.
    """
    joined: list[Any] = []
    by_id: dict[str, list[int]] = {}
    for thing in things:
        name = thing.get("@id")
        places = by_id.setdefault(name, []) if isinstance(name, str) and name else []
        kinds = set(types_of(thing))
        same = next(
            (
                at
                for at in places
                if not kinds or not types_of(joined[at]) or not kinds.isdisjoint(types_of(joined[at]))
            ),
            None,
        )
        if same is None:
            places.append(len(joined))
            joined.append(thing)
        else:
            joined[same] = {**thing, **joined[same]}
    return joined


def _held_by(things: list[Any]) -> Iterator[dict[str, Any]]:
    """The objects that describe what the things are about, wherever those hold them; a reference describes nothing."""
    held, outermost = list(reversed(things)), set(map(id, things))
    while held:
        thing = held.pop()
        if isinstance(thing, list):
            held += reversed(thing)
        elif isinstance(thing, dict):
            if id(thing) not in outermost and not thing.keys() <= {"@id", "@type"} and "@graph" not in thing:
                yield thing
            held += [thing[key] for key in reversed(_HOLDING) if key in thing]
