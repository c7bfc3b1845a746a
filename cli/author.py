"""Commands for whoever writes a declaration: init, schema, validate, test-url, test-source."""

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from almanac.cli.options import KB, Data, Env, Json
from almanac.cli.output import print_json, print_table, say
from almanac.core.durable import remove, write_file
from almanac.core.load import load_declaration
from almanac.core.namesakes import require_own_name
from almanac.core.settings import DataDir, Project, document
from almanac.schemas.errors import NoRecords, UsageError
from almanac.schemas.hashing import canonical_json

if TYPE_CHECKING:
    from almanac.schemas.declaration import Declaration
    from almanac.schemas.declaration.source import FilesSource, SiteSource, Source
    from almanac.spiders.mapping.inspect_url import PageReport

_SCHEMA = "declaration.schema.json"  # beside the declarations, whose first line names it


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="lower case; letters, digits, - and _")],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", metavar="DIR", help="where to write; default: the project's knowledge/", show_default=False
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            "--language",
            metavar="TAG",
            help="of the content, by BCP 47: en, fr, pt-BR; auto: several; default: what the page is in, else en",
            show_default=False,
        ),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="URL|PATH",
            help="a page, an API's answer, a file or a folder: propose a declaration from what it shows",
            show_default=False,
        ),
    ] = None,
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="with --from: also from private and loopback addresses")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a commented declaration to start from, or with --from, one that is proposed from a page or file."""
    from almanac.schemas.declaration.json_schema import declaration_schema
    from almanac.schemas.declaration.knowledge_base import LANGUAGE_PATTERN, NAME_PATTERN

    path = (folder or Project.locate().knowledge) / f"{name}.yaml"
    if not re.fullmatch(NAME_PATTERN, name):
        dotted = "; NAME.ENV.yaml is an overlay of NAME.yaml, written by hand" if "." in name else ""
        raise UsageError(
            f"'{name}' cannot be a name",
            where="NAME",
            hint=f"lower-case letters, digits, - and _; two at least: {NAME_PATTERN}{dotted}",
        )
    if language is not None and not re.fullmatch(LANGUAGE_PATTERN, language):
        raise UsageError(
            f"'{language}' is no language", where="--language", hint="a tag of BCP 47, such as en, fr or pt-BR; or auto"
        )
    if path.exists():
        raise UsageError("is there already", where=str(path), hint="choose another name, or edit that file")
    text = _template(name, language or "en") if origin is None else _proposed(path, origin, language, allow_private)
    write_file(path, f"# yaml-language-server: $schema={_SCHEMA}\n{text}", is_for_user=True)
    try:
        load_declaration(str(path), env="")
    except BaseException:
        remove(path)  # so that the next try finds its place free
        raise
    write_file(path.with_name(_SCHEMA), _as_text(declaration_schema()), is_for_user=True)
    if as_json:
        print_json({"kb": name, "path": str(path), "schema": str(path.with_name(_SCHEMA))})
    else:
        kb = name if folder is None else path
        here = Path.cwd()
        say(f"{path.relative_to(here) if path.is_relative_to(here) else path} written")
        say(f"  beside it: {_SCHEMA}, by which editors complete and check it")
        say(f"  → edit it; {document('reference/declaration.md')} has every key")
        say(f"  → then: almanac validate {kb}; almanac test-url {kb} {origin or 'URL'}; almanac run {kb}")


def schema(
    overlay: Annotated[
        bool, typer.Option("--overlay", help="of NAME.ENV.yaml: nothing is required, and null resets a key")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PATH", help="a file; default: stdout", show_default=False)
    ] = None,
) -> None:
    """Print the JSON Schema of a declaration, by which an editor completes its keys, explains and checks them.

    almanac init writes it as declaration.schema.json beside the declaration, whose first line names it; --out writes it
    anew, after an upgrade or for a declaration that is there already.
    """
    from almanac.schemas.declaration.json_schema import declaration_schema, overlay_schema

    schema_document = overlay_schema() if overlay else declaration_schema()
    if out is None:
        print_json(schema_document)
    else:
        write_file(out, _as_text(schema_document), is_for_user=True)
        say(f"{out} written")


def _as_text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


def _proposed(path: Path, origin: str, language: str | None, allow_private: bool) -> str:
    """The declaration at `path` that a page, a file or a folder speaks for."""
    from almanac.cli.proposed_yaml import proposed_declaration
    from almanac.index.embedding.model_folder import bundled_for
    from almanac.spiders.proposing.propose_files import propose_files
    from almanac.spiders.proposing.propose_site import propose_site

    if "://" in origin and not Path(origin).exists():
        _require_url(origin)
        sources = [propose_site(origin, language, allow_private=allow_private)]
    else:
        sources = propose_files(Path(origin), path.parent, language)
    languages = {source.language for source in sources if source.language}
    language = language or (languages.pop() if len(languages) == 1 else "auto" if languages else "en")
    return proposed_declaration(path.stem, origin, bundled_for(language), sources, language)


def _template(name: str, language: str) -> str:
    """The declaration to start from, with the bundled embedder that knows the language."""
    from almanac.index.embedding.model_folder import bundled_for

    model, reason = bundled_for(language)
    template = (Path(__file__).parent / "template.yaml").read_text(encoding="utf-8")
    embed = f"embed: {{provider: local, model: {model}}}"
    for placeholder, line in (
        ("language: LANGUAGE", f"{f'language: {language}':<42}# BCP 47 tag of the content; auto: several"),
        ("embed: EMBEDDER", f"{embed}  # {reason}"),
    ):
        template = template.replace(placeholder, line)
    return template.replace("NAME", name)


def validate(kb: KB, env: Env = None, as_json: Json = False) -> None:
    """Check a declaration; errors name file, line, key, what was found and what is allowed."""
    from almanac.schemas.declaration.source import SiteSource

    declaration = load_declaration(kb, env)
    require_own_name(declaration)
    golden = _golden_questions(declaration)
    _require_models(declaration)
    warnings = [
        f"source {s.name}: {s.private_start}"
        for s in declaration.sources
        if isinstance(s, SiteSource) and s.private_start
    ]
    if as_json:
        sources = [
            {"name": s.name, "kind": s.kind, "yields": s.yields, "fields": list(s.declared_fields())}
            for s in declaration.sources
        ]
        document = {
            "kb": declaration.name,
            "env": declaration.env,
            "ok": True,
            "path": str(declaration.path),
            "sources": sources,
        }
        print_json({**document, "golden_questions": golden, "warnings": warnings})
        return
    rows = [
        (s.name, s.kind, s.yields, ", ".join(s.declared_fields()) or ("their own" if s.takes_own_fields else "–"))
        for s in declaration.sources
    ]
    overlay = f", with the overlay {declaration.env}" if declaration.env else ""
    print_table(
        f"{declaration.name}: valid ({declaration.path}{overlay})", ("source", "kind", "yields", "fields"), rows
    )
    for warning in warnings:
        say(f"a run will refuse {warning}")


def _golden_questions(declaration: "Declaration") -> int:
    """How many there are; a line that cannot be meant is an error of the declaration's."""
    if declaration.gate.golden is None:
        return 0
    from almanac.query.evaluation.golden import load_golden

    return len(load_golden(declaration))


def _require_models(declaration: "Declaration") -> None:
    """The folders of the declared models hold such models, and what loads them is installed; none is loaded."""
    from almanac.index.embedding.embedder import describe_embedder
    from almanac.index.embedding.model_folder import require_models
    from almanac.index.embedding.precision import require_precision
    from almanac.query.models.rerank import find_reranker

    require_precision(declaration.embed)
    describe_embedder(declaration.embed)
    require_models(declaration.embed)
    find_reranker(declaration)


def test_url(
    kb: KB,
    url: Annotated[str, typer.Argument(metavar="URL|FILE", help="a page of one of the sites, or a file")],
    source: Annotated[
        str | None,
        typer.Option(
            "--source", metavar="S", help="whose rules; default: by host and match, or by glob", show_default=False
        ),
    ] = None,
    env: Env = None,
    as_json: Json = False,
) -> None:
    """Show what one page or file yields, which rule gave each field, what matched nothing, and what is rejected, with
    the reason.
    """
    from almanac.spiders.crawling.find_files import FoundFile
    from almanac.spiders.mapping.inspect_url import inspect_file, inspect_url

    declaration = load_declaration(kb, env)
    if "://" in url and not Path(url).exists():
        site = _source_for(declaration, url, source)
        _show(declaration, site, inspect_url(site, url, declaration.language), as_json=as_json)
    else:
        files, name = _source_of_file(declaration, Path(url), source)
        file = FoundFile(name, os.path.realpath(url))
        _show(declaration, files, inspect_file(files, file, declaration.language), as_json=as_json)


def test_source(
    kb: KB,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="its name in the declaration")],
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, max=1000, help="how many, of a source of rows")
    ] = 3,
    env: Env = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Show what a source gives first: rows, the first file, or a site's start page, and what it yields, as test-url
    does.
    """
    from almanac.schemas.declaration.source import FilesSource, SiteSource
    from almanac.spiders.crawling.file_places import place_of
    from almanac.spiders.crawling.find_files import NotRead
    from almanac.spiders.mapping.inspect_url import inspect_file, inspect_rows, inspect_url
    from almanac.spiders.rows.read_rows import first_rows
    from almanac.spiders.store.raw import RawStore

    declaration = load_declaration(kb, env)
    chosen = next((declared_source for declared_source in declaration.sources if declared_source.name == source), None)
    if chosen is None:
        there = ", ".join(declared_source.name for declared_source in declaration.sources)
        raise UsageError(f"no source '{source}' in {declaration.name}", where="SOURCE", hint=f"there are: {there}")
    folder, language = declaration.path.parent, declaration.language
    if isinstance(chosen, SiteSource):
        start = str((chosen.start_urls or chosen.sitemaps)[0])
        report = inspect_url(chosen, start, language)
    elif isinstance(chosen, FilesSource):
        with place_of(chosen, folder) as place:
            files = place.find((), lambda _: False)
            first = next((file for file in files if not isinstance(file, NotRead)), None)
            if first is None:
                finding, hint = f"no file matches {place.shown}", f"the glob is relative to {place.start}"
                raise NoRecords(finding, where=f"source {source}", hint=hint)
            report = inspect_file(chosen, first, language)
    else:
        raw = RawStore(DataDir.locate(data).raw(declaration.name, source))
        report = inspect_rows(chosen, first_rows(chosen, folder, raw, rows), language)
    _show(declaration, chosen, report, as_json=as_json)


def _show(declaration: "Declaration", chosen: "Source", report: "PageReport", *, as_json: bool) -> None:
    """Prints what a page, a file or rows yield."""
    from almanac.schemas.declaration.source import SiteSource
    from almanac.schemas.items import Item, Reject
    from almanac.schemas.left_out import CURES, characters_in
    from almanac.spiders.selecting.linked_documents import describe_not_fetched
    from almanac.spiders.selecting.links import describe_unfollowed
    from almanac.transforms.prepare import prepare_items

    for item in report.items:
        if item.draft is not None:
            workspace = declaration.retrieve.workspace
            (prepared,) = prepare_items(
                [item.draft],
                chosen,
                declaration.clean,
                language=declaration.language,
                workspace=workspace,
                left_out=report.left_out,
            )
            item.text = prepared.text if isinstance(prepared, Item) else None
            report.characters += characters_in(prepared.passage or prepared.text) if isinstance(prepared, Item) else 0
            is_workspace = isinstance(prepared, Reject) and workspace is not None and prepared.field == workspace.field
            if isinstance(prepared, Reject) and (is_workspace or not isinstance(chosen, SiteSource)):
                report.rejects.append(prepared.as_json())
    if as_json:
        print_json({"kb": declaration.name, "source": chosen.name, **report.model_dump(mode="json")})
        return
    if not isinstance(chosen, SiteSource):
        say(
            f"{report.final_url}: {report.content_type or 'not read'}; source {chosen.name}, {len(report.items)} "
            f"items, {len(report.rejects)} rejects"
        )
    else:
        say(
            f"{report.final_url}: {report.status}, {report.content_type}; source {chosen.name}, {report.role} "
            f"page, {report.links.count} links to follow"
        )
        if (left := describe_unfollowed(chosen, report.links.unfollowed, "on this page")) is not None:
            say(left)
        if (left := describe_not_fetched(report.links.not_fetched)) is not None:
            say(left)
    if report.withheld is not None:
        say(f"a run takes no item from this page: {report.withheld}")
    for item in report.items:
        rows = [
            (name, field.rule, "yes" if field.matched else "nothing", _short(field.value))
            for name, field in item.fields.items()
        ]
        heading = item.document_id or "an item without an id"
        print_table(f"{heading}: {item.title}" if item.title else heading, ("field", "rule", "matched", "value"), rows)
        for thing in dict.fromkeys(field.thing for field in item.fields.values() if field.thing is not None):
            say(
                f"read from {thing} in the page's data: "
                f"{', '.join(name for name, field in item.fields.items() if field.thing == thing)}"
            )
        for name, field in item.fields.items():
            if field.note is not None:
                say(f"{name}: {field.note}")
        if item.text is not None:
            say(f"text, {len(item.text)} characters: {_short(item.text)}\n")
    much = report.left_out.much(report.characters)
    for reason, amount in report.left_out.items():
        counted = (
            f"{amount['characters']:,} characters in {amount['blocks']:,} block{'' if amount['blocks'] == 1 else 's'}"
        )
        warning = (
            f", {much[reason]:.0%} of its text: {CURES[reason].replace('KB', declaration.handle)}"
            if reason in much
            else ""
        )
        say(f"left out as {reason.replace('_', ' ')}: {counted}{warning}")
    if (
        chosen.yields == "documents"
        and chosen.body == "main"
        and any(item.draft is not None and item.draft.markup == "html" for item in report.items)
    ):
        say(
            "one page does not tell page furniture: a run leaves out what most pages of the source begin or end "
            "with, and counts it as page_furniture"
        )
    for reject in report.rejects:
        place = reject["document_id"] or reject["url"]
        rule = f"; field {reject['field']}, rule {reject['rule']}, value {reject['value']!r}" if reject["field"] else ""
        say(f"rejected {place}: {reject['reason']}{rule}")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else "" if value is None else canonical_json(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _source_of_file(declaration: "Declaration", path: Path, name: str | None) -> tuple["FilesSource", str]:
    """The named files source, or the one whose glob matches the file, or the only one there is; and the file's URL in
    it.
    """
    from almanac.schemas.declaration.source import FilesSource
    from almanac.spiders.crawling.find_files import FoundFile, find_files

    if not path.is_file():
        finding = "is a folder, and no file" if path.is_dir() else "no such file"
        raise UsageError(
            finding,
            where=str(path),
            hint="a URL begins with http:// or https://; any other argument is the path of a file",
        )
    sources = [s for s in declaration.sources if isinstance(s, FilesSource) and name in (None, s.name)]
    for source in (files_source for files_source in sources if files_source.is_local):
        for file in find_files(declaration.path.parent, source.glob, follow_links=source.follow_links):
            if isinstance(file, FoundFile) and path.samefile(file.path):
                return source, file.url
    if len(sources) != 1:
        known_sources = (
            ", ".join(f"{s.name} ({s.glob})" for s in declaration.sources if isinstance(s, FilesSource)) or "none"
        )
        raise UsageError(
            f"no files source fits {path}",
            where=str(declaration.path),
            hint=f"--source names one; files: {known_sources}",
        )
    return sources[0], path.name


def _require_url(url: str) -> None:
    from almanac.schemas.declaration.url_types import http_url

    try:
        http_url(url)
    except ValueError as error:
        raise UsageError(str(error), where=url, hint="copy the address of a page from the browser") from error


def _source_for(declaration: "Declaration", url: str, name: str | None) -> "SiteSource":
    """The named site, or the one whose rules fit the URL best."""
    from urllib.parse import urlsplit

    from almanac.schemas.declaration.source import SiteSource
    from almanac.spiders.selecting.urls import url_matcher

    _require_url(url)
    sites = [s for s in declaration.sources if isinstance(s, SiteSource)]
    chosen = [s for s in sites if s.name == name] if name else [s for s in sites if urlsplit(url).hostname in s.domains]
    if not chosen:
        known = ", ".join(f"{s.name} ({', '.join(s.domains)})" for s in sites) or "none"
        raise UsageError(f"no site source fits {name or url}", where=str(declaration.path), hint=f"sites: {known}")
    # The source whose items are on such pages, else one that takes any page, else the first on that host.
    return next(
        (s for s in chosen if s.match and url_matcher(s.match)(url)),
        next((s for s in chosen if not s.match), chosen[0]),
    )
