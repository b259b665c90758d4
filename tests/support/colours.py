"""One scenario, every colour: a client with async methods, whatever is behind them.

A scenario awaits `client.get(...)`. In the colour "blocking" that calls Client.get, which blocks
the test's own event loop (the servers run in threads); in the others it is AsyncClient.get.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any
from zlib import crc32

import anyio
import anyio.to_thread
import pycurl
import pytest

import curlhttp

COLOURS = ("blocking", "asyncio", "uvloop", "unwatching", "trio")


class UnwatchingLoop(asyncio.SelectorEventLoop):
    """A loop that cannot watch sockets for others, like asyncio's default one on Windows."""

    def add_reader(self, *arguments: Any) -> None:  # type: ignore[override]
        raise NotImplementedError

    add_writer = remove_reader = remove_writer = add_reader  # type: ignore[assignment]


def skip_where_impossible(colour: str) -> None:
    """Skip a test in a colour that this system has no event loop for."""
    if sys.platform == "win32" and colour == "uvloop":
        pytest.skip("uvloop is not for Windows")
    if IS_WINE and colour == "trio":
        pytest.skip("wine lacks SIO_BSP_HANDLE_SELECT, which trio needs")


def _is_wine() -> bool:
    import ctypes

    windows: Any = getattr(ctypes, "windll", None)
    return windows is not None and hasattr(windows.ntdll, "wine_get_version")


IS_WINE = _is_wine()
_FEATURES = pycurl.version_info()[4]
HAS_HTTP3 = bool(_FEATURES & pycurl.VERSION_HTTP3)
HAS_NEGOTIATE = bool(_FEATURES & (pycurl.VERSION_GSSAPI | pycurl.VERSION_SPNEGO))
# Schannel has it from Windows Server 2022 on, and in Windows 11.
HAS_TLS_1_3 = sys.platform != "win32" or sys.getwindowsversion().build >= 20348
needs_posix = pytest.mark.skipif(
    sys.platform == "win32",
    reason="modes, links, paths, pipes or modules of POSIX systems",
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
needs_authorities = pytest.mark.skipif(IS_WINE, reason="wine checks no certificates against a file")
needs_pem_certificates = pytest.mark.skipif(
    sys.platform == "win32",
    reason="Schannel, the TLS of Windows, reads no client certificates in PEM files",
)
needs_reset = pytest.mark.skipif(IS_WINE, reason="wine closes a connection instead of resetting it")
# On Windows, "unwatching" is its second loop, which is no rarer than the first.
_RARE = ("uvloop",) if sys.platform == "win32" else ("uvloop", "unwatching")
# Only tests that name these colours run in them without `-m`.
EACH_COLOUR = [
    pytest.param(colour, marks=pytest.mark.uvloop) if colour in _RARE else colour
    for colour in COLOURS
]
QUICK_COLOURS = [colour for colour in COLOURS if colour not in _RARE]
# What libcurl or a layer does in the same way below every loop needs no fourth colour: uvloop has
# asyncio's engine, and counts where timers, sockets and closing do.
WITHOUT_UVLOOP = pytest.mark.colours("blocking", "asyncio", "trio")
# What reaches no event loop: a layer on a script, a refusal before anything is sent, a pause.
ONE_OF_EACH = pytest.mark.colours("blocking", "asyncio")

_IN_TURN = ("blocking", "asyncio", "trio")


def is_quick(config: pytest.Config) -> bool:
    """Return whether this run leaves to another what is `uvloop`."""
    return "not uvloop" in config.option.markexpr


def take_turns(items: list[pytest.Item]) -> None:
    """Leave some colours of each case to `-m uvloop`: the cases of a test have them in turn.

    A test with one or two cases keeps "blocking" and one loop for each; with more, a case keeps one
    colour. Which one depends on names only. A test that is on loops alone keeps all: it is about
    them.
    """
    tests: defaultdict[str, defaultdict[str, dict[str, pytest.Item]]]
    tests = defaultdict(lambda: defaultdict(dict))
    for item in items:
        case = getattr(item, "callspec", None)
        if case is not None and (colour := case.params.get("colour")) in _IN_TURN:
            others = "-".join(part for part in case.id.split("-") if part != colour)
            tests[item.nodeid.partition("[")[0]][others][colour] = item
    for test, cases in tests.items():
        first = crc32(test.encode())
        for number, case in enumerate(sorted(cases, key=lambda case: crc32(case.encode())), first):
            in_colours = cases[case]
            if "blocking" not in in_colours or len(in_colours) == 1:
                continue
            few = len(cases) <= 2
            colours = [colour for colour in in_colours if not few or colour != "blocking"]
            kept = {colours[number % len(colours)], *(["blocking"] if few else ())}
            for colour in in_colours.keys() - kept:
                in_colours[colour].add_marker("uvloop")


BACKENDS: dict[str, Any] = {
    "blocking": "asyncio",
    "asyncio": "asyncio",
    "uvloop": ("asyncio", {"use_uvloop": True}),
    # On Windows "asyncio" is such a loop, and this is its other one.
    "unwatching": (
        "asyncio",
        {"loop_factory": asyncio.SelectorEventLoop if sys.platform == "win32" else UnwatchingLoop},
    ),
    "trio": "trio",
}


class AnyClient:
    """A client of any colour."""

    def __init__(self, colour: str, **settings: Any) -> None:
        self.colour = colour
        self.is_blocking = colour == "blocking"
        self.real: Any = (curlhttp.Client if self.is_blocking else curlhttp.AsyncClient)(**settings)

    async def request(self, method: str, url: str | curlhttp.URL, **options: Any) -> Any:
        response = self.real.request(method, url, **options)
        return response if self.is_blocking else await response

    async def get(self, url: str | curlhttp.URL, **options: Any) -> Any:
        response = self.real.get(url, **options)
        return response if self.is_blocking else await response

    async def post(self, url: str | curlhttp.URL, **options: Any) -> Any:
        response = self.real.post(url, **options)
        return response if self.is_blocking else await response

    async def send(self, request: Any) -> Any:
        response = self.real.send(request)
        return response if self.is_blocking else await response

    async def stream(self, method: str, url: str | curlhttp.URL, **options: Any) -> AnyStream:
        """Return a streamed response; use it in `async with`."""
        return AnyStream(self, await self.request(method, url, stream=True, **options))

    def map(self, requests: Any, **options: Any) -> AnyResults:
        """Return the results of a map; use them in `async for`, and `async with`."""
        return AnyResults(self, self.real.map(requests, **options))

    def download_many(self, pairs: Any, **options: Any) -> AnyResults:
        """Return the results of many downloads; use them in `async for`, and `async with`."""
        return AnyResults(self, self.real.download_many(pairs, **options))

    def sse(self, url: str | curlhttp.URL, **options: Any) -> AnyEvents:
        """Return a stream of events; use it in `async for`, and `async with`."""
        return AnyEvents(self, self.real.sse(url, **options))

    async def websocket(self, url: str | curlhttp.URL, **options: Any) -> AnyWebSocket:
        """Open a WebSocket; use it in `async with`."""
        opened = self.real.websocket(url, **options)
        return AnyWebSocket(self, opened if self.is_blocking else await opened)

    async def gather(self, count: int, method: str, url: str, **options: Any) -> list[Any]:
        """Send the same request many times at once; in threads where the client blocks."""
        results: list[Any] = []

        async def one() -> None:
            if self.is_blocking:
                results.append(
                    await anyio.to_thread.run_sync(
                        lambda: self.real.request(method, url, **options),
                        limiter=anyio.CapacityLimiter(count),
                    )
                )
            else:
                results.append(await self.real.request(method, url, **options))

        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(one)
        return results

    async def aclose(self) -> None:
        if self.is_blocking:
            self.real.close()
        else:
            await self.real.aclose()

    async def __aenter__(self) -> AnyClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class AnyStream:
    """A streamed response of any colour."""

    def __init__(self, client: AnyClient, real: Any) -> None:
        self.is_blocking = client.is_blocking
        self.real = real

    async def read(self, *size: int) -> bytes:
        body: bytes = self.real.read(*size) if self.is_blocking else await self.real.aread(*size)
        return body

    def iterate(self, kind: str, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        """Iterate over iter_<kind> or aiter_<kind>."""
        if self.is_blocking:
            return _Awaited(getattr(self.real, f"iter_{kind}")(*arguments, **options))
        pieces: AsyncIterator[Any] = getattr(self.real, f"aiter_{kind}")(*arguments, **options)
        return pieces

    async def aclose(self) -> None:
        if self.is_blocking:
            self.real.close()
        else:
            await self.real.aclose()

    async def __aenter__(self) -> AnyStream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class AnyResults:
    """The results of a map of any colour; they are dropped when this is."""

    def __init__(self, client: AnyClient, real: Any) -> None:
        self.is_blocking = client.is_blocking
        self.real = real

    def __aiter__(self) -> AnyResults:
        return self

    async def __anext__(self) -> Any:
        if not self.is_blocking:
            return await self.real.__anext__()
        for result in self.real:
            return result
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if self.is_blocking:
            self.real.close()
        else:
            await self.real.aclose()

    async def __aenter__(self) -> AnyResults:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class AnyEvents(AnyResults):
    """A stream of events of any colour."""

    async def __aenter__(self) -> AnyEvents:
        if self.is_blocking:
            self.real.__enter__()
        else:
            await self.real.__aenter__()
        return self


class AnyWebSocket(AnyResults):
    """A WebSocket of any colour."""

    async def __aenter__(self) -> AnyWebSocket:
        return self

    async def _awaited(self, result: Any) -> Any:
        return result if self.is_blocking else await result

    async def send(self, message: Any) -> None:
        await self._awaited(self.real.send(message))

    async def recv(self, timeout: float | None = 30.0) -> Any:
        return await self._awaited(self.real.recv(timeout))

    async def ping(self, data: bytes | None = None) -> Any:
        return await self._awaited(self.real.ping(data))

    async def wait(self, pong: Any, timeout: float | None = 30.0) -> float:
        """Wait for a pong, and return its latency."""
        seconds: float = await self._awaited(pong.wait(timeout))
        return seconds

    async def send_json(self, value: Any) -> None:
        await self._awaited(self.real.send_json(value))

    async def receive_json(self, **options: Any) -> Any:
        return await self._awaited(self.real.receive_json(**{"timeout": 30.0, **options}))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._awaited(self.real.close(code, reason))

    async def aclose(self) -> None:
        await self.close()


class _Awaited:
    """An iterator to be awaited; no async generator, which trio wants closed."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> _Awaited:
        return self

    async def __anext__(self) -> Any:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration
