"""A published index opened for search and answers. Each request reads exactly one version, from its first step to its
last.

A search loads no module that only answers need, nor a store's, nor a model's that writes.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from almanac.core.computed_once import computed_once
from almanac.core.extras import missing_package
from almanac.core.invisible import without_invisible
from almanac.core.logs import get_logger
from almanac.core.settings import DataDir, Project, quiet_engines
from almanac.index.embedding.embedder import BUNDLED, Embedder, describe_embedder, load_embedder
from almanac.index.embedding.precision import resolve
from almanac.index.embedding.score_thresholds import ScoreThresholds, score_thresholds
from almanac.index.embedding.subword_fertility import COVERED
from almanac.index.lexical.analyzer import primary_tag
from almanac.index.reader import OpenVersion
from almanac.index.versions.version_store import (
    current_version,
    read_manifest,
    report_versions,
    resolve_version,
    size_mb,
)
from almanac.query.models.embedding_cache import CachingEmbedder
from almanac.query.open_versions import VersionPool
from almanac.query.retrieval.arguments import compose_query, require_arguments, require_temperature
from almanac.query.retrieval.request import SEARCH_MODES, Request, SearchMode
from almanac.query.retrieval.retriever import Retriever
from almanac.query.retrieval.searching import History, Search, Searched
from almanac.schemas.errors import AlmanacError, DamagedVersion, EmbedderMismatch, NotFound, OtherFormat, UsageError
from almanac.schemas.results import Hit, SearchResult

if TYPE_CHECKING:
    from almanac.core.store.readers import StoreReader, StoreState
    from almanac.query.answering.answer import Question
    from almanac.query.answering.reading import Reader
    from almanac.query.models.generators import Generator
    from almanac.query.models.rerank import Reranker
    from almanac.schemas.declaration import Declaration
    from almanac.schemas.declaration.embed_section import Embed
    from almanac.schemas.reports import Versions
    from almanac.schemas.results import Answer

_log = get_logger("almanac.query")
_ENGLISH, _MULTILINGUAL = BUNDLED
_IDLE_S = 60.0  # `keep_up` closes a version requested by name that has been idle this long
# chunks up to which sentences are embedded ahead: of more, most vectors would have left the cache before they are
# needed
_FEW = 1_000
_AT_ONCE = 4  # sentences that are embedded ahead while a question waits


class Filtered(TypedDict, total=False):
    """Keyword arguments of `PublishedIndex.search`, documented there with their defaults, and of `ask` and `stream`."""

    k: int | None
    where: dict[str, Any] | None
    floor: float | None
    version: str | None
    workspace: str | None
    parts: Mapping[str, str] | None


class AskArguments(Filtered, total=False):
    """Keyword arguments of `PublishedIndex.ask` and `stream`, documented at `ask` with their defaults."""

    temperature: float | None  # of the generating model, 0 to 2; ignored without one
    language: str | None  # of the reply, where a model writes it; BCP 47


def open_index(
    kb: Path | str | None = None,
    *,
    data: Path | str | None = None,
    version: str | None = None,
    env: str | None = None,
    project: Path | str | None = None,
    embedders: "Embedders | None" = None,
) -> "PublishedIndex":
    """Opens the index of a knowledge base for search and answers. Close it, or use it as a context manager.

    Validates the declaration, finds the version, and loads no model: embedder and reranker load with the first request
    that needs them, which also checks that the version was built with that embedder.

    Args:
        kb: Name of a declaration in the project's `knowledge/`, or path of a declaration file. Default: that of
            INDEX_NAME, else the only one of the project that is published.
        data: Data directory, or `s3://bucket/prefix`: what is published there is fetched into the user's cache, now and
            whenever it changes, and answers while the store is away. Default: ALMANAC_DATA, else `data/` of the
            project.
        version, embedders: As for `PublishedIndex`.
        env: Environment whose overlay is applied. Default: ALMANAC_ENV; an empty string applies none.
        project: Project folder. Default: ALMANAC_PROJECT, else the nearest folder with a declaration in its
            `knowledge/`, from the current one upwards to the home directory, else the current folder.

    Raises:
        NotFound, NothingPublished, DamagedVersion: There is no such knowledge base, overlay, project folder or version,
            none is live and `version` is None, or the pointer or the pinned version cannot be used.
        DeclarationError: The declaration or its overlay is invalid, or the folder of the declared reranker contains no
            cross-encoder.
        UsageError: `kb` is None while several are published, or that of INDEX_NAME is not; `kb` is an overlay file;
            `env` or a folder cannot be one.
        StorageError: The object store refuses, or does not answer and the cache has no whole version.
    """
    from almanac.core.load import load_declaration
    from almanac.query.models.rerank import find_reranker
    from almanac.query.naming import default_of_project

    quiet_engines()
    located = Project.locate(project)
    folder = DataDir.locate(data, located)
    named = str(default_of_project(located, folder, env).path if kb is None else kb)
    declaration = load_declaration(named, env, located, to_read=True)
    find_reranker(declaration)  # fails here and not with the first request, after other models have been loaded
    index = PublishedIndex(declaration, folder, version, embedders=embedders)
    try:
        index.follow()
        index.resolve(version)
    except AlmanacError:
        index.close()
        raise
    return index


def live_version(data: DataDir, name: str) -> str | None:
    """Live version of a knowledge base, of a store as the cache knows it; None before the first one. Raises
    DamagedVersion where the live pointer names a version that does not exist.
    """
    if data.url:
        from almanac.core.store.readers import heard_of

        return heard_of(data, name).version
    return current_version(data.index(name))


def readable_version(data: DataDir, name: str) -> str | None:
    """The live version. Raises DamagedVersion also where its manifest is unreadable or has another format."""
    version = live_version(data, name)
    return version and read_manifest(data.index(name), version).version


class Embedders:
    """Loads each declared embedder once, on first use, with a cache around it. Safe to share among threads."""

    def __init__(self) -> None:
        self._loaded: dict[str, Embedder] = {}
        self._lock = threading.Lock()

    def embedder(self, embed: "Embed", data: DataDir) -> Embedder:
        """Embedder of a declaration. The first call for it loads the model, which takes seconds."""
        # Whatever the precision of a version's vectors, questions and what is compared with them meanwhile are embedded
        # in float32, by one model.
        embed = embed if embed.provider != "local" else embed.model_copy(update={"precision": "float32"})
        declared = embed.model_dump_json()
        with self._lock:
            if declared not in self._loaded:
                self._loaded[declared] = CachingEmbedder(load_embedder(embed, data, for_queries=True))
            return self._loaded[declared]

    def reader(self, embed: "Embed", data: DataDir) -> "Reader":
        """Reader of the answers of a declaration: the two bundled embedders; where the extra `multilingual` is not
        installed, or its model cannot be read, the declared one and all-MiniLM-L6-v2.
        """
        from almanac.query.answering.reading import Reader

        own = embed.model if embed.provider == "local" else None
        english: Callable[[], Embedder] | None
        every, is_multilingual = None, missing_package("multilingual") is None
        if is_multilingual:
            try:
                every = self.embedder(embed, data) if own == _MULTILINGUAL else _bundled(_MULTILINGUAL)
            except AlmanacError as error:
                is_multilingual = False
                _log.warning("sentences are read by the declared embedder alone", model=_MULTILINGUAL, why=str(error))
        if own == _ENGLISH:
            english = None if every is None else partial(self.embedder, embed, data)
        else:
            english = partial(_bundled, _ENGLISH)
        return Reader(every or self.embedder(embed, data), english, is_multilingual=is_multilingual)


@cache
def _bundled(model: str) -> Embedder:
    """A bundled embedder for what is compared with questions, loaded once for all indexes of a process."""
    from almanac.schemas.declaration.embed_section import Embed

    return CachingEmbedder(load_embedder(Embed(model=model, precision="float32"), for_queries=True))


class PublishedIndex:
    """Search and answers over the published versions of one knowledge base; `open_index` creates one from a name.

    Safe to share among threads. Close it, or use it as a context manager. Versions and models are opened by the first
    request that needs them.

    Args:
        declaration: The validated declaration. It sets the defaults of every request.
        data: Data directory with the published versions. Of an object store, versions are fetched as they are asked
            for, and after `follow` as they are published.
        version: Pinned version, such as `v0003`, read by every request that names no other. Default: each request reads
            the version that is live when it starts; of a store, the last one that was fetched, opened and warmed.
        embedders: Loaded embedders, to share among the indexes of a process. Default: the index loads its own.
        gives_way: Whether who wants to write a file of an open version is held back until it is closed. Then `give_way`
            has to be called several times a minute, or that one waits for most of it.
    """

    def __init__(
        self,
        declaration: "Declaration",
        data: DataDir,
        version: str | None = None,
        *,
        embedders: Embedders | None = None,
        gives_way: bool = False,
    ) -> None:
        self.declaration, self.folder = declaration, data.index(declaration.name)
        self._data, self._pinned, self._gives_way = data, version, gives_way
        self._embedders = embedders or Embedders()
        self._embedder: Embedder | None = None
        self._lock = threading.RLock()  # of what is computed once
        self._is_loading = False  # the reader, in another thread, or it was
        self._ahead: str | None = None  # version whose sentences have been embedded ahead
        self._reader: StoreReader | None = None
        if data.url:
            from almanac.core.store import readers

            self._reader = readers.StoreReader(data, declaration.name, version)
        self._pool = VersionPool(self.resolve, self._open, version)

    def __enter__(self) -> "PublishedIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the open versions, each after its last running request, and follows a store no more. A later request
        opens its version again.
        """
        if self._reader is not None:
            self._reader.close()
        self._pool.close()

    def follow(self, *, now: bool = True) -> None:
        """Keeps up with an object store: a thread fetches what is published there, opens and warms it, then gives it to
        requests. With `now`, this call fetches what is published now, and raises StorageError.
        """
        if self._reader is not None:
            if now:
                self._reader.begin()
            self._pool.hold()
            self._reader.follow(partial(self._pool.switch, self._warm))

    @property
    def store(self) -> "StoreState | None":
        """Whether the object store is reached, and what is there answered from; None for a local directory."""
        return self._reader.state() if self._reader is not None else None

    def resolve(self, version: str | None = None) -> str:
        """The name of the version that a request would read, after a check that it is there; of a store, it is fetched
        where the cache lacks it.

        Raises NotFound, NothingPublished or DamagedVersion, and StorageError where it has to be fetched and cannot be.
        """
        return resolve_version(self.folder, version) if self._reader is None else self._reader.resolve(version)

    @property
    def title(self) -> str:
        """Title of the knowledge base, else its name."""
        return self.declaration.title or self.declaration.name

    @property
    def has_model(self) -> bool:
        """Whether a model is declared that writes replies."""
        return self.declaration.generate.provider != "extractive"

    @property
    def embedder(self) -> Embedder:
        """Embedder of the declaration. The first access loads it, which takes seconds."""
        if self._embedder is None:
            self._embedder = self._embedders.embedder(self.declaration.embed, self._data)
        return self._embedder

    def _embed_queries(self, texts: Sequence[str]) -> Any:
        return self.embedder.embed_queries(texts)

    @computed_once
    def reader(self) -> "Reader":
        """Reads sentences for questions. The first access loads its embedders."""
        return self._embedders.reader(self.declaration.embed, self._data)

    def _reader_of(self, retriever: Retriever) -> "Reader":
        """The reader for a version, in whose folder it keeps vectors unless the declaration says no."""
        return self.reader.with_folder(retriever.opened.folder) if self.declaration.answer.keep_vectors else self.reader

    def _load_reader_beside(self) -> None:
        """Begins to load what reads sentences in another thread, while this one searches. An error is met again by
        `reader`.
        """
        if self.has_model or self._is_loading:
            return
        self._is_loading = True

        def load() -> None:
            with suppress(Exception):
                _ = self.reader

        with suppress(RuntimeError):  # the system gives no further thread
            threading.Thread(target=load, name="reader").start()

    def reading(self, version: str | None = None) -> AbstractContextManager[Retriever]:
        """Gives the retriever of a version, by default of the one that requests read. It stays open and unchanged until
        the end of the block.

        Raises NotFound, NothingPublished, DamagedVersion, EmbedderMismatch or DeclarationError.
        """
        return self._pool.reading(version)

    def version(self, version: str | None = None) -> OpenVersion:
        """The open version that a request would read now, for a look at its manifest: only `reading` keeps it open."""
        with self.reading(version) as retriever:
            return retriever.opened

    def _open(self, version: str) -> Retriever:
        opened = self._opened(version) if self._reader is None else self._open_cached(version, self._reader)
        declared = describe_embedder(resolve(self.declaration.embed, opened.manifest.embedder))
        if (built := opened.manifest.embedder).fingerprint != declared.fingerprint:
            opened.close()
            raise EmbedderMismatch(
                f"version {version} was embedded with {built.model} ({built.fingerprint}), and the declaration says "
                f"{declared.model} ({declared.fingerprint}): their vectors do not compare",
                where=str(self.declaration.path),
                hint=f"almanac run {self.declaration.handle} builds a version with the declared embedder",
            )
        return Retriever(self.declaration, opened, lambda texts: self._embed_queries(texts), self._reranker)

    def _opened(self, version: str) -> OpenVersion:
        return OpenVersion(self.folder, version, gives_way=self._gives_way)

    def _open_cached(self, version: str, reader: "StoreReader") -> OpenVersion:
        """Opens a version of the cache after comparing all that searches read; what differs is fetched anew, once."""
        try:
            return _compared(self._opened(version))
        except OtherFormat:
            raise
        except DamagedVersion as error:
            reader.mend(version, str(error))  # unless another process has done so, and fetched it anew
        except NotFound:  # another process has set it aside since it was resolved
            pass
        reader.resolve(version)
        return _compared(self._opened(version))

    def give_way(self) -> None:
        """Closes, as `close`, the versions whose files somebody waits to write, or has written."""
        self._pool.give_way()

    def keep_up(self) -> None:
        """Opens the version that requests read by default and loads the embedder, so that the first request need not
        wait. Also closes versions that were requested by name and not used for 60 s.

        Raises the errors of `reading`, and those of loading the embedder.
        """
        with self.reading() as retriever:
            if not retriever.is_warm:
                self._warm(retriever)
        self._pool.close_idle(_IDLE_S)

    def _warm(self, retriever: Retriever) -> None:
        retriever.warm(self.embedder.info.dimension)
        if not self.has_model:  # loads what reads answers, too
            self.reader.load(is_english=self._may_be_english)

    def embed_ahead(self, until: float) -> None:
        """Answers a question, and embeds sentences that replies may quote, until a time of `time.monotonic`: else the
        first answers take far longer.

        Once for each live version, of at most 1,000 chunks; not where a model writes the replies, or without the extra
        `multilingual`. Raises the errors of `reading` and of the embedder.
        """
        from almanac.query.answering.extractive import texts_of_sentences

        if self.has_model or not self.reader.is_multilingual:
            return
        with self.reading() as retriever:
            version = retriever.opened.manifest.version
            # without time, it is done when this is called again
            if version == self._ahead or time.monotonic() >= until:
                return
            chunks, reader = retriever.chunks(_FEW), self._reader_of(retriever)
        self._ahead = version  # also where a text cannot be embedded: that is tried once
        with suppress(UsageError):  # where a question needs a workspace
            self.ask(self.title)  # imports and reads what nothing before the first answer does
        texts = texts_of_sentences(chunks)
        for begin in range(0, len(texts), _AT_ONCE):
            if time.monotonic() >= until:
                break
            reader.read_ahead(texts[begin : begin + _AT_ONCE], is_english=self._may_be_english)

    @property
    def _may_be_english(self) -> bool:
        return primary_tag(self.declaration.language) in ("en", "auto")

    @property
    def live(self) -> str | None:
        """Version that is live now, whatever version is pinned; of a store, the one that requests read that name none.
        None before the first one. Raises DamagedVersion as `live_version` does.
        """
        if self._reader is not None:
            return (None if self._pinned else self._pool.usual) or self._reader.version
        return current_version(self.folder)

    def versions(self) -> "Versions":
        """Reports the kept versions, newest first, and which one is live."""
        return report_versions(self.folder)

    def size_mb(self, version: str) -> float:
        """The size of a version on disk, in megabytes of 1,000,000 bytes."""
        return size_mb(self.folder, version)

    def search(
        self,
        query: str,
        *,
        k: int | None = None,
        mode: SearchMode | None = None,
        where: dict[str, Any] | None = None,
        floor: float | None = None,
        version: str | None = None,
        workspace: str | None = None,
        parts: Mapping[str, str] | None = None,
        history: History = (),
        explain: bool = False,
    ) -> SearchResult:
        """Searches one version for the chunks that match a query best.

        Args:
            query: The question, or its keywords.
            k: Maximum number of hits. Default: `retrieve.k`.
            mode: `dense` (cosine), `lexical` (BM25) or `hybrid` (both, fused). Default: `retrieve.mode`.
            where: Filter on metadata and on source, document_id, url, title and kind, such as `{"price.amount":
                {"$lte": 100}}`, in the grammar of `query.retrieval.filters`.
            floor: Minimum dense cosine, -1 to 1. Default: none; `retrieve.floor` applies to answers only.
            version: Version to read. Default: the pinned version, else the live one.
            workspace: Value of the `retrieve.workspace` field that each hit has, whatever `where` says; it has to be
                given where the declaration requires it.
            parts: Texts for the placeholders of `retrieve.query`, by name; without one they are put before the query.
            history: Earlier messages of the conversation, as in `ask`.
            explain: Whether the result has the trace: the steps of the search, with milliseconds.

        Returns:
            At most `k` hits of one version, by descending `score`, equal scores by ascending chunk id; with
            `retrieve.diversity` in the order in which they were selected. `score` compares within one search: it is the
            cosine in mode `dense`, the BM25 score in mode `lexical`, 0 to 1 in mode `hybrid`, with rare codes, tags and
            a reranker weighed in. `relevance` compares between searches; it is None without a calibration of the
            embedder, and in mode `lexical` without `floor` or `retrieve.tags`, which embeds no query.

        Raises:
            UsageError: An argument is malformed, or `where` names an unknown field or operator; before a model loads.
            NotFound, NothingPublished, DamagedVersion, EmbedderMismatch: The version is not there, cannot be read, or
                was built with another embedder than the declared one.
            DeclarationError, CredentialRefused: The folder or the server of a declared model is not what is declared,
                or its key is missing, malformed or refused.
            Unreachable, Retriable, OperationalError: The server of the embedder does not respond, or is overloaded,
                also after retries; or a model refuses the query, or gives what cannot be used.

            Where a model that writes other wordings (`retrieve.expand`) or rewrites a question fails otherwise, the
            search goes on without, and the trace and the log contain the reason.
        """
        question = without_invisible(query)
        arguments: Filtered = {"k": k, "where": where, "floor": floor, "workspace": workspace, "parts": parts}
        with self.reading(version) as retriever:
            sought, request, retrieved = self._search(retriever, question, history, mode, arguments)
            answering, note = retriever.opened.manifest.version, self._note(retriever, question, request.mode)
        first = {"step": "query", "ms": None, "text": request.text, "mode": request.mode}
        return SearchResult(
            kb=self.declaration.name,
            version=answering,
            query=query,
            hits=retrieved.hits,
            note=note,
            searched=sought if sought != question else None,
            explain=[first, *retrieved.trace] if explain else None,
        )

    def _search(
        self,
        retriever: Retriever,
        question: str,
        history: History,
        mode: SearchMode | None,
        given: Filtered,
        **answered: Any,
    ) -> Searched:
        """Searches for a question with what it continues. Requests that are answered from have `answered` besides."""
        declared = self.declaration.retrieve

        def request_for(text: str) -> Request:
            request = self._request(retriever, mode, given, text)
            if answered:
                self._load_reader_beside()
            return replace(request, **answered)

        has_floor = given.get("floor") is not None
        has_vector = answered or (mode or declared.mode) != "lexical" or has_floor or declared.tags is not None
        embed = self._embed_queries if has_vector else None
        writer = self._writer if declared.expand or history else None
        return Search(retriever, request_for, embed, expand=declared.expand, writer=writer).find(question, history)

    @cached_property
    def _writer(self) -> "Generator | None":
        """The declared model, for the wordings of a search: with less patience than for a reply."""
        return self._load_generator(attempts=2, malformed_attempts=2, cap_s=1.0, retry_after_cap_s=2.0)

    @cached_property
    def _generator(self) -> "Generator | None":
        return self._load_generator()

    def _load_generator(self, **patience: Any) -> "Generator | None":
        if not self.has_model:
            return None
        from almanac.index.api.retry import Retry
        from almanac.query.models.generators import load_generator

        return load_generator(self.declaration.generate, self._data, retry=Retry(**patience))

    @cached_property
    def _reranker(self) -> "Reranker | None":
        if self.declaration.retrieve.rerank is None:
            return None
        from almanac.query.models.rerank import load_reranker

        return load_reranker(self.declaration)

    def _request(self, retriever: Retriever, mode: SearchMode | None, given: Filtered, question: str) -> Request:
        """The request, without its vector. Raises every UsageError before the embedder is loaded, which takes long."""
        question, declared = without_invisible(question), self.declaration.retrieve
        k, floor, parts = given.get("k"), given.get("floor"), given.get("parts")
        require_arguments(question, k, floor, parts)
        text, mode = compose_query(declared.query, question, parts), mode or declared.mode
        if mode not in SEARCH_MODES:
            raise UsageError(f"there is no mode '{mode}'", where="--mode", hint=f"one of {', '.join(SEARCH_MODES)}")
        where, workspace = given.get("where"), given.get("workspace")
        request = Request(text, None, k or declared.k, mode, where, floor, workspace=workspace)
        retriever.access.visible(workspace, where)
        return request

    def ask(
        self, question: str, *, mode: str = "kb-only", history: History = (), **arguments: Unpack[AskArguments]
    ) -> "Answer":
        """Answers a question with citations, or with an explicit "I don't know" where no hit is relevant enough.

        Retrieval runs as in `search`, always in the declared `retrieve.mode`, on one version. Without a declared model,
        the reply consists of sentences of the hits.

        Args:
            question: The question. The reply is in its language where a model writes it, unless `language` names
                another.
            mode: `kb-only` answers from the documents alone. `kb-llm` lets the declared model add its own knowledge,
                and answer without the documents where no hit is confident.
            history: Earlier messages, oldest first: mappings with `role` (`user` or `assistant`) and `content`. A model
                sees the last six, at most 4000 characters of each. A question that follows another one is searched for
                as the declared model rewrites it; without one, a short question behind the last one, and alone.
            **arguments: `where`, `version`, `workspace` and `parts` as in `search`. `k` is the number of hits to answer
                from; default: `retrieve.k` for a model, else ten. `floor` is the minimum dense cosine of such a hit,
                and decides alone then; default: `retrieve.floor`, beside which answerability decides for extractive
                replies, and for a model the embedder's threshold with the hit's term coverage. `temperature` is that of
                the model, 0 to 2; default: `generate.temperature`. `language` is the BCP 47 tag that the model replies
                in; default: that of the question, or of the user's earlier messages.

        Returns:
            The answer. `answered` is False where nothing answers; `reply` then says so (`answer.unknown`), and
            `related` has up to five passages that come closest, best first. An extractive reply is refused at an
            `answerability` below .5, unless `floor` is given.

        Raises:
            UsageError: As in `search`; also for an unknown `mode` or `language`, for `kb-llm` without a declared model,
                a `temperature` outside 0 to 2, and a malformed message of `history` where a model writes the reply.
            AlmanacError: The other errors of `search`, also of the model that writes the reply; OperationalError also
                where it writes nothing or breaks off.
        """
        from almanac.query.answering.answer import answer

        return answer(self._question(question, mode, history, arguments))

    def stream(
        self, question: str, *, mode: str = "kb-only", history: History = (), **arguments: Unpack[AskArguments]
    ) -> "Iterator[str | Answer]":
        """Answers a question as `ask` does, with its arguments, in pieces of text as they arrive, then the Answer as
        the last item; the pieces put together are its `reply`.

        Retrieval is complete when the call returns; an extractive answer is, too. A model's text is passed on as far as
        its figures stand in the cited passages; in mode `kb-only` from its first valid citation on, or at its end.

        Raises the errors of `ask`: those of use and of retrieval from the call itself, those of the model that writes
        the reply, and of the embedder while citations are matched, from the iterator, possibly after some pieces. A
        reply that breaks off is not retried.
        """
        from almanac.query.answering.answer import stream_answer

        return stream_answer(self._question(question, mode, history, arguments))

    def _question(self, text: str, mode: str, history: History, arguments: AskArguments) -> "Question":
        from almanac.query.answering.pathways import require_mode

        require_mode(mode, is_generated=self._generator is not None)
        return self.question(text, mode=mode, history=history, **arguments)

    def question(
        self, text: str, *, mode: str = "kb-only", history: History = (), **arguments: Unpack[AskArguments]
    ) -> "Question":
        """Retrieves the hits that a question may be answered from. The version may be closed afterwards: hits contain
        all that an answer needs.

        Arguments and errors as for `ask`, except that `mode` is not held against what is declared.
        """
        from almanac.query.answering.answer import Question
        from almanac.query.answering.answerability import READ, grounds_of
        from almanac.query.answering.wording import require_language

        require_language(arguments.get("language"))
        require_temperature(arguments.get("temperature"))
        declared, floor, question = self.declaration.retrieve, arguments.get("floor"), without_invisible(text)
        chosen = declared.floor if floor is None else floor
        given: AskArguments = {**arguments, "floor": chosen}
        with self.reading(arguments.get("version")) as retriever:
            defaults = self._thresholds
            lowest, thresholds = (defaults.floor, defaults) if chosen is None else (chosen, None)
            sought, request, retrieved = self._search(
                retriever, question, history, None, given, thresholds=thresholds, closest=READ
            )
            is_confident = mode == "kb-llm" and _is_confident(
                retriever, request.text, retrieved.hits, declared.confident, max(defaults.confident, lowest)
            )
            decides = floor is None and not self.has_model and self.reader.is_multilingual
            return Question(
                self.declaration,
                retriever.opened.manifest.version,
                question,
                retrieved.hits,
                self.embedder,
                None if self.has_model else self._reader_of(retriever),
                mode,
                lowest,
                is_confident,
                generator=self._generator,
                temperature=arguments.get("temperature"),
                history=history,
                language=arguments.get("language"),
                note=self._note(retriever, question, request.mode),
                grounds=grounds_of(
                    retriever, request, retrieved.closest, wanted=arguments.get("k") or READ, decides=decides
                ),
                readings=retriever.opened.readings(sought),
                searched=sought if sought != question else None,
                parts=arguments.get("parts"),
            )

    def _note(self, retriever: Retriever, question: str, mode: SearchMode) -> str | None:
        language = retriever.languages.of_question(question)
        if language.known >= COVERED:
            return None
        from almanac.query.answering.wording import note_on_language

        return note_on_language(language, self.declaration.embed.model, mode)

    @cached_property
    def _thresholds(self) -> ScoreThresholds:
        """Those of the embedder, which need not be loaded for them."""
        return score_thresholds(describe_embedder(self.declaration.embed))


def _compared(opened: OpenVersion) -> OpenVersion:
    try:
        opened.compare()
    except BaseException:
        opened.close()
        raise
    return opened


def _is_confident(
    retriever: Retriever, text: str, hits: Sequence[Hit], declared: float | None, measured: float
) -> bool:
    """Whether a hit is confident: its dense cosine reaches the declared one; without one, its relevance is high;
    without relevance, the embedder's own.

    In a language that the embedder does not cover, term coverage stands in for a cosine.
    """
    if declared is None and any(hit.relevance is not None for hit in hits):
        return any(hit.confidence == "high" for hit in hits)
    evidence_by_chunk = retriever.judge.evidence(text, {hit.chunk_id: hit.scores.get("dense") for hit in hits})
    return any(evidence.reaches(measured if declared is None else declared) for evidence in evidence_by_chunk.values())
