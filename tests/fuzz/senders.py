"""Send cases and read their responses, each with a client that all blocks share."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import curlhttp
from curlhttp.exceptions import RequestException
from tests.fuzz.case import Case
from tests.fuzz.checker import Checker

THREADS = 4  # that share a client
_EVERY = 12  # cases between two controls
TRIES = 8  # of a control: each idle connection that a case has spoiled may end under it
TIMEOUT = 15.0


class Sender(ABC):
    """One way to send requests and read responses.

    Args:
        checker: of the outcomes.
        kind: of the cases.
    """

    may_stall = True

    def __init__(self, checker: Checker, kind: str) -> None:
        self.checker = checker
        self.kind = kind

    @abstractmethod
    def run(self, cases: Sequence[Case]) -> None:
        """Send all cases, and controls between them."""

    @abstractmethod
    def close(self) -> None:
        """Close the clients."""

    def good(self, name: str) -> str:
        """Return the URL of a control."""
        return f"http://127.0.0.1:{self.checker.port}/good/{name}"


def settings_of(kind: str, port: int, *, hedges: bool = False) -> dict[str, Any]:
    """Return the arguments of a client for a kind of case.

    Args:
        kind: of the cases.
        port: of the server.
        hedges: send many a request twice at once.
    """
    settings: dict[str, Any] = {"trust_env": False, "max_connections": 24, "timeout": TIMEOUT}
    if kind == "h2":
        settings["http2"] = "prior-knowledge"
    if hedges:
        budget = curlhttp.RetryBudget(ratio=1.0)
        settings["hedge"] = curlhttp.Hedge(0.001, budget=budget)
    if kind in ("connect", "proxied"):
        settings["proxies"] = f"http://user:pr0xy-w0rd@127.0.0.1:{port}"
    return settings


def control_name(case: Case) -> str:
    """Return what the control after a case is called."""
    return f"control-{case.owner}"


def is_followed_by_control(case: Case) -> bool:
    """Return whether a control comes after a case."""
    return case.number % _EVERY == 0


def in_threads(cases: Sequence[Case], send: Callable[[Case], None]) -> None:
    """Send cases in the main thread and others; one that is alone goes in the main thread."""
    todo = iter(cases)
    lock = threading.Lock()

    def take() -> Iterator[Case]:
        while True:
            with lock:
                case = next(todo, None)
            if case is None:
                return
            yield case

    def work() -> None:
        for case in take():
            send(case)

    threads = [threading.Thread(target=work) for _ in range(min(THREADS, len(cases)) - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()


def persist(attempt: Callable[[], bytes]) -> bytes | RequestException:
    """Return the body of a control, or its last error: some connections just end."""
    for _ in range(TRIES):
        try:
            return attempt()
        except RequestException as error:
            failed = error
    return failed


def of(result: Any) -> tuple[Case, str]:
    """Return the case of a map's result, and the name of the control if it is one."""
    found: tuple[Case, str] = result.request.extensions["fuzz"]
    return found
