"""A route of a mock: which requests it is for, and what it answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from curlhttp.exceptions import RequestException
from curlhttp.testing._pattern import Pattern
from curlhttp.testing._script import Answer, Fault, Step, as_step
from curlhttp.testing._sent import Sent

if TYPE_CHECKING:
    from curlhttp._models.inputs import JSON, HeadersInput

__all__ = ["Route"]

Choice: TypeAlias = "Callable[[Sent], Step | Awaitable[Step]]"
"""Chooses the step for a request."""


class Route:
    """What requests of one kind are answered.

    Attributes:
        calls: a Sent for each request that it took, oldest first.
        pattern: which requests it is for.
        choose: the function that was given to respond, or None.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.calls: list[Sent] = []
        self.pattern: Pattern = pattern
        self._step: Answer | Fault = Answer()
        self._steps: Iterator[Step] | None = None
        self.choose: Choice | None = None
        self._ahead: Step | None = None  # of the steps, the next one

    @property
    def called(self) -> bool:
        """Return whether it took a request."""
        return bool(self.calls)

    @property
    def call_count(self) -> int:
        """Return how many requests it took."""
        return len(self.calls)

    def respond(
        self,
        answer: Step | Iterable[Step] | Choice = 200,
        *,
        headers: HeadersInput | None = None,
        content: bytes | str | Sequence[bytes] = b"",
        json: JSON = None,
        delay: float = 0.0,
        pace: float = 0.0,
        error: RequestException | None = None,
    ) -> Route:
        """Set what it answers, and return the route.

        Args:
            answer: a status, of which the other arguments make an Answer; a step; steps, each for
                one request: after the last the route is for no more; or a function, which may be
                a coroutine function for AsyncClient, that returns a step for a Sent.
            headers: see Answer, as all others.
            content: the body.
            json: the body.
            delay: seconds.
            pace: seconds.
            error: what breaks the body off.

        Raises:
            TypeError: the answer is none, or is whole and there are other arguments.
        """
        rest = (headers, content, json, delay, pace, error)
        self.choose, self._steps = None, None
        if isinstance(answer, int):
            self._step = Answer(
                answer, headers, content, delay=delay, pace=pace, error=error, json=json
            )
            return self
        if any(rest):
            raise TypeError("give the rest of an answer to Answer(...), or a status to respond")
        if callable(answer):
            self.choose = answer
        elif isinstance(answer, (Answer, Fault, RequestException)):
            self._step = as_step(answer)
        else:
            self._steps = map(as_step, answer)
        return self

    def raises(self, error: RequestException | type[RequestException] | Fault) -> Route:
        """Set what each request of it fails with, and return the route.

        Args:
            error: a RequestException, its class, or a fault such as reset().

        Raises:
            TypeError: clients raise no such error.
        """
        if isinstance(error, type) and issubclass(error, RequestException):
            error = error(f"{error.__name__} of a mock")
        if not isinstance(error, (RequestException, Fault)):
            raise TypeError(f"a client raises RequestException and its kin, not {error!r}")
        self.choose, self._steps, self._step = None, None, as_step(error)
        return self

    def has_more(self) -> bool:
        """Return whether it has an answer to one more request."""
        if self._steps is None or self._ahead is not None:
            return True
        self._ahead = next(self._steps, None)
        return self._ahead is not None

    def take(self) -> Answer | Fault:
        """Return the next answer, after has_more said that there is one."""
        if self._steps is None:
            return self._step
        step, self._ahead = self._ahead, None
        assert step is not None
        return as_step(step)

    def __repr__(self) -> str:
        return f"<Route {self.pattern}, {self.call_count} calls>"
