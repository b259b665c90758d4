"""Run the flow of an Auth: send each request that it yields, and send it the response."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from math import inf
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeGuard, cast

from curlhttp._client.base_layer import cookies
from curlhttp._client.chain import LayerContext
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._http.auth import NO_AUTH, Auth
from curlhttp._http.body import rewind
from curlhttp._http.replacement import check_request
from curlhttp._http.request import CHALLENGER, ENDPOINTS, ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import MakeWaiter, Send, Waiter
from curlhttp.exceptions import ClientClosed, DeadlineExceeded, PoolTimeout, RequestException

if TYPE_CHECKING:
    from curlhttp._features.auth.token_auth import (
        CachedToken,
        FunctionCall,
        TokenAuth,
        TokenCache,
        TokenWaiter,
    )

_Flow: TypeAlias = "Generator[object, Response, None] | AsyncGenerator[object, Response]"
_END = object()


async def authenticate(
    request: ClientRequest,
    send: Send,
    auth: Auth,
    context: LayerContext,
    outer: tuple[Auth, ...] = (),
) -> Response:
    """Send a request with an Auth, and the further requests of its flow.

    Args:
        request: to send; the flow changes a copy.
        send: sends a request through the layers below.
        auth: is not NO_AUTH.
        context: what the Auth uses of the client.
        outer: the Auths whose flows are running; none of them is started again.

    Raises:
        RequestException: no response was received.
        TypeError: the Auth has no flow for this client, or not a generator.
    """
    outer = (*outer, auth)
    if getattr(auth, "_fetches_token", False):

        async def send_subrequest(other: ClientRequest) -> Response:
            return await _send_subrequest(other, send, context, outer)

        return await send_with_token(request, send, send_subrequest, auth, context)
    # A copy, because the next hop of a redirect must not get this Authorization.
    changed = request.copy()
    name = _get_flow_method(type(auth), is_async=context.host.is_async)
    who = f"{type(auth).__name__}.{name}"
    if getattr(auth, "requires_request_body", False):
        await _read_body(changed, context)
    flow = getattr(auth, name)(changed)
    if not isinstance(flow, (Generator, AsyncGenerator)):
        raise TypeError(f"{who} must be a generator that yields requests")
    try:
        return await _drive(flow, request, changed, send, auth, context, outer, who)
    finally:
        # Also after a cancellation or an error, so that the generator's own finally runs now.
        if isinstance(flow, AsyncGenerator):
            await flow.aclose()
        else:
            flow.close()


def _get_flow_method(kind: type, *, is_async: bool) -> str:
    """Return the name of the method that returns the flow. The class may be one of httpx.

    Args:
        kind: the class; the methods of a subclass take precedence.
        is_async: the client is AsyncClient.

    Raises:
        TypeError: the class has no flow for this client.
    """
    special, other = "sync_auth_flow", "async_auth_flow"
    if is_async:
        special, other = other, special
    for each in kind.__mro__:
        if each is not Auth:
            for name in (special, "auth_flow"):
                if name in vars(each):
                    return name
    needed = (
        f"needs {'Client' if is_async else 'AsyncClient'}: it has "
        if hasattr(kind, other)
        else "has "
    )
    raise TypeError(f"{kind.__name__} {needed}no {special} and no auth_flow")


async def _drive(
    flow: _Flow,
    request: ClientRequest,
    changed: ClientRequest,
    send: Send,
    auth: Auth,
    context: LayerContext,
    outer: tuple[Auth, ...],
    who: str,
) -> Response:
    """Send all requests that a flow yields."""
    from curlhttp._features.auth.subrequest import (
        as_last_request,
        is_subrequest,
        make_subrequest,
    )

    reads = getattr(auth, "requires_response_body", False)
    history: list[Response] = []
    outgoing = await _advance(flow, None)
    if outgoing is _END:
        raise TypeError(f"{who} must yield a request, but yielded nothing")
    while True:
        if is_other := is_subrequest(outgoing, request):
            other = make_subrequest(outgoing, request, changed, who)
            # The flow may end with its response.
            shakes_hands = as_last_request(other, request)
            try:
                response = await _send_subrequest(
                    other, send, context, outer, takes_same_way=shakes_hands
                )
            except RequestException as error:  # the flow ends here, and with it the request
                return await _finish(request, error, context)
        else:
            response = await send(check_request(outgoing, request, who))
            # The challenges came before what a middleware below recorded.
            response.history = [*history, *response.history]
        try:
            if reads:
                await response.load()
            if (
                context.host.is_async
                and isinstance(flow, Generator)
                and is_other
                and _is_unread(response)
            ):
                from curlhttp._features.auth.flow_thread import advance_in_thread

                outgoing = await advance_in_thread(flow, response, context.host.run_blocking, _END)
            else:
                outgoing = await _advance(flow, response)
        except BaseException as error:  # such as a body that cannot be replayed
            response.abort()
            if isinstance(error, RequestException) and error.request is None:
                error.request, error.response = response.request, response
                error.request_sent, error.timings = True, response.timings
            raise
        if outgoing is _END:
            return await _finish(request, response, context) if is_other else response
        if is_other and _is_unread(response):
            await response.load()  # the flow may read it later
        # If little of the body is left, the next request of the flow reuses the connection.
        await response.discard()
        if not is_other and ENDPOINTS in (response.request.extensions or ()):
            # Each endpoint knows its own nonces only.
            answer = cast(ClientRequest, outgoing)
            answer._extend(CHALLENGER, response.request.url)
        if not is_other:
            history.append(response)


async def _finish(
    request: ClientRequest, outcome: Response | RequestException, context: LayerContext
) -> Response:
    """Return the outcome of the last subrequest, which is that of the request, or raise it."""

    async def settle(_: ClientRequest) -> Response:
        if isinstance(outcome, Response):
            return outcome
        raise outcome

    return await (settle if context.finish is None else context.finish(settle))(request)


def _is_unread(response: Response) -> TypeGuard[BaseStreamedResponse]:
    """Return whether the body of a response is open, and nobody has read any of it."""
    return isinstance(response, BaseStreamedResponse) and not response.is_stream_consumed


async def _advance(flow: _Flow, response: Response | None) -> object:
    """Return the next request that a flow yields, _END at its end."""
    try:
        if isinstance(flow, AsyncGenerator):
            return await flow.asend(cast(Response, response))
        return flow.send(cast(Response, response))
    except (StopIteration, StopAsyncIteration):
        return _END


async def _send_subrequest(
    request: ClientRequest,
    send: Send,
    context: LayerContext,
    outer: tuple[Auth, ...],
    *,
    takes_same_way: bool = False,
) -> Response:
    """Send a subrequest of a flow.

    Args:
        request: complete; its own auth is used, unless this is part of the flow of that auth.
        send: see authenticate.
        context: see authenticate.
        outer: see authenticate.
        takes_same_way: it is sent as the request that the flow authenticates.
    """
    if "hsts" in context.settings:
        request = context.settings["hsts"].upgrade(request)
    if context.subrequest is not None and not takes_same_way:
        send = cookies(context.subrequest())
    auth = request.auth
    if auth is None or auth is NO_AUTH or any(auth is each for each in outer):
        return await send(request)
    return await authenticate(request, send, auth, context, outer)


async def _read_body(request: ClientRequest, context: LayerContext) -> None:
    """Read a streamed body into memory."""
    body = request.body
    if body is not None and body.is_async and not context.host.is_async:
        raise TypeError("an async body needs AsyncClient")
    await request.aread()


# --- Fetch a token before sending; concurrent requests share one fetch ---
#
# token_auth.py decides which request fetches, and for which others.


class _AsyncFunctionError(TypeError):
    """An async function was passed to an Auth in Client."""


_RECHECK_SECONDS = 1.0  # until a queued request checks that the fetching one still runs

# Errors that concern only the request that fetched; the next one in the queue may succeed.
_NOT_SHARED = (ClientClosed, DeadlineExceeded, PoolTimeout, _AsyncFunctionError)


async def send_with_token(
    request: ClientRequest, send: Send, subrequest: Send, auth: Auth, context: LayerContext
) -> Response:
    """Send a request with a token; once more with a new token if the server refuses it.

    Args:
        request: to send; copies of it get the token.
        send: sends a request through the layers below.
        subrequest: sends the requests that fetch a token.
        auth: a TokenAuth.
        context: what the Auth uses of the client.

    Raises:
        RequestException: no token could be fetched, or no response was received.
    """
    import inspect  # slow to import

    token_auth = cast("TokenAuth", auth)
    if not context.host.is_async and any(map(inspect.iscoroutinefunction, token_auth.functions)):
        raise _needs_async_client(token_auth)
    token = await _get_token(token_auth, request, subrequest, context)
    response = await send(token_auth.apply(request.copy(), token.value))
    if not token_auth.rejects(response):
        token_auth._cache.note_accepted()
        return response
    is_worth_it = token_auth._cache.discard(token.value, context.runtime.now())
    if not is_worth_it or not token.is_cached or rewind(request.body):
        return response
    await response.discard()  # so that the fetch can use its connection
    token = await _get_token(token_auth, request, subrequest, context)
    again = await send(token_auth.apply(request.copy(), token.value))
    again.history = [response, *again.history]
    if token_auth.rejects(again):
        token_auth._cache.discard(token.value, context.runtime.now())
    else:
        token_auth._cache.note_accepted()
    return again


async def _get_token(
    auth: TokenAuth, request: ClientRequest, subrequest: Send, context: LayerContext
) -> CachedToken:
    now = context.runtime.now

    def is_usable(token: CachedToken) -> bool:
        return auth.is_usable(token, now())

    latest = auth._cache.latest
    if latest is not None and is_usable(latest):
        return latest
    return await fetch_once(
        auth._cache,
        request,
        lambda: _fetch(auth, request, subrequest, context),
        is_usable,
        f"fetches the credentials of {type(auth).__name__}",
        now,
        context.runtime.make_waiter,
    )


async def fetch_once(
    cache: TokenCache,
    request: ClientRequest,
    fetch: Callable[[], Awaitable[CachedToken]],
    is_usable: Callable[[CachedToken], bool],
    what: str,
    now: Callable[[], float],
    make_waiter: MakeWaiter,
    origin: str = "",
) -> CachedToken:
    """Fetch a token, or wait for the request that does.

    Args:
        cache: the queue of the requests that need the token.
        request: the caller's.
        fetch: fetches a token.
        is_usable: returns whether the token that another request has fetched is still valid.
        what: what the fetching request does, for errors.
        now: returns monotonic seconds.
        make_waiter: makes a waiter of the engine.
        origin: whose requests need it; see `leave_place`.

    Raises:
        Exception: fetching failed, for the caller or for the request that it waited for.
        PoolTimeout, DeadlineExceeded: that request did not end in time.
    """
    from curlhttp._features.auth.token_auth import TokenWaiter  # few clients need these
    from curlhttp._features.waits import leave_place

    waiter = make_waiter()
    queued = TokenWaiter(waiter.wake, request.timeout)
    try:
        cache.join(queued, is_usable)
        if not (queued.is_first or queued.outcome):
            with leave_place(request, origin):
                await _wait_in_queue(queued, waiter, cache, request, what, now, make_waiter)
        if queued.outcome is None:
            token = await fetch()
            cache.finish(queued, token)
            return token
    except Exception as error:
        if isinstance(error, RequestException) and error.request is None:
            error.request = request.without_credentials()
        if queued.is_first and not isinstance(error, _NOT_SHARED):
            cache.finish(queued, error)
        else:
            cache.leave(queued)
        raise
    # BaseException, because the next request has to fetch if this task is cancelled.
    except BaseException:
        cache.leave(queued)
        raise
    outcome = queued.outcome
    if isinstance(outcome, Exception):
        try:
            _raise_copy(outcome)
        finally:  # otherwise the error and this frame would hold each other
            del outcome, queued
    return outcome


async def _wait_in_queue(
    queued: TokenWaiter,
    woken: Waiter,
    cache: TokenCache,
    request: ClientRequest,
    what: str,
    now: Callable[[], float],
    make_waiter: MakeWaiter,
) -> None:
    """Wait until the request is the first, or until the first has a token or an error."""
    seconds = request.pool_seconds(now())
    ends = inf if seconds is None else now() + seconds
    while not (queued.is_first or queued.outcome):
        if (left := ends - now()) <= 0:
            raise _make_timeout_error(request, what, now())
        await woken.wait(min(left, _RECHECK_SECONDS))
        cache.skip_ended(queued)
        woken = make_waiter()  # a waiter that timed out cannot be used again
        queued.wake = woken.wake


async def _fetch(
    auth: TokenAuth, request: ClientRequest, subrequest: Send, context: LayerContext
) -> CachedToken:
    """Run the steps that fetch a token."""
    from curlhttp._features.auth.subrequest import make_subrequest
    from curlhttp._features.auth.token_auth import FunctionCall

    steps = auth.steps(context.runtime.now)
    try:
        step = next(steps)
        while True:
            result: object
            if isinstance(step, FunctionCall):
                result = await _call_function(step, auth, context)
            else:
                other = make_subrequest(step, request, request, type(auth).__name__)
                # The Auth limits the size of this response, not the caller of the request.
                other.max_response_size = step.max_response_size
                try:
                    result = await subrequest(other)
                except RequestException as error:
                    # Errors are pickled: the body and the response may contain credentials.
                    error.request, error.response = other.without_credentials(), None
                    raise
            try:
                step = steps.send(result)
            except StopIteration as end:
                return cast("CachedToken", end.value)
    finally:
        steps.close()


async def _call_function(call: FunctionCall, auth: TokenAuth, context: LayerContext) -> object:
    import inspect  # slow to import

    function = call.function
    blocks = call.blocks and not inspect.iscoroutinefunction(function)
    result = await context.host.run_blocking(function) if blocks else function()
    if not inspect.isawaitable(result):
        return result
    if not context.host.is_async:
        # Otherwise Python warns about a coroutine that was never awaited, far from here.
        if inspect.iscoroutine(result):
            result.close()
        raise _needs_async_client(auth)
    return await result


def _needs_async_client(auth: TokenAuth) -> _AsyncFunctionError:
    return _AsyncFunctionError(
        f"{type(auth).__name__} has an async function, which needs AsyncClient"
    )


def _raise_copy(error: Exception) -> NoReturn:
    """Raise a copy of another request's error, so that each has its own traceback."""
    from curlhttp._features.error_copies import copy_error

    copied = copy_error(error)
    if copied is error:
        raise error
    raise copied from error


def _make_timeout_error(
    request: ClientRequest, what: str, now: float
) -> DeadlineExceeded | PoolTimeout:
    return (DeadlineExceeded if request.is_late(now) else PoolTimeout)(
        f"{request}: another request that {what} did not end in time; this one was not sent",
        request=request,
    )
