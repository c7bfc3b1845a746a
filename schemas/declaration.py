"""A knowledge base, as declared in one YAML file."""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from almanac.schemas.model import Declared
from almanac.schemas.sources import Source


def _parse_share(value: Any) -> Any:
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value)):
        return float(match[1]) / 100
    return value


NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{1,62}$"
Share = Annotated[float, BeforeValidator(_parse_share), Field(ge=0)]


def _regular_expression(value: str) -> str:
    try:
        re.compile(value)  # the engine that checks it
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return value


class Expectation(Declared):
    """What every value of a field must be; an item that breaks it is quarantined."""

    field: str = Field(description="name of a declared field, `title`, `url` or `text`")
    unique: bool = Field(False, description="no two items share the value")
    not_null: bool = Field(False, description="the value is there")
    min_length: int | None = Field(None, ge=0, description="characters of a text, or entries of a list, at least")
    max_length: int | None = Field(None, ge=0, description="characters of a text, or entries of a list, at most")
    min: float | None = Field(None, description="smallest number")
    max: float | None = Field(None, description="largest number")
    pattern: Annotated[str, AfterValidator(_regular_expression)] | None = Field(None, description="regular expression that the text matches from its start")
    one_of: list[Any] | None = Field(None, description="allowed values")


class Validate(Declared):
    """What a run's items must satisfy."""

    min_items: int = Field(1, ge=0, description="fewer items than this are refused by the gate")
    max_rejected: Share = Field(0.05, le=1, description="share of the items that may be quarantined; a number or `5%`")
    expect: list[Expectation] = Field([], description="checked by Great Expectations")


class ChunkLimits(NamedTuple):
    """What a chunker goes by, all in one unit. Only `sentences` knows the last two."""

    unit: Literal["characters", "words", "tokens"]
    size: int
    overlap: int
    max_size: int = 0
    whole_below: int = 0


class Chunk(Declared):
    """How documents are cut. Records are never cut."""

    by: Literal["words", "paragraphs", "sentences", "recursive", "sections", "semantic", "none"] = Field(
        "paragraphs",
        description="where cuts are preferred. words: windows of so many; paragraphs; sentences: none is cut; recursive: paragraphs, lines, sentences, words; "
        "sections: under Markdown headings, whose path is `section` in the metadata; semantic: where the topic shifts; none: documents stay whole",
    )
    size: int | None = Field(
        None,
        gt=0,
        description="units of a chunk, at most (sentences: about); null: words 400, paragraphs and recursive 600, sentences 2000, sections and semantic 1000",
    )
    overlap: int | None = Field(
        None,
        ge=0,
        description="units that a chunk repeats of the one before, at most; null: words 50, sentences 200, semantic 0, others 100, and less where size is less",
    )
    unit: Literal["characters", "words", "tokens"] | None = Field(
        None,
        description="what size and overlap count; null: words for `by: words`, else characters. Of a script without spaces, a letter is a word; "
        "tokens are those of the local embedder, without the marks that it adds",
    )
    max_size: int | None = Field(None, gt=0, description="sentences: one that is longer is cut; null: three times size")
    whole_below: int | None = Field(None, ge=0, description="sentences: a document of up to so many units stays whole; null: size")
    prefix: str | None = Field(
        None,
        min_length=1,
        description="put before the text of each chunk and record when it is embedded and searched; a template over `title` and fields",
    )
    headings: bool = Field(False, description="the path of headings above a chunk is put before the text that is embedded, and is `section` in the metadata")

    @property
    def limits(self) -> ChunkLimits:
        """What is declared, and the chunker's own figures for what is not."""
        own = _CHUNKERS[self.by]
        size = own.size if self.size is None else self.size
        overlap = min(own.overlap, size * own.overlap // own.size) if self.overlap is None else self.overlap
        limits = ChunkLimits(self.unit or own.unit, size, overlap)
        if self.by != "sentences":
            return limits
        return limits._replace(max_size=self.max_size or 3 * size, whole_below=size if self.whole_below is None else self.whole_below)

    @model_validator(mode="after")
    def _limits_fit(self) -> Self:
        limits, own = self.limits, _CHUNKERS[self.by]
        if self.by == "none":
            return self
        if self.size is None and limits.unit != own.unit:
            raise ValueError(f"size: say how many {limits.unit}; {own.size}, which by: {self.by} takes of itself, are {own.unit}")
        if limits.overlap >= limits.size:
            raise ValueError(f"overlap {limits.overlap} must be smaller than size {limits.size}")
        for name in ("max_size", "whole_below"):
            if self.by != "sentences" and getattr(self, name) is not None:
                raise ValueError(f"{name} is of by: sentences; by: {self.by} has no chunk above size {limits.size}")
        if self.by == "sentences" and limits.max_size < limits.size:
            raise ValueError(f"max_size {limits.max_size} must not be smaller than size {limits.size}")
        if self.by == "sentences" and limits.whole_below > limits.max_size:
            raise ValueError(f"whole_below {limits.whole_below} must not be larger than max_size {limits.max_size}")
        return self


_CHUNKERS = {
    "words": ChunkLimits("words", 400, 50),
    "paragraphs": ChunkLimits("characters", 600, 100),
    "sentences": ChunkLimits("characters", 2000, 200),
    "recursive": ChunkLimits("characters", 600, 100),
    "sections": ChunkLimits("characters", 1000, 100),
    "semantic": ChunkLimits("characters", 1000, 0),
    "none": ChunkLimits("characters", 600, 100),
}


MISTRAL_DIMENSIONS = {"mistral-embed": 1024, "mistral-embed-2312": 1024, "codestral-embed": 1536, "codestral-embed-2505": 1536}


def _server_url(value: str) -> str:
    """Without what the client adds itself."""
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or port == 0:
        raise ValueError("must be an address such as https://api.mistral.ai")
    if parts.username is not None or parts.password is not None:
        raise PydanticCustomError("secret", "must not hold a user or a password (its value is not shown); MISTRAL_API_KEY holds the key")
    return value.rstrip("/").removesuffix("/v1").rstrip("/")


ServerUrl = Annotated[str, AfterValidator(_server_url)]


class Prompts(Declared):
    """What is put before a text when it is embedded, for models trained so, such as E5: `query: `, `passage: `. It counts as tokens, and is not stored."""

    query: str | None = Field(
        None,
        description="before each question; null: what the model's folder says in config_sentence_transformers.json, `''`: nothing, whatever it says. "
        "A new one embeds questions alone anew",
    )
    document: str | None = Field(None, description="before each text; null and `''` as above. A new one embeds every text anew")


class Embed(Declared):
    """What turns text into vectors."""

    _of_mistral: ClassVar[tuple[str, ...]] = (
        "server_url", "same_as", "dimension", "price_per_million", "max_cost", "requests_per_second", "tokens_per_minute",
    )  # fmt: skip

    provider: Literal["local", "mistral"] = Field(
        "local", description="local: sentence-transformers on this machine; mistral: Mistral's API or a server that speaks it, with the key in MISTRAL_API_KEY"
    )
    model: str = Field(
        "all-MiniLM-L6-v2",
        min_length=1,
        description="local: the bundled model's name, or a sentence-transformers folder, with a slash (`./model`), relative to this file; "
        "mistral: the name that the server knows, `mistral-embed` by default",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="local: bfloat16 is faster where the processor has it, and refused where it has not; vectors of the two are never mixed"
    )
    prompts: Prompts = Field(
        Prompts(), description="what is put before questions and texts; for mistral, where a compatible server has a model that wants it: Mistral's own do not"
    )
    server_url: ServerUrl | None = Field(None, description="mistral: its address, without `/v1`; null: https://api.mistral.ai")
    same_as: ServerUrl | None = Field(
        None,
        description="mistral: address of the server whose vectors these are, where another serves the same model; null: its own: a new address embeds anew",
    )
    dimension: int | None = Field(None, gt=0, le=65_536, description="mistral: length of the vectors; known for Mistral's own models, required for others")
    price_per_million: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="mistral: price of a million tokens, in any currency; plans and reports then tell costs"
    )
    max_cost: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="mistral: a run whose estimated cost of embedding is higher is refused before it embeds"
    )
    requests_per_second: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="mistral: limit that all processes of a data directory keep together; null: none"
    )
    tokens_per_minute: float | None = Field(None, ge=100, allow_inf_nan=False, description="mistral: the same for tokens, by estimate")
    timeout_s: float = Field(60.0, gt=0, le=3600, description="mistral: seconds for which an answer is waited for")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_mistral(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("provider") != "mistral":
            return data
        model = data.get("model", "mistral-embed")
        known = MISTRAL_DIMENSIONS.get(model) if isinstance(model, str) else None
        return {**data, "model": model, "dimension": known if data.get("dimension") is None else data["dimension"]}

    @model_validator(mode="after")
    def _fits_its_provider(self) -> Self:
        if self.provider == "local":
            if others := [name for name in self._of_mistral if getattr(self, name) is not None]:
                raise ValueError(f"{others[0]} belongs to provider: mistral, and the provider is local")
            return self
        if self.precision != "float32":
            raise ValueError("precision belongs to provider: local, and the provider is mistral")
        if self.dimension is None:
            raise ValueError(f"dimension is required: that of '{self.model}' is not known")
        if self.max_cost is not None and self.price_per_million is None:
            raise ValueError("max_cost needs price_per_million")
        return self

    def cost(self, tokens: int | None) -> float | None:
        """What so many tokens cost; None where nothing is paid for, or no price is declared."""
        return None if self.price_per_million is None or tokens is None else round(tokens * self.price_per_million / 1e6, 6)


class Index(Declared):
    """Where versions are stored."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"backend": ("server",)}

    backend: Literal["local"] = Field("local", description="local: one Chroma directory per version")
    collection: str | None = Field(
        None, pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]$", description="name of the Chroma collection; default: the knowledge base's name"
    )


class Tags(Declared):
    """How tags take part in a search: of those that the question names, and of the clusters that tags form by standing on the same pages."""

    field: str = Field("tags", min_length=1, description="metadata field that lists a chunk's tags")
    weight: Share = Field(0.25, le=1, description="share of the score for the named tags that a chunk has")
    cluster_weight: Share = Field(
        0.15, le=1, description="share of the score for how many of its tags lie in the clusters of those; the rest is the search's own"
    )
    floor: float = Field(
        0.4, ge=-1, le=1, description="where the question holds the words of no tag: the cosine of its meaning to a tag's name from which on it names that tag"
    )

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.weight + self.cluster_weight >= 1:
            raise ValueError("weight and cluster_weight leave nothing for the search itself: their sum must be less than 1")
        return self


class Rerank(Declared):
    """What orders the best candidates anew by reading question and text together."""

    provider: Literal["local"] = Field("local", description="local: a cross-encoder of sentence-transformers on this machine")
    model: str = Field(min_length=1, description="its folder, with a slash (`./model`), relative to this file")
    candidates: int = Field(
        20, gt=0, le=200, description="how many of the best are read; of a text too long for the model the end is not: `--explain` tells of how many"
    )


class Retrieve(Declared):
    """Defaults of a search."""

    k: int = Field(4, gt=0, le=1000, description="hits returned")
    mode: Literal["dense", "lexical", "hybrid"] = Field("hybrid", description="dense: nearest vectors; lexical: words, by BM25; hybrid: both, in one score")
    floor: float | None = Field(None, ge=-1, le=1, description="hits of a smaller dense cosine are not answered from; null: the embedder's calibrated one")
    confident: float | None = Field(None, ge=-1, le=1, description="dense cosine of a confident hit; null: the embedder's calibrated one")
    dense_weight: float | None = Field(
        None, ge=0, le=1, description="share of the dense side in a hybrid score; null: by how well the embedder's vocabulary fits the content"
    )
    candidates: int = Field(50, gt=0, le=1000, description="chunks that each side proposes, of which k stay")
    query: str | None = Field(
        None, min_length=1, description="what is searched for, as a template over `question` and the parts that a caller names, such as `{product} {question}`"
    )
    expand: int = Field(
        0, ge=0, le=5, description="other wordings of the question that the declared model writes, each searched for, too; where it does not answer, "
        "the question alone is, and `--explain` and the log say why",
    )  # fmt: skip
    least_k: int = Field(1, ge=0, description="with `share`: hits that are returned whatever their score")
    share: float | None = Field(None, ge=0, le=1, description="hits whose score is less than this share of the best one's are left out; null: k hits, always")
    one_per_document: bool = Field(False, description="of each document the best chunk alone")
    diversity: float = Field(0.0, ge=0, le=1, description="0: the best hits; towards 1: hits that are unlike each other")
    neighbours: int = Field(0, ge=0, le=10, description="chunks before and after each hit that are returned with it")
    tags: Tags | None = Field(None, description="tags in the score; null: they play no part")
    rerank: Rerank | None = Field(None, description="a second look at the best candidates; null: none")
    workspace: str | None = Field(
        None, min_length=1, description="metadata field that keeps workspaces apart: a caller of one workspace sees nothing of another, whatever the filter"
    )


class Generate(Declared):
    """What writes answers."""

    provider: Literal["extractive", "mistral"] = Field(
        "extractive",
        description="extractive: sentences of the hits, each cited; mistral: Mistral's API or a server that speaks it, with the key in MISTRAL_API_KEY",
    )
    model: str | None = Field(None, min_length=1, description="mistral: the name that the server knows, `mistral-small-latest` by default")
    server_url: ServerUrl | None = Field(None, description="mistral: its address, without `/v1`; null: https://api.mistral.ai")
    temperature: float = Field(0.2, ge=0, le=2, description="mistral: 0 is the most likely answer, always")
    max_tokens: int = Field(500, gt=0, description="mistral: tokens of an answer, at most")
    requests_per_second: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="mistral: limit that all processes of a data directory keep together; null: none"
    )
    timeout_s: float = Field(60.0, gt=0, le=3600, description="mistral: seconds for which an answer is waited for")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_mistral(cls, data: Any) -> Any:
        is_mistral = isinstance(data, dict) and data.get("provider") == "mistral" and data.get("model") is None
        return {**data, "model": "mistral-small-latest"} if is_mistral else data

    @model_validator(mode="after")
    def _fits_its_provider(self) -> Self:
        if self.provider == "extractive" and (self.model is not None or self.server_url is not None):
            raise ValueError("model and server_url belong to provider: mistral, and the provider is extractive")
        return self


class Gate(Declared):
    """When a new version is not published. A share is a number or `5%`; null switches a check off."""

    max_failed: Share | None = Field(0.05, description="share of the pages that failed to be fetched")
    max_lost: Share | None = Field(0.10, description="share of the live version's items that are gone")
    max_added: Share | None = Field(None, description="share of the live version's items that are new")
    golden: str | None = Field(None, min_length=1, description="file of golden questions, JSONL, relative to this file: what the new version has to find")
    min_recall: Share | None = Field(None, le=1, description="share of the golden questions whose answer is among the first k hits, at least")
    max_recall_drop: Share | None = Field(None, le=1, description="what that share may fall by against the live version, at most")

    @model_validator(mode="after")
    def _recall_needs_questions(self) -> Self:
        if self.golden is None and (self.min_recall is not None or self.max_recall_drop is not None):
            raise ValueError("min_recall and max_recall_drop need golden questions: golden: FILE.jsonl")
        return self


class Retention(Declared):
    """What is kept of the past. The live version, the three newest and those that a reader holds always stay, and so does what they need."""

    versions: int = Field(20, ge=3, description="newest versions kept")
    crawls: int = Field(5, gt=0, description="newest crawls kept of each source, with their raw pages")
    vectors_days: int = Field(30, ge=1, description="days for which vectors that no kept version needs stay, in case their texts come back")


class Declaration(Declared):
    """One knowledge base: where its content comes from and what becomes of it."""

    name: str = Field(pattern=NAME_PATTERN, description="names the index; lower case")
    title: str | None = Field(None, description="for people")
    language: str = Field(
        "en",
        pattern=r"^(auto|[a-zA-Z]{2,3}(-[A-Za-z0-9]{2,8})*)$",
        description="BCP 47 tag of the content; auto: detected for each item, whose metadata then has `language`",
    )
    sources: list[Source] = Field(min_length=1, description="sites and files")
    clean: Literal["standard", "none"] = Field(
        "standard", description="standard: Unicode NFC, white space, entities, quotes, invisible characters; none: no cleaning beyond what reading a page does"
    )
    validate_: Validate = Field(Validate(), alias="validate", description="what a run's items must satisfy")
    chunk: Chunk = Field(Chunk(), description="how documents are cut")
    embed: Embed = Field(Embed(), description="what turns text into vectors")
    index: Index = Field(Index(), description="where versions are stored")
    retrieve: Retrieve = Field(Retrieve(), description="defaults of a search")
    generate: Generate = Field(Generate(), description="what writes answers")
    gate: Gate = Field(Gate(), description="when a new version is not published")
    retention: Retention = Field(Retention(), description="what is kept of the past")
    schedule: str | None = Field(
        None, description="when refreshes are due, as a cron expression in UTC: almanac status judges by it, almanac server or cron starts them"
    )

    _path: Path = PrivateAttr(Path())
    _env: str | None = PrivateAttr(None)
    _handle: str | None = PrivateAttr(None)

    @field_validator("schedule")
    @classmethod
    def _cron(cls, value: str | None) -> str | None:
        from datetime import UTC, datetime

        from cronsim import CronSim, CronSimError

        if value is not None:
            try:
                CronSim(value, datetime.now(UTC))
            except CronSimError as error:
                raise ValueError(f"not a cron expression: {error}") from error
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.chunk.by == "semantic" and self.embed.provider != "local":
            raise ValueError("chunk.by: semantic embeds every sentence, also for a plan, before anybody knows what that costs: it needs embed.provider local")
        if self.retrieve.expand and self.generate.provider == "extractive":
            raise ValueError("retrieve.expand: needs a model that writes: generate: {provider: mistral, model: …}")
        names = [source.name for source in self.sources]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"sources: the name '{twice[0]}' is used twice")
        known = {"title", "url", "text"}.union(*(s.declared_fields() for s in self.sources))
        for number, expectation in enumerate(self.validate_.expect):
            if expectation.field not in known and not any(s.takes_own_fields for s in self.sources):
                raise ValueError(f"validate.expect[{number}].field: no field '{expectation.field}'; declared: {', '.join(sorted(known))}")
        return self

    @property
    def path(self) -> Path:
        """The file it was read from."""
        return self._path

    @property
    def env(self) -> str | None:
        """The environment whose overlay it was read with."""
        return self._env

    @property
    def handle(self) -> str:
        """What commands call it by: its name where it lies under `knowledge/`, else its path; and the environment, where there is one."""
        name = self._handle or str(self.path)
        return f"{name} --env {self.env}" if self.env else name

    @property
    def collection(self) -> str:
        """The collection's name in Chroma, which wants three characters and a letter or digit at either end."""
        fits = len(self.name) >= 3 and self.name[-1] not in "-_"
        return self.index.collection or (self.name if fits else f"kb-{self.name}-kb")

    @property
    def sha256(self) -> str:
        """Hash of what is declared, after environment variables; comments and layout do not count."""
        return hashlib.sha256(self.model_dump_json(by_alias=True).encode()).hexdigest()

    def at(self, path: Path, env: str | None = None, handle: str | None = None) -> "Declaration":
        """The same, knowing its file and environment, and what commands call it where that is not the path."""
        self._path, self._env, self._handle = path, env, handle
        return self
