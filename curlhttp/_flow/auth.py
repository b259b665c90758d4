"""Carry out an Auth object's flow: send what it yields, hand it the response, until it is done."""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias, cast

from curlhttp._engine.engine import Clock, MakeWaiter, Send, Waiter
from curlhttp._engine.run import Offload
from curlhttp._models.body import rewind
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.auth import NO_AUTH, Auth, BasicAuth, flow_method
from curlhttp.exceptions import ClientClosed, DeadlineExceeded, PoolTimeout, RequestException

if TYPE_CHECKING:
    from curlhttp._policy.token_auth import CachedToken, TokenAuth, TokenRequest, TokenWaiter

__all__ = ["AuthContext", "FindCredentials", "authenticate", "method_from_netrc"]


FindCredentials: TypeAlias = Callable[[str], tuple[str, str] | None]
"""Gives user name and password for a host, or None."""

_Flow: TypeAlias = "Generator[object, Response, None] | AsyncGenerator[object, Response]"
_END = object()


class AuthContext(NamedTuple):
    """Hold what an Auth uses of the client: clock, waiters, and a way to send other requests.

    Attributes:
        clock: tells the time.
        make_waiter: makes a waiter of the engine.
        is_async: the client is AsyncClient: flows may await.
        run_blocking: calls what may block.
        subrequest: gives what sends other requests than the one that is to be authenticated, where
            that one's way is not for them (a download, a handshake); None for the same way.
        upgrade: gives a request as it may go out, where hosts may want HTTPS; None where any may.
    """

    clock: Clock
    make_waiter: MakeWaiter
    is_async: bool
    run_blocking: Offload
    subrequest: Callable[[], Send] | None
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
    request: Request, send: Send, method: Auth, client: AuthContext, above: tuple[Auth, ...] = ()
) -> Response:
    """Send a request as a method wants it, and what the method sends in answer to challenges.

    Args:
        request: what to send; a copy of it is changed.
        send: takes each of them through all below.
        method: is not NO_AUTH.
        client: what the method needs in addition.
        above: the methods whose flows this request is a part of.

    Raises:
        RequestException: no response was received.
        TypeError: the method has no flow for this kind of client, or a wrong one.
    """
    above = (*above, method)
    if getattr(method, "obtains", False):

        async def send_subrequest(other: Request) -> Response:
            return await _send_beside(other, send, client, above)

        return await send_with_token(request, send, send_subrequest, method, client)
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
    client: AuthContext,
    above: tuple[Auth, ...],
    who: str,
) -> Response:
    """Send all that a flow yields; the arguments are those of authenticate, and what it made."""
    from curlhttp._policy.subrequest import is_subrequest, make_subrequest

    reads = getattr(method, "requires_response_body", False)
    history: list[Response] = []
    outgoing = await _next(flow, None)
    if outgoing is _END:
        raise TypeError(f"{who} must yield a request, and yielded none")
    while True:
        if is_other := is_subrequest(outgoing, request):
            other = make_subrequest(outgoing, request, changed, who)
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
        if not is_other:
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
    request: Request, send: Send, client: AuthContext, above: tuple[Auth, ...]
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
    if client.subrequest is not None:
        send = client.subrequest()
    method = request.auth
    if method is None or method is NO_AUTH or any(method is each for each in above):
        return await send(request)
    return await authenticate(request, send, method, client, above)


async def _read_body(request: Request, client: AuthContext) -> None:
    """Put a body that is streamed into memory."""
    body = request.body
    if body is None or body.data is not None:
        return
    if body.is_async and not client.is_async:
        raise TypeError("an async body needs AsyncClient")
    from curlhttp._models.body import BytesBody, read_whole

    body.rewind()
    request.body = BytesBody(await read_whole(body), body.content_type)


# --- Fetch a token before sending; concurrent requests share one fetch ---
#
# _policy/single_flight.py decides who fetches, and for whom.


class _NeedsAsyncClient(TypeError):
    """Report an async function in Client."""


_LAP = 1.0  # seconds until a queued request checks that the one that fetches still runs

# What ended the fetch is an affair of the request that did it: another may well succeed.
_OF_ONE_REQUEST = (ClientClosed, DeadlineExceeded, PoolTimeout, _NeedsAsyncClient)


async def send_with_token(
    request: Request, send: Send, subrequest: Send, method: Auth, client: AuthContext
) -> Response:
    """Send a request with a token; once more with a new token if the server refuses it.

    Args:
        request: what to send; a copy of it is changed.
        send: takes it through all below.
        subrequest: sends the requests that fetch a token.
        method: a TokenAuth.
        client: the clock, the waiters and the threads of the client.

    Raises:
        RequestException: no token could be fetched, or no response was received.
    """
    token_auth = cast("TokenAuth", method)
    if not client.is_async and any(map(inspect.iscoroutinefunction, token_auth.functions)):
        raise _needs_async_client(token_auth)
    token = await _get_token(token_auth, request, subrequest, client)
    response = await send(token_auth.apply(request.copy(), token.value))
    if not token_auth.refuses(response):
        token_auth.shared.accept()
        return response
    is_worth_it = token_auth.shared.refuse(token.value, client.clock.now())
    if not is_worth_it or not token.is_kept or rewind(request.body):
        return response
    await response.discard()  # before others wait for its connection, or its place
    token = await _get_token(token_auth, request, subrequest, client)
    again = await send(token_auth.apply(request.copy(), token.value))
    again.history = [response, *again.history]
    if token_auth.refuses(again):
        token_auth.shared.refuse(token.value, client.clock.now())
    else:
        token_auth.shared.accept()
    return again


async def _get_token(
    method: TokenAuth, request: Request, subrequest: Send, client: AuthContext
) -> CachedToken:
    from curlhttp._policy.token_auth import TokenWaiter  # few clients need it

    shared, now = method.shared, client.clock.now

    def is_usable(token: CachedToken) -> bool:
        return method.is_usable(token, now())

    latest = shared.latest
    if latest is not None and is_usable(latest):
        return latest
    woken = client.make_waiter()
    place = TokenWaiter(woken.wake, request.timeout)
    try:
        shared.join(place, is_usable)
        if not (place.is_first or place.outcome):
            await _wait_in_line(place, woken, method, request, client)
        if place.outcome is None:
            token = await _fetch(method, request, subrequest, client)
            shared.finish(place, token)
            return token
    except Exception as error:
        if isinstance(error, RequestException) and error.request is None:
            error.request = request.without_credentials()
        if place.is_first and not isinstance(error, _OF_ONE_REQUEST):
            shared.finish(place, error)
        else:
            shared.leave(place)
        raise
    # BaseException, because a cancelled task has to let the next one go on as well.
    except BaseException:
        shared.leave(place)
        raise
    outcome = place.outcome
    if isinstance(outcome, Exception):
        try:
            _raise_for(outcome)
        finally:  # else the error would hold this frame, and this frame the error
            del outcome, place
    return outcome


async def _wait_in_line(
    place: TokenWaiter, woken: Waiter, method: TokenAuth, request: Request, client: AuthContext
) -> None:
    """Wait until a request in line is the first, or the first has told it its outcome."""
    now = client.clock.now
    seconds = request.pool_seconds(now())
    ends = inf if seconds is None else now() + seconds
    while not (place.is_first or place.outcome):
        if (left := ends - now()) <= 0:
            raise _too_late(request, method, now())
        await woken.wait(min(left, _LAP))
        method.shared.pass_over_ended(place)
        woken = client.make_waiter()  # a waiter that timed out cannot be used again
        place.wake = woken.wake


async def _fetch(
    method: TokenAuth, request: Request, subrequest: Send, client: AuthContext
) -> CachedToken:
    """Run the steps of a method."""
    from curlhttp._policy.subrequest import make_subrequest
    from curlhttp._policy.token_auth import TokenRequest

    steps = method.steps(client.clock.now)
    try:
        step = next(steps)
        while True:
            result: object
            if isinstance(step, TokenRequest):
                result = await _call(step, method, client)
            else:
                other = make_subrequest(step, request, request, type(method).__name__)
                # How large an answer may be is said by the method, not by the request's caller.
                other.max_response_size = step.max_response_size
                try:
                    result = await subrequest(other)
                except RequestException as error:
                    # What they hold goes into pickles: the request's body, a part of the answer.
                    error.request, error.response = other.without_credentials(), None
                    raise
            try:
                step = steps.send(result)
            except StopIteration as end:
                return cast("CachedToken", end.value)
    finally:
        steps.close()


async def _call(call: TokenRequest, method: TokenAuth, client: AuthContext) -> object:
    function = call.function
    blocks = call.blocks and not inspect.iscoroutinefunction(function)
    result = await client.run_blocking(function) if blocks else function()
    if not inspect.isawaitable(result):
        return result
    if not client.is_async:
        # Else Python warns of a coroutine that was never awaited, far from here.
        if inspect.iscoroutine(result):
            result.close()
        raise _needs_async_client(method)
    return await result


def _needs_async_client(method: TokenAuth) -> _NeedsAsyncClient:
    return _NeedsAsyncClient(
        f"{type(method).__name__} has an async function, which needs AsyncClient"
    )


def _raise_for(error: Exception) -> NoReturn:
    """Raise what another request failed with, as an error with a traceback of its own."""
    twin: Exception = error
    with suppress(Exception):  # some classes cannot be copied
        twin = copy.copy(error)
    if twin is error or type(twin) is not type(error):
        raise error
    raise twin from error


def _too_late(request: Request, method: Auth, now: float) -> DeadlineExceeded | PoolTimeout:
    return (DeadlineExceeded if request.is_late(now) else PoolTimeout)(
        f"{request}: another request that fetches what {type(method).__name__} needs did not "
        "end in time; this one was not sent",
        request=request,
    )
