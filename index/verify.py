"""Compares a version with what it was made from, in a fresh process: rows, texts, metadata, vectors, files, digest, a few queries."""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from index.child import Message, run_child, serve_parent
from index.rows import CHROMA
from schemas.manifest import EmbedderInfo, Manifest
from schemas.reports import Problem


class _VerifyJob(BaseModel):
    version_dir: Path
    manifest: Manifest | None
    vectors_root: Path
    embedder: EmbedderInfo


def verify_version(version_dir: Path, manifest: Manifest | None, vectors_root: Path, embedder_info: EmbedderInfo) -> list[Problem]:
    """Everything that is wrong with a version; an empty list means that it is whole. `manifest` is None before it is written.

    Kinds: file_missing, file_altered, row_missing, row_foreign, row_altered, vector_altered, vector_missing, digest_differs,
    probe_failed, unreadable. At most 100 of a kind are listed. Chroma's own opening is the only thing that writes.
    """
    job = _VerifyJob(version_dir=version_dir.absolute(), manifest=manifest, vectors_root=vectors_root.absolute(), embedder=embedder_info)
    problems: list[Problem] = []

    def collect(message: Message) -> None:
        problems.append(Problem.model_validate(message["problem"]))

    def collect_crash(name: str) -> None:
        # Chroma maps index files into memory and trusts them: a short one is a segmentation fault.
        problems.append(Problem(kind="unreadable", where=CHROMA, found=f"reading it ended in {name}", expected="rows"))

    run_child("index.verify", job.model_dump_json(), collect, on_signal=collect_crash)
    return problems


def _work(job_text: str, send: Callable[[Message], None]) -> None:
    from index.findings import Findings
    from index.verify_files import check_chunks, check_files
    from index.verify_rows import check_rows

    job = _VerifyJob.model_validate_json(job_text)
    findings = Findings(lambda problem: send({"problem": problem.model_dump()}))
    if job.manifest is not None:
        check_files(job.version_dir, job.manifest, findings)
    table = check_chunks(job.version_dir, job.manifest, job.embedder, findings)
    if table is not None:
        check_rows(job.version_dir, job.manifest, table, job.vectors_root, job.embedder, findings)


if __name__ == "__main__":
    serve_parent(_work)
