"""Bodies of records: in memory up to a size, and beyond it in a file, as they come."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from curlhttp._client.features import OWN_SETTINGS
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._features.map.receiving import MakeReceive, get_receiver
from curlhttp.cli.errors import WRITE_ERROR, CommandFailed

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._features.map.receiving import Receive
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._runtime.engine import Runtime, Send

MAX_IN_MEMORY = 1 << 20  # bytes of a body
_BLOCK_SIZE = 3 << 18  # bytes read at once, of which base64 makes whole characters
_PARTIAL_CONTENT = 206
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_TRUNC
_FLAGS |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class BodyFile:
    """A body that is too large for memory.

    Args:
        descriptor: of an empty file; the system removes it when it is closed, if it has no path.
        path: of the file, which `close` removes, or None.
    """

    def __init__(self, descriptor: int, path: str | None = None) -> None:
        self._descriptor: int | None = descriptor
        self._file = FileIO(descriptor, "r+", closefd=False)  # a finalizer must not close it first
        self._path = path
        self._size = 0
        self._hasher = None if path is None else hashlib.sha256()

    def __len__(self) -> int:
        return self._size

    def write(self, pieces: list[bytes]) -> None:
        """Append pieces.

        Raises:
            CommandFailed: the disk is full.
        """
        try:
            for piece in pieces:
                left = memoryview(piece)
                while left:
                    left = left[self._file.write(left) :]
                self._size += len(piece)
                if self._hasher is not None:
                    self._hasher.update(piece)
        except OSError as error:
            where = self._path or "the file of a large body"
            raise CommandFailed(f"{where}: {error.strerror}", WRITE_ERROR) from None

    def pieces(self) -> Iterator[bytes]:
        """Read the body; all pieces but the last one have a multiple of three bytes."""
        self._file.seek(0)
        while piece := self._file.read(_BLOCK_SIZE):
            yield piece

    def read(self) -> bytes:
        """Return the body."""
        self._file.seek(0)
        return self._file.read()

    def replace(self, content: bytes) -> None:
        """Write another body."""
        self._file.seek(0)
        self._file.truncate()
        self._size = 0
        if self._hasher is not None:
            self._hasher = hashlib.sha256()
        self.write([content])

    def hexdigest(self) -> str:
        """Return the SHA-256 of the body, if the file has a path."""
        assert self._hasher is not None
        return self._hasher.hexdigest()

    def move(self, path: str) -> None:
        """Give the file its final name, with which it stays."""
        assert self._path is not None
        self._close()  # on Windows, no open file can be renamed
        os.replace(self._path, path)
        self._path = None

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Remove the file, unless it was moved."""
        self._close()
        path, self._path = self._path, None
        if path is not None:
            with suppress(OSError):  # an earlier error matters more
                os.unlink(path)

    def __del__(self) -> None:
        if hasattr(self, "_path"):  # otherwise Ctrl-C came before it was set
            self.close()


class BodyReceiver:
    """Receive the body of one request, in the last of its attempts.

    Args:
        make_file: makes the file for a large body.

    Attributes:
        file: the large body, or None.
    """

    __slots__ = ("_make_file", "_received", "file")

    def __init__(self, make_file: Callable[[], BodyFile]) -> None:
        self._make_file = make_file
        self._received: Response | None = None
        self.file: BodyFile | None = None

    def accept(self, response: Response) -> bool:
        """Return whether the body of a response has to be read, and forget that of another one."""
        if response is self._received:
            return False
        self._received = response
        if self.file is not None:
            self._drop()
        return isinstance(response, BaseStreamedResponse) and response._content is None

    def end(self) -> None:
        """Forget which response was received, because that refers to this receiver."""
        self._received = None

    async def read(self, response: Response, now: Callable[[], float]) -> None:
        """Read the body of an accepted response."""
        assert isinstance(response, BaseStreamedResponse)
        begun = now()
        try:
            if response.status_code == _PARTIAL_CONTENT:  # a coded one is decoded as a whole
                await response.load()
            else:
                await self._read(response)
        except BaseException:
            response._abort()
            self._drop()
            raise
        times = response.timings
        response._times = times._replace(total=times.total + now() - begun)

    async def _read(self, response: BaseStreamedResponse) -> None:
        read = response._decoding_pieces()
        collected, size = list[bytes](), 0
        while pieces := await read():
            if self.file is not None:
                self.file.write(pieces)
                continue
            collected += pieces
            size += sum(map(len, pieces))
            if size > MAX_IN_MEMORY:
                self.file = self._make_file()
                self.file.write(collected)
                collected = []
        if self.file is None:
            response._content = b"".join(collected)

    def _drop(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def make_receiving(client: BaseClient) -> MakeReceive:
    """Return the function that makes the one which sends requests that have a BodyReceiver.

    Args:
        client: has the layers.
    """

    def make(exchange: Send, runtime: Runtime) -> Receive[Response]:
        def wrap(send: Send) -> Send:
            async def receive(request: ClientRequest) -> Response:
                response = await send(request)
                receiver = get_receiver(request)
                if isinstance(receiver, BodyReceiver) and receiver.accept(response):
                    await receiver.read(response, runtime.now)
                return response

            return receive

        flow = client._chain.build(exchange, runtime, own=wrap, also=OWN_SETTINGS)

        async def receive(request: ClientRequest) -> Response:
            receiver = get_receiver(request)
            assert isinstance(receiver, BodyReceiver)
            response = await flow(request)
            if receiver.accept(response):  # a middleware has made it
                await receiver.read(response, runtime.now)
            receiver.end()
            return response

        return receive

    return make


def open_body_file(path: Path) -> BodyFile:
    """Create the file of a body, which has a name until it is moved.

    Raises:
        CommandFailed: it cannot be created.
    """
    try:
        return BodyFile(os.open(path, _FLAGS, 0o666), str(path))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", WRITE_ERROR) from None


def open_temporary_body(folder: Path | None) -> BodyFile:
    """Create the file of a body that is copied later. The system removes it, after a kill too.

    Args:
        folder: of the file; None for the one of temporary files.

    Raises:
        CommandFailed: it cannot be created.
    """
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            return BodyFile(os.dup(file.fileno()))
    except OSError as error:
        where = folder or "the folder of temporary files"
        raise CommandFailed(f"{where}: {error.strerror}", WRITE_ERROR) from None


def discard_large_body() -> BodyFile:
    """Return the file of a body that is only measured."""
    return BodyFile(os.open(os.devnull, os.O_RDWR))
