"""Worker processes on one Redis, blocking and async in turn, and a counter of requests."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple

from tests.servers import AppConnection, AppServer
from tests.servers.record import Record
from tests.support.internals import ROOT


class Outcome(NamedTuple):
    """The outcome of a request.

    Attributes:
        begun: monotonic seconds, which all processes of a machine share.
        seconds: that it took.
        what: the status, or the name of the error.
    """

    begun: float
    seconds: float
    what: str


class WorkerPool:
    """Processes that send requests, in `with`; all of them are killed at the end.

    Args:
        url: of their requests.
        redis: URL of the Redis that they share.
        count: of processes.
        at_once: threads or tasks in each.
        pause: seconds of each after a request.
        store: arguments of RedisStore.
        policies: names of policies of a client, each with its arguments.
    """

    def __init__(
        self,
        url: str,
        redis: str,
        *,
        count: int = 8,
        at_once: int = 3,
        pause: float = 0.0,
        store: dict[str, Any] | None = None,
        **policies: dict[str, Any],
    ) -> None:
        self.url, self.redis, self.count = url, redis, count
        self._common = {
            "url": url,
            "redis": redis,
            "at_once": at_once,
            "pause": pause,
            # Long, so that a busy machine gives no other responses.
            "store": {"timeout": 20.0} if store is None else store,
            "policies": policies,
        }
        self.processes: list[subprocess.Popen[str]] = []
        self._new: list[subprocess.Popen[str]] = []

    def __enter__(self) -> WorkerPool:
        for number in range(self.count):
            self.add("threads" if number % 2 else "tasks")
        self.ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()

    def add(self, style: str) -> None:
        """Start one more process, for ready() and send()."""
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.redis.worker",
                json.dumps({**self._common, "style": style}),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        self._new.append(process)

    def ready(self) -> None:
        """Wait until the processes that were added last are ready."""
        while self._new:
            assert _line(self._new.pop()) == "ready\n"

    def go(self) -> float:
        """Start all; return when, in monotonic seconds."""
        begun = time.monotonic()
        for process in self.processes:
            self.send(process)
        return begun

    def send(self, process: subprocess.Popen[str]) -> None:
        """Start or stop one."""
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    def stop(self) -> list[list[Outcome]]:
        """Stop all; return the outcomes of the requests of each."""
        for process in self.processes:
            self.send(process)
        found = []
        for process in self.processes:
            out, _ = process.communicate(timeout=120)
            assert process.returncode == 0
            found.append([Outcome(*outcome) for outcome in json.loads(out)])
        return found

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill one."""
        process.kill()
        process.communicate()
        self.processes.remove(process)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


class RequestCounter:
    """Note when requests arrive at a server, and how many are there at once.

    Attributes:
        arrivals: monotonic seconds.
        most: requests at once.
        status: of the responses.
        open: responses wait until it is set.
    """

    def __init__(self, app: AppServer, seconds: float = 0.0) -> None:
        self.arrivals: list[float] = []
        self.now, self.most, self.status = 0, 0, 200
        self.open = threading.Event()
        self.open.set()
        self._seconds = seconds
        self._lock = threading.Lock()
        self.url = f"{app.url}/counted"
        app.route("/counted", self._answer)

    def _answer(self, record: Record, conn: AppConnection) -> None:
        with self._lock:
            self.arrivals.append(time.monotonic())
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            time.sleep(self._seconds)
            self.open.wait(60)
        finally:
            with self._lock:
                self.now -= 1
        conn.reply(self.status)


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came to it"
        time.sleep(0.01)
