"""Compares a version with what it was made from, in a fresh process: rows, texts, metadata, vectors, terms, files, digest, a few queries."""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from almanac.index.build.child_process import Message, run_child, serve_parent
from almanac.index.chroma.rows import CHROMA
from almanac.schemas.manifest import EmbedderInfo, Manifest
from almanac.schemas.reports import Problem


class VerifyJob(BaseModel):
    """All that a verifier needs; see `verify_version`."""

    version_dir: Path
    manifest: Manifest | None
    vectors_root: Path
    embedder: EmbedderInfo
    since: Path | None = None


def verify_version(
    version_dir: Path, manifest: Manifest | None, vectors_root: Path, embedder_info: EmbedderInfo, *, since: Path | None = None
) -> list[Problem]:
    """Everything that is wrong with a version; an empty list means that it is whole. `manifest` is None before it is written.

    With `since`, the directory of the version that it was made from by a delta, the cost follows the change: exact ids, every added row in
    full, and of the other ones the tables in full and in Chroma a sample (`index.verify.delta`).
    Kinds: file_missing, file_altered, row_missing, row_foreign, row_altered, vector_altered, vector_missing, digest_differs,
    probe_failed, unreadable. At most 100 of a kind are listed. Chroma's own opening is the only thing that writes.
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
        # Chroma maps index files into memory and trusts them: a short one is a segmentation fault.
        problems.append(Problem(kind="unreadable", where=CHROMA, found=f"reading it ended in {name}", expected="rows"))

    run_child("almanac.index.verify.verifier", job.model_dump_json(), collect, on_signal=collect_crash)
    return problems


def _work(job_text: str, send: Callable[[Message], None]) -> None:
    verify_here(VerifyJob.model_validate_json(job_text), lambda problem: send({"problem": problem.model_dump()}))


def verify_here(job: VerifyJob, send: Callable[[Problem], None]) -> None:
    """What the child does. A ruined index file may end the process."""
    from almanac.index.verify.delta import check_changed
    from almanac.index.verify.files import check_chunks, check_files
    from almanac.index.verify.problem_collector import ProblemCollector

    findings = ProblemCollector(send)
    if job.manifest is not None:
        check_files(job.version_dir, job.manifest, findings)
    collection = job.manifest.collection if job.manifest else None
    table, rows = None, None
    if job.since is None:
        table = check_chunks(job.version_dir, job.manifest, job.embedder, findings)
    elif changed := check_changed(job.version_dir, job.since, job.manifest, job.vectors_root, job.embedder, findings, _import_chroma):
        table, rows = changed.table, changed.rows
    if table is not None:
        from almanac.index.verify.lexical import check_lexical
        from almanac.index.verify.rows import check_rows

        check_lexical(job.version_dir, table, findings)
        check_rows(job.version_dir, collection, table, rows, job.vectors_root, job.embedder, findings)


def _import_chroma() -> None:
    """A second of its own."""
    import almanac.index.chroma.client  # noqa: F401


if __name__ == "__main__":
    serve_parent(_work)
