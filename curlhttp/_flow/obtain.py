"""Obtain what a request needs to authenticate, or wait for the request that does, and send it.

Who does, and for whom, is decided in _policy/shared.py.
"""

from __future__ import annotations

import copy
import inspect
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, NoReturn, cast

from curlhttp._engine import Gate, Send
from curlhttp._models.body import rewind
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.auth import Auth
from curlhttp._policy.sent_along import request_beside
from curlhttp._policy.shared import Call, InLine, Obtained, ObtainingAuth
from curlhttp.exceptions import (
    ClientClosed,
    DeadlineExceeded,
    PoolTimeout,
    RequestException,
)

if TYPE_CHECKING:
    from curlhttp._flow.auth import SignIn

__all__ = ["send_with_obtained"]


class _NeedsAsyncClient(TypeError):
    """Report an async function in Client."""


_LAP = 1.0  # seconds until a request in line looks whether the one that fetches is still there

# What ended the fetch is an affair of the request that did it: another may well succeed.
_OF_ONE_REQUEST = (ClientClosed, DeadlineExceeded, PoolTimeout, _NeedsAsyncClient)


async def send_with_obtained(
    request: Request, send: Send, beside: Send, method: Auth, client: SignIn
) -> Response:
    """Send a request with what a method obtains; once more, if that is refused.

    Args:
        request: what to send; a copy of it is changed.
        send: takes it through all below.
        beside: sends the requests by which something is obtained.
        method: an ObtainingAuth.
        client: what the method needs else.

    Raises:
        RequestException: nothing was obtained, or no response came of it.
    """
    obtaining = cast(ObtainingAuth, method)
    if not client.is_async and any(map(inspect.iscoroutinefunction, obtaining.functions)):
        raise _needs_async_client(obtaining)
    obtained = await _obtain(obtaining, request, beside, client)
    response = await send(obtaining.apply(request.copy(), obtained.value))
    if not obtaining.refuses(response):
        obtaining.shared.accept()
        return response
    is_worth_it = obtaining.shared.refuse(obtained.value, client.clock.now())
    if not is_worth_it or not obtained.is_kept or rewind(request.body):
        return response
    await response.discard()  # before others wait for its connection, or its place
    obtained = await _obtain(obtaining, request, beside, client)
    again = await send(obtaining.apply(request.copy(), obtained.value))
    again.history = [response, *again.history]
    if obtaining.refuses(again):
        obtaining.shared.refuse(obtained.value, client.clock.now())
    else:
        obtaining.shared.accept()
    return again


async def _obtain(
    method: ObtainingAuth, request: Request, beside: Send, client: SignIn
) -> Obtained:
    shared, now = method.shared, client.clock.now

    def is_usable(obtained: Obtained) -> bool:
        return method.is_usable(obtained, now())

    latest = shared.latest
    if latest is not None and is_usable(latest):
        return latest
    woken = client.gate()
    place = InLine(woken.open, request.timeout)
    try:
        shared.join(place, is_usable)
        if not (place.is_first or place.outcome):
            await _wait_in_line(place, woken, method, request, client)
        if place.outcome is None:
            obtained = await _fetch(method, request, beside, client)
            shared.finish(place, obtained)
            return obtained
    except Exception as error:
        if isinstance(error, RequestException) and error.request is None:
            error.request = request.without_credentials()
        if place.is_first and not isinstance(error, _OF_ONE_REQUEST):
            shared.finish(place, error)
        else:
            shared.leave(place)
        raise
    # BaseException, since a cancelled task has to let the next one go on as well.
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
    place: InLine, woken: Gate, method: ObtainingAuth, request: Request, client: SignIn
) -> None:
    """Wait until a request in line is the first, or the first has told it what came of it."""
    now = client.clock.now
    seconds = request.pool_seconds(now())
    ends = inf if seconds is None else now() + seconds
    while not (place.is_first or place.outcome):
        if (left := ends - now()) <= 0:
            raise _too_late(request, method, now())
        await woken.wait(min(left, _LAP))
        method.shared.pass_over_ended(place)
        woken = client.gate()  # a gate that was waited at in vain is of no use
        place.wake = woken.open


async def _fetch(method: ObtainingAuth, request: Request, beside: Send, client: SignIn) -> Obtained:
    """Run the steps of a method."""
    steps = method.steps(client.clock.now)
    try:
        step = next(steps)
        while True:
            result: object
            if isinstance(step, Call):
                result = await _call(step, method, client)
            else:
                other = request_beside(step, request, request, type(method).__name__)
                # How large an answer may be is said by the method, not by the request's caller.
                other.max_response_size = step.max_response_size
                try:
                    result = await beside(other)
                except RequestException as error:
                    # What they hold goes into pickles: the request's body, a part of the answer.
                    error.request, error.response = other.without_credentials(), None
                    raise
            try:
                step = steps.send(result)
            except StopIteration as end:
                return cast(Obtained, end.value)
    finally:
        steps.close()


async def _call(call: Call, method: ObtainingAuth, client: SignIn) -> object:
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


def _needs_async_client(method: ObtainingAuth) -> _NeedsAsyncClient:
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
