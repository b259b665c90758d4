"""A response's body as it is read, and on stdout: bytes into a pipe, fit to read on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from io import IncrementalNewlineDecoder
from itertools import chain
from typing import TYPE_CHECKING

from curlhttp._models.decoding import TextDecoder
from curlhttp._policy.resume import content_length
from curlhttp.cli.exits import WRITE_ERROR, CommandFailed
from curlhttp.cli.terminal import console, has_color, printable

if TYPE_CHECKING:
    from curlhttp._stream import StreamedResponse

__all__ = ["MeasuredBody", "print_body"]

_PRETTY = 1024 * 1024  # bytes of JSON that are held in memory to be laid out


class MeasuredBody:
    """Reads the body of a response once, and knows how much there was, and how long it took.

    Args:
        response: whose head is in.

    Attributes:
        size: bytes up to now, with the coding undone.
        kept: the pieces, after keep().
    """

    def __init__(self, response: StreamedResponse) -> None:
        self.response = response
        self.size: int = 0
        self.kept: list[bytes] = []
        self._begun = time.perf_counter()
        self._ended: float | None = None  # of the reading, not of the showing
        response._at_end(self._end)

    def _end(self, _: object) -> None:
        self._ended = time.perf_counter()

    @property
    def ended(self) -> float:
        """Return when the body ended, as time.perf_counter counts."""
        return time.perf_counter() if self._ended is None else self._ended

    @property
    def total(self) -> float:
        """Return the seconds from the first request, with all redirects, to the end."""
        hops = [*self.response.history, self.response]
        return sum(hop.timings.total for hop in hops) + self.ended - self._begun

    def pieces(self) -> Iterator[bytes]:
        """Give the body."""
        for piece in self.response.iter_bytes():
            self.size += len(piece)
            yield piece

    def keep(self) -> None:
        """Read all of it into memory."""
        self.kept = list(self.pieces())

    def skip(self) -> None:
        """Read all of it, and show nothing."""
        for _ in self.pieces():
            pass

    def watched(self, shows_progress: bool) -> Iterator[bytes]:
        """Give the body, and draw a bar on stderr.

        Args:
            shows_progress: or do not.
        """
        if not shows_progress:
            yield from self.pieces()
            return
        from curlhttp.progress import bar

        headers = self.response.headers
        total = None if "content-encoding" in headers else content_length(headers)
        with bar(console=console(stderr=True)) as tell:
            for piece in self.pieces():
                yield piece
                tell(self.size, total)


def print_body(reading: MeasuredBody, *, raw: bool = False) -> None:
    """Write the body to stdout: bytes as they are into a pipe, text and JSON on a terminal.

    Args:
        reading: of the body.
        raw: as into a pipe.

    Raises:
        CommandFailed: it is binary, and stdout is a terminal.
    """
    if raw or not sys.stdout.isatty():
        for piece in reading.pieces():
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        return
    response = reading.response
    is_json, charset, pieces = _is_json(response), response._charset(), reading.pieces()
    begin = b"".join(_until(pieces, _PRETTY if is_json else 1))
    if not _is_text(begin, charset):
        kind = printable(response.headers.get("content-type", "of unknown type"))
        raise CommandFailed(
            f"the body is binary ({kind}): save it with -o FILE, or pipe it", WRITE_ERROR
        )
    more = next(pieces, b"") if is_json else b""
    if more or not (is_json and _print_json(begin)):
        _print_text(chain([begin, more], pieces), charset)


def _is_text(begin: bytes, charset: str) -> bool:
    """Return whether a body that begins like this is text."""
    try:
        return "\0" not in TextDecoder(charset, errors="strict").decode(begin)
    except UnicodeError:
        return False


def _is_json(response: StreamedResponse) -> bool:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def _until(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (piece := next(pieces, b"")):
        size -= len(piece)
        yield piece


def _print_json(content: bytes) -> bool:
    """Print a whole body if it is JSON."""
    from curlhttp.cli.pretty import STYLES, pretty_json

    with suppress(UnicodeDecodeError):
        pieces = pretty_json(content.decode("utf-8-sig"))
        if pieces is not None:
            if not has_color():
                sys.stdout.write("".join(printable(piece, "\n") for piece, _ in pieces) + "\n")
                return True
            from rich.text import Text

            styled = [(printable(piece, "\n"), STYLES[kind]) for piece, kind in pieces]
            console().print(Text.assemble(*styled), soft_wrap=True)
            return True
    return False


def _print_text(pieces: Iterator[bytes], charset: str) -> None:
    decoder = IncrementalNewlineDecoder(TextDecoder(charset), translate=True)
    last = "\n"
    for text in _texts(decoder, pieces):
        if text:
            sys.stdout.write(printable(text, "\n\t"))
            sys.stdout.flush()
            last = text[-1]
    if last != "\n":
        sys.stdout.write("\n")  # or the shell's prompt would stand at the end of the body


def _texts(decoder: IncrementalNewlineDecoder, pieces: Iterator[bytes]) -> Iterator[str]:
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)
