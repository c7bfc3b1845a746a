"""A knowledge base, as declared in one YAML file."""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from schemas.model import Declared
from schemas.settings import project_root
from schemas.sources import Source


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


class Chunk(Declared):
    """How documents are cut. Records are never cut."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"by": ("words", "sentences", "sections", "semantic"), "unit": ("words", "tokens")}

    by: Literal["paragraphs", "recursive", "none"] = Field("paragraphs", description="where cuts are preferred")
    size: int = Field(600, gt=0, description="characters of a chunk at most; `by: none` keeps documents whole")
    overlap: int = Field(100, ge=0, description="characters that a chunk repeats of the one before, at most")
    unit: Literal["characters"] = Field("characters", description="what size and overlap count")

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.overlap >= self.size:
            raise ValueError(f"overlap {self.overlap} must be smaller than size {self.size}")
        return self


class Embed(Declared):
    """What turns text into vectors."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {
        "provider": ("mistral",), "server_url": (), "price_per_million": (), "max_cost": (), "prompts": (),
    }  # fmt: skip

    provider: Literal["local"] = Field("local", description="local: sentence-transformers on this machine")
    model: str = Field(
        "all-MiniLM-L6-v2",
        min_length=1,
        description="the bundled model's name, or a sentence-transformers folder, with a slash (`./model`), relative to this file",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="bfloat16 is faster where the processor has it, and refused where it has not; vectors of the two are never mixed"
    )


class Index(Declared):
    """Where versions are stored."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"backend": ("server",)}

    backend: Literal["local"] = Field("local", description="local: one Chroma directory per version")
    collection: str | None = Field(
        None, pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{1,510}[a-zA-Z0-9]$", description="name of the Chroma collection; default: the knowledge base's name"
    )


class Retrieve(Declared):
    """Defaults of a search."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"mode": ("lexical", "hybrid")}

    k: int = Field(4, gt=0, le=1000, description="hits returned")
    mode: Literal["dense"] = Field("dense", description="dense: nearest vectors")
    floor: float | None = Field(None, ge=-1, le=1, description="hits of a smaller dense cosine are not answered from; null: the embedder's calibrated one")
    confident: float | None = Field(None, ge=-1, le=1, description="dense cosine of a confident hit; null: the embedder's calibrated one")


class Generate(Declared):
    """What writes answers."""

    planned: ClassVar[dict[str, tuple[str, ...]]] = {"provider": ("mistral",), "model": (), "server_url": (), "temperature": (), "max_tokens": ()}

    provider: Literal["extractive"] = Field("extractive", description="extractive: sentences of the hits, each cited")


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
        None, description="when refreshes are due, as a cron expression in UTC: almanac status judges by it; prefect.yaml or cron starts them"
    )

    _path: Path = PrivateAttr(Path())
    _env: str | None = PrivateAttr(None)

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
        name = self.path.stem if self.path.parent == project_root() / "knowledge" else str(self.path)
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

    def at(self, path: Path, env: str | None = None) -> "Declaration":
        """The same, knowing its file and environment."""
        self._path, self._env = path, env
        return self
