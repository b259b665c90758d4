"""One worker of a WorkerPool on one Redis: `python -m tests.redis.worker '{...}'`.

It prints "ready", waits for a line, sends requests until another one, and prints their outcomes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Any

import curlhttp
from curlhttp.redis import RedisStore

_POLICIES = {
    "rate_limit": curlhttp.RateLimit,
    "concurrency_limit": curlhttp.ConcurrencyLimit,
    "breaker": curlhttp.CircuitBreaker,
    "budget": curlhttp.RetryBudget,
}


def settings_of(chosen: dict[str, Any], store: RedisStore) -> dict[str, Any]:
    """Return what the client is set to: policies on the store."""
    settings = {
        name: _POLICIES[name](**arguments, store=store)
        for name, arguments in chosen["policies"].items()
    }
    if "budget" in settings:
        settings["retry"] = curlhttp.RetryPolicy(
            3,
            budget=settings.pop("budget"),
            backoff_strategy=curlhttp.ExponentialBackoff(0.001, max_backoff=0.001),
        )
    return settings


def outcome_of(begun: float, what: curlhttp.Response | Exception) -> tuple[float, float, str]:
    """Return when a request began, the seconds that it took, and its status or error."""
    name = type(what).__name__ if isinstance(what, Exception) else str(what.status_code)
    return begun, time.monotonic() - begun, name


def blocking(chosen: dict[str, Any], settings: dict[str, Any], stop: threading.Event) -> list[Any]:
    """Send from some threads."""
    outcomes: list[Any] = []

    def send() -> None:
        while not stop.is_set():
            begun = time.monotonic()
            try:
                outcomes.append(outcome_of(begun, client.get(chosen["url"])))
            except curlhttp.RequestException as error:
                outcomes.append(outcome_of(begun, error))
            stop.wait(chosen["pause"])

    with curlhttp.Client(**settings) as client:
        threads = [threading.Thread(target=send) for _ in range(chosen["at_once"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return outcomes


async def in_tasks(
    chosen: dict[str, Any], settings: dict[str, Any], stop: threading.Event
) -> list[Any]:
    """Send from some tasks."""
    outcomes: list[Any] = []

    async def send() -> None:
        while not stop.is_set():
            begun = time.monotonic()
            try:
                outcomes.append(outcome_of(begun, await client.get(chosen["url"])))
            except curlhttp.RequestException as error:
                outcomes.append(outcome_of(begun, error))
            await asyncio.sleep(chosen["pause"])

    async with curlhttp.AsyncClient(**settings) as client:
        await asyncio.gather(*[send() for _ in range(chosen["at_once"])])
    return outcomes


def _await_end(stop: threading.Event) -> None:
    sys.stdin.readline()
    stop.set()


def main() -> None:
    """Do what the argument says."""
    chosen = json.loads(sys.argv[1])
    stop = threading.Event()
    with RedisStore(chosen["redis"], **chosen["store"]) as store:
        settings = settings_of(chosen, store)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        threading.Thread(target=_await_end, args=(stop,), daemon=True).start()
        if chosen["style"] == "threads":
            outcomes = blocking(chosen, settings, stop)
        else:
            outcomes = asyncio.run(in_tasks(chosen, settings, stop))
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main()
