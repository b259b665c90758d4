"""The commands together, and the one place where an error becomes a line and an exit status."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from curlhttp._curl.version import libcurl_version
from curlhttp._version import __version__
from curlhttp.cli.bench import bench
from curlhttp.cli.completion import completion
from curlhttp.cli.doctor import doctor
from curlhttp.cli.exits import INTERRUPTED, failure_of
from curlhttp.cli.fetch.command import fetch
from curlhttp.cli.files import TYPED
from curlhttp.cli.live import sse, ws
from curlhttp.cli.url import is_like_url
from curlhttp.cli.verbs import VERBS

__all__ = ["app"]


_OWN_OPTIONS = ("-h", "--help", "--version")


class App(click.Group):
    """A group whose commands come in our order, and whose errors are one line on stderr."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments; `curlhttp URL` is `curlhttp request URL`, as of curl and httpie."""
        if args and args[0].lower() in self.commands:  # also `curlhttp GET URL`
            args = [args[0].lower(), *args[1:]]
        elif (
            args
            and args[0] not in _OWN_OPTIONS
            and (args[0].startswith("-") or is_like_url(args[0]))
        ):
            args = ["request", *args]
        ctx.meta[TYPED] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; click itself would end in its own way where a reader has left."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise failure_of(error) or error from None

    def main(self, args: Sequence[str] | None = None, *_: object, **extra: Any) -> NoReturn:
        """Run a command and exit."""
        _occupy_closed_streams()
        _let_any_text_out()
        extra["standalone_mode"] = False
        try:
            status = super().main(args, **extra)
        except click.ClickException as error:
            error.show()
            status = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            status = INTERRUPTED
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                raise
            failure.show()
            status = failure.status
        sys.exit(_flushed(status if isinstance(status, int) else 0))


def _occupy_closed_streams() -> None:
    """Let the use of a closed standard stream fail, and give no socket its number."""
    for name, mode, access in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_RDWR),  # messages may be lost; what they tell of shall not fail
    ):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, access)  # the lowest that is free
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115


def _let_any_text_out() -> None:
    """Have stdout write an escape for what its encoding lacks, such as all but ASCII of LANG=C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _flushed(status: int) -> int:
    """Flush stdout; whoever reads it may have left, which is no reason for a traceback."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        failure = failure_of(error)
        if failure is not None and not status:
            failure.show()
            return failure.status
    return status


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    __version__, prog_name="curlhttp", message=f"%(prog)s %(version)s ({libcurl_version()})"
)
def app() -> None:
    """Send HTTP requests: one, a list of millions, or as fast as a server bears.

    Each command has its own help: curlhttp get --help
    """


for _command in (*VERBS, ws, sse, fetch, bench, doctor, completion):
    app.add_command(_command)
