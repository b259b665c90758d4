"""An app's lifespan: what it does before its first request and after its last (ASGI, lifespan)."""

from __future__ import annotations

from typing import Any

import anyio

from curlhttp._client.apps.app_call import Changes
from curlhttp._curl.engines.loops import BackgroundTasks


class Lifespan:
    """The lifespan of an app in one event loop.

    Args:
        app: the ASGI app.
        tasks: of the loop, for this alone.

    Attributes:
        state: what the app put there for its requests.
    """

    def __init__(self, app: Any, tasks: BackgroundTasks) -> None:  # Any: an app of the user's
        self.state: dict[str, object] = {}
        self._app = app
        self._tasks = tasks
        self._changes = Changes(tasks.make_waiter)
        self._is_begun = False
        self._is_up = False  # started, or an app without a lifespan
        self._stops = False
        self._is_done = False
        self._failed: str | None = None
        self._error: BaseException | None = None
        self._asked = False

    async def start(self) -> None:
        """Start the app, or wait until it has started.

        Raises:
            RuntimeError: it says that it failed.
        """
        if not self._is_begun:
            self._is_begun = True
            self._tasks.spawn(self._run)
        while not (self._is_up or self._failed is not None):
            await self._changes.wait()
        if self._failed is not None:
            self._tasks.cancel()
        self._check("start")

    async def stop(self) -> None:
        """Stop the app, if it runs, and wait until it has ended.

        Raises:
            RuntimeError: it says that it failed.
        """
        if not self._is_begun:
            return
        self._stops = True
        self._changes.tell()
        try:
            while self._is_up and not self._is_done:  # one that still starts is cancelled
                await self._changes.wait()
        finally:
            if not self._is_done:
                self._tasks.cancel()
                with anyio.CancelScope(shield=True):
                    await self._tasks.wait_until_done()
        if self._is_up:
            self._check("stop")

    def cancel(self) -> None:
        """End the app's task, whatever it does."""
        self._tasks.cancel()

    def _check(self, what: str) -> None:
        if self._failed is not None:
            # Frameworks send the whole traceback.
            said = "".join(f": {line}" for line in self._failed.strip().splitlines()[-1:])
            raise RuntimeError(f"the app failed to {what}{said}") from self._error

    async def _run(self) -> None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        try:
            await self._app(scope, self._receive, self._send)
        except BaseException as error:
            if isinstance(error, (self._tasks.cancelled, GeneratorExit)):
                raise
            # Without a word before, an exception says that the app knows no lifespan.
            self._error = error
            is_known = isinstance(error, Exception) and not (self._is_up and self._stops)
            if self._failed is None and not is_known:
                self._failed = f"{type(error).__name__}: {error}"
        finally:
            self._is_up = self._is_up or self._failed is None
            self._is_done = True
            self._changes.tell()

    async def _receive(self) -> dict[str, str]:
        await self._changes.give_turn()
        if not self._asked:
            self._asked = True
            return {"type": "lifespan.startup"}
        while not self._stops:
            await self._changes.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: dict[str, Any]) -> None:
        await self._changes.give_turn()
        kind = message["type"]
        if kind == "lifespan.startup.complete":
            self._is_up = True
        elif kind in ("lifespan.startup.failed", "lifespan.shutdown.failed"):
            self._failed = str(message.get("message", ""))
        elif kind != "lifespan.shutdown.complete":
            raise RuntimeError(f"no message of a lifespan: {kind!r}")
        self._changes.tell()
