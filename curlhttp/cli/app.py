"""The `curlhttp` command group: it imports and runs the commands, and reports errors.

The command `completion` is here, because it describes the group.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from curlhttp._features.typed_urls import looks_like_url
from curlhttp._libcurl import libcurl_version
from curlhttp._version import __version__
from curlhttp.cli.errors import INTERRUPTED, improve_suggestions, to_failure
from curlhttp.cli.options import ARGUMENTS

# In the order of --help: the module below curlhttp.cli that defines a command.
_MODULES = {
    **dict.fromkeys(
        ("get", "head", "options", "post", "put", "patch", "delete", "request", "curl"), "request"
    ),
    "ws": "streams",
    "sse": "streams",
    "fetch": "fetch",
    "bench": "bench",
    "har": "har",
    "doctor": "doctor",
    "completion": "app",
}
_GROUP_OPTIONS = ("-h", "--help", "-V", "--version")


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
            and (
                args[0].startswith("-")
                or looks_like_url(args[0])
                or (args[1:] and args[0].isalpha() and args[0].isupper())  # `curlhttp PURGE URL`
            )
        ):
            args = ["request", *args]
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command and its arguments, with the options of files."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None or ctx.resilient_parsing or {"-h", "--help"} & {*rest}:
            return name, command, rest
        from curlhttp.cli.config import add_options_of_files

        return name, command, add_options_of_files(command, name, ctx, rest)

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
            improve_suggestions(error).show()
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
    __version__,
    "-V",
    "--version",
    prog_name="curlhttp",
    message=f"%(prog)s %(version)s ({libcurl_version()})",
)
def app() -> None:
    """Send HTTP requests: a single one, a list of millions, or a load test.

    Run `curlhttp COMMAND --help` to see the options of a command.
    """


# --- completion ---

_SHELLS = ("bash", "zsh", "fish")
_COMPLETION_EPILOG = """\b
Examples:
  curlhttp completion bash --install
  eval "$(curlhttp completion zsh)"
"""


@click.command(help="Print or install the script for shell completion.",
               epilog=_COMPLETION_EPILOG)  # fmt: skip
@click.argument("shell", type=click.Choice(_SHELLS))
@click.option(
    "--install", is_flag=True, help="Write the script to the file that the shell loads it from."
)
@click.pass_context
def completion(context: click.Context, shell: str, install: bool) -> None:
    """Print or install a completion script."""
    from click.shell_completion import get_completion_class

    from curlhttp.cli.files import replace_file, writing

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(context.find_root().command, {}, "curlhttp", "_CURLHTTP_COMPLETE").source()
    if not install:
        click.echo(script)
        return
    path = _get_completion_path(shell)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, script)
    click.echo(f"wrote {path}: restart {shell} to use it")
    if shell == "zsh":
        click.echo("add this line to ~/.zshrc, before compinit:  fpath+=~/.zfunc")


def _get_completion_path(shell: str) -> Path:
    """Return the file from which a shell loads the completion script."""
    home = Path.home()
    if shell == "zsh":
        return home / ".zfunc" / "_curlhttp"
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return config / "fish" / "completions" / "curlhttp.fish"
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return data / "bash-completion" / "completions" / "curlhttp"
