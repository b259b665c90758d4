"""Numbers on the command line, with their units; each says in one line what it wants."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import click

__all__ = ["count", "rate", "seconds", "size"]

_PERIODS = {"s": 1, "m": 60, "h": 3600}
_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def count(least: int = 1, most: int = 1_000_000) -> Callable[[str], int]:
    """Return what reads a whole number.

    Args:
        least: that is taken.
        most: likewise.
    """

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise click.BadParameter(f"{text!r} is no number from {least:,} to {most:,}")
        return number

    return read


def seconds(text: str) -> float:
    """Read a time above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise click.BadParameter(f"{text!r} is no number of seconds above 0")
    return number


def rate(text: str) -> float:
    """Read requests per second: "50", "50/s", "600/m" or "1000/h"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/([smh]))?", text, re.ASCII)
    if not found or not float(found[1]):
        raise click.BadParameter(f"{text!r} is no rate, such as 50, or 50/s, 600/m, 1000/h")
    return float(found[1]) / _PERIODS[found[2] or "s"]


def size(text: str) -> int:
    """Read bytes: "1000", "64k", "10M" or "1G"."""
    found = re.fullmatch(r"(\d+)([kmg]?)", text.lower(), re.ASCII)
    if not found:
        raise click.BadParameter(f"{text!r} is no size, such as 1000, or 64k, 10M, 1G")
    return int(found[1]) * _SIZES[found[2]]
