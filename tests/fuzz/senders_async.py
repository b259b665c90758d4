"""Senders in an event loop: AsyncClient on asyncio, uvloop and trio, with a new loop per block."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

import curlhttp
from curlhttp.exceptions import RequestException
from tests.fuzz.case import Case
from tests.fuzz.checker import Checker
from tests.fuzz.inspection import Surprise
from tests.fuzz.senders import TRIES, Sender, control_name, is_followed_by_control, of, settings_of
from tests.support.colours import BACKENDS

_AT_ONCE = 12


class _OnAsyncClient(Sender):
    def __init__(self, checker: Checker, kind: str, loop: str, *, hedges: bool = False) -> None:
        super().__init__(checker, kind)
        backend = BACKENDS[loop]
        self._backend, self._options = backend if isinstance(backend, tuple) else (backend, {})
        breaker = curlhttp.CircuitBreaker(failure_threshold=10**9) if loop == "trio" else None
        settings = settings_of(kind, checker.port, hedges=hedges)
        self.client = curlhttp.AsyncClient(breaker=breaker, **settings)

    def run(self, cases: Sequence[Case]) -> None:
        self._await(partial(self.run_all, cases))

    def _await(self, main: Callable[[], Awaitable[None]]) -> None:
        anyio.run(main, backend=self._backend, backend_options=self._options)

    async def run_all(self, cases: Sequence[Case]) -> None:
        """Send all cases, some at once, then a control."""
        places = anyio.Semaphore(_AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for case in cases:
                await places.acquire()
                tasks.start_soon(self._send, case, places)
        await self._control(cases[-1], "-last")

    async def _send(self, case: Case, places: anyio.Semaphore) -> None:
        try:
            with self.checker.checking(case) as began:
                await self.send(case, began)
            if is_followed_by_control(case):
                await self._control(case, "")
        finally:
            places.release()

    async def _control(self, case: Case, suffix: str) -> None:
        with self.checker.checking(case) as began:
            name = control_name(case) + suffix
            got: bytes | RequestException
            for _ in range(TRIES if suffix else 1):
                try:
                    got = await self.control(case, self.good(name))
                    break
                except RequestException as error:
                    got = error
            # Among hostile responses on the same connection a control may well fail.
            if suffix or isinstance(got, bytes):
                self.checker.controlled(case, name, got, began)

    async def send(self, case: Case, began: float) -> None:
        raise NotImplementedError

    async def control(self, case: Case, url: str) -> bytes:
        method, body = ("POST", b"x") if case.number % 8 == 0 else ("GET", None)
        response = await self.client.request(method, url, content=body)
        return response.content

    def close(self) -> None:
        self._await(self.client.aclose)


class AsyncRequest(_OnAsyncClient):
    """AsyncClient.request."""

    async def send(self, case: Case, began: float) -> None:
        response = await self.client.request(case.method, case.url, **case.options())
        self.checker.answered(case, response, began)


class AsyncStream(_OnAsyncClient):
    """AsyncClient.stream, read by any of its methods, sometimes only in part."""

    async def send(self, case: Case, began: float) -> None:
        kinds = ["read", "bytes", "few bytes", "text", "lines", "part", "drop", "raw"]
        how = case.random.choice(kinds)
        if how == "drop":
            await self.client.stream(case.method, case.url, **case.options())
            return
        pieces: list[Any] = []
        async with self.client.stream(case.method, case.url, **case.options()) as response:
            if how == "read":
                await response.aread()
                self.checker.answered(case, response, began)
                return
            async for piece in _pieces(response, how):
                pieces.append(piece)
                if how == "part" and len(pieces) > 1:
                    break
        self.checker.iterated(case, response, how, pieces, began, ended=how != "part")

    async def control(self, case: Case, url: str) -> bytes:
        async with self.client.stream("GET", url) as response:
            return await response.aread()


def _pieces(response: Any, how: str) -> AsyncIterator[Any]:
    if how == "text":
        return response.aiter_text()  # type: ignore[no-any-return]
    if how == "lines":
        return response.aiter_lines()  # type: ignore[no-any-return]
    if how == "raw":
        return response.aiter_raw()  # type: ignore[no-any-return]
    return response.aiter_bytes(7 if how == "few bytes" else None)  # type: ignore[no-any-return]


class AsyncMap(_OnAsyncClient):
    """AsyncClient.map, with controls among the cases and after them."""

    async def run_all(self, cases: Sequence[Case]) -> None:
        began = time.monotonic()
        done = 0
        with self.checker.checking(cases[0]):
            async with self.client.map(self._items(cases), concurrency=_AT_ONCE) as results:
                async for result in results:
                    case, name = of(result)
                    done += 1
                    self._keep(case, name, result, began)
            if done < len(cases):
                raise Surprise(f"a map of {len(cases)} gives fewer results")
        await self._control(cases[-1], "-last")

    def _keep(self, case: Case, name: str, result: Any, began: float) -> None:
        if isinstance(result, RequestException):
            if not name:
                self.checker.failed(case, result)
        elif name:
            self.checker.controlled(case, name, result.content, began)
        else:
            self.checker.answered(case, result, began)

    def _items(self, cases: Sequence[Case]) -> list[Any]:
        items = []
        for case in cases:
            request = self.client.build_request(case.method, case.url, **case.options())
            request.extensions = {"fuzz": (case, "")}
            items.append(request)
            if is_followed_by_control(case):
                name = f"{control_name(case)}-m"
                request = self.client.build_request("GET", self.good(name))
                request.extensions = {"fuzz": (case, name)}
                items.append(request)
        return items


class AsyncDownload(_OnAsyncClient):
    """AsyncClient.download; a failed download is resumed."""

    def __init__(self, checker: Checker, kind: str, loop: str) -> None:
        super().__init__(checker, kind, loop)
        self._folder = tempfile.TemporaryDirectory(prefix="curlhttp-fuzz-")

    async def send(self, case: Case, began: float) -> None:
        options = case.options()
        options.pop("data", None)
        path = Path(self._folder.name, f"{case.number % 101}")
        try:
            response = await self.client.download(case.url, path, **options)
        except RequestException:
            response = await self.client.download(case.url, path, **options)
        self.checker.saved(case, response, path.read_bytes(), began)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()
