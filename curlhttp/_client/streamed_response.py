"""A response whose body the caller reads piece by piece. Nothing is read ahead.

If a response is dropped without being read, its finalizer releases the connection.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import suppress
from io import SEEK_END, BytesIO
from typing import TYPE_CHECKING, TypeVar

from curlhttp._client.file_reader import FileReader, Read
from curlhttp._http.decoding import ContentDecoder, parse_codings
from curlhttp._http.errors import closed_while_reading
from curlhttp._http.exiting import check_running
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import PARTIAL_CONTENT, Head, Response, coded_part_error
from curlhttp._http.suggestions import without_attributes
from curlhttp._http.timings import NO_TIME, Timings
from curlhttp._runtime.engine import MAX_DRAINED, Incoming
from curlhttp.exceptions import (
    ContentDecodingError,
    RequestException,
    ResponseTooLarge,
    StreamConsumedError,
)

if TYPE_CHECKING:
    from curlhttp._http.inputs import HeadersInput
    from curlhttp._http.timings import CurlTimings

    Self = TypeVar("Self", bound="BaseStreamedResponse")  # not at run time, see BaseClient

CONSUMED = "The content for this response was already consumed; a stream can only be read once"
_PIECE = 64 * 1024  # bytes decoded at once


@without_attributes(
    "streamed_response",
    "aiter_sse events iter_content iter_sse num_bytes_downloaded raw release sse stream "
    "wait_for_close",
)
class BaseStreamedResponse(Response):
    """Base class of streamed responses of both clients."""

    _read_call = "response.read()"
    _allows_async = False
    _reader: FileReader | None = None  # of who reads it like a file
    _closed = False
    # Gets the body into memory: for an Auth's flow, in its thread, and where a layer has written it
    # to a file. None elsewhere.
    _wait_for_body: Callable[[], None] | None = None
    # Closes both bodies of what is wrapped, for wrappers that cannot.
    _close_wrapped: Callable[[], Awaitable[None]] | None = None

    def __init__(self, request: ClientRequest, incoming: Incoming) -> None:
        # First the attributes that the finalizer uses, because of Ctrl-C.
        self._listeners: list[Callable[[BaseException | None], object]] | None = None
        self._incoming: Incoming | None = incoming  # None once the connection is released
        head = incoming.head
        assert head is not None
        super().__init__(request, head, None, incoming.timings())
        self._decoder: ContentDecoder | None = None
        self._decoded = 0
        self._consumed = False

    @classmethod
    def of(  # type: ignore[override]  # the content is another type
        cls: type[Self],
        request: ClientRequest,
        status_code: int = 200,
        *,
        headers: HeadersInput | None = None,
        content: Iterable[bytes] | AsyncIterable[bytes] = (),
    ) -> Self:
        """Create a response whose body is read in pieces, for a transport.

        Args:
            request: the request that it answers.
            status_code: of three digits.
            headers: a mapping or pairs.
            content: the pieces of the body, as on the wire: a Content-Encoding is decoded. A
                generator is closed if the body is not read to its end.

        Raises:
            ValueError: the status does not have three digits.
            TypeError: the status is not an int, or the content is not an iterable of bytes.
            InvalidHeader: a name or value is not valid in a header.
        """
        head = Response.of(request, status_code, headers=headers)._head
        made = cls(request, IterableBody(head, content, allows_async=cls._allows_async))
        made._is_made = True
        return made

    @property
    def content(self) -> bytes:
        """Return the body once it was read."""
        if self._content is None and self._wait_for_body is not None:
            self._wait_for_body()
        if self._content is None:
            if self._incoming is None and not self._consumed:
                raise self._make_closed_error()
            raise RuntimeError(
                CONSUMED
                if self._consumed
                else "the body of this streamed response was not read yet: await response.aread(), "
                "or write `async for` with aiter_bytes() or aiter_lines(); an Auth may set "
                "requires_response_body"
            )
        return self._content

    @property
    def is_stream_consumed(self) -> bool:
        """Return whether the body was read, at least in part."""
        return self._consumed

    @property
    def closed(self) -> bool:
        """Return whether close() was called, as a file does."""
        return self._closed

    @property
    def is_closed(self) -> bool:
        """Return whether the connection was released."""
        return self._incoming is None

    @property
    def certificate(self) -> str | None:
        """Return the server's certificate as PEM, if this response opened the connection.

        With certificates=True of the client, also if another one did. Source: CURLINFO_CERTINFO.
        """
        if self._certificate is None and self._incoming is not None:
            self._certificate = self._incoming.certificate()
        return self._certificate

    # for both clients

    def _begin(self) -> None:
        if self._consumed:
            raise StreamConsumedError(CONSUMED, response=self)
        if self._incoming is None:
            check_running()  # at exit, its finalizer may run before that of its user
            raise self._make_closed_error()
        self._consumed = True

    def _make_closed_error(self) -> StreamConsumedError:
        return StreamConsumedError(
            f"{self.request}: this response was closed before it was read; if you need its body, "
            f"call {self._read_call} within the `with` block, before raise_for_status()",
            response=self,
        )

    async def _read_raw(self) -> bytes:
        """Return the next piece without decoding it, b"" at the end.

        Raises:
            StreamConsumedError: the response was closed meanwhile, so the body is incomplete.
        """
        if self._incoming is None:
            check_running()
            raise closed_while_reading(self.request)
        try:
            piece = await self._incoming.read()
        except BaseException as error:
            self._end(error)
            raise
        if not piece:
            self._end(None)
        return piece

    def _end(self, error: BaseException | None) -> None:
        self._incoming = None  # the engine has released it
        self._notify_end(error)

    def has_decoded_all(self) -> bool:
        """Return whether the body was decoded, and is complete according to its coding."""
        if self._decoder is None:
            return False
        try:
            self._decoder.finish()
        except RequestException:
            return False
        return True

    def wrap_incoming(self, wrap: Callable[[Incoming], Incoming]) -> None:
        """Read the rest of the body through a wrapper, unless it has ended."""
        incoming = self._incoming
        if incoming is not None:
            self._close_wrapped = getattr(incoming, "aclose", self._close_wrapped)
            self._incoming = wrap(incoming)

    def _as_kind(self, kind: type[Self]) -> Self:
        """Return this response as one of another class; nothing of it was read yet."""
        incoming, self._incoming = self._incoming, None
        assert incoming is not None
        return kind(self.request, incoming)

    def _at_end(self, notify: Callable[[BaseException | None], object]) -> None:
        """Call notify(error or None) once, when the body has ended or was abandoned.

        This may happen in a finalizer, in any thread.
        """
        if self._incoming is None:
            notify(None)
        else:
            self._listeners = [*(self._listeners or ()), notify]

    def _notify_end(self, error: BaseException | None) -> None:
        # Removed first, so that each is called once, even if one raises.
        listeners, self._listeners = self._listeners, None
        for notify in listeners or ():
            notify(error)

    async def _read_decoded(self, size: int) -> bytes:
        """Return the next piece of the body, b"" at the end; if encoded, at most size bytes."""
        decoder = self._decoder
        if decoder is None:
            return await self._read_raw()
        while True:
            # In parts, because a piece may be a thousand times larger when decoded.
            piece = decoder.take(size)
            if piece:
                self._count(len(piece))
                return piece
            raw = await self._read_raw()
            if not raw:
                # Raises if the coding has not ended: the body was cut, though its length is right.
                decoder.finish()
                return b""
            decoder.feed(raw)

    def _count(self, size: int) -> None:
        self._decoded += size
        limit = self.request.max_response_size
        if limit is not None and self._decoded > limit:
            raise ResponseTooLarge(
                f"{self.request}: the decoded response body is larger than "
                f"max_response_size={limit} bytes"
            )

    def _set_decoder(self) -> None:
        if "\ncontent-encoding" not in self._head.lower:  # usual, and seen without parsing
            return
        try:
            coded = parse_codings(self.headers.get_list("content-encoding"))
        except RequestException as error:
            self._give_up(error)
            raise
        self._decoder = ContentDecoder(coded) if coded else None

    async def _read_piece(self, size: int = _PIECE) -> bytes:
        try:
            return await self._read_decoded(size)
        except BaseException as error:
            self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Abandon the rest of the body, and set the request and response of the error."""
        # The connection cannot be reused, because its next bytes belong to this body.
        self._abort()
        if isinstance(error, ContentDecodingError) and self.status_code == PARTIAL_CONTENT:
            raise coded_part_error(self) from error
        if isinstance(error, RequestException):
            error.request, error.response, error.request_sent = self.request, self, True

    def _refuse_event(self, error: ResponseTooLarge) -> ResponseTooLarge:
        self._abort()
        return super()._refuse_event(error)

    def _raw(self) -> Read:
        """Return a function that reads the body without decoding it."""
        self._begin()
        return self._read_piece

    def _decoding(self, size: int | None = None) -> Read:
        """Return a function that reads and decodes the body, in pieces of at most size bytes."""
        if size is not None and size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {size}")
        if self._reader is not None:
            file = self._open_file()
            return lambda: file.read1(size)  # what was not read yet
        if self._content is not None:
            return StoredBody(self._head, [self._content]).read
        self._begin()
        self._set_decoder()
        most = min(size or _PIECE, _PIECE)
        return lambda: self._read_piece(most)  # in a partial, Ctrl-C may come after the call

    def _open_file(self) -> FileReader:
        """Return the reader of the body, which keeps the position.

        Raises:
            StreamConsumedError: the body was iterated over, or the response was closed.
        """
        if self._reader is None:
            self._reader = FileReader(self._decoding())
        elif self._closed:
            raise self._make_closed_error()
        return self._reader

    def _decoding_pieces(self) -> Callable[[], Coroutine[object, None, list[bytes]]]:
        """Return a function that reads and decodes the body, [] at the end.

        It returns the pieces as libcurl passed them, if nothing needs them joined.
        """
        read = self._decoding()

        async def read_pieces() -> list[bytes]:
            many = None if self._decoder else getattr(self._incoming, "read_pieces", None)
            if many is None:
                piece = await read()
                return [piece] if piece else []
            try:
                pieces: list[bytes] = await many()
            except BaseException as error:
                self._end(error)
                self._give_up(error)
                raise
            if not pieces:
                self._end(None)
            return pieces

        return read_pieces

    async def _read_all(self) -> bytes:
        if self._content is None:
            self._begin()
            self._set_decoder()
            is_part = self._decoder is not None and self.status_code == PARTIAL_CONTENT
            if is_part:
                self._decoder = None
            content = await self._read_piece()
            if content and (piece := await self._read_piece()):
                # A list of small pieces would take several times their memory.
                body = BytesIO(content)
                body.seek(0, SEEK_END)
                while piece:
                    body.write(piece)
                    piece = await self._read_piece()
                content = body.getvalue()
            self._content = self._decode_part(content) if is_part else content
        return self._content

    def _decode_part(self, body: bytes) -> bytes:
        """Decode a 206, if that is possible."""
        try:
            return self._decode(body, self.request.max_response_size)
        except RequestException as error:
            self._give_up(error)
            raise

    async def to_buffered(self) -> Response:
        """Read the body without decoding it, and return a buffered response."""
        pieces = []
        while piece := await self._read_raw():
            pieces.append(piece)
        return Response(self.request, self._head, b"".join(pieces), self.timings)

    async def load(self) -> None:
        """Read the body into memory."""
        await self._read_all()

    def close(self) -> None:
        """Drop the rest of the body; never wait for it.

        An HTTP/1 connection closes, unless the rest has already arrived.
        """
        self._closed = True
        self._abort()

    def abort(self) -> None:
        """Close the connection, unless the body has ended."""
        self._abort()

    async def discard(self) -> None:
        """Read a little of the body to keep the connection; if that is not all, close it."""
        self._consumed = True
        # A short rest costs less than a new connection; a long or endless one costs more.
        # While the request is still being sent, the response may wait for all of that.
        left = 0 if getattr(self._incoming, "is_sending", False) else MAX_DRAINED
        while left > 0 and self._incoming is not None:
            left -= len(await self._read_raw())
        await self._close_incoming()

    def _abort(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.abort()
            self._notify_end(None)

    async def _close_incoming(self) -> None:
        """Abandon the rest, and wait for what has to be closed: an async body, or a generator."""
        incoming = self._incoming
        close = getattr(incoming, "aclose", None)
        if close is None:
            self._abort()
            if incoming is not None and self._close_wrapped is not None:
                await self._close_wrapped()
            return
        self._incoming = None
        try:
            await close()
        finally:
            self._notify_end(None)

    def __del__(self) -> None:
        # Missing if __init__ was interrupted.
        incoming = getattr(self, "_incoming", None)
        if incoming is not None:
            self._incoming = None  # another finalizer may keep the response, and close it
            incoming.abort_from_finalizer()
            self._notify_end(None)

    def __getstate__(self) -> dict[str, object]:
        state = super().__getstate__()
        # Without what belongs to a socket of this process.
        state["_incoming"] = state["_decoder"] = state["_listeners"] = None
        state.pop("_reader", None)
        state.pop("_close_wrapped", None)
        return state


class IterableBody:
    """A body of a transport of the user, which yields it.

    Args:
        head: of the response.
        content: yields the pieces.
        allows_async: whether an async iterable will do.

    Raises:
        TypeError: the content is no iterable of bytes, or an async one in a blocking client.
    """

    done = False

    def __init__(
        self,
        head: Head,
        content: Iterable[bytes] | AsyncIterable[bytes],
        *,
        allows_async: bool,
    ) -> None:
        self.head = head
        self._iterator: Iterator[bytes] | None = None
        self._async_iterator: AsyncIterator[bytes] | None = None
        if isinstance(content, (bytes, bytearray, memoryview)):
            content = (bytes(content),)
        if isinstance(content, AsyncIterable):
            if not allows_async:
                raise TypeError("an async iterable needs AsyncStreamedResponse, and AsyncClient")
            self._async_iterator = aiter(content)
        elif isinstance(content, Iterable) and not isinstance(content, (str, Mapping)):
            self._iterator = iter(content)
        else:
            raise TypeError(
                f"content must be bytes or an iterable of bytes, not {type(content).__name__}"
            )

    @property
    def is_open(self) -> bool:
        """Return whether there may be an async generator to close."""
        return self._async_iterator is not None

    def timings(self) -> Timings:
        return NO_TIME

    def certificate(self) -> None:
        """Return None, because there is no connection."""

    async def read(self) -> bytes:
        try:
            if self._async_iterator is not None:
                async for piece in self._async_iterator:
                    if _check_piece(piece):
                        return bytes(piece)
                self._async_iterator = None
            for piece in self._iterator or ():
                if _check_piece(piece):
                    return bytes(piece)
        except BaseException:
            self.abort()
            raise
        return b""

    def abort(self) -> None:
        """Close a generator, unless another thread is in it."""
        iterator, self._iterator = self._iterator, None
        close = getattr(iterator, "close", None)
        if close is not None:
            with suppress(ValueError):  # it runs right now, and ends when nobody refers to it
                close()

    def abort_from_finalizer(self) -> None:
        """Do nothing: the finalizer of a generator closes it."""

    async def aclose(self) -> None:
        """Close a generator, async or not."""
        self.abort()
        iterator, self._async_iterator = self._async_iterator, None
        close = getattr(iterator, "aclose", None)
        if close is not None:
            with suppress(RuntimeError):  # it runs right now
                await close()


def _check_piece(piece: object) -> bool:
    """Return whether a piece of a body has any bytes.

    Raises:
        TypeError: it is not bytes.
    """
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        raise TypeError(f"the pieces of content must be bytes, not {type(piece).__name__}")
    return len(piece) > 0


class StoredBody:
    """A body in memory that is read like one on the wire.

    Args:
        head: of the response.
        pieces: of the body; they are dropped as they are read.
        times: of the response.
    """

    done = True

    def __init__(self, head: Head, pieces: list[bytes], times: Timings = NO_TIME) -> None:
        self.head = head
        self._pieces = pieces
        self._times = times

    def timings(self) -> Timings:
        return self._times

    def certificate(self) -> None:
        """Return None, because there is no connection."""

    async def read(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def abort(self) -> None:
        self._pieces.clear()

    abort_from_finalizer = abort


class WrappedIncoming:
    """An Incoming around another one; the base of classes that record or change what is read.

    Args:
        incoming: its head was received.
    """

    def __init__(self, incoming: Incoming) -> None:
        head = incoming.head
        assert head is not None
        self.head: Head = head  # kept, because the engine may use its own for another request
        self._incoming = incoming

    @property
    def done(self) -> bool:
        """Return whether reading the rest does not wait."""
        return self._incoming.done

    def timings(self) -> Timings | CurlTimings:
        return self._incoming.timings()

    def certificate(self) -> str | None:
        return self._incoming.certificate()

    def abort(self) -> None:
        self._incoming.abort()

    def abort_from_finalizer(self) -> None:
        self._incoming.abort_from_finalizer()
