"""The last step of the flow: prepare a request for one attempt, and pass it to an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._http.errors import deadline_error, unrewindable_error
from curlhttp._http.redaction import HeadRedactor, escape_bytes
from curlhttp._http.request import ClientRequest, check_method_of_body
from curlhttp._http.response import Response
from curlhttp._http.timeout import MIN_ATTEMPT_SECONDS
from curlhttp._runtime.engine import Engine, ReceivedWhole, Send, Totals, count_outcome
from curlhttp._runtime.log import INFO, RequestLog, get_request_log, log
from curlhttp.exceptions import RequestException, UnrewindableBodyError

# --- Log each attempt to the logger "curlhttp"; _runtime/log.py formats the lines ---


async def send_logged(request: ClientRequest, send: Send) -> Response:
    """Send a request and log the attempt.

    Args:
        request: of the attempt.
        send: sends it.
    """
    with RequestLog(request) as request_log:
        response = await send(request)
        request_log.set_response(response._head, response.timings, response.request)
    return response


def send_in_place(request: ClientRequest, send: Send) -> Awaitable[Response]:
    """Send a request of a map as soon as it has a place.

    Args:
        request: has a `place`.
        send: sends it.
    """

    def send_now(request: ClientRequest) -> Awaitable[Response]:
        return send_logged(request, send) if log.is_enabled_for(INFO) else send(request)

    assert request.place is not None
    return request.place.send(send_now, request)


def record_head(request: ClientRequest, mark: str, block: bytes) -> None:
    """Log a head that libcurl does not see, if the request is logged.

    Args:
        request: of the attempt.
        mark: ">" for a request, "<" for a response.
        block: the head as bytes.
    """
    request_log = get_request_log(request)
    if request_log is not None:
        request_log.add(_HeadLines(mark, block, HeadRedactor(request.sensitive)))


class _HeadLines:
    def __init__(self, mark: str, block: bytes, text: HeadRedactor) -> None:
        self._mark, self._block, self._text = mark, block, text

    def take(self) -> Iterable[str]:
        """Return the lines of the head."""
        lines = self._block.removesuffix(b"\n").split(b"\n")
        show = self._text.line if log.masks else escape_bytes
        redacted = [show(line.removesuffix(b"\r")) for line in lines]
        return [f"{self._mark} {line}" for line in redacted]


def exchange(engine: Engine, now: Callable[[], float], kind: type[BaseStreamedResponse]) -> Send:
    """Return the last step of the blocking client, which has one engine.

    Args:
        engine: sends the requests.
        now: returns monotonic seconds.
        kind: the class of streamed responses.
    """

    def send(request: ClientRequest) -> Awaitable[Response]:
        # Most requests need no preparation, and this check costs less than the call.
        if (
            request.choose_route is not None
            or request.body is not None
            or request.deadline is not None
        ):
            if request.body is not None and request.body.is_async:
                raise TypeError("an async body needs AsyncClient")
            prepare(request, now)
        if log.is_enabled_for(INFO):
            return send_logged(request, to_send(engine, kind))
        if request.stream:
            return _open(engine, request, kind)
        return engine.perform(request)

    return send


def exchange_async(
    choose: Callable[[], Engine], now: Callable[[], float], kind: type[BaseStreamedResponse]
) -> Send:
    """Return the last step of AsyncClient, which has an engine for each event loop.

    Args:
        choose: returns the engine of the running event loop.
        now: returns monotonic seconds.
        kind: the class of streamed responses.
    """

    def send(request: ClientRequest) -> Awaitable[Response]:
        if (
            request.choose_route is not None
            or request.body is not None
            or request.deadline is not None
        ):
            prepare(request, now)
        # For each attempt, because a client may be used in several event loops.
        try:
            engine = choose()
        except RequestException as error:
            error.request = error.request or request
            raise
        if request.place is not None:
            return send_in_place(request, to_send(engine, kind))
        if log.is_enabled_for(INFO):
            return send_logged(request, to_send(engine, kind))
        if request.stream:
            return _open(engine, request, kind)
        return engine.perform(request)

    return send


def to_send(engine: Engine, kind: type[BaseStreamedResponse]) -> Send:
    """Return a function that passes requests to an engine, and does nothing else.

    The last steps above repeat it, because nothing may be called after a coroutine is created: with
    Ctrl-C in that call, the coroutine would never be awaited.
    """

    def send(request: ClientRequest) -> Awaitable[Response]:
        if request.stream:
            return _open(engine, request, kind)
        return engine.perform(request)

    return send


def count_attempts(last: Send, totals: Totals) -> Send:
    """Return a last step that counts attempts and outcomes, for an engine of the user.

    Args:
        last: passes the request to the engine.
        totals: of the client.
    """

    def send(request: ClientRequest) -> Awaitable[Response]:
        return count_outcome(last, request, totals)

    return send


def prepare(request: ClientRequest, now: Callable[[], float]) -> None:
    """Prepare a request for an attempt: check the deadline, set the route, rewind the body.

    Raises:
        DeadlineExceeded: no time is left.
        UnrewindableBodyError: the body was sent, at least in part, and cannot be sent again.
        InvalidMethod: the method cannot have a body.
        InvalidProxyURL: the URL of the proxy for this request is invalid.
    """
    if request.deadline is not None and request.deadline - now() < MIN_ATTEMPT_SECONDS:
        raise deadline_error(request, was_sent=False)
    if request.choose_route is not None:
        # For the current URL, which may have changed since the last attempt.
        request.route = request.choose_route(request.url)
    if request.body is not None:
        if request.method == "HEAD":
            check_method_of_body(request)
        try:
            request.body.rewind()
        except UnrewindableBodyError as error:
            raise unrewindable_error(request, error) from error


async def _open(
    engine: Engine, request: ClientRequest, kind: type[BaseStreamedResponse]
) -> Response:
    """Return a streamed response; a buffered one for a redirect that is followed."""
    incoming = await engine.open(request)
    if isinstance(incoming, ReceivedWhole):
        return incoming.response
    response = kind(request, incoming)
    # Nobody reads its body, and the next hop needs the connection.
    if request.follow_redirects and response.is_redirect:
        return await response.to_buffered()
    return response
