"""The commands for one request: get, head, options, post, put, patch, delete."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curlhttp.cli.body import print_body, save_body
from curlhttp.cli.body_options import TakenBody, body_options, take_body
from curlhttp.cli.connection import ConnectionOptions, with_connection
from curlhttp.cli.exits import WRITE_ERROR, CommandFailed
from curlhttp.cli.terminal import console
from curlhttp.cli.trace import print_head, print_timing, tell_attempt, trace

if TYPE_CHECKING:
    from curlhttp._client import Client
    from curlhttp._stream import StreamedResponse

__all__ = ["VERBS"]

_SAYS = {
    "get": "Get URL and show what it is; JSON is laid out on a terminal.",
    "head": "Show the head of what GET would return.",
    "options": "Ask what may be done with URL.",
    "post": "Send a body to URL.",
    "put": "Put a body in the place of what URL is.",
    "patch": "Change a part of what URL is.",
    "delete": "Delete what URL is.",
}
_EXAMPLES = {
    "get": """
  curlhttp get https://api.example.org/users/1
  curlhttp get -o disk.img --timing https://example.org/disk.img
  curlhttp get -u me -H 'Accept: text/csv' https://example.org/export | head""",
    "head": """
  curlhttp head https://example.org/disk.img""",
    "options": """
  curlhttp options -i https://api.example.org/users""",
    "post": """
  curlhttp post --json '{"name": "Ada"}' https://api.example.org/users
  curlhttp post -d name=Ada -d year=1815 https://example.org/form
  curlhttp post -F photo=@ada.jpg https://example.org/upload""",
    "put": """
  curlhttp put --data-binary @disk.img https://example.org/disk.img""",
    "patch": """
  curlhttp patch --json @change.json https://api.example.org/users/1""",
    "delete": """
  curlhttp delete -f https://api.example.org/users/1""",
}

_OPTIONS = (
    click.option("-o", "--output", metavar="FILE",
                 help="Save the body; '-' is stdout, also for what is binary on a terminal."),
    click.option("-C", "--continue", "resumes", is_flag=True,
                 help="With -o: go on where an earlier attempt ended. GET only."),
    click.option("-i", "--include", is_flag=True, help="Show the head of the response, too."),
    click.option("-f", "--fail", is_flag=True,
                 help="From status 400 on, show no body and exit with 22."),
    click.option("-v", "--verbose", is_flag=True,
                 help="Show the heads of all requests and responses on stderr."),
    click.option("--timing", is_flag=True, help="Show where the time went, on stderr."),
    click.option("--har", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Write all that happens, credentials masked, for the tools of browsers."),
    click.option("-s", "--silent", is_flag=True, help="Draw no progress bar with -o."),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _OutputOptions:
    """What the options of _OPTIONS say; see their help."""

    output: str | None
    resumes: bool
    include: bool
    fail: bool
    verbose: bool
    timing: bool
    har: Path | None
    silent: bool

    @property
    def path(self) -> Path | None:
        """Return the file to save to."""
        return None if self.output in (None, "-") else Path(str(self.output))

    @property
    def shows_progress(self) -> bool:
        """Return whether to draw a bar."""
        return not self.silent and sys.stderr.isatty()


def _verb(method: str) -> click.Command:
    """Make the command that sends one method."""

    @with_connection
    def command(url: str, connection: ConnectionOptions, **options: Any) -> None:  # see take_body
        chosen = {field.name: options.pop(field.name) for field in fields(_OutputOptions)}
        with ExitStack() as files:
            _send(method, url, connection, take_body(options, files), _OutputOptions(**chosen))

    for option in reversed(_OPTIONS):
        command = option(command)
    command = body_options(click.argument("url")(command))
    name = method.lower()
    epilog = f"\b\nExamples:{_EXAMPLES[name]}"
    return click.command(name, help=_SAYS[name], epilog=epilog)(command)


def _send(
    method: str,
    url: str,
    connection: ConnectionOptions,
    body: TakenBody,
    wanted: _OutputOptions,
) -> None:
    if wanted.resumes and (method != "GET" or wanted.path is None or body.keywords):
        raise click.UsageError("-C continues a GET that -o saves to a file")
    for path in (wanted.path, wanted.har):
        if path is not None and not path.parent.is_dir():
            raise CommandFailed(f"{path}: there is no such folder", WRITE_ERROR)
    told = {"middleware": [trace], "hooks": {"before_sleep": tell_attempt}}
    with ExitStack() as ends:
        client = ends.enter_context(connection.client(**(told if wanted.verbose else {})))
        if wanted.har is not None:
            ends.enter_context(client.har(wanted.har))
        for name, value in body.headers:
            if name not in {given.title() for given, _ in connection.header}:
                client.headers[name] = value
        if wanted.resumes and wanted.path is not None:
            _download(client, url, wanted.path, shows_progress=wanted.shows_progress)
            return
        with client.stream(method, url, **body.keywords) as response:
            _show(response, wanted, is_head=method == "HEAD")


def _download(client: Client, url: str, path: Path, *, shows_progress: bool) -> None:
    if not shows_progress:
        client.download(url, path)
        return
    from curlhttp.progress import bar

    with bar(console=console(stderr=True)) as tell:
        client.download(url, path, progress=tell)


def _show(response: StreamedResponse, wanted: _OutputOptions, *, is_head: bool) -> None:
    if wanted.fail:
        response.raise_for_status()
    if wanted.include or is_head:
        print_head(response)
    begun = time.perf_counter()
    ended: list[float] = []  # of the reading, not of the showing
    response._at_end(lambda _: ended.append(time.perf_counter()))
    if wanted.path is not None:
        save_body(response, wanted.path, shows_progress=wanted.shows_progress)
    else:
        print_body(response, raw=wanted.output == "-")
    if wanted.timing:
        print_timing(response.timings, ended[0] - begun)


VERBS = [_verb(name.upper()) for name in _EXAMPLES]
