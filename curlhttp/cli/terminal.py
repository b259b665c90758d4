"""What a terminal is told apart by, and what must not reach one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["color_option", "console", "has_color", "printable"]

# C0 but tab and line feed, DEL, C1: a server must not move the cursor or rename the window.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_KEY = "curlhttp.no_color"
_Command = TypeVar("_Command", bound="Callable[..., object]")


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_KEY] = value


def color_option(command: _Command) -> _Command:
    """Give a command the option --no-color, for has_color."""
    option = click.option(
        "--no-color",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="No colours, as with the variable NO_COLOR.",
    )
    return option(command)


def has_color() -> bool:
    """Return whether colours are wanted: not with --no-color, NO_COLOR or TERM=dumb."""
    context = click.get_current_context(silent=True)
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return not (context and context.meta.get(_KEY))


def console(*, stderr: bool = False) -> Console:
    """Return rich's console for stdout or stderr, without styles where they are not wanted."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    is_plain = not (has_color() and stream.isatty())
    size = _size(stream)
    return Console(
        file=stream,
        color_system=None if is_plain else "auto",
        highlight=False,
        emoji=False,
        markup=False,
        width=size and size.columns,
        height=size and size.lines,
    )


def _size(stream: TextIO) -> os.terminal_size | None:
    """Return the size of a terminal that rich takes to have 80 columns: a dumb one."""
    if os.environ.get("TERM") != "dumb" or not stream.isatty():
        return None
    with suppress(OSError):
        return os.get_terminal_size(stream.fileno())
    return None


def printable(text: str, keep: str = "") -> str:
    r"""Return text with control characters as escapes such as \x1b.

    Args:
        text: from a server, or from whom we do not know.
        keep: line feeds and tabs to let through.
    """
    shown = _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    for character in "\n\t":
        if character not in keep:
            shown = shown.replace(character, " ")
    return shown
