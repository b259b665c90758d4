"""The last step of a client whose attempts are wrapped: by a recording, by faults, by users.

What `transport=` takes as a WrapsAttempts is right above the engine, in both clients and in maps.
A client without one does not import this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from curlhttp._client.exchange import prepare, send_in_place, send_logged, to_send
from curlhttp._client.hooks import check_response
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._client.transport import TransportAttempt, WrapsAttempts
from curlhttp._http.errors import client_closed, unrewindable_error
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Engine, Runtime, Send
from curlhttp._runtime.log import INFO, log
from curlhttp.exceptions import RequestException, UnrewindableBodyError


def exchange_wrapped(
    wrappers: tuple[WrapsAttempts, ...],
    choose: Callable[[], Engine],
    now: Callable[[], float],
    kind: type[BaseStreamedResponse],
) -> Send:
    """Return the last step of a client whose attempts are wrapped.

    Args:
        wrappers: innermost first.
        choose: returns the engine.
        now: returns monotonic seconds.
        kind: the class of streamed responses.
    """

    def send(request: ClientRequest) -> Awaitable[Response]:
        if request.body is not None and request.body.is_async and not kind._allows_async:
            raise TypeError("an async body needs AsyncClient")
        prepare(request, now)
        try:
            engine = choose()
        except RequestException as error:
            error.request = error.request or request
            raise
        if getattr(engine, "is_closed", False):  # a wrapper need not look
            raise client_closed(request)
        wrapped = wrap_all(wrappers, _to_send(engine, kind), engine.runtime)

        def send_wrapped(request: ClientRequest) -> Awaitable[Response]:
            return _take(wrapped, request, kind, engine.runtime.now)

        if request.place is not None:
            return send_in_place(request, send_wrapped)
        if log.is_enabled_for(INFO):
            return send_logged(request, send_wrapped)
        return send_wrapped(request)

    return send


def _to_send(engine: Engine, kind: type[BaseStreamedResponse]) -> Send:
    """Return a function that passes requests to an engine, also the same one again."""
    last = to_send(engine, kind)

    def send(request: ClientRequest) -> Awaitable[Response]:
        if request.body is not None:
            try:
                request.body.rewind()
            except UnrewindableBodyError as error:
                raise unrewindable_error(request, error) from error
        return last(request)

    return send


def wrap_all(wrappers: Iterable[WrapsAttempts], send: Send, runtime: Runtime) -> Send:
    """Return a function that sends a request through wrappers, which are innermost first."""
    for wrapper in wrappers:
        send = _wrap(wrapper, send, runtime)
    return send


def _wrap(wrapper: WrapsAttempts, send: Send, runtime: Runtime) -> Send:
    async def through(request: ClientRequest) -> Response:
        response = await wrapper.around(request, send, runtime)
        return check_response(response, f"{type(wrapper).__name__}.around")

    return through


async def _take(
    wrapped: Send,
    request: ClientRequest,
    kind: type[BaseStreamedResponse],
    now: Callable[[], float],
) -> Response:
    """Return the response to a request as an engine would: of the client's own class.

    A response that a wrapper has made is as on the wire, like that of a transport.
    """
    attempt = TransportAttempt(request, wrapped, is_async=kind._allows_async, now=now)
    try:
        response = await wrapped(request)
        streams = request.stream and not (request.follow_redirects and response.is_redirect)
        if response._is_made:
            received = attempt.open(response)
            return kind(request, received) if streams else await received.to_response()
    except RequestException as error:
        if error.request is None:  # it is the wrapper's own
            attempt.add_context(error)
        raise
    if not isinstance(response, BaseStreamedResponse):
        return response
    if not streams:
        return await response.to_buffered()
    return response if isinstance(response, kind) else response._as_kind(kind)
