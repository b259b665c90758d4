"""Injected faults: a wrapper of attempts that delays, refuses and breaks some of them.

To the layers above, an injected fault looks like a real one. What happens to an attempt depends
only on the seed, on its method and URL, and on how many attempts with the same method and URL came
before it. So it does not depend on the order in which threads and tasks run.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random, SystemRandom
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from curlhttp._client.streamed_response import BaseStreamedResponse, WrappedIncoming
from curlhttp._client.transport import AttemptWrapper
from curlhttp._http.errors import Unpicklable
from curlhttp._http.headers import parse_length
from curlhttp._http.redaction import display_url
from curlhttp._http.request import ClientRequest, is_handshake
from curlhttp._http.response import Response, has_body
from curlhttp._http.timings import NO_TIME
from curlhttp._runtime.engine import Incoming, Runtime, Send
from curlhttp._runtime.log import INFO, log
from curlhttp.exceptions import ChunkedEncodingError, ConnectionError
from curlhttp.testing._scripted import apply_timeouts

# --- Which faults an attempt gets ---

Chance: TypeAlias = "float | Callable[[ClientRequest], float]"
"""A probability from 0 to 1, or a function of the request that returns one, or a bool."""

Seconds: TypeAlias = "float | tuple[float, float]"
"""A number of seconds, or the bounds of a random one."""

V = TypeVar("V")
_Choices: TypeAlias = "Sequence[tuple[V, Chance]]"


class Injected(NamedTuple):
    """One fault that was injected.

    Attributes:
        fault: "latency", "refuse", "reset", "status", "cut" or "slow".
        value: seconds of latency, the status code, bytes per second, or the bytes of the body
            before a cut; None for the others.
        method: of the request.
        url: of the request, without credentials.
        number: of the attempt, among those with the same method and URL; starts at 1.
    """

    fault: str
    value: float | None
    method: str
    url: str
    number: int


class Fate(NamedTuple):
    """What happens to one attempt.

    Attributes:
        number: see Injected.
        latency: seconds before it is sent.
        failure: "refuse", "reset", "status", or "" for none.
        status_code: for "status".
        cut: the share of the body after which it ends, or None.
        speed: bytes of the body per second, or None for full speed.
    """

    number: int = 0
    latency: float = 0.0
    failure: str = ""
    status_code: int = 0
    cut: float | None = None
    speed: float | None = None


_SPARED = Fate()
_MAX_KNOWN = 65_536  # pairs of method and URL whose attempts are counted
_MAX_INJECTED = 10_000
_VARIABLE = "CURLHTTP_CHAOS"


class Chaos(AttemptWrapper, Unpicklable):
    """Inject faults into the requests of a client: `Client(transport=Chaos(seed=1, refuse=0.1))`.

    The faults apply to each attempt, including those of streams, downloads and maps. Redirects,
    retries, limits, breakers and hedges handle them like real faults. An attempt gets at most one
    of `refuse`, `reset` and `status`, in this order. Without `transport=`, use `wrap(engine)`:
    `Client(transport=Chaos(seed=1, refuse=0.1).wrap(ScriptedEngine([...])))`.

    A single value of `latency`, `status` or `slow` applies to all requests. A mapping gives each
    value a probability: `status={503: 0.1, 429: 0.05}`. A probability is a number from 0 to 1, or a
    function of the ClientRequest that returns a number or a bool.

    Args:
        seed: determines the faults of a run. None for a random seed; see the attribute `seed`.
        latency: seconds to wait before the request is sent, or (least, most) for a random time. It
            counts towards the read timeout and the total timeout. If a request may be hedged, the
            next attempt can win while this one waits.
        refuse: probability that the connection is refused; nothing is sent.
        reset: probability that the connection breaks before the response. The request is sent,
            and the response is dropped.
        cut: probability that the body of the response ends early.
        status: status codes, from 400 to 599, of a response that replaces the server's; nothing is
            sent.
        slow: the bytes per second at which the body of the response arrives.
        when: a function of the ClientRequest that returns whether to inject faults into it at all.

    Attributes:
        seed: the argument, or the random seed.
        injected: the latest 10,000 faults, oldest first.

    Raises:
        ValueError: a number is out of its range.
        TypeError: an argument has a wrong type.
    """

    _why_not = "it counts requests; make one with the same seed where it is needed"

    def __init__(
        self,
        seed: int | str | None = None,
        *,
        latency: Seconds | Mapping[Seconds, Chance] | None = None,
        refuse: Chance = 0.0,
        reset: Chance = 0.0,
        cut: Chance = 0.0,
        status: int | Mapping[int, Chance] | None = None,
        slow: float | Mapping[float, Chance] | None = None,
        when: Callable[[ClientRequest], bool] | None = None,
    ) -> None:
        if seed is None:
            seed = SystemRandom().randrange(1 << 32)
        if not isinstance(seed, (int, str)):
            raise TypeError(f"seed is an int, a str or None, not {type(seed).__name__}")
        if when is not None and not callable(when):
            raise TypeError(f"when is a function of the request or None, not {when!r}")
        self.seed: int | str = seed
        self.injected: deque[Injected] = deque(maxlen=_MAX_INJECTED)
        self._latency = _parse_choices("latency", latency, _check_seconds)
        self._refuse = _check_chance("refuse", refuse)
        self._reset = _check_chance("reset", reset)
        self._cut = _check_chance("cut", cut)
        self._status = _parse_choices("status", status, _check_status)
        self._speed = _parse_choices("slow", slow, _check_speed)
        self._when = when
        self._numbers: dict[str, itertools.count[int]] = {}

    @classmethod
    def from_env(
        cls,
        environ: Mapping[str, str] | None = None,
        *,
        when: Callable[[ClientRequest], bool] | None = None,
    ) -> Chaos | None:
        """Return a Chaos with the settings in CURLHTTP_CHAOS, None if it is not set or empty.

        Nothing else reads this variable. Its value is a list of the arguments, separated by spaces:
        `seed=7 refuse=0.1 latency=0.1..0.5:0.2 status=503:0.05,429:0.05 slow=1024:0.1`. A colon
        separates a value from its probability. A value without a probability applies to all
        requests.

        Args:
            environ: the variables; None for those of the process.
            when: see Chaos.

        Raises:
            ValueError: the variable has an unknown name or an invalid value.
        """
        text = (os.environ if environ is None else environ).get(_VARIABLE, "")
        settings = dict(map(_parse_setting, text.split()))
        return cls(when=when, **settings) if settings else None

    def pick(self, request: ClientRequest) -> Fate:
        """Return what happens to the next attempt of a request.

        Args:
            request: complete.
        """
        if self._when is not None and not self._when(request):
            return _SPARED
        # Without the port, because servers of tests have another one in each run.
        key = " ".join((request.method, request.url.host, request.url.target))
        number = self._count(key)
        # Always all of them, so that one setting does not change what follows from another one.
        random = Random(f"{self.seed} {key} {number}")
        late, share, refuse, reset, status, cut, where, slow = (random.random() for _ in range(8))
        latency = _choose(self._latency, late, request)
        low, high = latency or (0.0, 0.0)
        status_code = _choose(self._status, status, request)
        failure = "status" if status_code else ""
        if reset < _get_chance(self._reset, request):
            failure = "reset"
        if refuse < _get_chance(self._refuse, request):
            failure = "refuse"
        return Fate(
            number,
            low + share * (high - low),
            failure,
            status_code or 0,
            where if cut < _get_chance(self._cut, request) else None,
            _choose(self._speed, slow, request),
        )

    def _count(self, key: str) -> int:
        if len(self._numbers) > _MAX_KNOWN:
            self._numbers.clear()
        # Each of these steps is one of the interpreter, so threads need no lock.
        return next(self._numbers.setdefault(key, itertools.count(1)))

    def note(
        self, request: ClientRequest, fate: Fate, fault: str, value: float | None = None
    ) -> None:
        """Record and log a fault that is about to happen.

        Args:
            request: of the attempt.
            fate: of the attempt.
            fault: see Injected.
            value: see Injected.
        """
        url = display_url(request.url)
        self.injected.append(Injected(fault, value, request.method, url, fate.number))
        if log.is_enabled_for(INFO):
            log.logger.info(
                "chaos: %s %s: %s%s (seed %s, attempt %d)",
                request.method,
                url,
                fault,
                "" if value is None else f" {value:.6g}",
                self.seed,
                fate.number,
            )

    async def around(self, request: ClientRequest, send: Send, runtime: Runtime) -> Response:
        """Send a request and return its response, with the faults of this attempt."""
        fate = self.pick(request)
        attempt = _FaultyAttempt(self, request, fate, runtime)
        if fate.latency:
            attempt.note("latency", fate.latency)
            await attempt.wait(fate.latency)
        is_socket = is_handshake(request)
        if fate.failure == "refuse":
            attempt.note("refuse")
            raise _make_refusal(request)
        if fate.failure == "reset":
            if not is_socket:
                # The worst case: the server has processed the request.
                streamed = request.copy()
                streamed.stream = True
                (await send(streamed)).abort()
            attempt.note("reset")
            raise _make_reset(request)
        if fate.failure == "status" and not is_socket:
            attempt.note("status", fate.status_code)
            text = f"{fate.status_code} from curlhttp.testing.Chaos\n"
            headers = {"Content-Type": "text/plain"}
            return request.respond(fate.status_code, headers=headers, content=text)
        response = await send(request)
        if fate.cut is not None or fate.speed is not None:
            if isinstance(response, BaseStreamedResponse):
                response.wrap_incoming(partial(_FaultyIncoming, attempt))
            elif response.content:
                await attempt.spoil(len(response.content))
        return response

    def __repr__(self) -> str:
        return f"<curlhttp.testing.Chaos seed={self.seed!r}>"


def _get_chance(chance: Chance, request: ClientRequest) -> float:
    return chance(request) if callable(chance) else chance


def _choose(choices: _Choices[V], drawn: float, request: ClientRequest) -> V | None:
    """Return the value that a number from 0 to 1 falls on, or None."""
    for value, chance in choices:
        drawn -= _get_chance(chance, request)
        if drawn < 0:
            return value
    return None


# --- Check the settings ---


def _check_chance(name: str, chance: Chance) -> Chance:
    if not callable(chance) and not 0 <= _check_number(name, chance) <= 1:
        raise ValueError(f"{name} is a probability from 0 to 1, not {chance!r}")
    return chance


def _check_number(name: str, value: object) -> float:
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} takes numbers, not {value!r}")
    return value


def _check_seconds(seconds: object) -> tuple[float, float]:
    is_range = isinstance(seconds, tuple) and len(seconds) == 2
    pair = cast("tuple[object, object]", seconds if is_range else (seconds, seconds))
    low, high = (_check_number("latency", each) for each in pair)
    if not 0 <= low <= high < math.inf:
        raise ValueError(f"latency is seconds, or (least, most), not {seconds!r}")
    return low, high


def _check_status(status_code: object) -> int:
    if not isinstance(status_code, int) or not 400 <= status_code <= 599:
        raise ValueError(f"status is a status code from 400 to 599, not {status_code!r}")
    return status_code


def _check_speed(speed: object) -> float:
    number = _check_number("slow", speed)
    if not 0 < number < math.inf:
        raise ValueError(f"slow is a positive number of bytes per second, not {speed!r}")
    return number


def _parse_choices(name: str, given: object, check: Callable[[object], V]) -> _Choices[V]:
    """Return checked values with their probabilities."""
    if given is None:
        return ()
    pairs = given.items() if isinstance(given, Mapping) else [(given, 1.0)]
    found = [(check(value), _check_chance(name, chance)) for value, chance in pairs]
    total = sum(chance for _, chance in found if not callable(chance))
    if total > 1 + 1e-9:
        raise ValueError(f"the probabilities of {name} add up to {total:g}, which is above 1")
    return found


# Any: the arguments of Chaos have several types.
def _parse_setting(text: str) -> tuple[str, Any]:
    """Return the name and the value of an argument of Chaos."""
    name, _, value = text.partition("=")
    try:
        if name == "seed":
            return name, int(value) if value.lstrip("-").isdecimal() else value
        if name in ("refuse", "reset", "cut"):
            return name, float(value)
        return name, dict(_parse_choice(_PARSERS[name], each) for each in value.split(","))
    except (KeyError, ValueError):
        raise ValueError(
            f"{_VARIABLE} has {text!r:.80}; write, for example, seed=7 refuse=0.1 "
            "latency=0.1..0.5:0.2 status=503:0.05,429:0.05 slow=1024:0.1"
        ) from None


def _parse_choice(parse: Callable[[str], V], text: str) -> tuple[V, float]:
    value, colon, chance = text.partition(":")
    return parse(value), float(chance) if colon else 1.0


def _parse_seconds(text: str) -> tuple[float, float]:
    low, dots, high = text.partition("..")
    return float(low), float(high if dots else low)


_PARSERS: dict[str, Callable[[str], object]] = {
    "latency": _parse_seconds,
    "status": int,
    "slow": float,
}

# --- Make them happen ---

_DRIP = 0.1  # seconds between the pieces of a slow body
_FIRST = 16 * 1024  # bytes of a body of unknown length, within which it is cut


def _make_refusal(request: ClientRequest) -> ConnectionError:
    error = ConnectionError(
        f"{request}: chaos: the connection was refused", request=request, curl_code=7
    )
    error.errno = errno.ECONNREFUSED
    return error


def _make_reset(request: ClientRequest) -> ConnectionError:
    text = "the connection broke before the response was complete"
    return ConnectionError(
        f"{request}: chaos: {text}", request=request, curl_code=56, request_sent=True
    )


def _make_cut(request: ClientRequest) -> ChunkedEncodingError:
    text = "the response body ended early"
    return ChunkedEncodingError(
        f"{request}: chaos: {text}", request=request, curl_code=18, request_sent=True
    )


class _FaultyAttempt:
    """One attempt and its faults."""

    def __init__(self, chaos: Chaos, request: ClientRequest, fate: Fate, runtime: Runtime) -> None:
        self._chaos = chaos
        self.request = request
        self.fate = fate
        self._runtime = runtime

    def note(self, fault: str, value: float | None = None) -> None:
        """Record and log a fault that is about to happen."""
        self._chaos.note(self.request, self.fate, fault, value)

    async def spoil(self, size: int) -> None:
        """Delay or cut a body that is in memory."""
        cut, speed = self.fate.cut, self.fate.speed
        arrives = size if cut is None else int(cut * size)
        if speed is not None:
            self.note("slow", speed)
            await self.wait(1 / speed)
            # The read timeout is for the time between two bytes.
            await self.wait((arrives - 1) / speed, is_silent=False)
        if cut is not None:
            self.note("cut", arrives)
            raise _make_cut(self.request)

    async def wait(self, seconds: float, *, is_silent: bool = True) -> None:
        """Wait, up to the timeouts of the request.

        Args:
            seconds: how long.
            is_silent: whether nothing arrives in that time, so that the read timeout applies.

        Raises:
            ReadTimeout, DeadlineExceeded: this is longer than a timeout.
        """
        now = self._runtime.now()
        lasts, late = apply_timeouts(self.request, seconds, now, waits_for_response=is_silent)
        if lasts > 0:
            await self._runtime.sleep(lasts)
        if late is not None:
            try:
                raise late
            finally:
                del late  # to break the reference cycle with its traceback


class _FaultyIncoming(WrappedIncoming):
    """A response whose body arrives slowly, or ends early."""

    def __init__(self, attempt: _FaultyAttempt, incoming: Incoming) -> None:
        super().__init__(incoming)
        self._attempt = attempt
        self._piece = b""
        self._left = self._find_cut(attempt.request)
        self._arrived = 0

    def _find_cut(self, request: ClientRequest) -> int | None:
        """Return how many bytes arrive before the cut, None for all."""
        cut, head = self._attempt.fate.cut, self.head
        if cut is None or not has_body(request.method, head.status_code):
            return None
        value = Response(request, head, b"", NO_TIME).headers.get("content-length", "")
        length = parse_length(value)
        if length is None:
            return int(cut * _FIRST)
        return int(cut * length) if length else None

    @property
    def done(self) -> bool:
        """Return whether reading the rest does not wait."""
        return self._attempt.fate.speed is None and super().done

    async def read(self) -> bytes:
        """Return the next piece of the body, later than it came; b"" at the end.

        Raises:
            ChunkedEncodingError: this is where it is cut.
        """
        if not self._piece:
            self._piece = await self._incoming.read()
        if self._left is not None and (not self._left or not self._piece):
            is_over = not self._piece
            self._piece = b""
            if not is_over:
                self._incoming.abort()
            self._attempt.note("cut", self._arrived)
            raise _make_cut(self._attempt.request)
        speed = self._attempt.fate.speed
        size = len(self._piece) if speed is None else max(1, int(speed * _DRIP))
        if self._left is not None:
            size = min(size, self._left)
        piece = self._piece[:size]
        if speed is not None and piece:
            if not self._arrived:
                self._attempt.note("slow", speed)
            try:
                await self._attempt.wait(len(piece) / speed)
            except BaseException:
                self.abort()
                raise
        self._piece = self._piece[len(piece) :]
        self._arrived += len(piece)
        if self._left is not None:
            self._left -= len(piece)
        return piece
