"""Send again what failed, as long as the policy says so. What may be, is decided in _policy/.

An attempt's response is let go of before the wait: no connection is held during a wait.
"""

from __future__ import annotations

from collections.abc import Awaitable

from curlhttp._engine import Clock, Layer, MakeGate, Send
from curlhttp._flow.attempts import Attempts
from curlhttp._flow.cookies import store_cookies
from curlhttp._flow.hooks import Hooks, log
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.retry import NO_RETRIES
from curlhttp.exceptions import RequestException

__all__ = ["retry"]


def retry(clock: Clock, hooks: Hooks, gate: MakeGate) -> Layer:
    """Return the layer that sends again what failed, and tells hooks of each attempt.

    Args:
        clock: tells the time, and waits.
        hooks: the user's.
        gate: makes a gate of the engine.
    """

    def around(send: Send) -> Send:
        def retrying(request: Request) -> Awaitable[Response]:
            policy = request.retry
            if policy is None:
                # Without a policy, hooks still hear of the one attempt that there is.
                if not hooks.watches_attempts:
                    return send(request)
                policy = NO_RETRIES
            return _retry(Attempts(request, policy, clock, hooks, gate), send)

        return retrying

    return around


async def _retry(attempts: Attempts, send: Send) -> Response:
    request, statuses = attempts.request, attempts.policy.statuses
    while True:
        attempts.begin()
        if attempts.watches:
            await attempts.announce()
        try:
            response = await send(request)
        # Nothing else is caught: a cancellation, Ctrl-C and the caller's own errors end all
        # attempts.
        except RequestException as error:
            delay = await attempts.next_delay(error)
            if attempts.watches:
                await attempts.report()
            if delay is None:
                raise
        else:
            if response.status_code in statuses:
                delay = await attempts.next_delay(response)
            else:
                delay = None
                attempts.end(response)
            if attempts.watches:
                await attempts.report()
            if delay is None:
                return response
            # Only now, since the final response keeps its body.
            await _discard(request, response)
        await attempts.sleep(delay)


async def _discard(request: Request, response: Response) -> None:
    store_cookies(request.jar, response)  # their layer sees the last response only
    try:
        await response.discard()
    except RequestException as error:
        # It was to be thrown away: how its end looked changes nothing for the next attempt.
        log().debug("the rest of a discarded response: %s", type(error).__name__)
