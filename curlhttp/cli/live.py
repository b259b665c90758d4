"""The commands for what goes on: `ws` speaks a WebSocket in lines, `sse` shows events."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

import click

from curlhttp.cli.as_json import print_document
from curlhttp.cli.connection import ConnectionOptions, with_connection
from curlhttp.cli.exits import CommandFailed
from curlhttp.cli.numbers import count
from curlhttp.cli.terminal import printable
from curlhttp.cli.url import completed
from curlhttp.exceptions import ReadTimeout, WebSocketClosed

if TYPE_CHECKING:
    from curlhttp._websocket.websocket import WebSocket

__all__ = ["sse", "ws"]

_SLICE = 0.05  # seconds to wait for a message, until we look whether stdin has ended
_SILENCE = 2.0  # seconds without a message after the end of stdin: no more answers come
_READ = 64 * 1024  # bytes of stdin at once
_JSON = "Show each as one line of JSON."
_WS_EPILOG = """\b
After the end of stdin the WebSocket is closed, once no message came for two
seconds. Binary messages are written as they are, without a line end.

\b
Examples:
  curlhttp ws wss://example.org/chat
  echo '{"subscribe": "prices"}' | curlhttp ws --listen example.org/feed
"""
_SSE_EPILOG = """\b
Each event is a line: its data, after its type unless that is `message`. Line
feeds in it are written as \\n. A connection that breaks is made anew.

\b
Examples:
  curlhttp sse https://example.org/events
  curlhttp sse --json -n 10 localhost:8000/events | jq .data
"""


@click.command(help="Send the lines of stdin to a WebSocket, and show what comes.",
               epilog=_WS_EPILOG)  # fmt: skip
@click.argument("url")
@click.option("--listen", is_flag=True, help="Go on after the end of stdin.")
@click.option("--json", "as_json", is_flag=True, help=_JSON)
@with_connection
def ws(url: str, connection: ConnectionOptions, listen: bool, as_json: bool) -> None:
    """Speak a WebSocket."""
    url = completed(url, secure="wss", plain="ws")
    with connection.client() as client:
        try:
            socket = client.websocket(url)
        except ImportError as error:  # it names the extra
            raise CommandFailed(str(error), 2) from None
        with socket:
            at_end = Event()
            Thread(target=_send_lines, args=(socket, at_end), daemon=True).start()
            while True:
                was_at_end = at_end.is_set()
                try:
                    message = socket.recv(_SILENCE if was_at_end else _SLICE)
                    _show_message(message, as_json=as_json)
                except ReadTimeout:
                    if was_at_end and not listen:
                        break
                except WebSocketClosed:
                    break
            socket.close()
            for message in socket:  # what came while it was closed; raises unless it ended well
                _show_message(message, as_json=as_json)


def _send_lines(socket: WebSocket, at_end: Event) -> None:
    with suppress(OSError, WebSocketClosed):  # whoever receives learns why it has ended
        for line in _lines(sys.stdin.fileno()):
            socket.send(line.decode("utf-8", "replace"))
    at_end.set()


def _lines(descriptor: int) -> Iterator[bytes]:
    """Give lines; not of sys.stdin, whose lock a thread would hold at the end of the program."""
    rest = b""
    while piece := os.read(descriptor, _READ):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in lines)
    if rest:
        yield rest


def _show_message(message: str | bytes, *, as_json: bool) -> None:
    if as_json:
        is_text = isinstance(message, str)
        shown = message if isinstance(message, str) else base64.b64encode(message).decode()
        print_document({"text" if is_text else "base64": shown})
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


@click.command(help="Show server-sent events, one a line.", epilog=_SSE_EPILOG)
@click.argument("url")
@click.option("-n", "--count", "most", type=count(most=10**12), metavar="N", help="End after N.")
@click.option("--last-event-id", metavar="ID", help="Begin behind this event.")
@click.option("--reconnect/--no-reconnect", default=True, show_default=True,
              help="Connect again when the stream ends.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help=_JSON)
@with_connection
def sse(
    url: str,
    connection: ConnectionOptions,
    most: int | None,
    last_event_id: str | None,
    reconnect: bool,
    as_json: bool,
) -> None:
    """Show events."""
    with (
        connection.client() as client,
        client.sse(completed(url), last_event_id=last_event_id, reconnect=reconnect) as events,
    ):
        for number, event in enumerate(events, 1):
            if as_json:
                print_document(event._asdict())
            else:
                kind = "" if event.event == "message" else f"{event.event}: "
                _write_line((kind + event.data).replace("\n", "\\n"))
            if number == most:
                return
