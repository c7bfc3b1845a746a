"""What is proposed for a source: its keys, and what was seen that speaks for each of them."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ProposedSource:
    """A source as it shall be declared.

    Attributes:
        keys: what is declared.
        seen: key → what was seen that speaks for it.
        remarks: what is not declared and may be: another choice, or what only a person can decide.
        language: BCP 47 tag of what was read; None where nothing tells.
        title: what the page calls itself; empty where it does not.
    """

    keys: dict[str, Any]
    seen: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    language: str | None = None
    title: str = ""

    def declare(self, key: str, value: Any, seen: str = "") -> None:
        self.keys[key] = value
        self.seen |= {key: seen} if seen else {}

    def declare_documents(self) -> None:
        self.declare("yields", "documents", "its main text is cut into chunks")

    def declare_records(
        self, fields: dict[str, Any], titles: Iterable[str], seen: str, key: str | None = None, origin: Any = None
    ) -> None:
        """Adds records of these fields. The title is the first of `titles` that is a field, else the first other text
        than `key`, which tells items apart where their URL does not. `origin` is the `from` of the rules.
        """
        texts = [name for name, rule in fields.items() if name != key and not {"many", "type"} & rule.keys()]
        title = next(name for name in (*titles, *texts, key, *fields) if name in fields)
        made = {} if origin is None else {"from": origin}
        needed = {name: {"required": True} for name in (title, key)}
        self.keys["yields"] = "records"
        self.keys |= {"title": f"{{{title}}}"} | ({} if key is None else {"id": f"{{{key}}}"})
        self.declare("fields", {name: {**rule, **made, **needed.get(name, {})} for name, rule in fields.items()}, seen)


def counted(number: int, what: str) -> str:
    """`1 card`, `20 cards`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def field_name(text: str) -> str:
    """What a key, a column or a class is called as a field: `datePublished` is `date_published`, `Größe` `grosse`.
    Empty where it has no Latin letter.
    """
    plain = unicodedata.normalize("NFKD", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("ß", "ss"))
    words = re.findall(r"[a-z0-9]+", "".join(c for c in plain if not unicodedata.combining(c)).lower())
    name = "_".join(words)
    return f"_{name}" if name[:1].isdigit() else name


def pattern_of(urls: list[str]) -> str | None:
    """A regular expression for URLs of one kind: `/product/\\d+$`. Of a single URL, its last segment is taken for its
    own. None where their shapes differ, or one shape is that of a whole site.
    """
    shapes = [re.split(r"([/?&=])", "/" + url.partition("://")[2].partition("/")[2]) for url in dict.fromkeys(urls)]
    if len({tuple(shape[1::2]) for shape in shapes}) != 1:
        return None
    parts = [list(dict.fromkeys(column)) for column in zip(*shapes, strict=True)]
    if len(shapes) == 1:
        at = max((at for at, part in enumerate(shapes[0]) if not re.match(r"[/?&=]|index\.|$", part)), default=0)
        if at < 2 or (at == 2 and not re.search(r"\.\w+$", shapes[0][at])):  # a whole site is not of one kind
            return None
        parts[at].append(parts[at][0])
    written = "".join(escaped(part[0]) if len(part) == 1 else _any_of(part) for part in parts)
    return f"{'://[^/]+' if len(parts[2]) > 1 else ''}{written}$"


def escaped(text: str) -> str:
    """A part of a URL as a regular expression; unlike `re.escape`, a hyphen stays as it is."""
    return re.sub(r"[.+*?^$()\[\]{}|\\]", r"\\\g<0>", text)


def _any_of(parts: list[str]) -> str:
    endings = {part[part.rfind(".") :] if "." in part else "" for part in parts}
    ending = endings.pop() if len(endings) == 1 else ""
    is_number = all(part.removesuffix(ending).isdigit() for part in parts)
    return (r"\d+" if is_number else "[^/?&]+") + escaped(ending)
