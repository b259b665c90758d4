"""The commands for one request: get, head, options, post, put, patch, delete, and request."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields, replace
from typing import Any

import click

from curlhttp.cli.body_options import body_options, take_body
from curlhttp.cli.connection import ConnectionOptions, with_connection
from curlhttp.cli.items import HELP, read_items
from curlhttp.cli.one import Asked, send
from curlhttp.cli.output_options import OutputOptions, output_options

__all__ = ["VERBS"]

_SAYS = {
    "get": "Get URL and show what it is; JSON is laid out on a terminal.",
    "head": "Show the head of what GET would return.",
    "options": "Ask what may be done with URL.",
    "post": "Send a body to URL.",
    "put": "Put a body in the place of what URL is.",
    "patch": "Change a part of what URL is.",
    "delete": "Delete what URL is.",
    "request": "Send any method: GET, or POST with a body. `curlhttp URL` is the same.",
}
_EXAMPLES = {
    "get": """
  curlhttp get api.example.org/users q==ada page==2
  curlhttp get -o disk.img --timing https://example.org/disk.img
  curlhttp get -u me -H 'Accept: text/csv' https://example.org/export | head
  curlhttp get -s -o /dev/null -w '%{http_code}' localhost:8000/health""",
    "head": """
  curlhttp head https://example.org/disk.img""",
    "options": """
  curlhttp options -i https://api.example.org/users""",
    "post": """
  curlhttp post https://api.example.org/users name=Ada year:=1815
  curlhttp post https://api.example.org/users --json-body '{"name": "Ada"}'
  curlhttp post -d name=Ada -d year=1815 https://example.org/form
  curlhttp post https://example.org/upload photo@ada.jpg""",
    "put": """
  curlhttp put --data-binary @disk.img https://example.org/disk.img""",
    "patch": """
  curlhttp patch --json-body @change.json https://api.example.org/users/1""",
    "delete": """
  curlhttp delete -f https://api.example.org/users/1""",
    "request": """
  curlhttp request -X PURGE https://example.org/
  curlhttp request https://api.example.org/users name=Ada""",
}
_URL = """\b
Without a scheme, URL has http where the host is local, and else https.

"""


def _command(name: str) -> click.Command:
    """Make the command that sends one method; `request` has the method as an option."""

    @with_connection
    def command(
        url: str,
        items: tuple[str, ...],
        connection: ConnectionOptions,
        **options: Any,  # see take_body
    ) -> None:
        wanted = OutputOptions(
            **{field.name: options.pop(field.name) for field in fields(OutputOptions)}
        )
        wanted.check()
        read = read_items(items)
        connection = replace(connection, header=(*connection.header, *read.headers))
        with ExitStack() as files:
            body = take_body(options, read, files)
            method = name.upper() if name != "request" else options["method"]
            method = method or ("POST" if body.keywords else "GET")
            send(Asked(method, url, read.params, body), connection, wanted)

    command = output_options(command)
    command = body_options(command)
    if name == "request":
        command = click.option("-X", "--method", "--request", "method", help="Send this.")(command)
    command = click.argument("items", nargs=-1, metavar="[ITEM]...")(command)
    command = click.argument("url")(command)
    epilog = f"{_URL}{HELP}\n\b\nExamples:{_EXAMPLES[name]}"
    return click.command(name, help=_SAYS[name], epilog=epilog)(command)


VERBS = [_command(name) for name in _EXAMPLES]
