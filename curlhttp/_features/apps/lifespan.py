"""The lifespan of an app: its startup and shutdown (the lifespan protocol of ASGI)."""

from __future__ import annotations

from typing import Any

import anyio

from curlhttp._features.apps.app_call import Condition, UnexpectedMessage
from curlhttp._runtime.loops import BackgroundTasks


class Lifespan:
    """The lifespan of an app in one event loop.

    Args:
        app: the ASGI app.
        tasks: background tasks of the loop, for the lifespan only.

    Attributes:
        state: what the app stored there for its requests.
    """

    def __init__(self, app: Any, tasks: BackgroundTasks) -> None:  # Any: an app of the user's
        self.state: dict[str, object] = {}
        self._app = app
        self._tasks = tasks
        self._changed = Condition(tasks.make_waiter)
        self._is_begun = False
        self._is_up = False  # it has started, or does not support lifespan
        self._is_stopping = False
        self._is_done = False
        self._failed: str | None = None
        self._error: BaseException | None = None
        self._has_sent_startup = False

    async def start(self) -> None:
        """Start the app, or wait until it has started.

        Raises:
            RuntimeError: the app reports that it failed.
        """
        if not self._is_begun:
            self._is_begun = True
            self._tasks.spawn(self._run)
        while not (self._is_up or self._failed is not None):
            await self._changed.wait()
        if self._failed is not None:
            self._tasks.cancel()
        self._check("start")

    async def stop(self) -> None:
        """Stop the app if it is running, and wait until it has ended.

        Raises:
            RuntimeError: the app reports that it failed.
        """
        if not self._is_begun:
            return
        self._is_stopping = True
        self._changed.notify_all()
        try:
            while self._is_up and not self._is_done:  # an app that is still starting is cancelled
                await self._changed.wait()
        finally:
            if not self._is_done:
                self._tasks.cancel()
                with anyio.CancelScope(shield=True):
                    await self._tasks.wait_until_done()
        if self._is_up:
            self._check("stop")

    def cancel(self) -> None:
        """Cancel the app's task."""
        self._tasks.cancel()

    def _check(self, what: str) -> None:
        if self._failed is not None:
            # Frameworks send the whole traceback, so the last line is the reason.
            reason = "".join(f": {line}" for line in self._failed.strip().splitlines()[-1:])
            raise RuntimeError(f"the app failed to {what}{reason}") from self._error

    async def _run(self) -> None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        try:
            await self._app(scope, self._receive, self._send)
        except BaseException as error:
            if self._tasks.was_cancelled(error) or isinstance(error, GeneratorExit):
                raise
            # An exception without an earlier message means that the app has no lifespan.
            self._error = error
            is_harmless = isinstance(error, Exception) and not (self._is_up and self._is_stopping)
            if self._failed is None and not is_harmless:
                self._failed = f"{type(error).__name__}: {error}"
        finally:
            self._is_up = self._is_up or self._failed is None
            self._is_done = True
            self._changed.notify_all()

    async def _receive(self) -> dict[str, str]:
        await self._changed.checkpoint()
        if not self._has_sent_startup:
            self._has_sent_startup = True
            return {"type": "lifespan.startup"}
        while not self._is_stopping:
            await self._changed.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: dict[str, Any]) -> None:
        await self._changed.checkpoint()
        kind = message["type"]
        if kind == "lifespan.startup.complete":
            self._is_up = True
        elif kind in ("lifespan.startup.failed", "lifespan.shutdown.failed"):
            self._failed = str(message.get("message", ""))
        elif kind != "lifespan.shutdown.complete":
            raise UnexpectedMessage(kind)
        self._changed.notify_all()
