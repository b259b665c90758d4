"""Send again what failed, as long as the policy says so. What may be, is decided in _policy/.

An attempt's response is let go of before the wait: nobody sleeps with a socket in hand.
"""

from __future__ import annotations

from typing import Any

from curlhttp._engine import Clock, Layer, Send
from curlhttp._flow.attempts import Tries
from curlhttp._flow.cookies import store_cookies
from curlhttp._flow.hooks import Hooks, log
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.retry import NO_RETRIES
from curlhttp.exceptions import RequestException

__all__ = ["retry"]


def retry(clock: Clock, hooks: Hooks) -> Layer:
    """Return the layer that sends again what failed, and tells hooks of each attempt.

    Args:
        clock: tells the time, and waits.
        hooks: the user's.
    """

    def around(send: Send) -> Send:
        def retrying(request: Request) -> Any:
            policy = request.retry
            if policy is None:
                if not hooks.watches_attempts:
                    return send(request)
                policy = NO_RETRIES
            return _retry(Tries(request, policy, clock, hooks), send)

        return retrying

    return around


async def _retry(tries: Tries, send: Send) -> Response:
    request, statuses = tries.request, tries.policy.statuses
    while True:
        tries.begin()
        if tries.watches:
            await tries.announce()
        try:
            response = await send(request)
        except RequestException as error:
            delay = tries.plan(error)
            if tries.watches:
                await tries.report()
            if delay is None:
                raise
        else:
            if response.status_code in statuses:
                delay = tries.plan(response)
            else:
                delay = None
                tries.end(response)
            if tries.watches:
                await tries.report()
            if delay is None:
                return response
            await _let_go(request, response)
        await tries.sleep(delay)


async def _let_go(request: Request, response: Response) -> None:
    store_cookies(request.jar, response)  # their layer sees the last response only
    try:
        await response.discard()
    except RequestException as error:
        log().debug("the rest of a discarded response: %s", type(error).__name__)
