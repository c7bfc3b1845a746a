"""The own folder of a version of segments, which has its lists of deleted rows: read with a check, and replaced in one
step.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from almanac.core.durable import exchange, remove
from almanac.core.pins import hidden_folder, remove_unless_pinned
from almanac.core.tables import CHUNKS, DOCUMENTS, RECORDS
from almanac.index.segments.deleted import DELETED, deleted_rows, write_deleted_rows
from almanac.index.segments.version_tables import VersionTables
from almanac.index.vectors.keys import RowNumbers
from almanac.index.verify.verifier import require_none, verify_whole
from almanac.index.versions.lock import Lease
from almanac.index.versions.seal import seal
from almanac.index.versions.version_store import version_dir
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.hashing import file_sha256
from almanac.schemas.manifest import Manifest, Sealed

TABLES = (CHUNKS, RECORDS, DOCUMENTS)
Deletions = Mapping[str, Mapping[str, RowNumbers]]  # segment → table → row numbers, ascending


def read_deletions(folder: Path, manifest: Manifest) -> Deletions:
    """Returns the rows of its segments that the version in `folder` has deleted. Raises DamagedVersion where a list is
    missing or was altered.

    Nothing else says which rows they are.
    """
    require_unaltered(
        folder, manifest, "nothing else says which rows it has deleted", lambda path: path.startswith(f"{DELETED}/")
    )
    return {
        use.segment: {table: deleted_rows(folder, use.segment, table) for table in TABLES} for use in manifest.segments
    }


def require_unaltered(folder: Path, sealed: Sealed, why: str, is_required: Callable[[str], bool]) -> None:
    """Raises DamagedVersion unless each required file that the manifest lists has its SHA-256; `why` says what it is
    required for.
    """
    for stored in filter(lambda stored: is_required(stored.path), sealed.files):
        path = folder / stored.path
        if not path.is_file() or file_sha256(path) != stored.sha256:
            raise DamagedVersion(
                f"{stored.path} of {sealed.called} {'was altered' if path.is_file() else 'is missing'}, and {why}",
                where=str(path),
                hint=(
                    "almanac rollback KB serves an older version; almanac run KB builds a new one; or bring the "
                    "file back from a backup"
                ),
            )


def recompose(
    index_dir: Path,
    manifest: Manifest,
    deletions: Deletions,
    *,
    complete: Callable[[VersionTables], Manifest] | None = None,
    lease: Lease | None = None,
) -> Manifest:
    """Writes the own folder of a version of segments anew, verifies the whole and exchanges the folder; returns the
    manifest.

    Args:
        index_dir: The knowledge base's index directory.
        manifest: The version's manifest, with the segments that it is to have.
        deletions: The deleted rows of each of these segments.
        complete: Returns the manifest for the version's tables, where their content is another one.
        lease: The writer's lock, checked before the manifest is written.

    Raises DamagedVersion where the whole is not what the manifest says; the existing folder then stays in place.
    """
    folder = version_dir(index_dir, manifest.version)
    with replacing(folder) as successor:
        successor.mkdir()
        for use in manifest.segments:
            for table, rows in deletions[use.segment].items():
                write_deleted_rows(successor, use.segment, table, rows)
        composed = manifest.model_copy(update={"files": []})
        if complete is not None:
            composed = complete(VersionTables(index_dir, successor, composed))
        finding = f"{manifest.version} cannot be put together from its segments"
        hint = f"almanac verify KB {manifest.version} lists what is wrong; almanac run KB builds a new version"
        require_none(verify_whole(successor, composed), finding, folder, hint)
        return seal(successor, composed, lease=lease)


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yields a hidden path beside a folder, and exchanges what the block has put there with the folder, in one step;
    after an error, it is removed.
    """
    successor = hidden_folder(folder)
    try:
        yield successor
        exchange(successor, folder)
    except BaseException:
        if successor.is_dir():
            remove(successor)
        raise
    remove_unless_pinned(successor)  # otherwise `discard_unfinished` removes it once no reader has it pinned
