"""Bar charts over versions as a small SVG. Each run stores one in Prefect's database: 4 KB for twenty versions, against
75 KB with a plotting library.
"""

import base64
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

# of the drawing, of one panel, around all, and of the versions' names below
_WIDTH, _HEIGHT, _MARGIN, _NAMES = 860, 78, 16, 26
_LEFT, _RIGHT, _TOP = 130, 90, 10
_WIDEST = 46
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#475569}.t{font-weight:600;fill:#0f172a}.v{fill:#0f172a}"
    ".b{fill:#93c5fd}.l{fill:#2563eb}.g{stroke:#e2e8f0}.n{fill:#94a3b8}"
)


class Panel(NamedTuple):
    """One measure over all versions: `values` in the order of the versions (None if not measured), `label` to format a
    value, `top` as the end of the axis (default: the largest value).
    """

    title: str
    values: Sequence[float | None]
    label: Callable[[float], str]
    top: float | None = None


def draw_bars(names: Sequence[str], panels: Sequence[Panel]) -> str:
    """An SVG with one panel below the other. The newest version stands at the right, in a stronger colour and with its
    value.
    """
    height = 2 * _MARGIN + _HEIGHT * len(panels) + _NAMES
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(names), 1)
    parts = [f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#fff"/>']
    for number, panel in enumerate(panels):
        parts += _draw(panel, _MARGIN + number * _HEIGHT, step)
    every = max(1, round(60 / step))  # as many names as have room
    for place, name in enumerate(names):
        if (len(names) - 1 - place) % every == 0:
            parts.append(
                f'<text class="n" x="{_LEFT + (place + 0.5) * step:.1f}" y="{height - _MARGIN}" '
                f'text-anchor="middle">{escape(name)}</text>'
            )
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>{"".join(parts)}</svg>'


def _draw(panel: Panel, top: float, step: float) -> list[str]:
    known = [value for value in panel.values if value is not None]
    most = panel.top if panel.top is not None else max(known, default=0.0)
    base, room = top + _HEIGHT - 6, _HEIGHT - 6 - _TOP
    parts = [
        f'<text class="t" x="{_MARGIN}" y="{top + _TOP + 14:.1f}">{escape(panel.title)}</text>',
        f'<text class="n" x="{_MARGIN}" y="{top + _TOP + 31:.1f}">'
        f"{escape('most ' + panel.label(most)) if known else 'not measured'}</text>",
        f'<path class="g" d="M{_LEFT} {base}H{_WIDTH - _RIGHT}"/>',
    ]
    width = min(step * 0.7, _WIDEST)
    for place, value in enumerate(panel.values):
        if value is not None:
            tall = max(1.0, room * value / most) if most > 0 else 1.0
            is_last = place == len(panel.values) - 1
            left = _LEFT + (place + 0.5) * step - width / 2
            parts.append(
                f'<rect class="{"l" if is_last else "b"}" x="{left:.1f}" y="{base - tall:.1f}" '
                f'width="{width:.1f}" height="{tall:.1f}"/>'
            )
    if panel.values and (last := panel.values[-1]) is not None:
        parts.append(f'<text class="v" x="{_WIDTH - _RIGHT + 8}" y="{base - 2:.1f}">{escape(panel.label(last))}</text>')
    return parts


def as_data_uri(svg: str) -> str:
    """The SVG as a data URI, for an image in Markdown."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
