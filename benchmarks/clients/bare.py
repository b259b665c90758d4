"""Bare pycurl: the lower bound for anything in Python that uses libcurl."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any

import pycurl

from benchmarks.clients.base import AsyncPeer, BlockingPeer, Settings, WholeRound

__all__ = ["AsyncMulti", "Easy", "Handle", "Interruptible", "MultiLoop", "OneMulti", "Signalling"]

_HEADERS = ["User-Agent: curlhttp", "Accept-Encoding: gzip, deflate, br", "Accept: */*"]


class Handle:
    """An easy handle with the options that curlhttp sets, and what it received.

    Args:
        settings: of the case.
        interruptible: call Python while waiting, to let Ctrl-C through and check read timeouts.
        nosignal: as curlhttp sets it, because threads need it; without it libcurl changes the
            handler of SIGPIPE for each request.
    """

    def __init__(
        self, settings: Settings, *, interruptible: bool = False, nosignal: bool = True
    ) -> None:
        self.easy: Any = pycurl.Curl()
        self._lines: list[bytes] = []
        self._pieces: list[bytes] = []
        version = pycurl.CURL_HTTP_VERSION_1_1
        if settings.http2:
            version = pycurl.CURL_HTTP_VERSION_2TLS
        headers = [f"{name}: {value}" for name, value in settings.headers.items()]
        for option, value in (
            (pycurl.NOSIGNAL, int(nosignal)),
            (pycurl.HTTP_VERSION, version),
            (pycurl.HTTPHEADER, _HEADERS + headers),
            (pycurl.BUFFERSIZE, 128 * 1024),
            (pycurl.TCP_NODELAY, 1),
            (pycurl.PROXY, ""),
            (pycurl.NOPROXY, ""),
            (pycurl.CONNECTTIMEOUT_MS, 10_000),
            (pycurl.HEADERFUNCTION, self._lines.append),
            (pycurl.WRITEFUNCTION, self._pieces.append),
        ):
            self.easy.setopt(option, value)
        if settings.ca:
            self.easy.setopt(pycurl.CAINFO, settings.ca)
        if settings.http2:
            self.easy.setopt(pycurl.PIPEWAIT, 1)  # one connection for all
        if interruptible:
            self.easy.setopt(pycurl.NOPROGRESS, 0)
            self.easy.setopt(pycurl.XFERINFOFUNCTION, lambda *sizes: 0)
            self.easy.setopt(pycurl.PREREQFUNCTION, lambda *addresses: 0)

    def point(self, url: str) -> Any:
        """Set the URL; return the easy handle."""
        self.easy.setopt(pycurl.URL, url)
        return self.easy

    def take(self) -> bytes:
        """Return the body, and clear the response."""
        body = b"".join(self._pieces)
        self._lines.clear()
        self._pieces.clear()
        if self.easy.getinfo(pycurl.RESPONSE_CODE) != 200:
            raise RuntimeError("the server did not answer with 200")
        return body


class Easy(BlockingPeer):
    name, modules = "bare pycurl", ("pycurl",)
    configuration = (
        "easy.perform on one handle: NOSIGNAL, HTTP_VERSION, HTTPHEADER, BUFFERSIZE, TCP_NODELAY, "
        "PROXY, NOPROXY, CONNECTTIMEOUT_MS, HEADERFUNCTION and WRITEFUNCTION as curlhttp; deaf to "
        "Ctrl-C, no read timeout"
    )
    interruptible, nosignal = False, True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._handle = Handle(settings, interruptible=self.interruptible, nosignal=self.nosignal)

    def get(self, url: str) -> int:
        self._handle.point(url).perform()
        return len(self._handle.take())

    def close(self) -> None:
        self._handle.easy.close()


class Interruptible(Easy):
    name = "bare pycurl, hears Ctrl-C"
    configuration = (
        "as bare pycurl, with a progress and a pre-request callback, which let Ctrl-C in"
    )
    interruptible = True


class Signalling(Easy):
    name = "bare pycurl, no NOSIGNAL"
    configuration = "as bare pycurl, but for NOSIGNAL: not for threads"
    nosignal = False


class OneMulti(BlockingPeer):
    name, modules = "bare pycurl, one multi", ("pycurl",)
    configuration = "one reused handle with curlhttp's options on one CurlMulti, perform and select"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._handle = Handle(settings)
        self._multi = pycurl.CurlMulti()

    def get(self, url: str) -> int:
        self._multi.add_handle(self._handle.point(url))
        try:
            while self._multi.perform()[1]:
                self._multi.select(1.0)
            _, _, failed = self._multi.info_read()
        finally:
            self._multi.remove_handle(self._handle.easy)
        if failed:
            raise pycurl.error(*failed[0][1:])
        return len(self._handle.take())

    def close(self) -> None:
        self._multi.close()


class AsyncMulti(AsyncPeer):
    name, modules = "pycurl AsyncCurlMulti", ("pycurl",)
    configuration = "reused handles with curlhttp's options"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._multi = pycurl.AsyncCurlMulti()
        self._idle: list[Handle] = []

    async def get(self, url: str) -> int:
        handle = self._idle.pop() if self._idle else Handle(self.settings)
        await self._multi.perform(handle.point(url))
        length = len(handle.take())
        self._idle.append(handle)
        return length

    async def close(self) -> None:
        await self._multi.aclose()


class MultiLoop(WholeRound):
    name, modules = "bare pycurl multi loop", ("pycurl",)
    configuration = "epoll and socket_action, reused handles with curlhttp's options, no event loop"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._poll = select.epoll()
        self._watched: set[int] = set()
        self._due: float | None = None
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._handles: list[Handle] = []

    def run(
        self, url: str, count: int, concurrency: int, done: Callable[[int | Exception, float], None]
    ) -> None:
        while len(self._handles) < min(concurrency, count):
            self._handles.append(Handle(self.settings))
        running: dict[Any, tuple[Handle, float]] = {}
        for handle in self._handles[: min(concurrency, count)]:
            running[handle.easy] = handle, time.perf_counter()
            self._multi.add_handle(handle.point(url))
        left = count - len(running)
        while running:
            for easy, error in self._turn():
                self._multi.remove_handle(easy)
                handle, started = running.pop(easy)
                outcome = error or len(handle.take())
                done(outcome, time.perf_counter() - started)
                if left:
                    left -= 1
                    running[easy] = handle, time.perf_counter()
                    self._multi.add_handle(easy)

    def _turn(self) -> list[tuple[Any, Exception | None]]:
        """Wait for sockets or the timer, let libcurl act, and return the finished transfers."""
        timeout = -1.0 if self._due is None else max(0.0, self._due - time.monotonic())
        for descriptor, events in self._poll.poll(timeout):
            mask = pycurl.CSELECT_IN if events & ~select.EPOLLOUT else 0
            if events & select.EPOLLOUT:
                mask |= pycurl.CSELECT_OUT
            self._multi.socket_action(descriptor, mask)
        if self._due is not None and self._due <= time.monotonic():
            self._due = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        ended: list[tuple[Any, Exception | None]] = []
        queued = 1
        while queued:
            queued, succeeded, failed = self._multi.info_read()
            ended += [(easy, None) for easy in succeeded]
            ended += [(easy, pycurl.error(code, text)) for easy, code, text in failed]
        return ended

    def _watch(self, event: int, descriptor: int, multi: Any, data: Any) -> None:
        if event == pycurl.POLL_REMOVE:
            if descriptor in self._watched:
                self._watched.remove(descriptor)
                self._poll.unregister(descriptor)
            return
        mask = select.EPOLLIN if event & pycurl.POLL_IN else 0
        if event & pycurl.POLL_OUT:
            mask |= select.EPOLLOUT
        if descriptor in self._watched:
            self._poll.modify(descriptor, mask)
        else:
            self._watched.add(descriptor)
            self._poll.register(descriptor, mask)

    def _set_timer(self, milliseconds: int) -> None:
        self._due = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000

    def close(self) -> None:
        self._multi.close()
        self._poll.close()
