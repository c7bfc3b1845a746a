"""Several knowledge bases asked at once: each is searched by itself, and their hits are merged by relevance, which
compares across embedders.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, Unpack

from almanac.query.answering.answer import Question, answer, stream_answer
from almanac.query.answering.answerability import NEAREST, READ
from almanac.query.answering.pathways import require_mode
from almanac.query.published import AskArguments, Embedders, Filtered, PublishedIndex, open_index
from almanac.query.retrieval.request import SearchMode
from almanac.query.retrieval.searching import History, ranked
from almanac.schemas.errors import AlmanacError, UsageError
from almanac.schemas.results import Answer, Hit, SearchResult

_T = TypeVar("_T")
# errors about these depend on the declaration, and name the knowledge base
_OF_ONE = ("--where", "--workspace", "--part")


def open_indexes(
    kbs: Sequence[Path | str],
    *,
    data: Path | str | None = None,
    env: str | None = None,
    project: Path | str | None = None,
) -> "SeveralIndexes":
    """Opens several knowledge bases to be asked at once. Embedders that are declared alike are loaded once.

    `kbs` are names or paths, as for `open_index`; the first decides how answers are written. The other arguments, and
    the errors, are those of `open_index`; also raises UsageError where no knowledge base is named.
    """
    embedders, opened = Embedders(), list[PublishedIndex]()
    try:
        for kb in kbs:
            opened.append(open_index(kb, data=data, env=env, project=project, embedders=embedders))
        return SeveralIndexes(opened)
    except AlmanacError:
        for index in opened:
            index.close()
        raise


class SeveralIndexes:
    """Search and answers over several knowledge bases; `open_indexes` creates one from names. Safe to share among
    threads.

    Every base is searched as if it alone were asked, within its own version, thresholds and workspace; hits are merged
    as by `merge`. What depends on the question and its hits (the vector, the embedder that compares sentences, notes)
    is that of the base with the best hit. How an answer is written (model, temperature, words for "I don't know") and
    how many hits there are by default is declared by the first base.

    A base that is named twice counts once.
    """

    def __init__(self, indexes: Sequence[PublishedIndex]) -> None:
        if not indexes:
            raise UsageError("no knowledge base is named", where="kb", hint="name one or more")
        self.indexes = list({index.folder: index for index in reversed(indexes)}.values())[::-1]

    def __enter__(self) -> "SeveralIndexes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all of them, as `PublishedIndex.close`."""
        for index in self.indexes:
            index.close()

    def search(
        self,
        query: str,
        *,
        mode: SearchMode | None = None,
        history: History = (),
        explain: bool = False,
        **arguments: Unpack[Filtered],
    ) -> SearchResult:
        """Searches every base for the chunks that match a query best.

        Arguments and errors are those of `PublishedIndex.search`, and have to suit every base. `k`, by default that of
        the first base, is the number of hits of all together; `version` has to be None. `score` compares within one
        base only; `note` and `searched` are those of the base with the best hit, of the first base without hits.
        """
        k = arguments.get("k")
        wanted = self.indexes[0].declaration.retrieve.k if k is None else k
        results = self._ask_each(
            arguments,
            wanted,
            lambda index, given: index.search(query, mode=mode, history=history, explain=explain, **given),
        )
        hits = merge({kb: result.hits for kb, result in results.items()}, wanted)
        steps = [{"kb": kb, **step} for kb, result in results.items() for step in result.explain or ()]
        versions = {kb: result.version for kb, result in results.items()}
        best = results[_best(hits, next(iter(results)))]
        return best.model_copy(update={"hits": hits, "versions": versions, "explain": steps if explain else None})

    def ask(
        self, question: str, *, mode: str = "kb-only", history: History = (), **arguments: Unpack[AskArguments]
    ) -> Answer:
        """Answers a question from the merged hits, as `PublishedIndex.ask` does from those of one base, with its
        arguments and errors; `kb-llm` needs a model that the first base declares. `citation` has the titles of all that
        are cited.
        """
        merged, complete = self._merged(question, mode, history, arguments)
        return complete(answer(merged))

    def stream(
        self, question: str, *, mode: str = "kb-only", history: History = (), **arguments: Unpack[AskArguments]
    ) -> Iterator[str | Answer]:
        """Answers a question as `ask` does, in pieces of text as they arrive, then the Answer. Arguments as for `ask`,
        errors as `PublishedIndex.stream`.
        """
        merged, complete = self._merged(question, mode, history, arguments)
        return (complete(piece) if isinstance(piece, Answer) else piece for piece in stream_answer(merged))

    def _ask_each(self, arguments: Any, k: int, ask: Callable[[PublishedIndex, Any], _T]) -> dict[str, _T]:
        """What each base gives, by its name. Completes errors by the knowledge base that they are about."""
        require_no_version(arguments.get("version"))
        by_name: dict[str, _T] = {}
        for index in self.indexes:
            try:
                by_name[index.declaration.name] = ask(index, {**arguments, "k": k})
            except AlmanacError as error:
                error.about(index.declaration.handle)
                if error.where in _OF_ONE:
                    error.message = f"{index.declaration.name}: {error.message}"
                raise
        return by_name

    def _merged(
        self, text: str, mode: str, history: History, arguments: AskArguments
    ) -> tuple[Question, Callable[[Answer], Answer]]:
        """The question with the hits of all bases, and what completes its answer."""
        first, k = self.indexes[0], arguments.get("k")
        require_no_version(arguments.get("version"))
        require_mode(mode, is_generated=first.has_model)
        usual = first.declaration.retrieve.k if first.has_model else READ
        wanted = usual if k is None else k
        questions = self._ask_each(
            arguments, wanted, lambda index, given: index.question(text, mode=mode, history=history, **given)
        )
        hits = merge({kb: question.hits for kb, question in questions.items()}, wanted)
        closest = merge({kb: question.grounds.closest for kb, question in questions.items()}, max(wanted, NEAREST))
        best = _best(hits if first.has_model else closest, first.declaration.name)
        grounds = [question.grounds for question in questions.values()]
        question = replace(
            questions[best],
            declaration=self._written_by(first),
            generator=questions[first.declaration.name].generator,
            reader=None if first.has_model else first.reader,  # keeps no sentences of one base beside those of another
            hits=hits,
            grounds=questions[best].grounds.merge_others(grounds, closest),
            is_confident=any(question.is_confident for question in questions.values()),
        )
        versions = {kb: question.version for kb, question in questions.items()}
        return question, partial(self._with_bases, {"kb": best, "version": versions[best], "versions": versions})

    def _written_by(self, first: PublishedIndex) -> Any:
        """The declaration that an answer is written by: that of the first base, whose language others need not have."""
        changes: dict[str, Any] = {"title": ", ".join(index.title for index in self.indexes)}
        if len({index.declaration.language for index in self.indexes}) > 1:
            changes["language"] = "auto"
        return first.declaration.model_copy(update=changes)

    def _with_bases(self, bases: Mapping[str, Any], bare_answer: Answer) -> Answer:
        """The answer with the base of the best hit, the version of each, and the titles of those that it cites."""
        cited = {source.kb for source in bare_answer.sources}
        titles = ", ".join(index.title for index in self.indexes if index.declaration.name in cited)
        return bare_answer.model_copy(update={**bases, "citation": f"Source: {titles}" if cited else None})


def merge(hits_by_kb: Mapping[str, Sequence[Hit]], k: int) -> list[Hit]:
    """The best `k` hits of several bases, each with its `kb`, ranked from 1.

    Hits with relevance come in descending order of it, equal ones by the order of the bases. A hit without relevance is
    placed by its rank in its own base: the second one of it stands behind the second best with relevance. Of hits with
    the same chunk id, the first stays: they are equal in all that is shown.
    """
    hits = [hit.model_copy(update={"kb": kb}) for kb, of_one in hits_by_kb.items() for hit in of_one]
    known = sorted((hit for hit in hits if hit.relevance is not None), key=lambda hit: -(hit.relevance or 0.0))
    placed = [*enumerate(known, start=1), *((hit.rank, hit) for hit in hits if hit.relevance is None)]
    return ranked((hit for _, hit in sorted(placed, key=itemgetter(0))), k)  # stable: those with relevance first


def _best(hits: Sequence[Hit], otherwise: str) -> str:
    return (hits[0].kb if hits else None) or otherwise


def require_no_version(version: str | None) -> None:
    """Raises UsageError for a version where several knowledge bases are asked."""
    if version is not None:
        finding = "a version belongs to one knowledge base, and several are asked"
        raise UsageError(finding, where="--version", hint="ask that one alone")
