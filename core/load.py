"""Loads declarations from YAML. Errors report file, line, key, the value found and the allowed ones.

The schema is imported with the first declaration that is loaded: it takes longer than all else of a command that only
says how it is used.
"""

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from almanac.core.overlays import SUFFIXES, base_of, find_overlay, overlays_of, with_overlay
from almanac.core.settings import Project, document, environment
from almanac.core.yaml_source import SECRET_KEYS, Keys, Node, dotted, plain, read_tree
from almanac.schemas.errors import DeclarationError, NotFound, UsageError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from almanac.schemas.declaration import Declaration

# pydantic's findings in the words of who writes YAML.
_IN_YAML = {
    "list_type": "must be a list, as in [a, b] or in lines that begin with -",
    "dict_type": "must be a mapping of keys, as in {key: value}",
    "model_type": "must be a mapping of keys, as in {key: value}",
    "model_attributes_type": "must be a mapping of keys, as in {key: value}",
    "string_type": "must be a text; a number or a date is quoted",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
}
_SHOWN = 80  # characters of a name that nothing has


def find_declaration(kb: str, project: Project | None = None) -> Path:
    """Returns the declaration file of `kb`: a name under the project's `knowledge/`, or a path to a YAML file.

    Raises NotFound with the place that was searched, UsageError for an overlay or an unusable project folder.
    """
    is_path = kb.endswith(SUFFIXES) or os.sep in kb
    if is_path:
        path = Path(kb)
        if not _lies(path):
            raise _no_such_file(path, project or Project.locate())
    else:
        path = _find_by_name(kb, project or Project.locate())
    if overlaid := base_of(path):
        base, env = overlaid
        hint = f"write {base if is_path else base.stem} --env {env}"
        raise UsageError(
            f"is the overlay '{env}' of {base.name}, and no knowledge base of its own", where=str(path), hint=hint
        )
    return path


def _lies(path: Path) -> bool:
    """Whether there is such a file. A name that no file can have is none."""
    return _is_possible(path) and path.is_file()


def _is_possible(path: Path) -> bool:
    try:
        path.exists()
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


def _no_such_file(path: Path, project: Project) -> NotFound:
    declared = next((declaration for declaration in project.declarations() if declaration.name == path.name), None)
    hint = (
        f"the project declares it as {declared.stem}"
        if declared is not None
        else "almanac init NAME writes a commented one"
    )
    finding = "is a folder, and no declaration" if _is_possible(path) and path.is_dir() else "no such declaration file"
    return NotFound(finding, where=str(path.absolute()), hint=hint)


def _find_by_name(kb: str, project: Project) -> Path:
    project.require()
    candidates = [project.knowledge / f"{kb}{suffix}" for suffix in SUFFIXES]
    path = next((path for path in candidates if _lies(path)), None)
    if path is None:
        names = ", ".join(path.stem for path in project.declarations())
        shown = kb if len(kb) <= _SHOWN else f"{kb[:_SHOWN]}…"
        hint = (
            f"declared there: {names}"
            if names
            else f"nothing is declared there yet: almanac init {shown} writes a commented declaration"
        )
        raise NotFound(
            f"no knowledge base '{shown}' in {project.knowledge}",
            where=shown,
            hint=f"{hint}; --project DIR looks in another folder",
        )
    return path


def is_declared(kb: str) -> bool:
    """Whether a declaration of that name, or at that path, exists."""
    try:
        return find_declaration(kb).is_file()
    except (UsageError, OSError):  # OSError: for example a name that is not a valid file name
        return False


def load_declaration(
    kb: str, env: str | None = None, project: Project | None = None, *, to_read: bool = False
) -> "Declaration":
    """Loads and validates the declaration of a knowledge base.

    Args:
        kb: Name of the knowledge base, or path of a YAML file.
        env: Environment whose overlay to apply; None takes ALMANAC_ENV, an empty text applies none.
        project: Folder that contains `knowledge/`; None locates it.
        to_read: Only what is published is read: variables of the `sources`, such as the secret of a crawl, need not be
            set, and named expectations are not looked at, since Great Expectations takes seconds to import. Do not run
            such a declaration.

    Raises DeclarationError with all problems of the declaration, NotFound for an unknown name, path or overlay,
    UsageError as `find_declaration`.
    """
    from pydantic import ValidationError

    from almanac.core.url_variables import mark, take_secrets
    from almanac.schemas.declaration import Declaration
    from almanac.schemas.declaration.source import SiteSource

    project = project or Project.locate()
    path = find_declaration(kb, project)
    tree = read_tree(path)
    if not isinstance(tree.value, dict):
        finding = "is empty" if tree.value is None else "is not a mapping of keys"
        raise DeclarationError(
            finding, where=str(path), hint="start with `name:` and `sources:`; almanac init NAME writes an example"
        )
    env, asked_by = environment(env)
    overlay = find_overlay(path, env, asked_by=asked_by) if env else None
    if overlay is not None:
        tree = with_overlay(tree, overlay)
    declared = _with_absolute_paths(path, plain(tree, unset=_in_place_of if to_read else None, filled=mark))
    secrets = take_secrets(declared, tree)
    try:
        declaration = Declaration.model_validate(declared, context={"to_read": to_read})
    except ValidationError as error:
        # where what stands for a variable is wrong there, that it is not set is the finding
        for detail in error.errors():
            keys = _place(detail, declared)
            plain(tree.nearest(keys), keys)
        raise _teach(path, overlay, tree, declared, error.errors()) from error
    for source, of_source in zip(declaration.sources, secrets, strict=True):
        if isinstance(source, SiteSource):
            source.keep_secret(of_source)
    return declaration.at(path.resolve(), env or None, handle=path.stem if _lies_in(project, path) else None)


def _in_place_of(variable: str, at: Keys, start: int) -> str | None:
    """A text for a variable of a source that nobody will crawl, valid as a host, part of a URL, path, header and plain
    text. None outside the sources.
    """
    if at[0] != "sources":
        return None
    begins_url = start == 0 and not {"start_urls", "sitemaps", "login"}.isdisjoint(map(str, at))
    return f"{'http://' if begins_url else ''}{variable.lower().replace('_', '-').strip('-') or 'variable'}.invalid"


def _lies_in(project: Project, path: Path) -> bool:
    return path.absolute().parent.resolve() == project.knowledge.resolve()


def load_as_served(path: Path, env: str) -> "Declaration":
    """Loads a declaration with the overlay of `env` if it has one, else without: for servers of several declarations,
    not all of which have that overlay.
    """
    return load_declaration(str(path), env if env in overlays_of(path) else "")


def _with_absolute_paths(path: Path, declared: Any) -> Any:
    """Makes a local `embed.model` path, and each `render.storage_state`, absolute, relative to the declaration as globs
    are. A model without a slash is a name and stays.
    """
    embed = declared.get("embed")
    is_local = isinstance(embed, dict) and embed.get("provider", "local") == "local"
    if is_local and isinstance(model := embed.get("model"), str) and os.sep in model:
        embed["model"] = _absolute(path, model)
    sources = declared.get("sources")
    for source in sources if isinstance(sources, list) else ():
        render = source.get("render") if isinstance(source, dict) else None
        if isinstance(render, dict) and isinstance(state := render.get("storage_state"), str) and state:
            render["storage_state"] = _absolute(path, state)
    return declared


def _absolute(path: Path, relative: str) -> str:
    return str((path.resolve().parent / Path(relative).expanduser()).resolve())


def _teach(
    path: Path, overlay: Path | None, tree: Node, declared: Any, details: "list[ErrorDetails]"
) -> DeclarationError:
    """Combines all validation errors into one DeclarationError, each with file, line, key, value found and allowed
    values.
    """
    findings = sorted(
        ((tree.nearest(_place(d, declared)), _finding(d, declared) + _first_of(d, tree, path)) for d in details),
        key=lambda finding: (finding[0].path != path, finding[0].line or 0),
    )
    places = [_at_line(node, path) + text for node, text in findings]
    first = next((node.place for node, _ in findings if node.line), None)
    message = places[0] if len(places) == 1 else f"{len(places)} problems\n" + "\n".join(f"  - {p}" for p in places)
    hint = f"{document('reference/declaration.md')} lists every key with its meaning"
    return DeclarationError(
        message, where=first or (f"{path} with {overlay.name}" if overlay else str(path)), hint=hint
    )


def _place(detail: "ErrorDetails", declared: Any) -> Keys:
    """The keys that lead to the value that is wrong."""
    keys = _keys(detail, declared)
    return (*keys, "kind") if detail["type"] == "union_tag_invalid" else keys


def _at_line(node: Node, path: Path) -> str:
    if node.line is None:
        return ""
    return f"line {node.line}: " if node.path == path else f"{node.path.name} line {node.line}: "


def _first_of(detail: "ErrorDetails", tree: Node, path: Path) -> str:
    """Where the value is that the found one repeats, as the end of a message; empty if it repeats none."""
    first = detail.get("ctx", {}).get("first")
    return "; the first is on " + _at_line(tree.nearest(first), path).removesuffix(": ") if first else ""


def _finding(detail: "ErrorDetails", declared: Any) -> str:
    from almanac.core.unknown_keys import explain_unknown_key

    keys = _keys(detail, declared)
    # Names of headers and cookies are not shown: they may contain the secret value by mistake.
    at, kind, value = dotted(_without_names(keys)), detail["type"], detail["input"]
    if kind == "unknown_key":
        if "auth" in keys:  # such as `auth: {name:secret}`, which is a key without a value
            at = dotted(keys[: keys.index("auth") + 1])
        return f"{at}: {explain_unknown_key(str(detail['loc'][-1]), detail['ctx']['keys'].split())}"
    if kind == "union_tag_invalid":
        return f"{at}.kind: must be one of {detail['ctx']['expected_tags']}; found {detail['ctx']['tag']!r}"
    if kind == "union_tag_not_found":
        return f"{at}.kind: is required: site or files"
    if kind == "missing":
        return f"{at}: is required"
    message = _IN_YAML.get(kind) or detail["msg"].removeprefix("Value error, ")
    if keys == ("language",) and kind == "string_pattern_mismatch":
        message = "must be a tag of BCP 47, such as en, fr or pt-BR; or auto"
    is_secret = kind == "secret" or not SECRET_KEYS.isdisjoint(map(str, detail["loc"]))
    shown = "" if isinstance(value, dict | list) or is_secret else f"; found {value!r}"
    return f"{at}: {message}{shown}" if at else f"{message}{shown}"


def _without_names(keys: Keys) -> Keys:
    below = next((number for number, key in enumerate(keys) if key in ("headers", "cookies")), len(keys))
    return keys[: below + 1]


def _keys(detail: "ErrorDetails", declared: Any) -> Keys:
    """Returns the location of a validation error as keys of the YAML file, without the tags of pydantic's unions."""
    keys: list[str | int] = []
    node = declared
    for part in detail["loc"]:
        if isinstance(node, dict) and (part in node or (detail["type"] == "missing" and part == detail["loc"][-1])):
            keys.append(part)
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            keys.append(part)
            node = node[part]
    return tuple(keys)
