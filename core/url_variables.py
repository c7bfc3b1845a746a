"""Takes out of declared URLs the query parameters that variables of the environment fill: they are secrets, unless the
variable has a default.

While a declaration is read, what stands for such a variable in a URL is marked; no value of the environment has the
character that marks it.
"""

from typing import Any

from pydantic import SecretStr

from almanac.core.yaml_source import Keys, Node, dotted
from almanac.schemas.declaration.secret_parameters import SecretParameters, host_of, name_of
from almanac.schemas.errors import DeclarationError

_MARK = "\0"
_KEYS = ("start_urls", "sitemaps")


def mark(value: str, at: Keys) -> str:
    """The value of a variable without a default, marked where it stands in a URL of a source."""
    is_of_url = len(at) == 4 and at[0] == "sources" and at[2] in _KEYS
    return f"{_MARK}{value}{_MARK}" if is_of_url else value


def take_secrets(declared: Any, tree: Node) -> list[SecretParameters]:
    """Takes the secret parameters out of the URLs of `declared`, in place, and returns those of each source.

    Raises DeclarationError where one host has two values of one parameter: what its pages are asked for with would be a
    guess.
    """
    sources = declared.get("sources") if isinstance(declared, dict) else None
    return [
        _of_source(source, number, tree) for number, source in enumerate(sources if isinstance(sources, list) else [])
    ]


def _of_source(source: Any, number: int, tree: Node) -> SecretParameters:
    met: dict[tuple[str, str], set[str]] = {}
    secrets: dict[str, dict[str, SecretStr]] = {}
    for key in _KEYS:
        urls = source.get(key) if isinstance(source, dict) else None
        if not isinstance(urls, list):
            continue
        for place, url in enumerate(urls):
            if not isinstance(url, str):
                continue
            urls[place], pairs = _split(url)
            host = host_of(urls[place])
            for pair, is_secret in pairs:
                name = name_of(pair)
                met.setdefault((host, name), set()).add(pair)
                if is_secret:
                    secrets.setdefault(host, {})[name] = SecretStr(pair)
                if len(met[host, name]) > 1 and name in secrets.get(host, {}):
                    raise _two_values(("sources", number, key, place), tree)
    return SecretParameters(secrets)


def _split(marked: str) -> tuple[str, list[tuple[str, bool]]]:
    """The URL without its secret parameters and marks, and all its parameters, with whether each is secret."""
    head, has_query, rest = marked.partition("?")
    is_open = head.count(_MARK) % 2 == 1  # the variable is more than the query
    parts = rest.split(_MARK)
    begun_here = range(2 if is_open else 1, len(parts), 2)
    query, at, fragment = _MARK.join(
        part.replace("#", "%23") if number in begun_here else part for number, part in enumerate(parts)
    ).partition("#")
    pairs = []
    for pair in query.split("&"):
        pairs.append((pair.replace(_MARK, ""), is_open or _MARK in pair))
        is_open ^= pair.count(_MARK) % 2 == 1
    pairs = [(pair, is_secret) for pair, is_secret in pairs if pair]
    public_query = "&".join(pair for pair, is_secret in pairs if not is_secret)
    return (head + (has_query if public_query else "") + public_query + at + fragment).replace(_MARK, ""), pairs


def _two_values(at: Keys, tree: Node) -> DeclarationError:
    return DeclarationError(
        f"{dotted(at)}: a parameter of its query has another value in an earlier URL of that host, and one of "
        "them comes from the environment",
        where=tree.nearest(at).place,
        hint="what a variable fills there is a secret, which all pages of the host are asked for with: declare a "
        "source for each value, or give the variable "
        "a default, ${NAME:-default}, if it is no secret",
    )
