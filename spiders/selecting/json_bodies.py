"""Bodies that a source's rules read as JSON, and those among them that are none: an answer cut short, an error page."""

from almanac.schemas.declaration.fields import FieldRule, Selector
from almanac.schemas.declaration.source import FilesSource, SiteSource, Source
from almanac.spiders.reading.content import Content


def why_not_json(content: Content, source: Source) -> str | None:
    """Why a page cannot be read, of which nothing but JSON is read; None if it can, or if something else is."""
    if content.form != "json" and not _reads_json_alone(content, source):
        return None
    try:
        _ = content.json
    except ValueError as error:
        return f"not JSON: {error}"
    return None


def begins_as_json(content: Content) -> bool:
    """Whether a body begins as a JSON object or list, so that one that is no JSON was cut short."""
    return content.text.lstrip("\ufeff \t\r\n").startswith(("{", "["))


def reads_json(source: SiteSource) -> bool:
    """Whether a rule of the source reads JSON bodies."""
    rules = [*_rules(source), *([source.listing.each, source.listing.link] if source.listing is not None else [])]
    return source.pagination.json_ is not None or any(rule.reads_body for rule in rules)


def _rules(source: Source) -> list[Selector | FieldRule]:
    return [*source.fields.values(), *([source.each] if source.each is not None else [])]


def _reads_json_alone(content: Content, source: Source) -> bool:
    """Whether every rule needs a JSON body, so that a page in HTML must be an error page. Of questions and answers, rules read the pairs."""
    if isinstance(source, FilesSource) and source.format == "faq":
        return False
    if source.yields == "documents" and (source.body in ("main", "all") or (isinstance(source.body, Selector) and not source.body.reads_body)):
        return False  # the text is the page's own, and JSON only adds to it, as front matter does, which other files of a folder lack
    if content.form not in ("html", "xml", "plain") or (source.each is not None and not source.each.reads_body):
        return False
    rules = _rules(source)
    return any(rule.reads_body for rule in rules) and not any(rule.css or rule.xpath for rule in rules)
