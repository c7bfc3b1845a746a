"""Verifies a version in a child process: rows, texts, metadata, vectors, terms, files, digest and a few queries."""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from almanac.index.build.child_process import Message, run_child, serve_parent
from almanac.index.chroma.rows import CHROMA
from almanac.schemas.manifest import EmbedderInfo, Manifest
from almanac.schemas.reports import Problem


class VerifyJob(BaseModel):
    """The input of a verification, as it is sent to the child process; see `verify_version`."""

    version_dir: Path
    manifest: Manifest | None
    vectors_root: Path
    embedder: EmbedderInfo
    since: Path | None = None


def verify_version(
    version_dir: Path, manifest: Manifest | None, vectors_root: Path, embedder_info: EmbedderInfo, *, since: Path | None = None
) -> list[Problem]:
    """Returns all problems of a version, at most 100 of each kind; an empty list means that it is intact.

    Kinds: file_missing, file_altered, row_missing, row_foreign, row_altered, vector_altered, vector_missing, digest_differs, probe_failed, unreadable.
    Nothing is written, except by Chroma when it opens its database.

    Args:
        version_dir: Directory of the version.
        manifest: Its manifest; None before there is one.
        vectors_root: Folder of the vector store.
        embedder_info: The version's embedder.
        since: For a delta build, the parent's directory. The cost then depends on the size of the change: all ids and the digest are checked, every added
            row in full, and a sample of the copied rows (`index.verify.delta`).
    """
    job = VerifyJob(
        version_dir=version_dir.absolute(),
        manifest=manifest,
        vectors_root=vectors_root.absolute(),
        embedder=embedder_info,
        since=since.absolute() if since else None,
    )
    problems: list[Problem] = []

    def collect(message: Message) -> None:
        problems.append(Problem.model_validate(message["problem"]))

    def collect_crash(name: str) -> None:
        # Chroma memory-maps index files without checking them: a truncated one causes a segmentation fault.
        problems.append(Problem(kind="unreadable", where=CHROMA, found=f"reading it ended in {name}", expected="rows"))

    run_child("almanac.index.verify.verifier", job.model_dump_json(), collect, on_signal=collect_crash)
    return problems


def _work(job_text: str, send: Callable[[Message], None]) -> None:
    verify_here(VerifyJob.model_validate_json(job_text), lambda problem: send({"problem": problem.model_dump()}))


def verify_here(job: VerifyJob, send: Callable[[Problem], None]) -> None:
    """Verifies the version in this process; called in the child, since a damaged index file may crash the process."""
    from almanac.index.verify.delta import check_changed
    from almanac.index.verify.files import check_chunks, check_database, check_files
    from almanac.index.verify.problem_collector import ProblemCollector

    problems = ProblemCollector(send)
    altered: list[str] = []
    if job.manifest is not None:
        altered = check_files(job.version_dir, job.manifest, problems)
        check_database(job.version_dir, problems)
    collection = job.manifest.collection if job.manifest else None
    table, rows = None, None
    if job.since is None:
        table = check_chunks(job.version_dir, job.manifest, job.embedder, problems)
    elif changed := check_changed(job.version_dir, job.since, job.manifest, job.vectors_root, job.embedder, problems, _import_chroma):
        table, rows = changed.table, changed.rows
    if table is not None:
        from almanac.index.verify.lexical import check_lexical
        from almanac.index.verify.rows import check_rows

        check_lexical(job.version_dir, table, problems)
        if any(path.startswith(f"{CHROMA}/") for path in altered):
            return  # opening an altered index may crash this process
        check_rows(job.version_dir, collection, table, rows, job.vectors_root, job.embedder, problems)


def _import_chroma() -> None:
    """Imports Chroma, which takes a second, in parallel with other checks."""
    import almanac.index.chroma.client  # noqa: F401


if __name__ == "__main__":
    serve_parent(_work)
