"""A run: its knowledge base, its id, and the paths of its files."""

import secrets
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from almanac.core.clock import utc_now
from almanac.core.settings import DataDir
from almanac.flows.pipeline.fingerprints import stages_of
from almanac.index.embedding.embedder import Embedder, describe_embedder, load_embedder
from almanac.index.embedding.precision import require_precision, resolve
from almanac.index.versions.version_store import list_versions, version_dir
from almanac.query.evaluation.golden import Golden, load_golden
from almanac.query.evaluation.golden_calibration import is_to_be_fitted
from almanac.schemas.declaration import Declaration
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.manifest import EmbedderInfo
from almanac.schemas.scope import Scope
from almanac.spiders.store.raw import RawStore


def new_run_id() -> str:
    """An id that tells people when the run began: `20261122T031500-4f2a9c`. It is no order: see `newest_first` and
    `RawStore.crawls`.
    """
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


@dataclass(frozen=True, eq=False)
class Run:
    """Identity, paths and declaration of a run. It never changes; the results of steps are handles (`handles`).

    If `scratch` is given, the run writes there only, and the data directory is only read.
    """

    declaration: Declaration
    data: DataDir
    scope: Scope = Scope()  # noqa: RUF009  # frozen
    scratch: Path | None = None
    run_id: str = field(default_factory=new_run_id)
    started_at: str = field(default_factory=utc_now)

    def __getstate__(self) -> dict[str, Any]:
        """The fields are pickled, and the resolved embedder, so that workers follow the run; a loaded model and other
        cached values are not.
        """
        names = [*(each.name for each in fields(self)), *({"embed"} & vars(self).keys())]
        return {name: getattr(self, name) for name in names}

    @property
    def kb(self) -> str:
        return self.declaration.name

    @property
    def index_dir(self) -> Path:
        return self.data.index(self.kb)

    @property
    def processed(self) -> Path:
        return self.data.processed(self.kb)

    @property
    def staging(self) -> Path:
        """Folder of the files that handles refer to; removed when the run ends."""
        return (self.scratch or self.processed / ".staging") / self.run_id

    @property
    def tables(self) -> Path:
        """Folder of the run's complete tables."""
        return self.staging if self.is_plan else self.processed

    @property
    def report_file(self) -> Path:
        return self.data.runs(self.kb) / f"{self.run_id}.json"

    @property
    def is_plan(self) -> bool:
        return self.scratch is not None

    def version_dir(self, version: str) -> Path:
        return version_dir(self.index_dir, version)

    def raw(self, source: str) -> RawStore:
        """The stored pages of a source."""
        stored = self.data.raw(self.kb, source)
        return RawStore(stored) if self.scratch is None else RawStore(self.scratch / "raw" / source, below=stored)

    @cached_property
    def embed(self) -> Embed:
        """The declared embedder, its precision resolved to that of the newest version. Raises DeclarationError where
        this machine lacks it.
        """
        newest = next(reversed(list_versions(self.index_dir)), None)
        embed = resolve(self.declaration.embed, newest.embedder if newest is not None else None)
        require_precision(embed)
        return embed

    @cached_property
    def embedder(self) -> EmbedderInfo:
        """Identity of the embedder, without loading it. Raises DeclarationError if there is no such model."""
        return describe_embedder(self.embed)

    @cached_property
    def _model(self) -> Embedder:
        return load_embedder(self.embed, self.data)

    def model(self) -> Embedder:
        """The declared embedder, loaded once."""
        return self._model

    @cached_property
    def stages(self) -> dict[str, str]:
        """Stage name → fingerprint."""
        return stages_of(self.declaration, self.embedder.fingerprint, self.golden if self.fits_relevance else ())

    @cached_property
    def golden(self) -> list[Golden]:
        """The declared golden questions. Raises DeclarationError if they cannot be read."""
        return load_golden(self.declaration)

    @property
    def fits_relevance(self) -> bool:
        """Whether the relevance of hits is fitted on the golden questions."""
        return is_to_be_fitted(self.embedder, self.golden)
