"""What a blocking map sends its requests on: an engine for many at once, and the way there.

A lane serves one map at a time. It stays with its client, so that the next map finds open
connections.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from curlhttp._curl.engines.stepped import BulkEngine
from curlhttp._engine import Clock
from curlhttp._models.request import Request
from curlhttp._run import run_sync
from curlhttp.exceptions import client_closed

if TYPE_CHECKING:
    from curlhttp._client import Client

__all__ = ["Lane", "Lanes"]

Finish = Callable[[Any], object]


class Lane(Protocol):
    """Send many requests at once, driven by the one who waits for them."""

    @property
    def is_lost(self) -> bool:
        """Return whether it belongs to the process that this one was forked from."""

    def start(self, request: Request, finish: Finish) -> bool:
        """Send a request.

        Args:
            request: complete.
            finish: called with the response, or with the exception.

        Returns:
            Whether others may be sent before it is finished.
        """

    def keep_up(self) -> None:
        """Go on with what is under way, if that was not done just now."""

    def turn(self) -> None:
        """Wait until something can go on, and do so."""

    def cancel(self) -> None:
        """End all that is under way."""

    def close(self) -> None:
        """Close all connections."""


class Lanes:
    """The lanes of a client that no map uses now.

    Args:
        client: whose.
        inline: requests go through the client's own engine, one after another.
    """

    def __init__(self, client: Client, *, inline: bool) -> None:
        self._client = client
        self._kind = _InlineLane if inline else _CurlLane
        self._idle: list[Lane] = []

    def take(self) -> Lane:
        """Return a lane that is the caller's until it gives it back.

        Raises:
            ClientClosed: the client was closed.
        """
        if self._client._is_closed:
            raise client_closed()
        while self._idle:
            try:
                lane = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if not lane.is_lost:
                return lane
        return self._kind(self._client)

    def give(self, lane: Lane) -> None:
        """Keep a lane for the next map."""
        self._idle.append(lane)
        if self._client._is_closed:  # perhaps just now
            self.close()

    def close(self) -> None:
        """Close the idle lanes; the others are closed when they come back."""
        while self._idle:
            try:
                lane = self._idle.pop()
            except IndexError:
                break
            lane.close()


class _CurlLane:
    """A lane on a curl_multi of its own."""

    def __init__(self, client: Client) -> None:
        engine = BulkEngine(client._limits, multiplexes=bool(client._http2))
        self._engine = engine
        self._send = client._chain(
            partial(client._exchange, engine=engine),
            clock=Clock(engine.now, engine.wall, engine.sleep),
            gate=engine.gate,
            retries=True,  # any item may bring a policy
        )
        self.keep_up = engine.keep_up
        self.turn = engine.turn
        self.cancel = engine.cancel
        self.close = engine.close

    @property
    def is_lost(self) -> bool:
        return self._engine.is_closed

    def start(self, request: Request, finish: Finish) -> bool:
        self._engine.start(self._send(request), finish)
        return True


class _InlineLane:
    """A lane on an engine of the user's, which never suspends."""

    is_lost = False

    def __init__(self, client: Client) -> None:
        self._client = client

    def start(self, request: Request, finish: Finish) -> bool:
        outcome: Any
        try:
            outcome = run_sync(self._client._send(request))
        except Exception as error:
            outcome = error
        finish(outcome)
        return False

    def keep_up(self) -> None:
        """Do nothing: nothing is under way."""

    turn = cancel = close = keep_up
