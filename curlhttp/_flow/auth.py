"""Carry out an Auth object's flow: send what it yields, hand it the response, until it is done."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from typing import NamedTuple, TypeAlias, cast

from curlhttp._engine import Clock, MakeGate, Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.auth import NO_AUTH, Auth, BasicAuth, flow_method
from curlhttp._run import Offload
from curlhttp.exceptions import RequestException

__all__ = ["FindCredentials", "SignIn", "authenticate", "method_from_netrc"]

FindCredentials: TypeAlias = Callable[[str], tuple[str, str] | None]
"""Gives user name and password for a host, or None."""

_Flow: TypeAlias = "Generator[object, Response, None] | AsyncGenerator[object, Response]"
_END = object()


class SignIn(NamedTuple):
    """What an Auth needs of a client beside the request's own way.

    Attributes:
        clock: tells the time.
        gate: makes a gate of the engine.
        is_async: the client is AsyncClient: flows may await.
        run_blocking: calls what may block.
        beside: gives what sends other requests than the one that is to be authenticated, where
            that one's way is not for them (a download, a handshake); None for the same way.
        upgrade: gives a request as it may go out, where hosts may want HTTPS; None where any may.
    """

    clock: Clock
    gate: MakeGate
    is_async: bool
    run_blocking: Offload
    beside: Callable[[], Send] | None
    upgrade: Callable[[Request], Request] | None = None


def method_from_netrc(request: Request, netrc: FindCredentials) -> Auth | None:
    """Return how to authenticate a request for which the program says nothing.

    Args:
        request: of one hop: a redirect to another host has that host's entry, or none.
        netrc: gives user name and password for a host, or None.
    """
    # The caller's own Authorization wins over a file that is not of the program's.
    if request.get_header("authorization") is not None:
        return None
    credentials = netrc(request.url.host)
    return None if credentials is None else BasicAuth(*credentials)


async def authenticate(
    request: Request, send: Send, method: Auth, client: SignIn, above: tuple[Auth, ...] = ()
) -> Response:
    """Send a request as a method wants it, and what the method sends in answer to challenges.

    Args:
        request: what to send; a copy of it is changed.
        send: takes each of them through all below.
        method: is not NO_AUTH.
        client: what the method needs beside.
        above: the methods whose flows this request is a part of.

    Raises:
        RequestException: no response came of it.
        TypeError: the method has no flow for this kind of client, or a wrong one.
    """
    above = (*above, method)
    if getattr(method, "obtains", False):
        from curlhttp._flow.obtain import send_with_obtained

        async def beside(other: Request) -> Response:
            return await _send_beside(other, send, client, above)

        return await send_with_obtained(request, send, beside, method, client)
    # A copy: the Authorization must not be seen by the next hop of a redirect.
    changed = request.copy()
    name = flow_method(type(method), is_async=client.is_async)
    who = f"{type(method).__name__}.{name}"
    if getattr(method, "requires_request_body", False):
        await _read_body(changed, client)
    flow = getattr(method, name)(changed)
    if not isinstance(flow, (Generator, AsyncGenerator)):
        raise TypeError(f"{who} must be a generator that yields requests")
    try:
        return await _run(flow, request, changed, send, method, client, above, who)
    finally:
        # Cancelled or failed in the middle: the generator's own finally runs now, not at some time.
        if isinstance(flow, AsyncGenerator):
            await flow.aclose()
        else:
            flow.close()


async def _run(
    flow: _Flow,
    request: Request,
    changed: Request,
    send: Send,
    method: Auth,
    client: SignIn,
    above: tuple[Auth, ...],
    who: str,
) -> Response:
    """Send all that a flow yields; the arguments are those of authenticate, and what it made."""
    from curlhttp._policy.sent_along import is_beside, request_beside

    reads = getattr(method, "requires_response_body", False)
    history: list[Response] = []
    outgoing = await _next(flow, None)
    if outgoing is _END:
        raise TypeError(f"{who} must yield a request, and yielded none")
    while True:
        if beside := is_beside(outgoing, request):
            other = request_beside(outgoing, request, changed, who)
            response = await _send_beside(other, send, client, above)
        else:
            response = await send(cast(Request, outgoing))
            # What a redirect below has put there came later than the challenges.
            response.history = [*history, *response.history]
        try:
            if reads:
                await response.load()
            outgoing = await _next(flow, response)
        except BaseException as error:  # such as a body that cannot be sent again
            response.let_go()
            if isinstance(error, RequestException) and error.request is None:
                error.request, error.response = response.request, response
                error.request_sent, error.timings = True, response.timings
            raise
        if outgoing is _END:
            return response
        # The next request of the flow can use its connection, if little of the body is left.
        await response.discard()
        if not beside:
            history.append(response)


async def _next(flow: _Flow, response: Response | None) -> object:
    """Return what a flow yields next, _END at its end."""
    try:
        if isinstance(flow, AsyncGenerator):
            return await flow.asend(cast(Response, response))
        return flow.send(cast(Response, response))
    except (StopIteration, StopAsyncIteration):
        return _END


async def _send_beside(
    request: Request, send: Send, client: SignIn, above: tuple[Auth, ...]
) -> Response:
    """Send another request than the one that is to be authenticated, as a part of that.

    Args:
        request: complete; an auth of its own counts, unless that is one of those above.
        send: see authenticate.
        client: see authenticate.
        above: see authenticate.
    """
    if client.upgrade is not None:
        request = client.upgrade(request)
    if client.beside is not None:
        send = client.beside()
    method = request.auth
    if method is None or method is NO_AUTH or any(method is each for each in above):
        return await send(request)
    return await authenticate(request, send, method, client, above)


async def _read_body(request: Request, client: SignIn) -> None:
    """Put a body that is streamed into memory."""
    body = request.body
    if body is None or body.data is not None:
        return
    if body.is_async and not client.is_async:
        raise TypeError("an async body needs AsyncClient")
    from curlhttp._models.body import BytesBody, read_whole

    body.rewind()
    request.body = BytesBody(await read_whole(body), body.content_type)
