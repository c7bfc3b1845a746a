"""Resources of the MCP server: the list of documents of a knowledge base, a document, a passage; each is JSON at an
`almanac://` URI.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from mcp.shared.uri_template import UriTemplate
from mcp_types import Resource, ResourceTemplate

from almanac.query.retrieval.retriever import Retriever
from almanac.schemas.declaration import Declaration
from almanac.schemas.errors import NotFound, UsageError
from almanac.serve.caller_view import View

PAGE = 100  # documents, or passages of a document, in one response
JSON = "application/json"
_SOURCES = UriTemplate.parse("almanac://{kb}/sources{?offset}")
# document ids are unique only within a source
_DOCUMENT = UriTemplate.parse("almanac://{kb}/sources/{source}/{document_id}{?offset}")
_PASSAGE = UriTemplate.parse("almanac://{kb}/passages/{chunk_id}")
TEMPLATES = [
    ResourceTemplate(
        uri_template=str(_SOURCES),
        name="sources",
        title="Documents of a knowledge base",
        mime_type=JSON,
        description=(
            f"what a knowledge base is made of, {PAGE} documents at a time; `next` is the address of the following ones"
        ),
    ),
    ResourceTemplate(
        uri_template=str(_DOCUMENT),
        name="document",
        title="One document",
        mime_type=JSON,
        description=(
            f"a document's passages in their order, {PAGE} at a time; its address stands in the list of documents"
        ),
    ),
    ResourceTemplate(
        uri_template=str(_PASSAGE),
        name="passage",
        title="One passage",
        mime_type=JSON,
        description="a passage with its text, metadata and document; its address stands in search results",
    ),
]


def passage_uri(kb: str, chunk_id: str) -> str:
    return _PASSAGE.expand({"kb": kb, "chunk_id": chunk_id})


def sources_resource(declaration: Declaration) -> Resource:
    """Resource that lists the documents of one knowledge base."""
    title = declaration.title or declaration.name
    return Resource(
        uri=_SOURCES.expand({"kb": declaration.name}),
        name=f"{declaration.name}-sources",
        title=f"Documents of {title}",
        description=f"what the knowledge base {title!r} is made of",
        mime_type=JSON,
    )


def read_resource(view: View, uri: str) -> dict[str, Any]:
    """Reads a resource from the live version of a knowledge base.

    Args:
        view: The knowledge bases, as the caller sees them.
        uri: URI of the resource, matching one of `TEMPLATES`.

    Returns:
        The resource as a JSON object, with `kb` and `version`.

    Raises:
        NotFound: The URI, the knowledge base, the document or the passage does not exist.
        UsageError: The offset is not a whole number of at most nine digits, or errors as `Access.visible`.
        AlmanacError: The errors of `View.index` and `PublishedIndex.reading`.
    """
    for template, read in ((_SOURCES, _sources), (_DOCUMENT, _document), (_PASSAGE, _passage)):
        variables = template.match(uri)
        if variables is not None:
            named = {name: str(value) for name, value in variables.items()}
            with view.index(named["kb"]).reading() as retriever:
                about = {"kb": named["kb"], "version": retriever.opened.manifest.version}
                return about | read(retriever, named, view.workspace)
    raise NotFound(
        f"no resource has the address {uri[:200]!r}",
        hint=f"addresses look like {', '.join(str(template.uri_template) for template in TEMPLATES)}",
    )


def _sources(retriever: Retriever, named: Mapping[str, str], workspace: str | None) -> dict[str, Any]:
    keys = ["source", "document_id", "title", "url"]
    documents = (
        retriever.opened.table(keys, retriever.access.visible(workspace))
        .group_by(keys, use_threads=False)
        .aggregate([([], "count_all")])
    )
    page = _page("documents", documents, named, _SOURCES)
    page["documents"] = [
        {
            "document_id": row["document_id"],
            "source": row["source"],
            "title": row["title"],
            "url": row["url"],
            "passages": row["count_all"],
            "uri": _DOCUMENT.expand({"kb": named["kb"], "source": row["source"], "document_id": row["document_id"]}),
        }
        for row in page["documents"].to_pylist()
    ]
    return page


def _document(retriever: Retriever, named: Mapping[str, str], workspace: str | None) -> dict[str, Any]:
    visible = retriever.access.visible(workspace)
    chunks = retriever.opened.chunks_of(named["source"], named["document_id"])
    own = [chunk_id for _, chunk_id in chunks if visible is None or chunk_id in visible]
    if not own:
        raise NotFound(
            f"'{named['kb']}' has no document {named['document_id'][:200]!r} in the source '{named['source'][:80]}'",
            hint=f"{_SOURCES.expand({'kb': named['kb']})} lists the documents of the live version",
        )
    page = _page("passages", own, named, _DOCUMENT)
    first, *rows = retriever.opened.rows([own[0], *page["passages"]])
    page["passages"] = [
        {
            "uri": passage_uri(named["kb"], row["chunk_id"]),
            **{name: row[name] for name in ("start", "end", "text", "passage")},
        }
        for row in rows
    ]
    return {name: first[name] for name in ("document_id", "source", "title", "url")} | page


def _passage(retriever: Retriever, named: Mapping[str, str], workspace: str | None) -> dict[str, Any]:
    try:
        (row,) = retriever.opened.rows([named["chunk_id"]])
    except KeyError:
        row = None
    visible = retriever.access.visible(workspace)
    if row is None or (visible is not None and named["chunk_id"] not in visible):
        raise NotFound(
            f"the live version of '{named['kb']}' has no passage {named['chunk_id'][:80]!r}",
            hint="passages change with what they say: search again for the present one",
        )
    document = {"kb": named["kb"], "source": row["source"], "document_id": row["document_id"]}
    columns = (
        "chunk_id",
        "document_id",
        "source",
        "title",
        "url",
        "kind",
        "ordinal",
        "start",
        "end",
        "text",
        "passage",
        "metadata",
        "fetched_at",
    )
    metadata = retriever.access.metadata_for(workspace, row["metadata"])
    return {name: row[name] for name in columns} | {"metadata": metadata, "document": _DOCUMENT.expand(document)}


def _page(name: str, items: list[str] | pa.Table, named: Mapping[str, str], template: UriTemplate) -> dict[str, Any]:
    """One page of a list: `total` items, those of the page under `name`, and `next`, the URI of the next page, None
    after the last one.
    """
    offset = named.get("offset", "0")
    if not (offset.isascii() and offset.isdigit() and len(offset) < 10):
        raise UsageError(f"the offset is {offset[:20]!r}", hint="a whole number, 0 or more")
    end = int(offset) + PAGE
    following = template.expand({**named, "offset": str(end)}) if end < len(items) else None
    return {"total": len(items), name: items[int(offset) : end], "next": following}
