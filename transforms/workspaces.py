"""Whether the value by which an item belongs to a workspace is a name that can be compared as it is written."""

from typing import Any

from almanac.schemas.declaration.source import Source
from almanac.schemas.declaration.workspace import Workspace
from almanac.schemas.items import Draft, Reject
from almanac.transforms.clean import Clean, clean_value

_SHOWN = 100  # characters of a value in a reason


def misfit(draft: Draft, source: Source, workspace: Workspace, clean: Clean, *, entities: bool) -> Reject | None:
    """A reject for an item whose workspace is no name, or would become another one by cleaning; None for any other
    item.

    Two names that cleaning makes one would open the items of one workspace to the readers of another.
    """
    own = {
        "source": draft.source,
        "kind": draft.kind,
        "document_id": draft.document_id,
        "url": draft.url,
        "title": draft.title,
    }
    value = draft.fields.get(
        workspace.field, own.get(workspace.field, draft.language if workspace.field == "language" else None)
    )
    names = value if isinstance(value, list) else [] if value is None else [value]
    reason = next((finding for name in names if (finding := _finding(name, clean, entities)) is not None), None)
    if reason is None and not names and workspace.required:
        reason = "it belongs to no workspace, and the declaration requires one"
    if reason is None:
        return None
    rule = source.declared_fields().get(workspace.field)
    return Reject(
        draft.source,
        draft.url,
        draft.document_id,
        "clean",
        reason,
        workspace.field,
        value,
        None if rule is None else rule.rule,
    )


def _finding(name: Any, clean: Clean, entities: bool) -> str | None:
    if not isinstance(name, str):
        return f"the workspace {_shown(name)} is no text: `type: text` makes one of it"
    if not name.strip():
        return f"the workspace {_shown(name)} is blank"
    cleaned = clean_value(name, clean, entities=entities)
    return (
        None
        if cleaned == name
        else f"the workspace {_shown(name)} would be {_shown(cleaned)} once cleaned, which is the name of another"
    )


def _shown(name: Any) -> str:
    text = ascii(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
