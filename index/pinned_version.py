"""A version and its segments, found whole and pinned for a reader."""

from functools import partial
from pathlib import Path

import numpy as np

from almanac.core.leases import Leases
from almanac.core.pins import Pin
from almanac.core.stamps import untouched, write_stamps
from almanac.core.tables import CHUNKS
from almanac.index.chroma.chroma_rows import CHROMA
from almanac.index.open_segment import OpenSegment
from almanac.index.segments.deleted import DELETED, deleted_rows
from almanac.index.segments.segment_store import segment_dir, segment_in
from almanac.index.versions.version_store import manifest_in, pin_version, require_unaltered, version_dir
from almanac.schemas.errors import DamagedVersion, StorageError
from almanac.schemas.manifest import Manifest, Sealed, SegmentUse


class PinnedVersion:
    """A version and its segments, pinned until `close`: `prune` leaves them alone, and their files stay the same under
    whatever name they have by then.

    Of segments, files that were touched since they were verified are compared with their hashes here; a version that is
    its own segment has each part compared on first use.

    Args:
        index_dir: The knowledge base's index directory, which contains `versions/`.
        version: The version's name, such as `v0001`.
        candidate: The manifest of a candidate, a built directory whose manifest is not written yet. A candidate is not
            pinned.
        gives_way: Whether to hold leases on the files that are mapped (`core.leases`). Whoever does so has to ask
            `is_wanted` several times a minute.

    Raises NotFound for an unknown version, StorageError for one that is being written, and DamagedVersion when a file
    of the version or of a segment is missing or altered.
    """

    def __init__(
        self, index_dir: Path, version: str, candidate: Manifest | None = None, *, gives_way: bool = False
    ) -> None:
        self._index_dir, self._version, self._is_candidate, self._gives_way = (
            index_dir,
            version,
            candidate is not None,
            gives_way,
        )
        self._pins: list[Pin] = []  # of the version, then of its segments
        self._leases: list[Leases] = []
        while True:
            try:
                self.manifest = candidate or self._pinned_manifest()
                self.segments = self._opened_segments()
                return
            except DamagedVersion:
                # `forget` may have put another version in its place, and removed a segment that was not pinned yet.
                was_replaced = bool(self._pins) and not self._pins[0].is_in_place()
                self.close()
                if not was_replaced:
                    raise
            except BaseException:
                self.close()
                raise

    @property
    def folder(self) -> Path:
        """The folder to read the version's own files from: the pinned one, even after it was renamed."""
        pins = self._pins  # which another thread may close
        return pins[0].folder if pins else self._public

    @property
    def is_in_place(self) -> bool:
        """Whether the names of the version and its segments refer to what is pinned. When False, `rebuild` or `forget`
        replaced one.
        """
        return self._is_candidate or (bool(self._pins) and all(pin.is_in_place() for pin in self._pins))

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits to write a file that is read here: close the version, and open it anew."""
        return any(leases.are_wanted() for leases in self._leases)

    def close(self) -> None:
        """Releases leases and pins."""
        for leases in self._leases:
            leases.close()
        for pin in self._pins:
            pin.close()
        self._leases, self._pins = [], []

    @property
    def _public(self) -> Path:
        return version_dir(self._index_dir, self._version)

    def _pinned_manifest(self) -> Manifest:
        self._pins = [pin_version(self._index_dir, self._version)]
        return manifest_in(self.folder, self._index_dir, self._version)

    def _opened_segments(self) -> list[OpenSegment]:
        manifest = self.manifest
        self._lease(self.folder, manifest)
        if not manifest.segments:
            unaltered = partial(require_unaltered, self.folder, manifest, called=self._public)
            return [OpenSegment(self.folder, manifest, np.zeros(0, dtype=np.int64), unaltered)]
        require_unaltered(self.folder, manifest, DELETED, called=self._public)
        return [self._opened_segment(use) for use in manifest.segments]

    def _lease(self, folder: Path, sealed: Sealed) -> None:
        """Takes leases, before anything is compared or mapped. A file that is missing is told by the comparison."""
        if not self._gives_way:
            return
        mapped = (
            folder / stored.path
            for stored in sealed.files
            if not stored.path.startswith(f"{CHROMA}/") and not stored.path.endswith(".parquet")
        )
        try:
            self._leases.append(Leases(path for path in mapped if path.is_file()))
        except BlockingIOError as error:
            hint = (
                "ask again once whoever copies or restores there is done; almanac verify KB then says whether it "
                "is whole"
            )
            raise StorageError(
                f"{sealed.called} of '{self._index_dir.name}' is being written", where=str(self._public), hint=hint
            ) from error

    def _opened_segment(self, use: SegmentUse) -> OpenSegment:
        folder = public = segment_dir(self._index_dir, use.segment)
        if not self._is_candidate:
            self._pins.append(_pin_segment(public))
            folder = self._pins[-1].folder
        sealed = segment_in(folder, called=public)
        deleted = deleted_rows(self.folder, use.segment, CHUNKS)
        counted = (sealed.segment, sealed.counts.chunks, len(deleted))
        if counted != (use.segment, use.chunks, use.deleted) or (
            len(deleted) and (deleted[0] < 0 or deleted[-1] >= use.chunks or (np.diff(deleted) < 1).any())
        ):
            raise DamagedVersion(
                f"{self.manifest.version} is damaged: it deletes {use.deleted} of {use.chunks} chunks of segment "
                f"{use.segment}, and there are {counted}",
                where=str(self._public),
                hint=way_out(self.manifest.version),
            )
        self._lease(folder, sealed)
        require_unaltered(folder, sealed, called=public)
        if len(untouched(folder, sealed.files)) < len(sealed.files):  # a copy of the data directory, say
            write_stamps(folder, sealed.files)
        return OpenSegment(folder, sealed, deleted, partial(require_unaltered, folder, sealed, called=public))


def way_out(version: str) -> str:
    """The hint beside the error of a damaged version."""
    return f"almanac verify KB {version} says what is wrong; almanac rollback KB serves an older version"


def _pin_segment(folder: Path) -> Pin:
    """Pins a segment of a pinned version. Raises DamagedVersion where there is none."""
    while True:
        try:
            pin = Pin(folder)
        except FileNotFoundError as error:
            hint = "almanac verify KB says what is wrong; almanac run KB builds a new version"
            raise DamagedVersion("a segment is missing", where=str(folder), hint=hint) from error
        if pin.is_in_place():
            return pin
        pin.close()
