"""Templates over field values, such as `"{name}: {price.amount}"`: how they are written, and which names a declaration
proves.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator

from almanac.schemas.declaration.field_rules import FieldRule
from almanac.schemas.declaration.near_words import nearest

Known = Mapping[str, FieldRule | None]  # name → its rule; None for a value without parts

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_FORMAT = re.compile(r"([^\W\d]\w*(?:\.\w+)*)(?:\[|![rsa]|:)")  # {price[0]}, {price!r}, {price:>10}
_TAG = re.compile(r"[%#].*[%#]", re.DOTALL)  # {% if price %}
_LITERAL = "a brace itself is written twice, {{ or }}"
_DOUBLE = "{0}: a placeholder has one pair of braces; write {{{1}}}, or {{{{{{{1}}}}}}} for braces around its value"
_DOUBLED = re.compile(r"(?<!\{)\{\{[-~]?\s*([^\W\d]\w*(?:\.\w+)*)\s*(?:[|!:\[(][^{}]*)?[-~]?\}\}(?!\})")


@lru_cache(maxsize=1024)
def parse_template(template: str) -> tuple[str, ...]:
    """Splits a template into literal texts and names in turn, beginning and ending with a text: `"{a}: {b.c}"` → `("",
    "a", ": ", "b.c", "")`.

    `{{` and `}}` stand for braces. Raises ValueError for other braces that hold no name, with a finding for each.
    """
    parts, literal, end = [], "", 0
    findings = [_DOUBLE.format(match[0], match[1]) for match in _DOUBLED.finditer(template)]
    for token in _TOKEN.finditer(template):
        literal, end = literal + template[end : token.start()], token.end()
        if token[0] in ("{{", "}}"):
            literal += token[0][0]
        elif token[1] is None:
            findings.append(f"unbalanced braces in the template; {_LITERAL}")
        else:
            findings += filter(None, [_finding(token[1])])
            parts += [literal, token[1]]
            literal = ""
    if findings:
        raise ValueError("; ".join(dict.fromkeys(findings)))
    return (*parts, literal + template[end:])


def _finding(written: str) -> str | None:
    """What is wrong between a pair of braces: a format, an index, a tag or white space, as other notations have them;
    None for a name.
    """
    name = written.strip()
    match = _FORMAT.match(name)
    if not name or _TAG.fullmatch(name):
        return f"{{{written}}}: a placeholder is a field's name in braces; {_LITERAL}"
    if match is not None:
        index = ", and process: [first] in its rule for one entry of a list" if name[match.end() - 1] == "[" else ""
        return f"{{{written}}}: a placeholder is a field's name alone; write {{{match[1]}}}{index}"
    return None if name == written else f"{{{written}}}: a placeholder has no spaces around its name; write {{{name}}}"


def _template(value: str) -> str:
    parse_template(value)
    return value


Template = Annotated[str, AfterValidator(_template)]


def template_names(template: str) -> tuple[str, ...]:
    """Returns the names in a template, in order: fields, and parts of fields such as `price.amount`."""
    return parse_template(template)[1::2]


def unknown_name(name: str, known: Known) -> str | None:
    """Returns what is wrong with a name, as a sentence's end, with the name that may have been meant; None where a
    declaration proves that it exists.
    """
    if _is_proven(name, known):
        return None
    meant = nearest(name, _all_names(known))
    hint = f"; did you mean {{{meant}}}?" if meant else ""
    head = next((head for head, _ in _splits(name) if head in known), None)
    if head is None:
        return _no_field(name, known, hint)
    rule, rest = known[head], name[len(head) + 1 :]
    if rule is not None and rule.parts:
        return f"field '{head}' has no '{rest}'{hint}; it has {', '.join(rule.parts)}"
    if rule is not None and rule.json_ is not None and rule.type is None:
        own = re.sub(r"\W", "_", name)
        return (
            f"what field '{head}' holds is not declared; declare {own}: {{json: …}} for its part '{rest}', and "
            f"write {{{own}}}{hint}"
        )
    return f"field '{head}' has no parts{hint}"


def unknown_field(name: str, known: Iterable[str]) -> str:
    """Returns what is wrong with the name of a field that is not among the declared ones."""
    meant = nearest(name, known)
    return _no_field(name, known, f"; did you mean {meant}?" if meant else "")


def _no_field(name: str, known: Iterable[str], hint: str) -> str:
    return f"no field '{name}'{hint}; declared: {', '.join(sorted(known))}"


def _is_proven(name: str, known: Known) -> bool:
    if name in known:
        return True
    return any(_is_proven(rest, rule.parts) for head, rest in _splits(name) if (rule := known.get(head)) is not None)


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """Yields (what is before a dot, what is after it), for each dot."""
    for dot in re.finditer(r"\.", name):
        yield name[: dot.start()], name[dot.end() :]


def _all_names(known: Known) -> Iterator[str]:
    for name, rule in known.items():
        yield name
        yield from (f"{name}.{part}" for part in (_all_names(rule.parts) if rule is not None else ()))
