"""Run a server in its own process, with a pipe to query what it received.

Its memory, threads and descriptors are then not those of the clients, which are counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

_ROOT = Path(__file__).parents[2]
_PATIENCE = 30.0  # seconds for the child to end on its own


class ServerProcess:
    """Run a module that calls serve_questions(), until the `with` block ends.

    Attributes:
        hello: its first message, such as its port.
    """

    def __init__(self, module: str, *arguments: object) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_ROOT,
        )
        self.hello = self._read()

    def ask(self, question: Any) -> Any:
        """Return the child's reply; both are JSON."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server's process ended: {self._process.wait()}")
        return json.loads(line)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            status = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._process.stdout.close()
        if status and error is None:
            raise RuntimeError(f"the server's process failed: {status}")


def serve_questions(hello: Any, response: Callable[[Any], Any]) -> None:
    """Write hello, then a reply to each line until the parent closes the pipe or ends."""
    _write(hello)
    for line in sys.stdin:
        _write(response(json.loads(line)))


def _write(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
