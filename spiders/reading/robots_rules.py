"""What a page asks of crawlers: `noindex` and `nofollow` in <meta name="robots"> and in the X-Robots-Tag header.

Rules are those that search engines have agreed on: names and values in any case, several tags and headers add up, a
value may be meant for one crawler (`googlebot: noindex`), `none` is noindex and nofollow, and `unavailable_after` is
noindex once its date has passed.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from almanac.spiders.reading.content import Content

_NAMED = re.compile(r"\s*([A-Za-z][\w-]*)\s*:\s*(.*)", re.DOTALL)
_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_AFTER = "unavailable_after"
_MEANT = ("noindex", "nofollow", "none", _AFTER)
_METAS = (
    "//*[local-name() = 'meta' or local-name() = 'META'][not(ancestor::*[local-name() = 'template' or "
    "local-name() = 'noscript'])]"
)


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """`noindex` says where the page asks not to be indexed, and how; empty if it does not. `nofollow`: it asks that its
    links are not followed.
    """

    noindex: str = ""
    nofollow: bool = False


def robots_rules(content: Content, user_agent: str, now: datetime | None = None) -> RobotsRules:
    """The rules of a page that hold for all crawlers or for the one called `user_agent` (of `almanac/1 (+mailto:…)`,
    `almanac` counts).
    """
    names = ("robots", _token(user_agent))
    now = now or datetime.now(UTC)
    noindex, nofollow = "", False
    for where, directives in [*_of_header(content.page.robots, names), *_of_metas(content, names)]:
        for name, value in directives:
            nofollow |= name in ("nofollow", "none")
            if name in ("noindex", "none") or (name == _AFTER and _has_passed(value, now)):
                noindex = noindex or f"{where}: {name}{f': {value}' if value else ''}"
    return RobotsRules(noindex, nofollow)


def _token(user_agent: str) -> str:
    return re.split(r"[/\s(;]", user_agent.strip(), maxsplit=1)[0].lower()


def _of_header(header: str, names: tuple[str, ...]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yields the directives of each line of `header`, which holds the values of X-Robots-Tag, one a line."""
    for line in header.splitlines():
        own = [(name, value) for agent, name, value in _directives(line) if agent in ("", *names)]
        if own:
            yield "X-Robots-Tag", own


def _of_metas(content: Content, names: tuple[str, ...]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    if content.form not in ("html", "xml"):
        return
    text = content.text.lower()  # and four searches: a fiftieth of the time of a pattern that ignores case
    if not any(word in text for word in _MEANT):
        return
    for meta in content.selector.root.xpath(_METAS):
        attributes = {str(key).lower(): value for key, value in meta.attrib.items()}
        name = attributes.get("name", "").strip().lower()
        if name in names:
            yield (
                f'<meta name="{name}">',
                [(directive, value) for _, directive, value in _directives(attributes.get("content", ""))],
            )


def _directives(text: str) -> list[tuple[str, str, str]]:
    """(crawler that it is meant for, directive, value), all but the value in lower case. The crawler is empty where
    none is named.

    A crawler's name holds for what follows it on the line. A date may contain a comma.
    """
    agent, directives = "", list[tuple[str, str, str]]()
    for part in text.split(","):
        left = part.strip()
        if (named := _NAMED.fullmatch(left)) is not None and named[1].lower() not in _WITH_VALUE:
            agent, left = named[1].lower(), named[2].strip()
            named = _NAMED.fullmatch(left)
        if named is not None:
            directives.append((agent, named[1].lower(), named[2].strip()))
        elif directives and directives[-1][1] == _AFTER and any(c.isdigit() for c in left):
            directives[-1] = (*directives[-1][:2], f"{directives[-1][2]}, {left}")
        elif left:
            directives += [(agent, word.lower(), "") for word in left.split()]  # some write spaces for commas
    return directives


def _has_passed(date: str, now: datetime) -> bool:
    """Whether a date in one of the forms of HTTP, RFC 822 or ISO 8601 lies before `now`; False for what is no date."""
    for read, written in (
        (datetime.fromisoformat, date),
        (parsedate_to_datetime, date),
        (parsedate_to_datetime, f"{date} 00:00:00"),
    ):
        with suppress(ValueError, TypeError, IndexError):
            then = read(written)
            return (then if then.tzinfo else then.replace(tzinfo=UTC)) < now
    return False
