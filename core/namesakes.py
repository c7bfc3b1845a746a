"""Finds declarations of one knowledge folder that share a name, and with it an index: a run of one would replace what
the other published.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from almanac.core.overlays import overlays_of, with_overlay
from almanac.core.settings import Project
from almanac.core.yaml_source import Node, plain, read_tree
from almanac.schemas.errors import AlmanacError, DeclarationError

if TYPE_CHECKING:
    from almanac.schemas.declaration import Declaration

# A file whose name is written plainly on one line need not be parsed to know that it is another one: a project may have
# hundreds.
_PLAIN_NAME = re.compile(r"""^["']?name["']?[ \t]*:[ \t]+["']?([A-Za-z0-9_-]+)["']?[ \t]*(?:#.*)?$""", re.MULTILINE)


def require_own_name(declaration: "Declaration", project: Project | None = None) -> None:
    """Raises DeclarationError where another declaration of the project's folder has the same name, in the environment
    that was chosen.

    A declaration that lies elsewhere is run on purpose, and is not compared.
    """
    paths = (project or Project.locate()).declarations()
    others = [path for path in paths if not path.samefile(declaration.path)]
    if len(others) == len(paths):
        return
    named = [name for path in others if (name := _name_in(path, declaration.env, declaration.name)) is not None]
    if named:
        own = _name_in(declaration.path, declaration.env, declaration.name)
        raise DeclarationError(
            f"name: '{declaration.name}' is also the name in {' and in '.join(node.place for node in named)}: "
            "they would share one index, "
            "and a run of one would replace what the other published",
            where=own.place if own is not None else str(declaration.path),
            hint=(
                f"give one of them another `name:`, or move the one that is not needed out of {declaration.path.parent}"
            ),
        )


def _name_in(path: Path, env: str | None, wanted: str) -> Node | None:
    """Where a declaration, with its overlay of that environment if it has one, says that it has the wanted name; None
    where it has another or none.
    """
    overlay = overlays_of(path).get(env) if env else None
    try:
        if not any(_may_say(file, wanted) for file in (path, overlay) if file is not None):
            return None
        tree = read_tree(path)
        if overlay is not None and isinstance(tree.value, dict):
            tree = with_overlay(tree, overlay)
        node = tree.value.get("name") if isinstance(tree.value, dict) else None
        return node if node is not None and plain(node, ("name",)) == wanted else None
    except AlmanacError:  # what cannot be read cannot be run, and says so itself
        return None


def _may_say(path: Path, wanted: str) -> bool:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return False
    plainly = _PLAIN_NAME.findall(text)
    return wanted in plainly if plainly else True
