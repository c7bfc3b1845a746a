"""Verifies a version in child processes: rows, texts, metadata, vectors, terms, files, digest and a few queries, of
each of its segments and of the whole.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

from pydantic import BaseModel

from almanac.index.build.child_process import ForkServer, Message, run_child
from almanac.index.build.job import AbsolutePath
from almanac.index.chroma.chroma_rows import CHROMA
from almanac.index.segments.segment_store import SEGMENT, SEGMENTS, read_segment, segment_dir
from almanac.index.segments.version_tables import StoredTables, VersionTables
from almanac.index.vectors.quantized import QUANTIZED
from almanac.index.verify.files import check_chunks, check_files
from almanac.index.verify.problem_collector import ProblemCollector
from almanac.index.verify.verify_composed import check_composition
from almanac.schemas.errors import DamagedVersion
from almanac.schemas.manifest import Counts, EmbedderInfo, Manifest, Outline, Segment, SegmentUse
from almanac.schemas.reports import Problem

VERIFIER = "almanac.index.verify.verifier"  # the child's module


class VerifyJob(BaseModel):
    """The input of a verification of one folder, as it is sent to the child process; see `verify_version`."""

    version_dir: AbsolutePath
    manifest: Manifest | Segment | None
    vectors_root: AbsolutePath
    embedder: EmbedderInfo
    inside: str = ""  # precedes the places of problems


def verify_version(
    version_dir: Path,
    manifest: Manifest | None,
    vectors_root: Path,
    embedder_info: EmbedderInfo,
    *,
    fork_server: ForkServer | None = None,
) -> list[Problem]:
    """Returns all problems of a version, at most 100 of each kind in each segment; an empty list means that it is
    intact.

    Kinds: file_missing, file_altered, row_missing, row_foreign, row_altered, vector_altered, vector_missing,
    digest_differs, probe_failed, unreadable. Nothing is written, except by Chroma when it opens its database. Places in
    a segment begin with `segments/NAME/`.

    Args:
        version_dir: Directory of the version, in its index directory where it has segments.
        manifest: Its manifest; None before there is one.
        vectors_root: Folder of the vector store.
        embedder_info: The version's embedder.
        fork_server: Children that were started ahead, of which one is used.
    """
    if manifest is None or not manifest.segments:
        job = VerifyJob(version_dir=version_dir, manifest=manifest, vectors_root=vectors_root, embedder=embedder_info)
        return _problems_of(job, fork_server)
    index_dir = version_dir.parent.parent
    with nullcontext(fork_server) if fork_server else ForkServer() as server:
        server.start(VERIFIER)
        in_segments = [
            problem
            for use in manifest.segments
            for problem in verify_segment(index_dir, use.segment, vectors_root, embedder_info, fork_server=server)
        ]
    return in_segments + _problems_of_whole(version_dir, manifest, trusts_seals=False)


def verify_segment(
    index_dir: Path, name: str, vectors_root: Path, embedder: EmbedderInfo, *, fork_server: ForkServer | None = None
) -> list[Problem]:
    """Returns all problems of a segment, of every row, whether or not a version has deleted it; an empty list means
    that it is intact. `fork_server` as in `verify_version`.
    """
    folder, inside = segment_dir(index_dir, name), f"{SEGMENTS}/{name}/"
    try:
        segment = read_segment(index_dir, name)
    except DamagedVersion as error:
        kind = "unreadable" if (folder / SEGMENT).is_file() else "file_missing"
        return [Problem(kind=kind, where=f"{inside}{SEGMENT}", found=error.message, expected=None)]
    job = VerifyJob(version_dir=folder, manifest=segment, vectors_root=vectors_root, embedder=embedder, inside=inside)
    return _problems_of(job, fork_server)


def verify_folder(folder: Path, sealed: Manifest | Segment, vectors_root: Path) -> list[Problem]:
    """Returns the problems of a folder that is built as a single segment, and not sealed yet."""
    return _problems_of(
        VerifyJob(version_dir=folder, manifest=sealed, vectors_root=vectors_root, embedder=sealed.embedder)
    )


def verify_whole(version_dir: Path, manifest: Manifest) -> list[Problem]:
    """Returns the problems of what a version makes of its segments, which themselves are trusted by their seals and
    stamps; also of its own files.

    Costs some seconds for a million chunks, of which it reads ids, keys and metadata. Places of problems as in
    `verify_version`.
    """
    return _problems_of_whole(version_dir, manifest, trusts_seals=True)


def _problems_of_whole(version_dir: Path, manifest: Manifest, *, trusts_seals: bool) -> list[Problem]:
    problems: list[Problem] = []
    collector = ProblemCollector(problems.append)
    check_files(version_dir, manifest, collector)
    tables = VersionTables.in_folder(version_dir, manifest)
    check_composition(tables, manifest.embedder, collector, trusts_seals=trusts_seals)
    return problems


def verify_composition(
    index_dir: Path,
    version_dir: Path,
    segments: Sequence[SegmentUse],
    chunks: Path,
    embedder: EmbedderInfo,
) -> list[Problem]:
    """Returns the problems of a version that a run has just composed, before it has a manifest; an empty list means
    that there are none.

    Its segments are trusted by their seals and stamps, and files without a fitting stamp are hashed. All chunk ids are
    compared, and when each was first seen. Chroma is not opened, so that no child is needed. Costs 6 s for a million,
    and 250 bytes of memory for each.

    Args:
        index_dir: The knowledge base's index directory.
        version_dir: Directory of the version, with its lists of deleted rows.
        segments: The segments that it is to have.
        chunks: The run's table, whose chunks have to be exactly the live ones.
        embedder: The version's embedder.
    """
    problems: list[Problem] = []
    composed = Outline(
        version=version_dir.name,
        run_id="",
        counts=Counts(records=0, documents=0, chunks=0),  # not known yet: a table that is not there has no rows
        segments=list(segments),
    )
    check_composition(
        StoredTables(index_dir, version_dir, composed),
        embedder,
        ProblemCollector(problems.append),
        trusts_seals=True,
        chunks=chunks,
    )
    return problems


def require_none(problems: Sequence[Problem], finding: str, folder: Path, hint: str) -> None:
    """Raises DamagedVersion where there are problems of `folder`. `finding` begins its message, which names the first;
    `hint` says what to do.
    """
    if problems:
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise DamagedVersion(
            f"{finding}: {problems[0].kind} at {problems[0].where}{more}", where=str(folder), hint=hint
        )


def require_as_built(problems: Sequence[Problem], what: str, folder: Path) -> None:
    """Raises DamagedVersion where there are problems of `what`, which has just been built in `folder`."""
    is_value = all(problem.kind == "row_altered" for problem in problems)
    hint = (
        "if a second run ends alike, Chroma does not keep that value: leave the field out by `metadata` of the source, "
        "and please report it"
        if is_value
        else "run again, and check the disk if it happens again"
    )
    require_none(problems, f"{what} differs from what was built", folder, f"what is published serves on; {hint}")


def _problems_of(job: VerifyJob, fork_server: ForkServer | None = None) -> list[Problem]:
    problems: list[Problem] = []

    def collect(message: Message) -> None:
        problems.append(Problem.model_validate(message["problem"]))

    def collect_crash(name: str) -> None:
        # Chroma memory-maps index files without checking them: a truncated one causes a segmentation fault.
        ending = f"reading it ended in {name}"
        problems.append(Problem(kind="unreadable", where=f"{job.inside}{CHROMA}", found=ending, expected="rows"))

    run_child(VERIFIER, job.model_dump_json(), collect, on_signal=collect_crash, fork_server=fork_server)
    return problems


def work(job_text: str, send: Callable[[Message], None], _: Iterable[object] = ()) -> None:
    job = VerifyJob.model_validate_json(job_text)
    verify_here(job, lambda problem: send({"problem": problem.model_dump()}))


def verify_here(job: VerifyJob, send: Callable[[Problem], None]) -> None:
    """Verifies one folder in this process; called in the child, since a damaged index file may crash the process."""
    from almanac.core.memory import give_back

    problems = ProblemCollector(send, job.inside)
    altered: list[str] = []
    if job.manifest is not None:
        altered = check_files(job.version_dir, job.manifest, problems)
    collection = job.manifest.collection if job.manifest else None
    table = check_chunks(job.version_dir, job.manifest, job.embedder, problems)
    if table is not None:
        from almanac.index.verify.lexical import check_lexical
        from almanac.index.verify.mapped_rows import check_mapped_rows, check_quantized
        from almanac.index.verify.verify_rows import check_rows

        check_mapped_rows(job.version_dir, table, problems)
        give_back()  # each check reads all rows
        check_lexical(job.version_dir, table, problems)
        give_back()
        # Opening an altered index may crash this process.
        if QUANTIZED not in altered:
            check_quantized(job.version_dir, table.num_rows, job.embedder.dimension, problems)
        if any(path.startswith(f"{CHROMA}/") for path in altered):
            return
        check_rows(
            job.version_dir,
            collection,
            table,
            job.vectors_root,
            job.embedder,
            problems,
            is_sealed=job.manifest is not None,
        )


def prepare() -> None:
    """Imports what the work needs, before there is any."""
    import pandas  # noqa: F401  # pyarrow imports it with the first array

    import almanac.index.verify.lexical
    import almanac.index.verify.mapped_rows
    import almanac.index.verify.verify_rows  # noqa: F401
