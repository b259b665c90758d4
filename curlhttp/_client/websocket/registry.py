"""Answer pings on WebSockets that nobody reads, and send keepalive pings.

About once a second it lets each that nobody receives on read what is there, which answers pings
and notices the end; and it has each send its own pings. It decides nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING
from weakref import WeakSet

from curlhttp._engine.engine import Gate, MakeGate
from curlhttp._models.fork import register

if TYPE_CHECKING:
    from curlhttp._client.websocket.connection import WebSocketConnection

__all__ = ["WebSocketRegistry"]


_LEAST, _MOST = 0.01, 1.0  # seconds between two rounds


class WebSocketRegistry:
    """Look after the WebSockets of one client, or of one event loop.

    Args:
        now: gives monotonic seconds.
        gate: makes a gate of the engine.
        start: starts a coroutine function beside the caller: a thread, or a task.

    Attributes:
        gate: makes a gate of the engine.
        runs: there are some to look after.
    """

    def __init__(
        self,
        now: Callable[[], float],
        gate: MakeGate,
        start: Callable[[Callable[[], Coroutine[object, None, None]]], object],
    ) -> None:
        self._now = now
        self.gate = gate
        self._start = start
        self._connections: WeakSet[WebSocketConnection] = WeakSet()
        self._woken: Gate | None = None
        self.runs = False
        self._lock = threading.Lock()
        register(self)

    def add(self, connection: WebSocketConnection) -> None:
        """Look after a WebSocket from now on."""
        with self._lock:
            self._connections.add(connection)
            starts, self.runs = not self.runs, True
        if starts:
            self._start(self._run)
        else:
            self._wake()

    def remove(self, connection: WebSocketConnection) -> None:
        """Look after it no more."""
        self._connections.discard(connection)
        if not self._connections:
            self._wake()

    def _wake(self) -> None:
        woken = self._woken
        if woken is not None:
            woken.open()

    async def _run(self) -> None:
        try:
            while True:
                woken = self._woken = self.gate()
                seconds = self._round()
                with self._lock:
                    if not self._connections:
                        self.runs = False
                        return
                await woken.wait(seconds)
        except BaseException:  # the event loop ends
            self.runs = False
            raise

    def _round(self) -> float:
        """Have each do what is due; return the seconds until the next round."""
        now = self._now()
        due = now + _MOST
        for connection in tuple(self._connections):
            due = min(due, connection.attend(now))
        return max(_LEAST, due - self._now())

    def after_fork_in_child(self) -> None:
        """Leave the WebSockets to the parent; its thread is not here."""
        self._connections = WeakSet()
        self._lock = threading.Lock()
        self.runs, self._woken = False, None
