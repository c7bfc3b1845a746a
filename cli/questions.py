"""Commands for whoever asks: search, ask, eval."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from almanac.cli.options import KB, After, Data, Env, Floor, Json, KBs, Parts, SearchMode, TopK, Version, Workspace
from almanac.cli.output import print_json, print_table, say, shortened
from almanac.core.load import is_declared
from almanac.core.passage_parts import parts_of
from almanac.core.sentences import sentence_spans
from almanac.core.settings import document
from almanac.schemas.errors import UsageError

if TYPE_CHECKING:
    from almanac.query import PublishedIndex, SeveralIndexes
    from almanac.schemas.reports import EvalResult
    from almanac.schemas.results import Answer, Citation, Hit, SearchResult

_LONG_WORD = re.compile(r"\w{4,}")  # short ones are in every sentence


def search(
    kb: KBs = None,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="a single argument is the query", show_default=False)
    ] = None,
    k: TopK = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="JSON",
            help="""filter on metadata (docs/reference/api.md), such as '{"price.amount": {"$lte": 100}}'""",
            show_default=False,
        ),
    ] = None,
    floor: Floor = None,
    mode: SearchMode = None,
    workspace: Workspace = None,
    part: Parts = None,
    after: After = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="show every part of each score, and the trace of the query")
    ] = False,
    version: Version = None,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show the best passages with relevance, score, URL and version."""
    named, query = _split(kb, query, "query")
    with _open(named, data=data, version=version, env=env) as index:
        from almanac.query.retrieval.arguments import parse_parts, parse_where

        result = index.search(
            query, k=k, mode=mode, where=parse_where(where), floor=floor, workspace=workspace, parts=parse_parts(part),
            history=_as_messages(after), explain=explain
        )  # fmt: skip
    if as_json:
        print_json(result)
        return
    _show_hits(result)
    _show_searched(result.searched)
    _show_note(result.note)


def ask(
    kb: KBs = None,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="a single argument is the question", show_default=False)
    ] = None,
    mode: Annotated[
        Literal["kb-only", "kb-llm"],
        typer.Option("--mode", help="kb-llm: the declared model may add what it knows, and says so"),
    ] = "kb-only",
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="TAG",
            help="of a model's reply: he, en, pt-BR; default: the question's",
            show_default=False,
        ),
    ] = None,
    k: TopK = None,
    floor: Floor = None,
    workspace: Workspace = None,
    part: Parts = None,
    after: After = None,
    version: Version = None,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Answer with cited sentences, or say that the answer is not there."""
    named, question = _split(kb, question, "question")
    with _open(named, data=data, version=version, env=env) as index:
        from almanac.query.retrieval.arguments import parse_parts

        answer = index.ask(
            question,
            k=k,
            mode=mode,
            floor=floor,
            workspace=workspace,
            parts=parse_parts(part),
            history=_as_messages(after),
            language=language,
        )
    if as_json:
        print_json(answer)
        return
    _show_answer(answer)


def _split(kb: str | None, text: str | None, what: str) -> tuple[str | None, str]:
    """The knowledge bases and the text of a command that takes `[KB] TEXT`: a single argument is the text. Raises
    UsageError where there is none.
    """
    if text is not None:
        return kb, text
    if kb is None or all(is_declared(name) for name in _names(kb)):
        raise UsageError(f"the {what} is missing", where=kb, hint=f'write {kb or "KB"} "…"')
    return None, kb


def _names(kb: str) -> list[str]:
    """The names in `KB[,KB…]`. A path to a declaration may have a comma itself."""
    return [kb] if is_declared(kb) else [name.strip() for name in kb.split(",") if name.strip()] or [kb]


def _open(
    kb: str | None, *, data: str | None, version: str | None, env: str | None
) -> "PublishedIndex | SeveralIndexes":
    from almanac.core.language_model import read_beside

    read_beside()  # while this thread imports
    from almanac.query import open_index, open_indexes
    from almanac.query.several import require_no_version

    if kb is None or len(names := _names(kb)) == 1:
        return open_index(kb if kb is None else names[0], data=data, version=version, env=env)
    require_no_version(version)
    return open_indexes(names, data=data, env=env)


def _show_answer(answer: "Answer") -> None:
    say(answer.reply)
    for source in answer.sources:
        say(f"  {source.marker} {_place(source.title, source.url)} ({', '.join(_facts(source))})")
        if source.passage is not None:
            say(_indented(_shown(source.passage, source.text)))
    if answer.related:
        say("  Closest passages, which do not answer it:")
    for hit in answer.related:
        facts = [fact for fact in (hit.kb, hit.relevance is not None and f"relevance {_share(hit.relevance)}") if fact]
        say(f"  · {_place(hit.title, hit.url)}" + (f" ({', '.join(facts)})" if facts else ""))
        say(_indented(_shown(hit.passage, hit.text)))
    say(f"  {_versions(answer)}, {answer.pathway}" + (f", {answer.citation}" if answer.citation else ""))
    if answer.dropped_sentences:
        say(f"  {_left_out(answer.dropped_sentences)}")
    _show_searched(answer.searched)
    _show_note(answer.note)


def _facts(source: "Citation") -> list[str]:
    facts = [fact for fact in (source.place, source.kb) if fact]
    return [
        *facts,
        *(
            [f"relevance {_share(source.relevance)}", f"{source.confidence} confidence"]
            if source.confidence
            else [f"score {source.score:.2f}"]
        ),
    ]


def _place(title: str, url: str) -> str:
    return f"{title} – {url}"


def _versions(outcome: "Answer | SearchResult") -> str:
    return ", ".join(f"{kb} {version}" for kb, version in (outcome.versions or {outcome.kb: outcome.version}).items())


def _indented(lines: str) -> str:
    return "\n".join(f"      {line}" for line in lines.split("\n"))


def _as_messages(before: list[str] | None) -> list[dict[str, str]]:
    """Earlier questions as messages of a conversation."""
    return [{"role": "user", "content": text} for text in before or ()]


def _left_out(count: int) -> str:
    sentences = "1 sentence was" if count == 1 else f"{count} sentences were"
    return f"{sentences} left out: the figures stand in no cited passage"


def evaluate(
    kb: KB,
    queries: Annotated[
        Path | None, typer.Option("--queries", metavar="Q.jsonl", help="{id, text} a line", show_default=False)
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option("--qrels", metavar="QRELS.tsv", help="query-id, doc-id, score; header line", show_default=False),
    ] = None,
    mode: SearchMode = None,
    run_file: Annotated[
        Path | None,
        typer.Option("--run-file", metavar="OUT", help="write the ranking in TREC form", show_default=False),
    ] = None,
    version: Version = None,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Ask the declared golden questions, and show those that fail with what is found instead; with files: nDCG, recall,
    MRR by trec_eval's definitions.
    """
    from almanac.query import open_index
    from almanac.query.evaluation import evaluate as evaluation

    if (queries is None) != (qrels is None) or (queries is None and run_file is not None):
        raise UsageError(
            "--queries and --qrels go together, and --run-file with them",
            where=kb,
            hint=f"almanac eval {kb} asks the declared golden questions",
        )
    with open_index(kb, data=data, version=version, env=env) as index:
        files = None if queries is None or qrels is None else (queries, qrels)
        if files is None:
            result = evaluation.evaluate_golden(index, mode=mode)
        else:
            result = evaluation.evaluate(index, *files, mode=mode, run_file=run_file)
    if as_json:
        print_json(result)
        return
    _show_failed(result)
    print_table(
        f"{result.kb} {result.version}: {result.queries} queries",
        ("metric", "value"),
        [(n, f"{v:.4f}") for n, v in result.metrics.items()],
    )
    if result.unit == "question":
        say(f"{result.queries - len(result.failed)} of {result.queries} golden questions hold")
    if result.failed:
        say(f"  → {document('quality.md')}")
    if result.continued:
        say(f"{result.continued} continue a conversation and are not asked")


def _show_failed(result: "EvalResult") -> None:
    for failure in result.failed:
        say(f"✗ {failure.question}")
        wanted = "; ".join(f"{key} {_alternatives(values)}" for key, values in failure.expected.items())
        place = f"it is hit {failure.rank}" if failure.rank else "it is not among the first 100 hits"
        say(
            f"    expected {wanted}: {place}"
            if wanted
            else "    nothing answers it, and yet a hit is good enough to answer from"
        )
        for hit in failure.found:
            facts = f"relevance {_share(hit.relevance)}" if hit.relevance is not None else f"score {hit.score:.2f}"
            say(f"    found {hit.rank}: {_place(hit.title, hit.url)} ({facts})")
            say(f"        {shortened(hit.passage or hit.text, 8)}")


def _alternatives(values: list[str] | list[list[str]]) -> str:
    """`a or b`; of the parts of an answer, `(a or b) and c`."""
    return " and ".join(_alternatives(value) for value in values if isinstance(value, list)) or " or ".join(
        map(str, values)
    )


def _show_hits(result: "SearchResult") -> None:
    """Each hit in four lines: title, URL, scores with its place, and the part of it that has words of the query; with
    the trace of the query where it was asked for.
    """
    from almanac.query.answering.citations import cite

    say(f"{_versions(result)}: {result.query}" + ("" if result.hits else ": no hit"))
    indent = " " * (len(str(len(result.hits))) + 2)
    for hit in result.hits:
        relevance = [] if hit.relevance is None else [f"relevance {_share(hit.relevance)}"]
        facts = [*relevance, f"score {hit.score:.3f}", *filter(None, (hit.kb, cite(hit, hit.rank, "").place))]
        if result.explain is not None:
            facts += [f"{name} {value:.3f}" for name, value in hit.scores.items() if value is not None]
            facts += [f"tags {', '.join(hit.tags)}"] if hit.tags else []
        say(f"{hit.rank:<{len(indent)}}{shortened(hit.title, len(indent))}")
        for line in (hit.url, ", ".join(facts), shortened(_part_about(result.query, hit), len(indent))):
            say(f"{indent}{line}")
    if result.explain is not None:
        trace = [(step["step"], step["ms"], _describe_step(step)) for step in result.explain]
        print_table("Trace of the query", ("step", "ms", ""), trace)


def _part_about(query: str, hit: "Hit") -> str:
    """Its text from the sentence on that has most words of the query, the first of several; else all of it."""
    wanted = {word.casefold() for word in _LONG_WORD.findall(query)}
    sentences = [hit.text[begin:end] for begin, end in sentence_spans(hit.text, hit.language)]
    hits = [len(wanted & {word.casefold() for word in _LONG_WORD.findall(sentence)}) for sentence in sentences]
    best = hits.index(max(hits)) if hits else 0
    return ("… " if best else "") + " ".join(sentences[best:])


def _show_searched(searched: str | None) -> None:
    if searched is not None:
        say(f"  Searched for: {searched}")


def _show_note(note: str | None) -> None:
    if note is not None:
        say(f"  {note}")


def _share(relevance: float | None) -> str:
    return "" if relevance is None else f"{relevance:.0%}"


def _describe_step(step: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in step.items() if name not in ("step", "ms"))


def _shown(passage: str | None, text: str) -> str:
    """What a terminal shows of a hit: the lines of a record's passage and the beginning of its long texts, or the
    beginning of a text.
    """
    if passage is None:
        return _excerpt(text)
    return "\n".join(f"{part.label}: {_excerpt(passage[part.start : part.end])}" for part in parts_of(passage))


def _excerpt(text: str, length: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[:length]}…"
