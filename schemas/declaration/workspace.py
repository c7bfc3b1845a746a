"""The key `retrieve.workspace` of a declaration: the field that keeps workspaces apart."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from almanac.schemas.declaration.model import DeclaredModel


class Workspace(DeclaredModel):
    """The field that keeps workspaces apart. Its values are names, compared as they are written: `Team`, `team` and
    `team ` are three.

    An item is rejected whose workspace is no text, is blank, or would be changed by cleaning; in a list, which puts
    an item into several workspaces, each entry counts.
    """

    field: str = Field(
        min_length=1,
        description="metadata field whose value is the workspace of an item, or the list of its workspaces",
    )
    required: bool = Field(False, description="refuse questions that name no workspace, and reject items without one")


def _named(value: Any) -> Any:
    return {"field": value} if isinstance(value, str) else value


FieldOrWorkspace = Annotated[Workspace, BeforeValidator(_named, json_schema_input_type=Workspace | str)]
