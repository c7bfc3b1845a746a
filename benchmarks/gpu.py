"""Chunks a second of each bundled embedder on a GPU, and what limits them.

    python -m benchmarks.gpu [--chunks 20000] [--tokens 256] [--command]

Chunks are made of the model's own word pieces, all of the same length, so that nothing is padded. Each model is
measured in a process of its own: turning text into word pieces alone, the forward passes alone (word pieces are on the
device already), and the embedder as a run calls it. `--command` also times the whole `almanac run` of the same chunks,
from its start to its end. Without a GPU the same is measured on the processor, and the table says so. What is printed
is Markdown.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from almanac.index.embedding.model_folder import BUNDLED
from benchmarks.first_build import machine

_WARM = 256  # chunks before the clock starts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--tokens", type=int, default=256, help="word pieces of a chunk, markers included")
    parser.add_argument("--command", action="store_true", help="time the whole command, too")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        sys.stdout.write(json.dumps(_measure(arguments.side, arguments.chunks, arguments.tokens, arguments.out)) + "\n")
        return
    _show({model: _in_own_process(model, arguments) for model in BUNDLED}, arguments)


def _in_own_process(model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "benchmarks.gpu",
            "--side",
            model,
            "--chunks",
            str(arguments.chunks),
            "--tokens",
            str(arguments.tokens),
        ]
        done = subprocess.run([*command, "--out", folder], check=True, stdout=subprocess.PIPE, text=True)
        measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if arguments.command:
            measured["command"] = _command(model, Path(folder))
    return measured


def _measure(name: str, count: int, tokens: int, folder: Path) -> dict[str, Any]:
    from almanac.core.settings import quiet_engines

    quiet_engines()
    import torch

    from almanac.index.embedding.embedder import LocalEmbedder
    from almanac.index.embedding.library_models import load_library_model
    from almanac.index.embedding.model_folder import find_model
    from almanac.schemas.declaration.embed_section import Embed

    embedder = LocalEmbedder(Embed(model=name))
    model = load_library_model(find_model(Embed(model=name)), is_half=embedder.info.precision == "bfloat16")
    chunks = _chunks(model.tokenizer, count, tokens)
    (folder / "chunks.jsonl").write_text(
        "".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(chunks)), encoding="utf-8"
    )
    embedder.embed_documents(chunks[:_WARM])
    begin = time.perf_counter()
    features = [model.preprocess(chunks[at : at + _WARM]) for at in range(0, count, _WARM)]
    tokenised = time.perf_counter() - begin
    features = [
        {key: value.to(model.device) for key, value in feature.items() if isinstance(value, torch.Tensor)}
        for feature in features
    ]
    begin = time.perf_counter()
    with torch.inference_mode():
        for feature in features:
            model(feature)["sentence_embedding"].cpu()
    passed = time.perf_counter() - begin
    del features
    begin = time.perf_counter()
    embedder.embed_documents(chunks)
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU: the processor",
        "precision": embedder.info.precision,
        "tokenised": tokenised,
        "passed": passed,
        "embedded": time.perf_counter() - begin,
        "memory": torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None,
    }


def _chunks(tokenizer: Any, count: int, tokens: int) -> list[str]:
    """Different texts of as many word pieces: words that are one piece each."""
    words = [
        word
        for word in (tokenizer.convert_tokens_to_string([piece]).strip() for piece in tokenizer.get_vocab())
        if word.isalpha() and len(word) > 2
    ]
    whole = [word for word in sorted(set(words)) if len(tokenizer.tokenize(word)) == 1]
    chance, wanted = random.Random(1), tokens - tokenizer.num_special_tokens_to_add()
    return [" ".join(chance.choices(whole, k=wanted)) for _ in range(count)]


def _command(model: str, folder: Path) -> float:
    """Seconds of `almanac run` over the chunks in an empty data directory."""
    fields = {"id": {"json": "id", "required": True}, "text": {"json": "text", "required": True}}
    source = {
        "name": "chunks",
        "kind": "files",
        "glob": "chunks.jsonl",
        "yields": "records",
        "id": "{id}",
        "fields": fields,
        "text": "{text}",
    }
    declared = {"name": "gpu", "sources": [source], "clean": "none", "language": "en", "embed": {"model": model}}
    (folder / "gpu.yaml").write_text(json.dumps(declared))
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "almanac.cli.main", "run", str(folder / "gpu.yaml"), "--data", str(folder / "data")],
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"almanac run ended with {done.returncode}")
    return time.perf_counter() - begin


def _show(measured: dict[str, dict[str, Any]], arguments: argparse.Namespace) -> None:
    count = arguments.chunks
    lines = [
        f"{count:,} chunks of {arguments.tokens} word pieces. {machine()}",
        "",
        "| embedder | device | precision | chunks/s: word pieces | forward passes | embedder | limit | GPU "
        "memory, GiB | whole command, of embedder |",
        "|---|---|---|---:|---:|---:|---|---:|---:|",
    ]
    for model, figures in measured.items():
        limit = "forward passes" if figures["passed"] > figures["tokenised"] else "word pieces"
        memory = "" if figures["memory"] is None else f"{figures['memory']:.1f}"
        whole = f"{figures['command'] / figures['embedded']:.2f}" if "command" in figures else ""
        rates = " | ".join(f"{count / figures[part]:,.0f}" for part in ("tokenised", "passed", "embedded"))
        lines.append(
            f"| {model} | {figures['device']} | {figures['precision']} | {rates} | {limit} | {memory} | {whole} |"
        )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
