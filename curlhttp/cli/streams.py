"""The commands `ws` and `sse`: exchange lines over a WebSocket, and print server-sent events."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from curlhttp._features.typed_urls import add_scheme
from curlhttp.cli.errors import needing_package
from curlhttp.cli.options import ConnectionOptions, connection_options, integer
from curlhttp.cli.output import print_json
from curlhttp.cli.request_body import ITEMS_HELP, add_piped, body_options, parse_items, pop_content
from curlhttp.cli.terminal import printable
from curlhttp.exceptions import ReadTimeout, WebSocketClosed

if TYPE_CHECKING:
    from curlhttp._client.options import RequestOptions
    from curlhttp._features.websocket.websocket import WebSocket

_POLL_INTERVAL = 0.05  # seconds to wait for a message before checking whether stdin has ended
_IDLE_TIMEOUT = 2.0  # seconds without a message after the end of stdin before closing
_BLOCK_SIZE = 64 * 1024  # bytes
_WS_EPILOG = """\b
After stdin ends, the WebSocket is closed as soon as no message has arrived
for two seconds. Binary messages are written unchanged, without a line break.

\b
Examples:
  curlhttp ws wss://example.org/chat
  echo '{"subscribe": "prices"}' | curlhttp ws --listen example.org/feed
"""
_SSE_EPILOG = f"""{ITEMS_HELP}
\b
Each line has the data of an event, preceded by the event's type unless that
is `message`. Line breaks are written as \\n. After a POST, the command
ends when the connection ends.

\b
Examples:
  curlhttp sse https://example.org/events
  curlhttp sse localhost:8000/v1/chat model=m stream:=true --json
  curlhttp sse --json -n 10 localhost:8000/events | jq .data
"""


@click.command(help="Send lines of stdin over a WebSocket, and print messages.",
               epilog=_WS_EPILOG)  # fmt: skip
@click.argument("url")
@click.option("--listen", is_flag=True, help="Stay connected after stdin ends.")
@click.option("--json", "as_json", is_flag=True, help="Print each message as one line of JSON.")
@connection_options
def ws(url: str, connection: ConnectionOptions, listen: bool, as_json: bool) -> None:
    """Send lines of stdin over a WebSocket, and print messages."""
    url = add_scheme(url, secure="wss", plain="ws")
    with connection.client() as client:
        with needing_package():
            socket = client.websocket(url)
        with socket:
            at_end = Event()
            Thread(target=_send_lines, args=(socket, at_end), daemon=True).start()
            while True:
                was_at_end = at_end.is_set()
                try:
                    message = socket.recv(_IDLE_TIMEOUT if was_at_end else _POLL_INTERVAL)
                    _print_message(message, as_json=as_json)
                except ReadTimeout:
                    if was_at_end and not listen:
                        break
                except WebSocketClosed:
                    break
            socket.close()
            # Print messages that arrived before the close. Raises if it was closed abnormally.
            for message in socket:
                _print_message(message, as_json=as_json)


def _send_lines(socket: WebSocket, at_end: Event) -> None:
    with suppress(OSError, WebSocketClosed):  # the receiving thread raises the reason
        for line in _read_lines(sys.stdin.fileno()):
            socket.send(line.decode("utf-8", "replace"))
    at_end.set()


def _read_lines(descriptor: int) -> Iterator[bytes]:
    """Yield lines of a descriptor, because this thread would hold the lock of sys.stdin at exit."""
    rest = b""
    while block := os.read(descriptor, _BLOCK_SIZE):
        *lines, rest = (rest + block).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in lines)
    if rest:
        yield rest


def _print_message(message: str | bytes, *, as_json: bool) -> None:
    if as_json:
        if isinstance(message, str):
            print_json({"text": message})
        else:
            print_json({"base64": base64.b64encode(message).decode()})
    elif isinstance(message, str):
        _write_line(message)
    elif sys.stdout.isatty():
        _write_line(f"(a binary message of {len(message):,} bytes)")
    else:
        sys.stdout.buffer.write(message)
        sys.stdout.buffer.flush()


def _write_line(text: str) -> None:
    text = printable(text, "\n\t") if sys.stdout.isatty() else text
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


@click.command(help="Print server-sent events, one per line.", epilog=_SSE_EPILOG)
@click.argument("url")
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@click.option(
    "-X",
    "--method",
    "--request",
    "method",
    help="HTTP method.  [default: GET, or POST if there is a body]",
)
@click.option(
    "-n", "--count", "most", type=integer(most=10**12), metavar="N", help="Stop after N events."
)
@click.option("--last-event-id", metavar="ID", help="Resume after the event with this ID.")
@click.option(
    "--reconnect/--no-reconnect",
    default=True,
    show_default=True,
    help="Reconnect when the stream ends or breaks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each event as one line of JSON.")
@body_options
@connection_options
def sse(
    url: str,
    items: tuple[str, ...],
    method: str | None,
    connection: ConnectionOptions,
    most: int | None,
    last_event_id: str | None,
    reconnect: bool,
    as_json: bool,
    **options: Any,  # see pop_content
) -> None:
    """Print events."""
    parsed = parse_items(items)
    connection = replace(connection, header=(*connection.header, *parsed.headers))
    with ExitStack() as stack:
        ignores_stdin = options.pop("ignores_stdin")
        content = pop_content(options, parsed, stack, connection.header)
        content = add_piped(content, method, ignores_stdin)
        client = stack.enter_context(connection.client())
        content.set_headers(client, connection.header)
        keywords: RequestOptions = {**content.keywords, "params": list(parsed.params)}
        stream = client.sse(
            content.add_query(add_scheme(url)),
            method=method or ("POST" if content.keywords else "GET"),
            last_event_id=last_event_id,
            reconnect=reconnect,
            **keywords,
        )
        events = stack.enter_context(stream)
        for number, event in enumerate(events, 1):
            if as_json:
                print_json(event._asdict())
            else:
                kind = "" if event.event == "message" else f"{event.event}: "
                _write_line((kind + event.data).replace("\n", "\\n"))
            if number == most:
                return
