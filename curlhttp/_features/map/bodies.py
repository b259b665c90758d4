"""Bodies of a map that are written elsewhere: in memory up to a size, and beyond it in a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from curlhttp._client.features import OWN_SETTINGS
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._features.map.receiving import (
    MakeReceive,
    ReceivingScheduler,
    ReceivingSender,
    choose_receiving_sender,
    get_receiver,
)
from curlhttp._features.map.results import Results

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    import curlhttp
    from curlhttp._client.base import BaseClient
    from curlhttp._features.map.receiving import Receive
    from curlhttp._features.map.results import Sender
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._runtime.engine import Runtime, Send
    from curlhttp.exceptions import RequestException

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

    @property
    def is_named(self) -> bool:
        """Return whether the file has a path."""
        return self._path is not None

    def write(self, pieces: list[bytes]) -> None:
        """Append pieces.

        Raises:
            OSError: the disk is full. It names the file.
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
            raise _name_file(error, self._path or "the file of a large body") from None

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

    def become_text(self, response: Response) -> None:
        """Write the body of this response as UTF-8. For this, it has to be in memory as a whole."""
        response._content = self.read()  # only the whole may tell the charset
        self.replace(response.text.encode("utf-8", "replace"))
        response._content = None

    def hexdigest(self) -> str:
        """Return the SHA-256 of the body."""
        hasher = self._hasher
        if hasher is None:
            hasher = hashlib.sha256()
            for piece in self.pieces():
                hasher.update(piece)
        return hasher.hexdigest()

    def sync(self) -> None:
        """Wait until the body is on the disk."""
        os.fsync(self._file.fileno())

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

    async def read(self, response: Response, now: Callable[[], float]) -> None:
        """Read the body of an accepted response."""
        assert isinstance(response, BaseStreamedResponse)
        begun = now()
        try:
            if _is_coded_part(response):  # it is decoded as a whole
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
        else:
            response._wait_for_body = partial(self._load, response)

    def _load(self, response: BaseStreamedResponse) -> None:
        """Read a large body into memory, because a hook or a middleware asks for it."""
        assert self.file is not None
        response._content = self.file.read()

    def finish(self, response: Response) -> None:
        """Note that nobody else sees the response, and free what refers to it or to its body."""
        self._received = None
        if self.file is not None and isinstance(response, BaseStreamedResponse):
            response._wait_for_body = response._content = None

    def _drop(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def get_body_file(outcome: Response | RequestException) -> BodyFile | None:
    """Return the file with the body of a response, if it is large; None for other outcomes."""
    assert outcome.request is not None
    receiver = get_receiver(outcome.request)
    return receiver.file if isinstance(receiver, BodyReceiver) else None


def _is_coded_part(response: Response) -> bool:
    return response.status_code == _PARTIAL_CONTENT and "content-encoding" in response.headers


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
            receiver.finish(response)
            return response

        return receive

    return make


def receive_bodies(
    client: curlhttp.Client,
    requests: Iterable[ClientRequest],
    *,
    concurrency: int,
    backlog: int = 10_000,
    on_full: Callable[[str], object] | None = None,
    task: Callable[[Runtime], Awaitable[None]] | None = None,
) -> Results:
    """Send requests as map does it; large bodies go to the files of their receivers.

    Args:
        client: sends them.
        requests: each has a BodyReceiver.
        concurrency: see map.
        backlog: see map.
        on_full: see Backlog.
        task: makes a coroutine that runs with the requests of this client's first such map.
    """
    scheduler = ReceivingScheduler(
        client,
        requests,
        concurrency=concurrency,
        backlog=backlog,
        ordered=False,
        return_exceptions=True,
        options={},
    )
    if on_full is not None:
        scheduler.on_full = on_full
    make_sender = choose_receiving_sender(client, make_receiving(client))

    def make(client: BaseClient) -> Sender:
        sender = make_sender(client)
        if task is not None and isinstance(sender, ReceivingSender):
            sender.start_task(task, scheduler.fail)
        return sender

    return Results(client._add_sender_pool("_receiving_sender_pool", make), scheduler)


def open_body_file(path: Path) -> BodyFile:
    """Create the file of a body, which has a name until it is moved.

    Raises:
        OSError: it cannot be created.
    """
    return BodyFile(os.open(path, _FLAGS, 0o666), str(path))


def open_temporary_body(folder: Path | None) -> BodyFile:
    """Create the file of a body that is copied later. The system removes it, after a kill too.

    Args:
        folder: of the file; None for the one of temporary files.

    Raises:
        OSError: it cannot be created.
    """
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            return BodyFile(os.dup(file.fileno()))
    except OSError as error:
        raise _name_file(error, str(folder or "the folder of temporary files")) from None


def discard_large_body() -> BodyFile:
    """Return the file of a body that is only measured."""
    return BodyFile(os.open(os.devnull, os.O_RDWR))


def _name_file(error: OSError, name: str) -> OSError:
    return OSError(error.errno, error.strerror, name)
