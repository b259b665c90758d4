"""The `curlhttp` command group: it imports and runs the commands, and reports errors."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from curlhttp._curl import libcurl_version
from curlhttp._version import __version__
from curlhttp.cli.errors import INTERRUPTED, to_failure
from curlhttp.cli.options import ARGUMENTS, looks_like_url

# In the order of --help: the module below curlhttp.cli that defines a command.
_MODULES = {
    **dict.fromkeys(
        ("get", "head", "options", "post", "put", "patch", "delete", "request"), "request"
    ),
    "ws": "streams",
    "sse": "streams",
    "fetch": "fetch",
    "bench": "bench",
    "har": "har",
    "doctor": "doctor",
    "completion": "completion",
}
_GROUP_OPTIONS = ("-h", "--help", "--version")
_MIN_SIMILARITY = 0.82  # of a suggested option: one wrong letter of six


class App(click.Group):
    """A group that imports a command when it is used, and prints an error in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of --help."""
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or return None if there is none of this name."""
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"curlhttp.cli.{_MODULES[cmd_name]}")
        found: click.Command = getattr(module, cmd_name)
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Like curl and httpie, `curlhttp URL` sends a request to URL."""
        if args and args[0].lower() in _MODULES:  # also `curlhttp GET URL`
            args = [args[0].lower(), *args[1:]]
        elif (
            args
            and args[0] not in _GROUP_OPTIONS
            and (args[0].startswith("-") or looks_like_url(args[0]))
        ):
            args = ["request", *args]
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Handle a closed pipe here, because click would exit with status 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise to_failure(error) or error from None

    def main(self, args: Sequence[str] | None = None, *_: object, **extra: Any) -> NoReturn:
        """Run a command, and exit with its status."""
        _replace_closed_streams()
        _escape_unencodable_output()
        extra["standalone_mode"] = False
        try:
            status = super().main(args, **extra)
        except click.ClickException as error:
            _improve_suggestions(error).show()
            status = error.exit_code
        except (click.Abort, KeyboardInterrupt):
            status = INTERRUPTED
        except Exception as error:
            failure = to_failure(error)
            if failure is None:
                raise
            failure.show()
            status = failure.status
        sys.exit(_flush(status if isinstance(status, int) else 0))


def _improve_suggestions(error: click.ClickException) -> click.ClickException:
    """Suggest only options that are spelled almost like the unknown one.

    click compares loosely, and includes the dashes: it suggests --retry for curl's --create-dirs.
    """
    if not isinstance(error, click.NoSuchOption):
        return error
    from difflib import SequenceMatcher

    compare = SequenceMatcher(b=error.option_name.lstrip("-"))
    similar = []
    for option in error.possibilities or ():
        compare.set_seq1(option.lstrip("-"))
        if compare.ratio() >= _MIN_SIMILARITY:
            similar.append(option)
    return click.NoSuchOption(error.option_name, possibilities=similar, ctx=error.ctx)


def _replace_closed_streams() -> None:
    """Open a closed standard stream, so that using it fails and no socket gets its descriptor."""
    for name, mode, access in (
        ("stdin", "r", os.O_WRONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_RDWR),  # messages are lost, but writing them does not fail
    ):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, access)  # the lowest free descriptor
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115


def _escape_unencodable_output() -> None:
    """Write characters that stdout cannot encode as escapes, such as non-ASCII with LANG=C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _flush(status: int) -> int:
    """Flush stdout, and return the exit status, because the pipe may be closed or the disk full."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # So that Python's flush at exit succeeds.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        failure = to_failure(error)
        if failure is not None and not status:
            failure.show()
            return failure.status
    return status


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    __version__, prog_name="curlhttp", message=f"%(prog)s %(version)s ({libcurl_version()})"
)
def app() -> None:
    """Send HTTP requests: a single one, a list of millions, or a load test.

    Run `curlhttp COMMAND --help` to see the options of a command.
    """
