"""Let all requests to an origin wait as long as it has asked one of them to (Retry-After).

Without it, only the retry of that one request waits. One layer is below retry, so that each attempt
waits, and above the limits, so that none is held by a request that waits here. The other one is
below the limits: it learns of the wait before a limit admits the next request, and sends those back
that a limit has admitted since.
"""

from __future__ import annotations

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._features.retry.policy import MAY_ASK_TO_WAIT, parse_retry_after
from curlhttp._features.waits import Waits, leave_place
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.timeout import MIN_ATTEMPT_SECONDS
from curlhttp._runtime.engine import Layer, Send
from curlhttp._runtime.race import AttemptRefused, refuse_to_wait
from curlhttp.exceptions import DeadlineExceeded

LONGEST_HOLD = 60.0  # seconds
_ORIGINS = 1000  # number of origins beyond which those that no longer wait are dropped


def start(settings: Settings, host: Host) -> None:
    """Check the setting, and remember the waits of all chains of the client.

    Raises:
        ValueError: it is neither "request" nor "origin".
    """
    if settings["retry_after"] != "origin":
        given = settings["retry_after"]
        raise ValueError(f"retry_after must be 'request' or 'origin', not {given!r:.100}")
    settings["retry_after"] = _Holds()


class _Holds:
    """Until when requests to origins wait, in monotonic seconds."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def seconds_left(self, origin: str, now: float) -> float:
        """Return how long a request to an origin has to wait now."""
        return max(0.0, self._until.get(origin, 0.0) - now) if self._until else 0.0

    def extend(self, origin: str, until: float, now: float) -> None:
        """Let requests to an origin wait until then, or for longer."""
        if len(self._until) >= _ORIGINS:
            for each, ends in tuple(self._until.items()):
                if ends <= now:
                    self._until.pop(each, None)
        self._until[origin] = max(until, self._until.get(origin, 0.0))


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that waits before requests to origins that have asked for it."""
    runtime = context.runtime
    holds: _Holds = context.settings["retry_after"]
    now, waits = runtime.now, Waits(runtime.now, context.host.totals.outcomes)

    async def wait(request: ClientRequest, origin: str, seconds: float) -> None:
        while seconds:
            left = None if request.deadline is None else request.deadline - now()
            if left is not None and seconds > left - MIN_ATTEMPT_SECONDS:
                raise DeadlineExceeded(
                    f"{request}: its origin has asked to wait {seconds:.3g} s more, but its "
                    f"deadline is in {max(0.0, left):.3g} s; it was not sent",
                    request=request,
                    request_sent=False,
                )
            await runtime.sleep(seconds)
            seconds = holds.seconds_left(origin, now())

    def wrap(send: Send) -> Send:
        async def heeding(request: ClientRequest) -> Response:
            while True:
                origin = request.url.origin
                seconds = holds.seconds_left(origin, now())
                if seconds:
                    refuse_to_wait(request, "the Retry-After of its origin")
                    with waits.watch(request, "retry_after") as begun, leave_place(request, origin):
                        await wait(request, origin, seconds)
                    request = waits.end(request, "retry_after", begun)
                try:
                    return await send(request)
                except _Held as held:
                    request = held.held

        return heeding

    return wrap


def make_learning_layer(context: LayerContext) -> Layer:
    """Return the layer that learns what origins ask for, and refuses what came too early."""
    runtime = context.runtime
    holds: _Holds = context.settings["retry_after"]

    def wrap(send: Send) -> Send:
        async def learning(request: ClientRequest) -> Response:
            origin = request.url.origin
            if holds.seconds_left(origin, runtime.now()):
                raise _Held(request)
            response = await send(request)
            if response.status_code in MAY_ASK_TO_WAIT:
                asked = parse_retry_after(response.headers, runtime.wall())
                if asked:
                    now = runtime.now()
                    holds.extend(origin, now + min(asked, LONGEST_HOLD), now)
            return response

        return learning

    return wrap


class _Held(AttemptRefused):
    """Raised through the limits, which give back what they have granted.

    Args:
        held: the request, with the waits that it had.
    """

    def __init__(self, held: ClientRequest) -> None:
        super().__init__(f"{held}: its origin has asked to wait", request=held)
        self.held = held
