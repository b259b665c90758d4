"""A picture of latencies by percentile, as SVG: on white, so that it is read in dark mode, too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from curlhttp.cli.latency import Latencies, shown_seconds

__all__ = ["draw"]

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 700, 50, 320
_PERCENTS = (50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
_COLOURS = ("#d1495b", "#00798c")
_LINES = 4  # of the grid


def draw(series: Sequence[tuple[str, Latencies]], path: str) -> None:
    """Write the picture; the tail is drawn wide, as each step has a tenth of those before.

    Args:
        series: what each line is called, and its latencies.
        path: of the file.

    Raises:
        OSError: it cannot be written.
    """
    highest = max((found.most for _, found in series), default=0.0) or 1e-6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        *_grid(highest),
    ]
    for number, (name, found) in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(
            f'<text x="{_LEFT}" y="{18 + 16 * number}" fill="{colour}">{escape(name)}</text>'
        )
        if found.count:
            points = " ".join(
                f"{_across(part):.1f},{_up(found.percentile(part), highest):.1f}"
                for part in _PERCENTS
            )
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
            )
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*parts, "</svg>", ""]))


def _grid(highest: float) -> list[str]:
    parts = []
    for line in range(_LINES + 1):
        value = highest * line / _LINES
        y = _up(value, highest)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#ddd"/>')
        shown = shown_seconds(value) if value else "0"
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>')
    parts += [
        f'<text x="{_across(part):.1f}" y="{_BOTTOM + 20}" text-anchor="middle">p{part:g}</text>'
        for part in (50, 75, 90, 99, 99.9, 99.99)
    ]
    return parts


def _across(percent: float) -> float:
    first, last = (math.log10(100 - each) for each in (_PERCENTS[0], _PERCENTS[-1]))
    return _LEFT + (_RIGHT - _LEFT) * (first - math.log10(100 - percent)) / (first - last)


def _up(value: float, highest: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * value / highest
