"""Middleware that workers import; it kills the worker or the driver in the middle of a fetch."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Killing:
    """Kill a process when a URL with a certain ending is requested, up to `times` times.

    Files named after `mark` count the kills over all processes.
    """

    ending: str
    mark: Path
    kills_driver: bool = False
    times: int = 1

    async def __call__(self, request: Any, send: Any) -> Any:
        if str(request.url).endswith(self.ending):
            for number in range(self.times):
                try:
                    self.mark.with_suffix(f".{number}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getppid() if self.kills_driver else os.getpid(), signal.SIGKILL)
                break
        return await send(request)
