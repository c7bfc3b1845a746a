"""Step: what is declared of the items, judged by Great Expectations. An item that breaks a rule on single items is
quarantined.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from almanac.core.durable import write_file
from almanac.core.tables import StoredItems
from almanac.flows.pipeline.handles import Items, Pages, Rejects, Validated
from almanac.flows.pipeline.run import Run
from almanac.flows.pipeline.validation_results import write_judged
from almanac.schemas.declaration.source import SiteSource
from almanac.schemas.errors import NoRecords
from almanac.spiders.selecting.links import describe_unfollowed
from almanac.transforms.gate import refusing
from almanac.transforms.validate_items import validate_items


def validate(run: Run, items: Items) -> Validated:
    """Judges every item, and with them what mapping rejected. The results are staged; the run keeps them when it
    ends.
    """
    validation = validate_items(StoredItems(items.table), run.declaration, items.rejects.read())
    return Validated(
        rejects=(
            items.rejects,
            Rejects.write(run.staging / "rejects-validate.jsonl", list(validation.rejects.values())),
        ),
        quarantined=write_rows(run.staging / "quarantined.json", validation.rejects.keys()),
        report=write_judged(run.staging / "validation.json", validation.results),
        broken=sum(not result.ok for result in validation.results) if validation.results else None,
        checks=refusing(validation.results),
    )


def write_rows(path: Path, rows: Iterable[int]) -> Path | None:
    """Row numbers as a file; None, and no file, where there are none."""
    numbers = sorted(rows)
    if not numbers:
        return None
    write_file(path, json.dumps(numbers), synced=False)
    return path


def require_records(
    run: Run, pages: tuple[Pages, ...], items: Items, validated: Validated, hint: str | None = None
) -> None:
    """Raises NoRecords where nothing is left to publish; `hint` says what to do, by default where to look for the cause
    on a page or in a file.
    """
    if items.extracted - items.deduplicated > validated.rejected:
        return
    has_sites = any(isinstance(source, SiteSource) for source in run.declaration.sources)
    usual = (
        "almanac test-url KB URL shows what one page yields"
        if has_sites
        else "mend the files, or the rules that are declared for them"
    )
    present = sum(page.counts.present for page in pages)
    first = next((reject for rejects in validated.rejects for reject in rejects.read()), None)
    if first is None:
        finding = f"no items in {present} pages: no page matched, or none held an item"
    else:
        field = f", field {first.field}" if first.field else ""
        finding = (
            f"all {validated.rejected} items of {present} pages were rejected; the first: {first.url}: "
            f"{first.reason}{field}"
        )
    unfollowed = {page.source: page.unfollowed for page in pages}
    left = (describe_unfollowed(source, unfollowed.get(source.name, 0)) for source in run.declaration.sources)
    raise NoRecords(". ".join([finding, *filter(None, left)]), where=str(run.declaration.path), hint=hint or usual)
