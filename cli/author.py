"""Commands for whoever writes a declaration: init, validate, test-url."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from almanac.cli.options import KB, Env, Json
from almanac.cli.output import print_json, print_table, say
from almanac.core.durable import write_file
from almanac.core.load import load_declaration
from almanac.core.namesakes import require_own_name
from almanac.core.settings import Project, document
from almanac.schemas.errors import UsageError
from almanac.schemas.hashing import canonical_json

if TYPE_CHECKING:
    from almanac.schemas.declaration import Declaration
    from almanac.schemas.declaration.source import FilesSource, SiteSource


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="lower case; letters, digits, - and _")],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", metavar="DIR", help="where to write; default: the project's knowledge/", show_default=False
        ),
    ] = None,
    language: Annotated[
        str, typer.Option("--language", metavar="TAG", help="of the content, by BCP 47: en, fr, pt-BR; auto: several")
    ] = "en",
    as_json: Json = False,
) -> None:
    """Write a commented declaration to start from."""
    from almanac.schemas.declaration.knowledge_base import LANGUAGE_PATTERN, NAME_PATTERN

    path = (folder or Project.locate().knowledge) / f"{name}.yaml"
    if not re.fullmatch(NAME_PATTERN, name):
        dotted = "; NAME.ENV.yaml is an overlay of NAME.yaml, written by hand" if "." in name else ""
        raise UsageError(
            f"'{name}' cannot be a name",
            where="NAME",
            hint=f"lower-case letters, digits, - and _; two at least: {NAME_PATTERN}{dotted}",
        )
    if not re.fullmatch(LANGUAGE_PATTERN, language):
        raise UsageError(
            f"'{language}' is no language", where="--language", hint="a tag of BCP 47, such as en, fr or pt-BR; or auto"
        )
    if path.exists():
        raise UsageError("is there already", where=str(path), hint="choose another name, or edit that file")
    write_file(path, _template(name, language), is_for_user=True)
    load_declaration(str(path), env="")
    if as_json:
        print_json({"kb": name, "path": str(path)})
    else:
        kb = name if folder is None else path
        say(
            f"{path} written. Edit it, then: almanac validate {kb}; almanac test-url {kb} URL; almanac run {kb}. "
            f"Every key: {document('declaration.md')}"
        )


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
    from almanac.schemas.declaration.source import FilesSource
    from almanac.schemas.items import Item, Reject
    from almanac.schemas.left_out import CURES, characters_in
    from almanac.spiders.mapping.inspect_url import inspect_file, inspect_url
    from almanac.spiders.selecting.documents import describe_not_fetched
    from almanac.spiders.selecting.links import describe_unfollowed
    from almanac.transforms.prepare import prepare_items

    declaration = load_declaration(kb, env)
    chosen: SiteSource | FilesSource
    if "://" in url and not Path(url).exists():
        chosen = _source_for(declaration, url, source)
        report = inspect_url(chosen, url, declaration.language)
    else:
        chosen, name = _source_of_file(declaration, Path(url), source)
        report = inspect_file(chosen, Path(url), name, declaration.language)
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
            if isinstance(prepared, Reject) and (is_workspace or isinstance(chosen, FilesSource)):
                report.rejects.append(prepared.as_json())
    if as_json:
        print_json({"kb": declaration.name, "source": chosen.name, **report.model_dump(mode="json")})
        return
    if isinstance(chosen, FilesSource):
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
        say(f"quarantined {place}: {reject['reason']}{rule}")


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
    for source in sources:
        for found in find_files(declaration.path.parent, source.glob, follow_links=source.follow_links):
            if isinstance(found, FoundFile) and path.samefile(found.path):
                return source, found.url
    if len(sources) != 1:
        found_sources = (
            ", ".join(f"{s.name} ({s.glob})" for s in declaration.sources if isinstance(s, FilesSource)) or "none"
        )
        raise UsageError(
            f"no files source fits {path}",
            where=str(declaration.path),
            hint=f"--source names one; files: {found_sources}",
        )
    return sources[0], path.name


def _source_for(declaration: "Declaration", url: str, name: str | None) -> "SiteSource":
    """The named site, or the one whose rules fit the URL best."""
    from urllib.parse import urlsplit

    from almanac.schemas.declaration.source import SiteSource
    from almanac.schemas.declaration.urls import http_url
    from almanac.spiders.selecting.urls import url_matcher

    try:
        http_url(url)
    except ValueError as error:
        raise UsageError(str(error), where=url, hint="copy the address of a page from the browser") from error
    sites = [s for s in declaration.sources if isinstance(s, SiteSource)]
    chosen = [s for s in sites if s.name == name] if name else [s for s in sites if urlsplit(url).hostname in s.domains]
    if not chosen:
        found = ", ".join(f"{s.name} ({', '.join(s.domains)})" for s in sites) or "none"
        raise UsageError(f"no site source fits {name or url}", where=str(declaration.path), hint=f"sites: {found}")
    # The source whose items are on such pages, else one that takes any page, else the first on that host.
    return next(
        (s for s in chosen if s.match and url_matcher(s.match)(url)),
        next((s for s in chosen if not s.match), chosen[0]),
    )
