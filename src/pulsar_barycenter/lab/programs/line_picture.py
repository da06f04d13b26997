"""Draws lines over time as an SVG picture without scripts, in the colours of the reports."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from pulsar_barycenter.load.snapshot.load_snapshot import Floats

_WIDTH, _HEIGHT = 760, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 12, 28
_LABEL_HEIGHT: Final = 18
_GRID_LINES: Final = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a picture. `values` are any number of values, drawn at equal intervals over the whole width of the
    picture; NaN leaves a gap in the line. `label` is its text in the legend.
    """

    label: str
    values: Floats
    is_dashed: bool = False


def line_picture(lines: Sequence[Line], *, title: str, hours: float, most: float) -> str:
    """Return an SVG picture of `lines`, whose values are fractions. The vertical axis is in percent, from 0 to `most`
    (a fraction); the horizontal axis is `hours` hours long.
    """
    colours = _colours()
    inner_width, inner_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    height = _HEIGHT + _LABEL_HEIGHT * len(lines)

    def y(value: float) -> float:
        return _TOP + inner_height * (1 - min(value / most, 1.0))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img"'
        f' aria-label="{escape(title)}" style="max-width:100%;height:auto;background:{colours["page"]}"'
        f' font-family="system-ui,sans-serif" font-size="12" fill="{colours["ink"]}">'
    ]
    for number in range(_GRID_LINES + 1):
        value = most * number / _GRID_LINES
        parts.append(
            f'<path d="M{_LEFT} {y(value):.1f}H{_WIDTH - _RIGHT}" stroke="{colours["line"]}"/>'
            f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value * 100:.0f} %</text>'
        )
    parts.append(
        f'<text x="{_LEFT}" y="{_HEIGHT - 8}">0 h</text>'
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">{hours:.3g} h</text>'
    )
    for number, line in enumerate(lines):
        colour = colours["soft"] if line.is_dashed else colours[f"b{number % 8}"]
        stroke = f'stroke="{colour}" stroke-width="2"' + (' stroke-dasharray="6 3"' if line.is_dashed else "")
        step = inner_width / max(1, len(line.values) - 1)
        points = [(_LEFT + step * place, value) for place, value in enumerate(line.values.tolist())]
        pen, path = "M", []
        for x, value in points:
            if value != value:  # NaN
                pen = "M"
                continue
            path.append(f"{pen}{x:.1f} {y(value):.1f}")
            pen = "L"
        label_y = _HEIGHT + _LABEL_HEIGHT * number + 8
        parts.append(
            f'<path d="{"".join(path)}" fill="none" {stroke}/>'
            f'<path d="M{_LEFT} {label_y - 4}h24" {stroke}/>'
            f'<text x="{_LEFT + 32}" y="{label_y}">{escape(line.label)}</text>'
        )
    return "".join([*parts, "</svg>"])


@cache
def _colours() -> dict[str, str]:
    """Return the colours of the reports for a light page, by their names in `base.css`."""
    style = files("pulsar_barycenter.html_pages").joinpath("base.css").read_text(encoding="utf-8")
    return dict(re.findall(r"--(\w+): (#\w+)", style.partition("}")[0]))
