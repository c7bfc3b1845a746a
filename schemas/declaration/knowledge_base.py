"""The root model of a declaration, which combines all sections."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from almanac.schemas.declaration.answer_section import AnswerWords
from almanac.schemas.declaration.chunk_section import Chunk
from almanac.schemas.declaration.declared_expectations import unfit_expectations
from almanac.schemas.declaration.embed_section import Embed
from almanac.schemas.declaration.gate_section import Gate, Validate
from almanac.schemas.declaration.generate import Generate
from almanac.schemas.declaration.model import DeclaredModel, Finding, refuse
from almanac.schemas.declaration.retrieve import Retrieve
from almanac.schemas.declaration.run_section import RunsOn
from almanac.schemas.declaration.source import SiteSource, Source
from almanac.schemas.declaration.template import template_names, unknown_field, unknown_name
from almanac.schemas.declaration.versions import Index, Retention

NAME_PATTERN = r"^[a-z0-9][a-z0-9_-]{1,62}$"
LANGUAGE_PATTERN = r"^(auto|[a-zA-Z]{2,3}(-[A-Za-z0-9]{2,8})*)$"
# metadata of every item, whatever is declared
_UNDECLARED = frozenset({"document_id", "source", "url", "title", "kind", "language"})


class Declaration(DeclaredModel):
    """One knowledge base: its sources, and how they are processed, indexed and searched."""

    name: str = Field(pattern=NAME_PATTERN, description="names the index; lower case")
    title: str | None = Field(None, description="for people")
    language: str = Field(
        "en",
        pattern=LANGUAGE_PATTERN,
        description=(
            "BCP 47 tag of the content, in which sites are asked for pages (Accept-Language). auto: "
            "detected for each item, as `language` of its metadata; sites are asked for none"
        ),
    )
    sources: list[Source] = Field(min_length=1, description="what content comes from")
    clean: Literal["standard", "none"] = Field(
        "standard",
        description=(
            "standard: Unicode NFC, white space, entities, quotes, no invisible characters but joiners; "
            "none: no cleaning beyond what reading a page does"
        ),
    )
    validate_: Validate = Field(Validate(), alias="validate", description="what a run's items must satisfy")
    chunk: Chunk = Field(Chunk(), description="how documents are cut")
    embed: Embed = Field(Embed(), description="what turns text into vectors")
    index: Index = Field(Index(), description="where versions are stored")
    retrieve: Retrieve = Field(Retrieve(), description="defaults of a search")
    generate: Generate = Field(Generate(), description="what writes answers")
    answer: AnswerWords = Field(AnswerWords(), description="words of answers")
    gate: Gate = Field(Gate(), description="when a new version is not published")
    retention: Retention = Field(Retention(), description="what is kept of the past")
    run: RunsOn = Field(RunsOn(), description="where a run's work is done")
    schedule: str | None = Field(
        None,
        description=(
            "when refreshes are due, as a cron expression in UTC: `almanac status` judges by it, `almanac "
            "server` starts them"
        ),
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
    def _consistent(self, info: ValidationInfo) -> Self:
        if self.chunk.by == "semantic" and self.embed.provider != "local":
            raise ValueError(
                "chunk.by: semantic embeds every sentence, also for a plan, before anybody knows what that costs: "
                "it needs embed.provider local"
            )
        if self.retrieve.expand and self.generate.provider == "extractive":
            raise ValueError(
                "retrieve.expand: needs a model that writes: generate: {provider: mistral or openai, model: …}"
            )
        refuse(
            type(self),
            [
                *self._repeated_names(),
                *(() if (info.context or {}).get("to_read") else self._unfit_expectations()),
                *self._unknown_names(),
                *self._lost_workspaces(),
                *self._shared_key(),
            ],
        )
        for source in self.sources:
            source.keep_apart(self.retrieve.workspace.field if self.retrieve.workspace else None)
            if isinstance(source, SiteSource):
                source.ask_in(self.language)
        return self

    def _repeated_names(self) -> Iterator[Finding]:
        """Yields names of sources that an earlier source has."""
        names = [source.name for source in self.sources]
        for number, name in enumerate(names):
            if (first := names.index(name)) < number:
                yield Finding(
                    ("sources", number, "name"), "another source has this name", name, ("sources", first, "name")
                )

    def _unfit_expectations(self) -> Iterator[Finding]:
        sources = {
            source.name: None if source.takes_own_fields else source.declared_fields() for source in self.sources
        }
        yield from unfit_expectations(self.validate_.expect, sources)

    def _unknown_names(self) -> Iterator[Finding]:
        """Yields names in `chunk.prefix` of fields that no source declares."""
        if any(s.takes_own_fields for s in self.sources):
            return
        fields = [s.declared_fields() for s in self.sources]
        for name in template_names(self.chunk.prefix or ""):
            messages = [unknown_name(name, {"title": None, **declared}) for declared in fields]
            if None not in messages:
                yield Finding(("chunk", "prefix"), str(messages[0]), self.chunk.prefix)

    def _shared_key(self) -> Iterator[Finding]:
        """A key that would be sent to a second server."""
        embed, generate = self.embed, self.generate
        if (
            embed.key
            and embed.key == generate.key
            and urlsplit(embed.server).netloc != urlsplit(generate.server).netloc
        ):
            finding = (
                f"{embed.key} is the key of {embed.server}, and would be sent to {generate.server}, too; name another "
                "variable for that server's own"
            )
            yield Finding(("generate", "key"), finding, generate.key, first=("embed", "key"))

    def _lost_workspaces(self) -> Iterator[Finding]:
        """Yields lists of metadata that leave out the field of workspaces, and that field where no item can have it: no
        hit would be in a workspace.
        """
        field = self.retrieve.workspace.field.partition(".")[0] if self.retrieve.workspace else None
        if field is None or field in _UNDECLARED:
            return
        keeping = [
            number
            for number, source in enumerate(self.sources)
            if source.takes_own_fields or field in source.declared_fields()
        ]
        if not keeping:
            yield Finding(
                ("retrieve", "workspace"),
                unknown_field(field, {name for source in self.sources for name in source.declared_fields()}),
                field,
            )
        for number in keeping:
            if (metadata := self.sources[number].metadata) is not None and field not in metadata:
                yield Finding(
                    ("sources", number, "metadata"),
                    f"leaves out '{field}', by which retrieve.workspace keeps workspaces apart",
                    metadata,
                )

    @property
    def path(self) -> Path:
        """The file that the declaration was read from."""
        return self._path

    @property
    def env(self) -> str | None:
        """The environment whose overlay was applied; None without one."""
        return self._env

    @property
    def handle(self) -> str:
        """The arguments by which commands refer to it: the file's name under `knowledge/`, else its path, and `--env`
        where there is an environment.
        """
        name = self._handle or str(self.path)
        return f"{name} --env {self.env}" if self.env else name

    @property
    def collection(self) -> str:
        """Name of the Chroma collection. A name that Chroma does not accept (fewer than 3 characters, `-` or `_` at the
        end) becomes `kb-NAME-kb`.
        """
        fits = len(self.name) >= 3 and self.name[-1] not in "-_"
        return self.index.collection or (self.name if fits else f"kb-{self.name}-kb")

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of the declaration after substitution of environment variables; comments, layout and `run` have
        no effect, and secrets are masked.
        """
        return hashlib.sha256(self.model_dump_json(by_alias=True, exclude={"run"}).encode()).hexdigest()

    def at(self, path: Path, env: str | None = None, handle: str | None = None) -> "Declaration":
        """Sets file, environment and handle, and returns the declaration itself. `handle` None: commands refer to it by
        its path.
        """
        self._path, self._env, self._handle = path, env, handle
        return self
