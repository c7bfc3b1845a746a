"""What a caller may see of a catalog. HTTP and MCP ask through it, so that neither tells what the other hides."""

from collections.abc import Sequence
from dataclasses import dataclass

from almanac.core.logs import get_logger
from almanac.query.published import PublishedIndex
from almanac.query.retrieval.retriever import Retriever
from almanac.query.several import SeveralIndexes
from almanac.schemas.errors import AlmanacError, NotFound, UsageError
from almanac.serve.catalog import Catalog

_log = get_logger("almanac.visibility")


@dataclass(frozen=True, slots=True)
class Held:
    """What a version holds for a caller: documents, records, and the sources that they come from, in declared order."""

    version: str
    documents: int
    records: int
    sources: tuple[str, ...]


class View:
    """The knowledge bases of a catalog, as a caller sees them.

    Args:
        catalog: The knowledge bases.
        workspace: Workspace that the caller is held to. Such a caller sees only bases that keep workspaces apart; no
            error names another. None sees all.
    """

    def __init__(self, catalog: Catalog, workspace: str | None) -> None:
        self._catalog, self.workspace = catalog, workspace

    def indexes(self) -> list[PublishedIndex]:
        """Indexes of the published knowledge bases that the caller may ask, by name. One that cannot be opened is left
        out, with a warning in the log.
        """
        indexes = []
        for name in self._catalog.names():
            try:
                index = self._catalog.index(name)
            except AlmanacError as error:
                _log.warning("kb_left_out", kb=name, error=str(error))
                continue
            if self.workspace is None or index.declaration.retrieve.workspace is not None:
                indexes.append(index)
        return indexes

    def index(self, kb: str | None) -> PublishedIndex:
        """Index of a knowledge base, by name, handle, file or collection; None gives the default one, for a restricted
        caller the only one it sees.

        Raises NotFound for a base that the caller does not see, UsageError where none is named and none is the default,
        and the errors of `Catalog.index`.
        """
        if self.workspace is None:
            return self._catalog.index(kb)
        visible = {index.declaration.name: index for index in self.indexes()}
        wanted = kb or (next(iter(visible)) if len(visible) == 1 else self._catalog.default_name)
        declaration = self._catalog.find(wanted) if wanted else None
        if declaration is not None and declaration.name in visible:
            return visible[declaration.name]
        hint = f"there are: {', '.join(visible) or 'none'}"
        if kb:
            raise NotFound("there is no such knowledge base for this caller", where="kb", hint=hint)
        raise UsageError("the request names no knowledge base", where="kb", hint=hint)

    def select_indexes(self, kbs: Sequence[str]) -> PublishedIndex | SeveralIndexes:
        """What a request is put to: the index of the one knowledge base that it names, those of several, or the default
        one. Errors as `index`.
        """
        if len(kbs) > 1:
            return SeveralIndexes([self.index(kb) for kb in kbs])
        return self.index(kbs[0] if kbs else None)

    def default(self) -> str | None:
        """Name of the knowledge base that answers where none is named; None where a request has to name one."""
        try:
            return self.index(None).declaration.name
        except (UsageError, NotFound):
            return None

    def held(self, index: PublishedIndex) -> Held | None:
        """What the live version holds for the caller; None, with a warning in the log, where it cannot be read. A
        search raises the error.
        """
        try:
            with index.reading() as retriever:
                return self._held(index, retriever)
        except AlmanacError as error:
            _log.warning("kb_unreadable", kb=index.declaration.name, error=str(error))
            return None

    def _held(self, index: PublishedIndex, retriever: Retriever) -> Held:
        manifest, declared = retriever.opened.manifest, tuple(source.name for source in index.declaration.sources)
        if self.workspace is None:
            return Held(manifest.version, manifest.counts.documents, manifest.counts.records, declared)
        keys = ["source", "document_id", "kind"]
        items = (
            retriever.opened.table(keys, retriever.access.visible(self.workspace))
            .group_by(keys, use_threads=False)
            .aggregate([])
        )
        kinds, sources = items.column("kind").to_pylist(), set(items.column("source").to_pylist())
        return Held(
            manifest.version,
            kinds.count("document"),
            kinds.count("record"),
            tuple(name for name in declared if name in sources),
        )
