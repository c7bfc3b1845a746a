"""The type of a glob in a declaration. What other tools expand and Python's `glob` does not is refused, since it would
match nothing without a word.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

_CLASS = re.compile(r"\[!?\]?[^\]/]*\]")
_BRACES = re.compile(r"\{([^{}]*(?:,|\.\.)[^{}]*)\}")
_ALTERNATIVES = re.compile(r"[@?!+*]\([^()]*\|[^()]*\)")  # extglob of shells
_GLUED = re.compile(r"(?:^|/)(?:[^/]+\*\*|\*\*[^/]+)(?=/|$)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/?)")
_HOME = re.compile(r"~[^/]*/")
_UP_AGAIN = re.compile(r"[*?\[][^/]*/(?:.*/)?\.\.(?=/|$)")
_SHOWN = 4
_A_SOURCE_EACH = "declare a source for each of"


def _glob(value: str) -> str:
    """Returns the pattern if all of its syntax is what `glob` knows: `*`, `?`, `[abc]`, `[!abc]` and `**/`; else
    ValueError with what to write.
    """
    bare = _CLASS.sub(lambda found: "x" * len(found[0]), value)  # [{] is a brace in a name
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
        if scheme[1] != "s3":
            raise ValueError(
                f"{scheme[1]}:// is not read; write a path, s3://bucket/docs/**/*.pdf, or a path and "
                "git: {url, ref}; pages of a website are kind: site"
            )
        if not re.fullmatch(r"[\w.-]+", scheme[2]) or not value[scheme.end() :]:
            raise ValueError("write the bucket and what to read in it: s3://bucket/folder/**/*.pdf")
    if _HOME.match(value):
        raise ValueError("~ is not expanded; write the folder, or ${HOME}")
    return value


Glob = Annotated[str, Field(min_length=1), AfterValidator(_glob)]
