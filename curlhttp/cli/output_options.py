"""The options that say what is shown of one request, and where its body goes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from curlhttp.cli.write_out import check_format

__all__ = ["OutputOptions", "output_options"]

_T = TypeVar("_T")
_PARTS = "HhBbm"
_FILE = click.Path(dir_okay=False, path_type=Path)


def _parts(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not set(value) <= set(_PARTS):
        raise click.BadParameter(f"{value!r} has other letters than {_PARTS}")
    return value


_OPTIONS = (
    click.option("-o", "--output", metavar="FILE",
                 help="Save the body; '-' is stdout, also for what is binary on a terminal."),
    click.option("-O", "--remote-name", is_flag=True,
                 help="Save the body under the last part of the URL's path."),
    click.option("-J", "--remote-header-name", is_flag=True,
                 help="With -O: under the name in Content-Disposition, if there is one."),
    click.option("-C", "--continue", "resumes", is_flag=True,
                 help="With -o or -O: go on where an earlier attempt ended. GET only."),
    click.option("-i", "--include", is_flag=True, help="Show the head of the response, too."),
    click.option("--print", "parts", callback=_parts, metavar="HhBbm",
                 help="What to show: heads and bodies of the request (HB) and the response (hb), "
                 "and how long it took (m)."),
    click.option("--json", "as_json", is_flag=True,
                 help="Show the response as one line of JSON: status, headers, body, timings."),
    click.option("-w", "--write-out", callback=check_format, metavar="FORMAT",
                 help=r"Show this at the end, such as '%{http_code} %{time_total}\n'."),
    click.option("-f", "--fail", is_flag=True,
                 help="From status 400 on, show no body and exit with 22."),
    click.option("-v", "--verbose", is_flag=True,
                 help="Show on stderr what goes over the wire, of all attempts and redirects."),
    click.option("--show-secrets", is_flag=True,
                 help="With -v and --print: do not mask credentials."),
    click.option("--timing", is_flag=True,
                 help="Show where the time went, on stderr, of all attempts and redirects."),
    click.option("--har", type=_FILE, metavar="FILE",
                 help="Write all that happens, credentials masked, for the tools of browsers."),
    click.option("-b", "--cookie", "cookies", multiple=True, metavar="COOKIES|FILE",
                 help="Send cookies: 'a=1; b=2', or those of a file as of -c."),
    click.option("-c", "--cookie-jar", type=_FILE, metavar="FILE",
                 help="Write all cookies to this file at the end, in Netscape's format."),
    click.option("--session", metavar="NAME|FILE",
                 help="Keep headers, credentials and cookies, and send them again next time."),
    click.option("--session-read-only", metavar="NAME|FILE",
                 help="Send what --session kept, and keep nothing."),
    click.option("-s", "--silent", is_flag=True, help="Draw no progress bar."),
    click.option("-S", "--show-error", is_flag=True, hidden=True, expose_value=False),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What these options say; see their help."""

    output: str | None
    remote_name: bool
    remote_header_name: bool
    resumes: bool
    include: bool
    parts: str | None
    as_json: bool
    write_out: str | None
    fail: bool
    verbose: bool
    show_secrets: bool
    timing: bool
    har: Path | None
    cookies: tuple[str, ...]
    cookie_jar: Path | None
    session: str | None
    session_read_only: str | None
    silent: bool

    @property
    def shows_progress(self) -> bool:
        """Return whether to draw a bar."""
        return not self.silent and sys.stderr.isatty()

    def check(self) -> None:
        """Refuse options that exclude each other.

        Raises:
            click.UsageError: they do.
        """
        if self.remote_header_name and not self.remote_name:
            raise click.UsageError("-J goes with -O")
        if self.remote_name and self.output is not None:
            raise click.UsageError("-o and -O exclude each other")
        if self.session is not None and self.session_read_only is not None:
            raise click.UsageError("--session and --session-read-only exclude each other")
        if self.as_json and (self.include or self.parts is not None or self.output == "-"):
            raise click.UsageError("--json shows all: -i, --print and -o - do not go with it")

    def shown(self, method: str) -> str:
        """Return the letters of --print: the default is the body, of HEAD the head."""
        if self.parts is not None:
            return self.parts
        if method == "HEAD":
            return "h"
        return "hb" if self.include else "b"


def output_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Give a command the options of OutputOptions."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
