"""Read server-sent events from one connection after another, for both clients.

_http/sse.py parses the bytes, and policy.py decides when to reconnect. Nothing is read ahead: the
next piece of the body is read after the events of the last piece are consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from curlhttp._client.file_reader import Read
from curlhttp._client.hooks import Hooks
from curlhttp._client.streamed_response import BaseStreamedResponse, StoredBody
from curlhttp._features.hook_events import AttemptEvent
from curlhttp._features.retry.policy import parse_retry_after
from curlhttp._features.sse.policy import Reconnections
from curlhttp._features.waits import Waits
from curlhttp._http.redaction import redact_url
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.sse import EventParser, ServerSentEvent, is_event_stream
from curlhttp._runtime.engine import Runtime, Send, Waiter
from curlhttp._runtime.log import DEBUG, INFO, log
from curlhttp._runtime.network import network
from curlhttp.exceptions import (
    DeadlineExceeded,
    HTTPError,
    RequestException,
    ResponseTooLarge,
    StreamConsumedError,
    UnrewindableBodyError,
)

_NO_CONTENT = 204  # tells the client not to reconnect
_MAX_REFUSAL = 1024 * 1024  # bytes to read of a body that is not an event stream
_REFUSAL_SECONDS = 10.0  # until no further piece of it is read


class EventSource:
    """An event stream, over all of its connections.

    Args:
        send: sends a request through all layers.
        runtime: of the client.
        hooks: the user's; called before the waits between connections.
        request: to send for each connection.
        last_event_id: of the last event that is known, or "".
        reconnections: decides when to reconnect.
        max_event_size: in bytes, or None.

    Attributes:
        response: of the latest connection, None before the first.
    """

    def __init__(
        self,
        send: Send,
        runtime: Runtime,
        hooks: Hooks,
        request: ClientRequest,
        last_event_id: str,
        reconnections: Reconnections,
        max_event_size: int | None,
    ) -> None:
        self.response: Response | None = None
        self._send = send
        self._runtime = runtime
        self._waiter: Waiter | None = None  # where it waits between connections
        self._waits = Waits(runtime.now, hooks.totals.outcomes)
        self._hooks = hooks
        self._request = request
        self._reconnections = reconnections
        self._max_event_size = max_event_size
        self._parser = EventParser(last_event_id, max_event_size)
        self._ready: Iterator[ServerSentEvent] = iter(())
        self._read: Read | None = None  # None before the first connection
        self._has_ended = False
        self._failed: RequestException | None = None  # set from outside
        self._is_broken = False

    @property
    def last_event_id(self) -> str:
        """Return the id of the last event, which a reconnection sends; "" for none."""
        return self._parser.last_event_id

    async def open(self) -> None:
        """Open the first connection, unless it is open.

        Raises:
            RequestException: the request failed, or the response is not an event stream.
        """
        if self._read is None and not self._has_ended:
            try:
                await self._connect(self._request.copy())
            except BaseException:
                self._break_off()
                raise

    async def next_event(self) -> ServerSentEvent | None:
        """Return the next event, None at the end of the stream.

        Raises:
            RequestException: the stream broke, and is not opened again.
        """
        if self._is_broken:
            raise StreamConsumedError(
                "this event stream has failed; open another one with its last_event_id",
                request=self._request,
                response=self.response,
            )
        try:
            await self.open()
            while not self._has_ended:
                if (event := self.get_ready_event()) is not None:
                    return event
                await self._read_more()
            if self._failed is not None:
                raise self._failed
        except BaseException:
            self._break_off()
            raise
        return None

    def get_ready_event(self) -> ServerSentEvent | None:
        """Return the next event if it was already read, otherwise None.

        Raises:
            ResponseTooLarge: the event is larger than max_event_size.
        """
        try:
            for event in self._ready:
                return event
        except ResponseTooLarge as error:
            self._break_off()
            raise ResponseTooLarge(
                f"{self._request}: {error}",
                request=self._request,
                response=self.response,
                request_sent=True,
            ) from None
        return None

    def fail(self, error: RequestException) -> None:
        """Raise an error instead of further events. Safe in any thread.

        The connection stays open: the engine, which caused the error, or the reading task closes
        it.
        """
        if not self._has_ended:
            error.request, error.response = self._request, self.response
            self._failed = error
            self._end()

    def close(self) -> None:
        """End the stream and close the connection. Safe in any thread."""
        self._end()
        if isinstance(self.response, BaseStreamedResponse):
            self.response._abort()

    def _end(self) -> None:
        self._has_ended = True  # first: see _wait
        self._ready = iter(())
        if (waiter := self._waiter) is not None:
            waiter.wake()

    def _break_off(self) -> None:
        self._is_broken = True
        self.close()

    # one connection

    async def _connect(self, request: ClientRequest) -> None:
        if request.deadline is None and request.timeout.total is not None:
            # One total timeout for all connections, as for all attempts of any request.
            total = self._runtime.now() + request.timeout.total
            request.deadline = self._request.deadline = total
        _set_last_event_id(request, self.last_event_id)
        response = await self._send(request)
        self.response = response
        if self._has_ended or response.status_code == _NO_CONTENT:
            self.close()
        elif response.status_code != 200 or not is_event_stream(
            response.headers.get_list("content-type")
        ):
            raise await _make_error(response, self._runtime.now)
        elif isinstance(response, BaseStreamedResponse):
            self._read = response._decoding()
        else:
            self._read = StoredBody(response._head, [response.content]).read  # of a middleware
        self._parser = EventParser(self.last_event_id, self._max_event_size)

    async def _read_more(self) -> None:
        assert self._read is not None
        try:
            piece = await self._read()
        except RequestException as error:
            if not self._has_ended:  # otherwise another thread has closed the stream
                await self._reconnect(error)
            return
        if self._has_ended:
            self.close()
        elif not piece:
            await self._reconnect(None)
        else:
            self._ready = self._parser.feed(piece)

    # the next connection

    async def _reconnect(self, failure: RequestException | None) -> None:
        """Connect again until it succeeds; end the stream if there is to be no connection.

        Raises:
            RequestException: the stream broke, and is not opened again.
        """
        asked = self._parser.retry
        if self._parser.count:
            self._reconnections.succeeded()
        while not self._has_ended:
            delay = self._reconnections.next_delay(failure, asked, self._retry_after(failure))
            if delay is None:
                self.close()
                if failure is not None:
                    raise failure
                return
            self._prepare(failure, delay)
            await self._report(failure, delay)
            request = await self._wait(delay)
            try:
                if not self._has_ended:
                    await self._connect(request)
                    self._parser.retry = asked
                return
            except RequestException as error:
                if not self._has_ended:
                    failure = error.with_traceback(None)  # its frames hold this object

    async def _wait(self, delay: float) -> ClientRequest:
        """Wait for the delay, or until the stream is ended; return the next request."""
        begun = self._runtime.now()
        waiter = self._waiter = self._runtime.make_waiter()
        try:
            if not self._has_ended:  # otherwise nobody would wake the waiter
                await waiter.wait(0.0 if network.skip(delay) else delay)
        finally:
            self._waiter = None
            # Also a wait that was cancelled.
            request = self._waits.end(self._request, "reconnect", begun)
        return request

    def _retry_after(self, failure: RequestException | None) -> float | None:
        if isinstance(failure, HTTPError) and isinstance(failure.response, Response):
            return parse_retry_after(failure.response.headers, self._runtime.wall())
        return None

    def _prepare(self, failure: RequestException | None, delay: float) -> None:
        """Check before the wait that a connection is possible after it.

        Raises:
            DeadlineExceeded: the wait would exceed the deadline.
            UnrewindableBodyError: the body cannot be sent again.
        """
        request = self._request
        if request.deadline is not None and self._runtime.now() + delay > request.deadline:
            raise DeadlineExceeded(
                f"{request}: the total timeout of {request.timeout.total} s would run out before "
                "the stream can be opened again",
                request=request,
                response=self.response,
                request_sent=True,
            ) from failure
        if request.body is not None:
            try:
                request.body.rewind()
            except UnrewindableBodyError as error:
                error.request, error.response, error.request_sent = request, self.response, True
                raise error from failure

    async def _report(self, failure: RequestException | None, delay: float) -> None:
        name = None if failure is None else type(failure).__name__
        request, number = self._request, self._reconnections.count
        response = None if failure is None else failure.response
        status_code = getattr(response, "status_code", None)
        url = redact_url(request.url)
        log.write(
            INFO,
            "%s %s: the event stream ended: %s; reconnection %d in a row in %.3f s",
            request.method,
            url,
            name or "end of the body",
            number,
            delay,
        )
        if self._hooks.has("before_sleep"):
            event = AttemptEvent(
                "before_sleep", request.method, url, number, status_code, name, None, delay
            )
            await self._hooks.notify("before_sleep", event)


def _set_last_event_id(request: ClientRequest, last_event_id: str) -> None:
    """Set Last-Event-ID, unless the id contains characters that no header may have."""
    name = "Last-Event-ID"
    if request.get_header(name) is not None:
        del request.headers[name]
    value = last_event_id.strip(" \t").encode()
    if value and not any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value):
        request.headers.add(name, value)


async def _make_error(response: Response, now: Callable[[], float]) -> HTTPError:
    """Return the error for a response that is not an event stream, with its body."""
    if response.status_code == 200:
        found = response.headers.get("content-type")
        what = f"the response is not an event stream: its Content-Type is {found!r:.100}"
    else:
        what = f"{response.status_code} {response.reason}: not an event stream"
    if isinstance(response, BaseStreamedResponse):
        response = await _read_refusal(response, now)
    return HTTPError(f"{response.request}: {what}", response=response, request_sent=True)


async def _read_refusal(response: BaseStreamedResponse, now: Callable[[], float]) -> Response:
    body = bytearray()
    headers = response.headers
    # It explains the refusal. Any other body may never end, or never begin.
    is_json = (headers.get("content-type") or "").lower().startswith("application/json")
    if response.is_error or is_json or "content-length" in headers:
        end = now() + _REFUSAL_SECONDS
        try:
            read = response._decoding()
            while len(body) < _MAX_REFUSAL and now() < end and (piece := await read()):
                body += piece
        except RequestException as error:
            log.write(DEBUG, "the body of a refused event stream: %s", type(error).__name__)
    response._abort()
    content = bytes(body[:_MAX_REFUSAL])
    whole = Response(response.request, response._head, content, response.timings)
    whole.history, whole.attempts = response.history, response.attempts
    return whole
