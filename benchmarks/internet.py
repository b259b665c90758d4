"""A small internet in one process: thousands of origins, and some ten kinds of behaviour.

Each origin is an address of 127.0.0.0/8, which Linux has without any set-up, so clients need no
names. The second number of the address says how the origin behaves. 127.0.0.1 is none of them: it
says what the others have seen.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import resource
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from benchmarks.machine import pin

__all__ = ["KINDS", "RETRY_AFTER", "SLOW", "Internet", "origin", "run"]

KINDS = (
    "fast",
    "late",
    "slow",
    "compressed",
    "large",
    "redirects",
    "robots.txt",
    "Retry-After",
    "resets",
    "cut short",
    "silent",
)
SLOW = 1.0  # seconds until a slow origin answers
RETRY_AFTER = 1  # seconds, in the first answer of an origin of that kind
_LATE = 0.05  # seconds
_FIRST = 10  # the second number of the address of the first kind
_PORTS = (10_000, 32_000)  # not those that a system gives to clients
_PAGE = b"<!DOCTYPE html><title>A page</title>" + b"<p>Some text.</p>" * 100


def origin(kind: str, number: int, port: int) -> str:
    """Return the URL of an origin, without a slash at the end."""
    return f"http://127.{_FIRST + KINDS.index(kind)}.{number // 250}.{1 + number % 250}:{port}"


# --- the side of the benchmark ---


class Internet:
    """A running internet.

    Args:
        port: of all its origins.
    """

    def __init__(self, port: int) -> None:
        self.port = port

    def begin(self, watched: int) -> None:
        """Forget everything that was seen.

        Args:
            watched: the number of pages of fast origins that will be requested, to see how many
            answers of slow ones came before 95% of them; then those answer at once, so that the run
            ends. Or 0, not to see that.
        """
        self._ask(f"begin/{watched}")

    def report(self) -> dict[str, Any]:
        """Return what the origins have seen."""
        found: dict[str, Any] = json.loads(self._ask("report"))
        return found

    def _ask(self, path: str) -> bytes:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}/{path}", timeout=60) as answer:
            content: bytes = answer.read()
        return content


@contextmanager
def run(core: int | None) -> Iterator[Internet]:
    """Run an internet in a process.

    Args:
        core: the core to pin it to; None for any.
    """
    command = [sys.executable, "-m", "benchmarks.internet", json.dumps(core)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the small internet needs the addresses 127.0.0.0/8, as on Linux")
            yield Internet(int(line))
        finally:
            process.kill()


# --- the side of the origins ---


def _response(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join([*head, "\r\n"]).encode() + body


_HTML = "Content-Type: text/html; charset=utf-8"
_FINE = _response(_PAGE, _HTML)
_ANSWERS = {
    "compressed": _response(gzip.compress(_PAGE), _HTML, "Content-Encoding: gzip"),
    "large": _response(_PAGE * 150, _HTML),
    "redirects": _response(b"", "Location: /moved", status="302 Found"),
    "Retry-After": _response(b"", f"Retry-After: {RETRY_AFTER}", status="503 Busy"),
    "cut short": _FINE[:-100],
}
_DELAYS = {"late": _LATE, "slow": SLOW}
_NO_RULES = _response(b"", status="404 Not Found")
_RULES = _response(b"User-agent: *\nDisallow: /private/\n", "Content-Type: text/plain")


class _Seen:
    """What the origins have seen since the start of a run."""

    def __init__(self, watched: int = 0) -> None:
        self.watched = watched
        self.pages: Counter[str] = Counter()  # answered, by the kind of the origin
        self.slow_before: int | None = None
        self.running: Counter[str] = Counter()
        self.most_at_once = self.most_in_a_second = self.too_early = self.private = 0
        self.recent: defaultdict[str, deque[float]] = defaultdict(deque)
        self.quiet_until: dict[str, float] = {}

    def come(self, address: str, kind: str, path: str) -> None:
        now = time.monotonic()
        self.running[address] += 1
        self.most_at_once = max(self.most_at_once, self.running[address])
        if path == "/robots.txt":
            return
        recent = self.recent[address]
        recent.append(now)
        while recent[0] < now - 1.0:
            recent.popleft()
        self.most_in_a_second = max(self.most_in_a_second, len(recent))
        self.too_early += now < self.quiet_until.get(address, 0.0)
        is_disallowed = kind == "robots.txt" and path.startswith("/private/")
        self.private += is_disallowed

    def answered(self, address: str, kind: str, path: str) -> None:
        self.running[address] -= 1
        self.pages[kind] += path != "/robots.txt"
        if self.watched and self.slow_before is None and self.pages["fast"] >= 0.95 * self.watched:
            self.slow_before = self.pages["slow"]

    def report(self) -> dict[str, Any]:
        return {
            "pages": dict(self.pages),
            "slow_before": self.slow_before,
            "most_at_once": self.most_at_once,
            "most_in_a_second": self.most_in_a_second,
            "too_early": self.too_early,
            "private": self.private,
        }


_seen = _Seen()


class _Connection(asyncio.Protocol):
    transport: asyncio.Transport
    address = kind = ""
    received = b""
    waits = False  # for an answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.address = transport.get_extra_info("sockname")[0]
        number = int(self.address.split(".")[1]) - _FIRST
        self.kind = KINDS[number] if number >= 0 else ""

    def data_received(self, data: bytes) -> None:
        self.received += data
        if b"\r\n\r\n" not in self.received:
            return
        path = self.received.split(b" ", 2)[1].decode()
        self.received = b""
        if not self.kind:
            self.transport.write(_control(path))
            return
        _seen.come(self.address, self.kind, path)
        self.waits = True
        is_rules = path == "/robots.txt"
        has_seen = _seen.slow_before is not None
        delay = 0.0 if is_rules or has_seen else _DELAYS.get(self.kind, 0.0)
        if delay:
            asyncio.get_running_loop().call_later(delay, self.answer, path)
        elif self.kind != "silent" or is_rules:
            self.answer(path)

    def connection_lost(self, error: Exception | None) -> None:
        if self.waits:
            self.waits = False
            _seen.running[self.address] -= 1

    def answer(self, path: str) -> None:
        if not self.waits:
            return
        self.waits = False
        _seen.answered(self.address, self.kind, path)
        if path == "/robots.txt":
            self.transport.write(_RULES if self.kind == "robots.txt" else _NO_RULES)
            return
        answer = _ANSWERS.get(self.kind, _FINE)
        if self.kind == "resets":
            reset = struct.pack("ii", 1, 0)
            opened = self.transport.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            self.transport.abort()
        elif self.kind == "Retry-After":
            has_asked = self.address in _seen.quiet_until
            if not has_asked:
                _seen.quiet_until[self.address] = time.monotonic() + RETRY_AFTER
            self.transport.write(_FINE if has_asked else answer)
        elif self.kind == "redirects" and path == "/moved":
            self.transport.write(_FINE)
        else:
            self.transport.write(answer)
            if self.kind == "cut short":
                self.transport.close()


def _control(path: str) -> bytes:
    global _seen
    command, _, number = path.strip("/").partition("/")
    if command == "begin":
        _seen = _Seen(int(number))
    return _response(json.dumps(_seen.report()).encode())


def _listen() -> socket.socket:
    while True:
        with suppress(OSError):
            return socket.create_server(("0.0.0.0", random.randrange(*_PORTS)), backlog=4096)


async def _serve() -> None:
    with socket.create_server(("127.10.0.1", 0)):
        pass  # raises OSError on a system without these addresses
    opened = _listen()
    server = await asyncio.get_running_loop().create_server(_Connection, sock=opened)
    print(opened.getsockname()[1], flush=True)
    await server.serve_forever()


def _main() -> None:
    pin(json.loads(sys.argv[1]))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve())
    else:
        uvloop.run(_serve())


if __name__ == "__main__":
    _main()
