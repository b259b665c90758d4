"""Senders that read events, whatever the Content-Type, and senders that write a HAR per block."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import curlhttp
from tests.fuzz.case import Case
from tests.fuzz.checker import Checker
from tests.fuzz.senders import settings_of
from tests.fuzz.senders_async import AsyncRequest
from tests.fuzz.senders_blocking import Request, Stream

_LARGEST = 1000  # bytes of an event


async def _as_events(request: Any, send: curlhttp.types.Send) -> Any:
    response = await send(request)
    response.headers["Content-Type"] = "text/event-stream"
    return response


def _options(case: Case) -> dict[str, Any]:
    largest = _LARGEST if case.number % 2 else None
    soon = curlhttp.RetryPolicy(0, backoff_strategy=curlhttp.ExponentialBackoff(0.001), budget=None)
    options = {**case.options(), "reconnect": case.number % 2, "max_event_size": largest}
    return {"retry": soon} | options


class Events(Request):
    """Client.sse; some streams are reconnected."""

    def __init__(self, checker: Checker, kind: str) -> None:
        super().__init__(checker, kind)
        self.client.close()
        self.client = curlhttp.Client(
            **{**settings_of(kind, checker.port), "middleware": [_as_events]}
        )

    def send(self, case: Case, began: float) -> None:
        data = []
        with self.client.sse(case.url, method=case.method, **_options(case)) as events:
            for event in events:
                data.append(event.data)
                if len(data) > 100:
                    break
        self.checker.read(case, "\n".join(data).encode(), began)


class AsyncEvents(AsyncRequest):
    """AsyncClient.sse, likewise."""

    def __init__(self, checker: Checker, kind: str, loop: str) -> None:
        super().__init__(checker, kind, loop)
        self._await(self.client.aclose)
        settings = {**settings_of(kind, checker.port), "middleware": [_as_events]}
        self.client = curlhttp.AsyncClient(**settings)

    async def send(self, case: Case, began: float) -> None:
        data = []
        async with self.client.sse(case.url, method=case.method, **_options(case)) as events:
            async for event in events:
                data.append(event.data)
                if len(data) > 100:
                    break
        self.checker.read(case, "\n".join(data).encode(), began)


def _recorded(
    sender: Request | Stream | AsyncRequest,
    run: Callable[[Sequence[Case]], None],
    cases: Sequence[Case],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.har"
        log = sender.client.har(path)
        with log:
            run(cases)
        with sender.checker.checking(cases[-1]):
            curlhttp.Record(path, mode="none")


class Recorded(Request):
    """Client.request within client.har, whose file must be one that can be read."""

    def run(self, cases: Sequence[Case]) -> None:
        _recorded(self, super().run, cases)


class RecordedStream(Stream):
    """Client.stream, likewise."""

    def run(self, cases: Sequence[Case]) -> None:
        _recorded(self, super().run, cases)


class AsyncRecorded(AsyncRequest):
    """AsyncClient.request, likewise."""

    def run(self, cases: Sequence[Case]) -> None:
        _recorded(self, super().run, cases)
