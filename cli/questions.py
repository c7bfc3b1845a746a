"""Commands for whoever asks: search, ask, eval."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.options import KB, Data, Env, Floor, Json, TopK, Version
from cli.output import print_json, print_table, say


def search(
    kb: KB,
    query: Annotated[str, typer.Argument(metavar="QUERY")],
    k: TopK = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="JSON", help="""filter on metadata, such as '{"price.amount": {"$lte": 100}}'""", show_default=False)
    ] = None,
    floor: Floor = None,
    mode: Annotated[Literal["dense"] | None, typer.Option("--mode", help="default: the declaration's", show_default=False)] = None,
    version: Version = None,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show the nearest passages with score, URL and version."""
    from query import open_index
    from query.published import parse_where

    _ = mode
    with open_index(kb, data=data, version=version, env=env) as index:
        result = index.search(query, k=k, where=parse_where(where), floor=floor)
    if as_json:
        print_json(result)
        return
    rows = [(hit.rank, f"{hit.score:.3f}", hit.title, _excerpt(hit.text), hit.url) for hit in result.hits]
    print_table(f"{result.kb} {result.version}: {query}", ("", "score", "title", "text", "url"), rows)


def ask(
    kb: KB,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    mode: Annotated[Literal["kb-only", "kb-llm"], typer.Option("--mode", help="kb-llm, where a model adds what it knows, is not supported yet")] = "kb-only",
    k: TopK = None,
    floor: Floor = None,
    version: Version = None,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Answer with cited sentences, or say that the answer is not there."""
    from query import open_index

    with open_index(kb, data=data, version=version, env=env) as index:
        answer = index.ask(question, k=k, mode=mode, floor=floor)
    if as_json:
        print_json(answer)
        return
    say(answer.reply)
    for source in answer.sources:
        say(f"  {source.marker} {source.title} – {source.url} (score {source.score:.2f}, {source.confidence} confidence)")
    say(f"  {answer.kb} {answer.version}, {answer.pathway}" + (f", {answer.citation}" if answer.citation else ""))


def evaluate(
    kb: KB,
    queries: Annotated[Path, typer.Option("--queries", metavar="Q.jsonl", help="{id, text} a line", show_default=False)],
    qrels: Annotated[Path, typer.Option("--qrels", metavar="QRELS.tsv", help="query-id, doc-id, score; header line", show_default=False)],
    mode: Annotated[Literal["dense"] | None, typer.Option("--mode", help="default: the declaration's", show_default=False)] = None,
    run_file: Annotated[Path | None, typer.Option("--run-file", metavar="OUT", help="write the ranking in TREC form", show_default=False)] = None,
    version: Version = None,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Measure retrieval on a question set: nDCG, recall, MRR by trec_eval's definitions."""
    from query import open_index
    from query.evaluate import evaluate as measure

    _ = mode
    with open_index(kb, data=data, version=version, env=env) as index:
        result = measure(index, queries, qrels, run_file=run_file)
    if as_json:
        print_json(result)
        return
    print_table(f"{result.kb} {result.version}: {result.queries} queries", ("metric", "value"), [(n, f"{v:.4f}") for n, v in result.metrics.items()])


def _excerpt(text: str, length: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[:length]}…"
