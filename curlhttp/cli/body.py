"""Where a response's body goes: as bytes into a pipe or a file, fit for reading on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import IncrementalNewlineDecoder
from itertools import chain
from pathlib import Path
from shutil import copymode
from typing import TYPE_CHECKING

from curlhttp._models.charsets import Decoder
from curlhttp._policy.resume import content_length
from curlhttp.cli.exits import WRITE_ERROR, CommandFailed
from curlhttp.cli.terminal import console, has_color, printable

if TYPE_CHECKING:
    from curlhttp._stream import StreamedResponse

__all__ = ["print_body", "save_body"]

_PRETTY = 1024 * 1024  # bytes of JSON that are held in memory to be laid out


def print_body(response: StreamedResponse, *, raw: bool = False) -> None:
    """Write the body to stdout: bytes as they are into a pipe, text and JSON on a terminal.

    Args:
        response: its body is read here.
        raw: as into a pipe.

    Raises:
        CommandFailed: it is binary, and stdout is a terminal.
    """
    if raw or not sys.stdout.isatty():
        for piece in response.iter_bytes():
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        return
    is_json, charset, pieces = _is_json(response), response._charset(), response.iter_bytes()
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
        return "\0" not in Decoder(charset, errors="strict").decode(begin)
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
    decoder = IncrementalNewlineDecoder(Decoder(charset), translate=True)
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


def save_body(response: StreamedResponse, path: Path, *, shows_progress: bool) -> None:
    """Write the body to a file, which is there only when it is complete.

    It is written beside the file and then put in its place, so that a body that breaks off
    leaves the old file as it was. What is no file, such as a pipe, is written to as it is.

    Args:
        response: its body is read here.
        path: of the file.
        shows_progress: draw a bar on stderr.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.writelines(_watched(response, shows_progress))
        return
    beside = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        with beside.open("xb") as file:
            file.writelines(_watched(response, shows_progress))
        if path.exists():
            copymode(path, beside)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _watched(response: StreamedResponse, shows_progress: bool) -> Iterator[bytes]:
    if not shows_progress:
        yield from response.iter_bytes()
        return
    from curlhttp.progress import bar

    is_plain = "content-encoding" not in response.headers
    total = content_length(response.headers) if is_plain else None
    done = 0
    with bar(console=console(stderr=True)) as tell:
        for piece in response.iter_bytes():
            yield piece
            done += len(piece)
            tell(done, total)
