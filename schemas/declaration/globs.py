"""The type of a glob in a declaration. What other tools expand and Python's `glob` does not is refused, since it would
match nothing without a word.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

_CLASS = re.compile(r"\[!?\]?[^\]/]*\]")
_BRACES = re.compile(r"\{([^{}]*(?:,|\.\.)[^{}]*)\}")
_ALTERNATIVES = re.compile(r"[@?!+*]\([^()]*\|[^()]*\)")  # extglob of shells
_GLUED = re.compile(r"(?:^|/)(?:[^/]+\*\*|\*\*[^/]+)(?=/|$)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/?)")
_HOST = r"[\w.-]+(?::\d{1,5})?"
_HOSTS = {"s3": r"[\w.-]+", "http": _HOST, "https": _HOST, "sftp": rf"(?:[\w.-]+@)?{_HOST}"}  # what follows the scheme
_HOME = re.compile(r"~[^/]*/")
_UP_AGAIN = re.compile(r"[*?\[][^/]*/(?:.*/)?\.\.(?=/|$)")
_SHOWN = 4
_A_SOURCE_EACH = "declare a source for each of"


def _glob(value: str) -> str:
    """Returns the pattern if all of its syntax is what `glob` knows: `*`, `?`, `[abc]`, `[!abc]` and `**/`; else
    ValueError with what to write.
    """
    bare = _CLASS.sub(lambda match: "x" * len(match[0]), value)  # [{] is a brace in a name
    if braces := _BRACES.search(bare):
        options = value[braces.start(1) : braces.end(1)].split(",")
        written = [value[: braces.start()] + option.strip() + value[braces.end() :] for option in options[:_SHOWN]]
        instead = (
            f"{_A_SOURCE_EACH} {', '.join(written)}{', …' if len(options) > _SHOWN else ''}"
            if len(options) > 1
            else "write a class such as [0-9]"
        )
        raise ValueError(f"braces are not expanded; {instead} ([{{] is a brace in a name)")
    if alternatives := _ALTERNATIVES.search(bare):
        raise ValueError(f"{alternatives[0]} is not expanded; {_A_SOURCE_EACH} the alternatives")
    if glued := _GLUED.search(bare):
        part = glued[0].strip("/")
        meant = f"**/*{part.removeprefix('**')}" if part.startswith("**") else f"{part.removesuffix('**')}*/**/*"
        raise ValueError(f"** stands for folders only between slashes; write {meant}")
    if _UP_AGAIN.search(value):
        raise ValueError(".. behind a wildcard leads out of what it matches; name the folder before the first wildcard")
    if "[^" in value:
        raise ValueError("[^…] is not the opposite of a class; write [!…]")
    if scheme := _SCHEME.match(value):
        if (host := _HOSTS.get(scheme[1])) is None:
            raise ValueError(
                f"{scheme[1]}:// is not read; write a path, s3://, https:// or sftp:// and a path, or a path and "
                "git: {url, ref}; pages of a website are kind: site"
            )
        if ":" in scheme[2].rpartition("@")[0]:
            raise PydanticCustomError("secret", "write auth: {user, password} beside it (its value is not shown)")
        if not re.fullmatch(host, scheme[2]) or not value[scheme.end() :]:
            raise ValueError(f"write where, and what to read there: {scheme[1]}://place/folder/**/*.pdf")
    if _HOME.match(value):
        raise ValueError("~ is not expanded; write the folder, or ${HOME}")
    return value


Glob = Annotated[str, Field(min_length=1), AfterValidator(_glob)]
