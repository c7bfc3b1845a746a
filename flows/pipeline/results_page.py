"""The results of a run's declared rules as one HTML page, for a browser without a network: no script, font, style or
picture from elsewhere.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from typing import Any

from almanac.schemas.reports import JudgedExpectation, ValidationResults

_STYLE = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#16202c;--soft:#5b6876;--line:#e1e6ec;--good:#14713f;
--good-bg:#e2f4e9;--bad:#a4262c;
--bad-bg:#fde7e7;--warn:#7a5200;--warn-bg:#fdf1d4;--code:#f0f3f6;--link:#1b5fae}
@media(prefers-color-scheme:dark){:root{--page:#10151b;--card:#19212a;--text:#e6ebf1;--soft:#9aa8b7;--line:#2c3743;--good:#7fdca4;--good-bg:#143524;
--bad:#ff9a9a;--bad-bg:#451d20;--warn:#f2c86b;--warn-bg:#3d2f0e;--code:#222c37;--link:#8dbdf5}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,sans-serif}
main{max-width:78rem;margin:0 auto;padding:2rem 1.25rem 4rem}h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.05rem;
margin:2rem 0 .6rem}
.by{color:var(--soft);margin:0 0 1.25rem}.verdict{border-radius:10px;padding:.9rem 1.1rem;font-weight:600;
margin:0 0 1rem}
.good{background:var(--good-bg);color:var(--good)}.bad{background:var(--bad-bg);color:var(--bad)}
.warn{background:var(--warn-bg);color:var(--warn)}
.sums{display:flex;flex-wrap:wrap;gap:.75rem;margin:0 0 1rem;padding:0;list-style:none}
.sums li{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:.6rem 1rem;min-width:8rem;
color:var(--soft);font-size:.85rem}
.sums b{display:block;color:var(--text);font-size:1.35rem;font-variant-numeric:tabular-nums}
.box{background:var(--card);border:1px solid var(--line);border-radius:10px;overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th{color:var(--soft);font-weight:600;font-size:.78rem;white-space:nowrap}th,td{text-align:left;padding:.55rem .8rem;
border-bottom:1px solid var(--line);
vertical-align:top}tbody tr:last-child td{border-bottom:0}.n{text-align:right;font-variant-numeric:tabular-nums;
white-space:nowrap}
code{font:.86em ui-monospace,monospace;background:var(--code);border-radius:4px;padding:.1em .35em;
overflow-wrap:anywhere}small{color:var(--soft);display:block}
.tag{border-radius:99px;padding:.1rem .6rem;font-size:.78rem;font-weight:600;white-space:nowrap}a{color:var(--link);
overflow-wrap:anywhere}
td.of{min-width:17rem}tr>td:nth-child(3){min-width:20rem}
p.verdict{max-width:none}.n small{white-space:normal;min-width:6rem}summary{cursor:pointer;color:var(--link)}
details table{margin:.4rem 0 0;font-size:.95em}details td{padding:.3rem .8rem .3rem 0}
details td:first-child{min-width:6rem}
p{max-width:60rem}
"""
_SEVERITIES = {"quarantine": "rejects the item", "warn": "warns", "refuse": "refuses the version"}


def page_of(results: ValidationResults) -> str:
    """The page. Whatever comes from items or the declaration is escaped, and only http(s) addresses become links."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    title = f"Expectations of {escape(results.kb)}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        f"'sha256-{digest}'; base-uri 'none'; form-action 'none'\">"
        '<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" '
        'content="no-referrer">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>"
        f'<h1>{title}</h1><p class="by">run {escape(results.run_id)}, judged {escape(results.judged_at)}</p>'
        f"{_verdict(results)}{_sums(results)}{_table(results.expectations)}{_accounts(results)}</main></body></html>\n"
    )


def _verdict(results: ValidationResults) -> str:
    rules = results.expectations
    refused = [
        rule
        for rule in rules
        if not rule.ok and (rule.severity == "refuse" or (rule.error is not None and rule.severity != "warn"))
    ]
    broken = [rule for rule in rules if rule.broken and rule.severity == "quarantine"]
    warned = [rule for rule in rules if not rule.ok and rule.severity == "warn"]
    phrases = (
        [f"{_count(len(refused), 'rule')} {'refuses' if len(refused) == 1 else 'refuse'} the version"]
        if refused
        else []
    )
    if broken:
        phrases.append(f"{_count(results.by_expectations, 'item')} rejected for {_count(len(broken), 'broken rule')}")
    if warned:
        phrases.append(_count(len(warned), "warning"))
    kind = "bad" if refused else "warn" if phrases else "good"
    return f'<p class="verdict {kind}">{"; ".join(phrases) or f"All {len(rules)} rules hold"}</p>'


def _sums(results: ValidationResults) -> str:
    items = results.items
    left = items.in_ - items.deduplicated - items.quarantined
    sums = (
        ("items in", items.in_), ("left to publish", left), ("duplicates", items.deduplicated), ("rejected by rules",
        results.by_expectations),
        ("rejected otherwise", sum(group.count for group in results.otherwise)), ("rules judged",
        len(results.expectations)),
    )  # fmt: skip
    return f'<ul class="sums">{"".join(f"<li><b>{count:,}</b>{what}</li>" for what, count in sums)}</ul>'


def _table(rules: Iterable[JudgedExpectation]) -> str:
    columns = ("source", "field", "declared", "severity")
    numbers = ("checked", "broken", "share")
    head = (
        "".join(f"<th>{name}</th>" for name in columns)
        + "".join(f'<th class="n">{name}</th>' for name in numbers)
        + "<th>result</th><th>found</th>"
    )
    return (
        f'<div class="box"><table><thead><tr>{head}</tr></thead><tbody>{"".join(map(_row, rules))}</tbody></table>'
        "</div>"
    )


def _row(rule: JudgedExpectation) -> str:
    of_items = rule.value is None or bool(rule.broken) or rule.severity == "quarantine"
    declared = f"<code>{escape(rule.rule)}</code>"
    if not rule.rule.startswith(rule.expectation):
        declared += f"<small>{escape(rule.expectation)}</small>"
    also = f"<small>and {rule.also:,} counted above</small>" if rule.also else ""
    share = f"{rule.broken / rule.checked:.2%}" if rule.checked and of_items else "–"
    cells = [
        f"<td>{escape(rule.source) or '–'}</td><td>{escape(rule.field) or '–'}</td><td>{declared}</td><td>"
        f"{_SEVERITIES[rule.severity]}</td>",
        f'<td class="n">{rule.checked:,}</td><td class="n">{f"{rule.broken:,}" if of_items else "–"}{also}</td>'
        f'<td class="n">{share}</td>',
        f'<td>{_tag(rule)}</td><td class="of">{_finding_html(rule)}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _tag(rule: JudgedExpectation) -> str:
    kind, word = ("bad", "not judged") if rule.error is not None else ("good", "holds")
    if rule.error is None and not rule.ok:
        kind, word = {"quarantine": ("warn", "rejected"), "warn": ("warn", "warning"), "refuse": ("bad", "refused")}[
            rule.severity
        ]
    return f'<span class="tag {kind}">{word}</span>'


def _finding_html(rule: JudgedExpectation) -> str:
    parts = [escape(rule.error)] if rule.error is not None else []
    if rule.value is not None:
        limit = f", limit <code>{_value(rule.limit)}</code>" if rule.limit is not None else ""
        parts.append(f"<code>{_value(rule.value)}</code>{limit}")
    if rule.samples:
        rows = "".join(
            f"<tr><td><code>{_value(sample.value)}</code></td><td>{_place(sample.url, sample.document_id)}</td></tr>"
            for sample in rule.samples
        )
        first = (
            f"the first {len(rule.samples)}" if len(rule.samples) < rule.broken else _count(len(rule.samples), "item")
        )
        parts.append(f"<details><summary>{first}</summary><table>{rows}</table></details>")
    return "<br>".join(parts) or "–"


def _place(url: str, document_id: str | None) -> str:
    shown = escape(url)
    link = (
        f'<a href="{shown}" rel="noreferrer noopener">{shown}</a>'
        if url.lower().startswith(("http://", "https://"))
        else shown
    )
    return link + (f"<small>{escape(document_id)}</small>" if document_id and document_id != url else "")


def _value(value: Any) -> str:
    return (
        escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
        if value is not None
        else "nothing"
    )


def _accounts(results: ValidationResults) -> str:
    """How the numbers agree, in words."""
    items, other = results.items, sum(group.count for group in results.otherwise)
    reasons = "".join(
        (
            f"<li>{_count(group.count, 'item')} at stage <code>{escape(group.stage)}</code>, the first: "
            f"{escape(group.example)}</li>"
        )
        for group in results.otherwise
    )
    return (
        "<h2>How the numbers agree</h2>"
        f"<p>Of {_count(items.in_, 'item')}, {items.quarantined:,} are rejected: "
        f"{results.by_expectations:,} for a rule above (the sum of "
        f"<em>broken</em> where the item is rejected), and {other:,} for other reasons.</p>"
        f"{f'<ul>{reasons}</ul>' if reasons else ''}"
        "<p>A rule on single items is checked on every item that was mapped, with those that mapping rejected "
        "for what is declared of their fields. An item is "
        "rejected once, for the first rule that it breaks; others that it breaks as well say “counted "
        "above”. Rules on a whole column or table "
        "judge what is left to publish.</p>"
    )


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
