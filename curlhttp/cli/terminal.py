"""Terminals: colours, size, text without control characters, and readable numbers."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

# C0 except tab and line feed, DEL, and C1. A server must not move the cursor or rename the window.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NO_COLOR = "curlhttp.no_color"  # in click's meta
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_Command = TypeVar("_Command", bound="Callable[..., object]")


def _store_no_color(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_NO_COLOR] = value


def color_option(command: _Command) -> _Command:
    """Add the option --no-color to a command. has_color() reads it."""
    option = click.option(
        "--no-color",
        is_flag=True,
        expose_value=False,
        callback=_store_no_color,
        help="Do not use colours. The variable NO_COLOR does the same.",
    )
    return option(command)


def has_color() -> bool:
    """Return whether to use colours: yes, unless --no-color, NO_COLOR or TERM=dumb is set."""
    context = click.get_current_context(silent=True)
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return not (context and context.meta.get(_NO_COLOR))


def console(*, stderr: bool = False) -> Console:
    """Create a rich console for stdout or stderr. It has styles only if colours are allowed."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    is_plain = not (has_color() and stream.isatty())
    size = _get_size(stream)
    return Console(
        file=stream,
        color_system=None if is_plain else "auto",
        highlight=False,
        emoji=False,
        markup=False,
        width=size and size.columns,
        height=size and size.lines,
    )


def _get_size(stream: TextIO) -> os.terminal_size | None:
    """Return the size of a dumb terminal, because rich assumes that it has 80 columns."""
    if os.environ.get("TERM") != "dumb" or not stream.isatty():
        return None
    with suppress(OSError):
        return os.get_terminal_size(stream.fileno())
    return None


def printable(text: str, keep: str = "") -> str:
    r"""Escape control characters, such as \x1b, so that a terminal does not interpret them.

    Args:
        text: text from a server or another untrusted source.
        keep: "\n", "\t" or both to keep them. Otherwise they become spaces.
    """
    escaped = _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    for character in "\n\t":
        if character not in keep:
            escaped = escaped.replace(character, " ")
    return escaped


def format_seconds(seconds: float) -> str:
    """Format seconds as "0.35 ms", "12 ms" or "1.5 s"."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.2g} ms" if seconds < 0.00995 else f"{seconds * 1000:.0f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def format_duration(seconds: float) -> str:
    """Format seconds as "1:02:03" or "2:03"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_bytes(size: float) -> str:
    """Format bytes as "5 B" or "1.5 MiB"."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} {_UNITS[-1]}"


def format_counts(counts: Counter[str], most: int | None = None) -> str:
    """Format counts as "ReadTimeout 20, SSLError 5", or "none".

    Args:
        counts: counts by name.
        most: the maximum number of names, the most frequent first. None for all.
    """
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ranked[:most]) or "none"
