"""Ways in that read events, whatever the answer says it is, and that write a HAR of each block."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import curlhttp
from curlhttp._client.record.har import read_log
from tests.fuzz.case import Case
from tests.fuzz.judge import Judge
from tests.fuzz.ways import settings_of
from tests.fuzz.ways_async import AsyncRequest
from tests.fuzz.ways_blocking import Request, Stream

__all__ = ["AsyncEvents", "AsyncRecorded", "Events", "Recorded", "RecordedStream"]

_LARGEST = 1000  # bytes of an event


async def _as_events(request: Any, send: curlhttp.Send) -> Any:
    response = await send(request)
    response.headers["Content-Type"] = "text/event-stream"
    return response


def _options(case: Case) -> dict[str, Any]:
    largest = _LARGEST if case.number % 2 else None
    soon = curlhttp.RetryPolicy(0, backoff_strategy=curlhttp.ExponentialBackoff(0.001), budget=None)
    options = {**case.options(), "reconnect": case.number % 2, "max_event_size": largest}
    return {"retry": soon} | options


class Events(Request):
    """Client.sse; some of the streams are asked for again."""

    def __init__(self, judge: Judge, kind: str) -> None:
        super().__init__(judge, kind)
        self.client.close()
        self.client = curlhttp.Client(
            **{**settings_of(kind, judge.port), "middleware": [_as_events]}
        )

    def send(self, case: Case, began: float) -> None:
        data = []
        with self.client.sse(case.url, method=case.method, **_options(case)) as events:
            for event in events:
                data.append(event.data)
                if len(data) > 100:
                    break
        self.judge.read(case, "\n".join(data).encode(), began)


class AsyncEvents(AsyncRequest):
    """AsyncClient.sse, likewise."""

    def __init__(self, judge: Judge, kind: str, loop: str) -> None:
        super().__init__(judge, kind, loop)
        self._await(self.client.aclose)
        settings = {**settings_of(kind, judge.port), "middleware": [_as_events]}
        self.client = curlhttp.AsyncClient(**settings)

    async def send(self, case: Case, began: float) -> None:
        data = []
        async with self.client.sse(case.url, method=case.method, **_options(case)) as events:
            async for event in events:
                data.append(event.data)
                if len(data) > 100:
                    break
        self.judge.read(case, "\n".join(data).encode(), began)


def _recorded(
    way: Request | Stream | AsyncRequest,
    run: Callable[[Sequence[Case]], None],
    cases: Sequence[Case],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.har"
        log = way.client.har(path)
        with log:
            run(cases)
        with way.judge.judging(cases[-1]):
            read_log(path)


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
