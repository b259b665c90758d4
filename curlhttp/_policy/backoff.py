"""How long to wait before the next attempt, as endless sequences of seconds.

Pure: chance comes in as an argument, and the state of a sequence is the request's own. No delay
is below zero or above max_backoff, however long the sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

__all__ = [
    "Backoff",
    "DecorrelatedJitterBackoff",
    "EqualJitterBackoff",
    "ExponentialBackoff",
    "FullJitterBackoff",
    "Uniform",
]

Uniform: TypeAlias = Callable[[float, float], float]
"""A random source: gives a number between the two, as random.uniform does."""


class Backoff(Protocol):
    """What RetryPolicy takes as backoff_strategy; one of yours will do."""

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give the seconds to wait before the second attempt, the third, and so on, without end.

        Args:
            uniform: the random source.
        """


def _check(**seconds: float) -> None:
    for name, value in seconds.items():
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be a number of seconds, not {value!r}")


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Wait longer each time, by a fixed factor and without chance.

    Clients that fail together then come back together: the kinds with jitter are better company.

    Args:
        base: the first delay, in seconds.
        factor: by what each delay is longer than the one before.
        max_backoff: the longest delay, in seconds.

    Raises:
        ValueError: a time is negative or not finite, or the factor is below one.
    """

    base: float = 0.1
    factor: float = 2.0
    max_backoff: float = 10.0

    def __post_init__(self) -> None:
        _check(base=self.base, max_backoff=self.max_backoff)
        if not (self.factor >= 1 and math.isfinite(self.factor)):
            raise ValueError(f"factor must be at least 1, not {self.factor!r}")

    def _ceilings(self) -> Iterator[float]:
        # Step by step, since factor ** 10_000 is no float any more.
        ceiling = min(self.base, self.max_backoff)
        while True:
            yield ceiling
            ceiling = min(ceiling * self.factor, self.max_backoff)

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give base, base * factor, base * factor ** 2, ... up to max_backoff."""
        return self._ceilings()


@dataclass(frozen=True, slots=True)
class FullJitterBackoff(ExponentialBackoff):
    """Wait anything between nothing and the exponential delay: the least work for the server.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give numbers between 0 and the exponential delay."""
        return (uniform(0.0, ceiling) for ceiling in self._ceilings())


@dataclass(frozen=True, slots=True)
class EqualJitterBackoff(ExponentialBackoff):
    """Wait at least half of the exponential delay; chance has the other half.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give numbers between half the exponential delay and all of it."""
        for ceiling in self._ceilings():
            half = ceiling / 2
            yield half + uniform(0.0, half)


@dataclass(frozen=True, slots=True)
class DecorrelatedJitterBackoff:
    """Wait between base and three times the last delay.

    Args:
        base: the shortest delay, in seconds.
        max_backoff: the longest, in seconds.

    Raises:
        ValueError: a time is negative or not finite.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    base: float = 0.1
    max_backoff: float = 10.0

    def __post_init__(self) -> None:
        _check(base=self.base, max_backoff=self.max_backoff)

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give numbers between base and thrice the one before, up to max_backoff."""
        last = self.base
        while True:
            last = min(self.max_backoff, uniform(self.base, last * 3))
            yield last
