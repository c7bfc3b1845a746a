"""The same passages into Chroma by Almanac, by LangChain's `index()` and by LlamaIndex's `IngestionPipeline`: a first
time, unchanged, and 1 % changed.

    python -m benchmarks.frameworks --corpus FILE.jsonl [FILE.jsonl FILE.md ...] [--passages 1500]

All embed with all-MiniLM-L6-v2; the frameworks by `SentenceTransformer.encode` in batches of 32, each passage one
document, with what they offer to leave out what they have seen: a record manager and a document store in memory. A
framework is a process of its own, in which all three are done; what Almanac does is a whole command each time, which
also crawls, validates, verifies and publishes, and keeps what it needs on disk. Published are ratios to Almanac's;
seconds are this machine's. What is printed is Markdown.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.first_build import declare, machine, passages_of, run_almanac

_CHANGED = 100  # one passage of so many
_WORKS = ("first", "unchanged", "1 % changed")
_SIDES = ("almanac run", "LangChain index()", "LlamaIndex IngestionPipeline")

Ingest = Callable[[dict[str, str]], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", default=[], help="JSONL with `text`, or text")
    parser.add_argument("--passages", type=int, default=1500, help="how many of them, spread over the corpora")
    parser.add_argument("--side", choices=_SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        _framework(arguments.side, arguments.folder)
        return
    passages = passages_of(arguments.corpus, arguments.passages)
    with tempfile.TemporaryDirectory(prefix="benchmark-frameworks-") as name:
        folder = Path(name)
        texts = [{str(number): text for number, text in enumerate(passages)}] * 2
        texts.append(
            {number: f"{text} Revised." if int(number) % _CHANGED == 0 else text for number, text in texts[0].items()}
        )
        (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
        _show({side: _seconds(side, folder, texts) for side in _SIDES}, len(passages))


def _seconds(side: str, folder: Path, texts: Sequence[dict[str, str]]) -> list[float]:
    if side == _SIDES[0]:
        return [run_almanac(declare(folder, "float32", revision), folder / "data")[0] for revision in texts]
    command = [sys.executable, "-m", "benchmarks.frameworks", "--side", side, "--folder", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def _framework(side: str, folder: Path) -> None:
    """Prints the seconds of each work, imports and the model's loading left out."""
    from almanac.core.settings import quiet_engines

    quiet_engines()
    from sentence_transformers import SentenceTransformer

    from almanac.index.embedding.model_folder import find_model
    from almanac.schemas.declaration.embed_section import Embed

    model = SentenceTransformer(str(find_model(Embed()).path), device="cpu", local_files_only=True)

    def encode(texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = model.encode(
            texts, batch_size=32, normalize_embeddings=True, show_progress_bar=False
        ).tolist()
        return vectors

    encode(["warm"])
    ingest = {_SIDES[1]: _langchain, _SIDES[2]: _llamaindex}[side](encode, str(folder / side))
    seconds = []
    for revision in json.loads((folder / "texts.json").read_text(encoding="utf-8")):
        begin = time.perf_counter()
        ingest(revision)
        seconds.append(time.perf_counter() - begin)
    sys.stdout.write(json.dumps(seconds) + "\n")


def _langchain(encode: Callable[[list[str]], list[list[float]]], folder: str) -> Ingest:
    from langchain_chroma import Chroma
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.indexing import InMemoryRecordManager, index

    class Model(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return encode(texts)

        def embed_query(self, text: str) -> list[float]:
            return encode([text])[0]

    store, records = Chroma("passages", Model(), persist_directory=folder), InMemoryRecordManager("passages")
    records.create_schema()

    def ingest(texts: dict[str, str]) -> None:
        documents = [Document(text, metadata={"source": number}) for number, text in texts.items()]
        index(documents, records, store, cleanup="full", source_id_key="source", key_encoder="sha256", batch_size=500)

    return ingest


def _llamaindex(encode: Callable[[list[str]], list[list[float]]], folder: str) -> Ingest:
    import chromadb
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.schema import Document
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.vector_stores.chroma import ChromaVectorStore

    class Model(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return encode([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return encode(texts)

        def _get_query_embedding(self, query: str) -> list[float]:
            return encode([query])[0]

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    collection = chromadb.PersistentClient(folder).create_collection(
        "passages", configuration={"hnsw": {"space": "cosine"}}
    )
    pipeline = IngestionPipeline(
        transformations=[Model(embed_batch_size=500)],
        vector_store=ChromaVectorStore(chroma_collection=collection),
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )

    def ingest(texts: dict[str, str]) -> None:
        pipeline.run(documents=[Document(text=text, id_=number) for number, text in texts.items()])

    return ingest


def _show(measured: dict[str, list[float]], passages: int) -> None:
    ours = measured[_SIDES[0]]
    lines = [
        "| by | " + " | ".join(f"{work}, s | {work}, of Almanac's" for work in _WORKS) + " |",
        "|---|" + "---:|" * 2 * len(_WORKS),
    ]
    for side, seconds in measured.items():
        cells = (
            f"{side_seconds:.1f} | {side_seconds / own:.2f}" for side_seconds, own in zip(seconds, ours, strict=True)
        )
        lines.append(f"| `{side}` | {' | '.join(cells)} |")
    sys.stdout.write("\n".join([*lines, "", f"{passages:,} passages. {machine()}"]) + "\n")


if __name__ == "__main__":
    main()
