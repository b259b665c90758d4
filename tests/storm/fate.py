"""The fate of a request: the fault of its server, and the behaviour of its sender."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from curlhttp.testing import Chaos

FAULTS: dict[str, int] = {  # and how often
    "none": 40,
    "cut in head": 3,
    "cut in body": 4,
    "reset in head": 3,
    "reset in body": 4,
    "reset at once": 2,
    "close at once": 3,
    "stall before head": 2,
    "stall in head": 1,
    "stall in body": 2,
    "interim": 6,
    "early answer": 6,
    "early answer and reset": 3,
    "silent close": 8,
    "silent close later": 4,
    "stray": 8,
    "slow reader": 4,
    "drip": 4,
    "half-close": 3,
    "announced close": 4,
    "announced close that is none": 2,
    "close after a while": 4,
}

DEEDS: dict[str, int] = {  # of the sender; the first two, and what ends in "cancel", in tasks only
    "cancel": 30,
    "stream and cancel": 8,
    "plain": 30,
    "deadline": 8,
    "stream": 10,
    "stream slowly": 3,
    "stream a part": 6,
    "stream and drop": 3,
    "stream and close in the midst": 4,
}

_MOMENTS = (0.0, 0.0, 20e-6, 100e-6, 300e-6, 1e-3, 2e-3, 5e-3, 20e-3)  # seconds until a cancel
_METHODS = ("GET",) * 5 + ("POST",) * 4 + ("PUT", "DELETE", "PATCH")
_SIZES = (0, 1, 100, 3000, 20_000, 100_000)


@dataclass(frozen=True)
class Fate:
    """What happens to one request.

    Attributes:
        number: the request's.
        method: its method.
        upload: bytes of its body, or None.
        streams: the body comes piece by piece, so that it can be sent once only.
        fault: what the server does.
        size: bytes of the response, at least.
        framing: "length", "chunked" or "close".
        deed: what the sender does.
        moment: seconds until a cancel, or of a deadline.
        delay: seconds that the server lets pass somewhere.
        share: where in a body something happens.
    """

    number: int
    method: str
    upload: int | None
    streams: bool
    fault: str
    size: int
    framing: str
    deed: str
    moment: float
    delay: float
    share: float

    @property
    def name(self) -> str:
        """Return what the request is called."""
        return f"s{self.number}"

    @property
    def once(self) -> bool:
        """Return whether the server must not see the request a second time."""
        return self.method in ("POST", "PATCH") or self.streams

    @property
    def stalls(self) -> bool:
        """Return whether the server falls silent on purpose."""
        return self.fault.startswith("stall")

    def pieces(self) -> Iterator[bytes]:
        """Give the body of the request in pieces."""
        left = self.upload or 0
        while left > 0:
            yield b"u" * min(left, 8000)
            left -= 8000


def fate_of(seed: int, number: int) -> Fate:
    """Return what happens to a request.

    Args:
        seed: of the run.
        number: the request's.
    """
    random = Random(f"{seed}/{number}")
    method = random.choice(_METHODS)
    sends = method in ("POST", "PUT", "PATCH")
    upload = random.choice(_SIZES) if sends else None
    return Fate(
        number=number,
        method=method,
        upload=upload,
        streams=bool(upload) and random.random() < 0.3,
        fault=_pick(random, FAULTS),
        size=random.choice(_SIZES),
        framing=random.choice(["length", "length", "chunked", "close"]),
        deed=_pick(random, DEEDS),
        moment=random.choice(_MOMENTS) * random.random() * 2,
        delay=random.choice([0.0, 20e-6, 100e-6, 300e-6, 1e-3, 3e-3]),
        share=random.random(),
    )


CHAOS_STATUS = 503  # which the server of the storm never sends


def make_chaos(seed: int) -> Chaos:
    """Return what adds faults within the client to those of the server.

    Args:
        seed: of the run.
    """
    return Chaos(
        seed,
        latency={(0.0, 2e-3): 0.2},
        refuse=0.05,
        reset=0.1,
        cut=0.1,
        status={CHAOS_STATUS: lambda request: 0.0 if request.stream else 0.05},
        slow={5e6: 0.1},
        when=lambda request: request.url.path.startswith("/s/"),
    )


def _pick(random: Random, weights: dict[str, int]) -> str:
    return random.choices(list(weights), list(weights.values()))[0]
