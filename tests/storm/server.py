"""The server of the storm, in its own process: `python -m tests.storm.server SEED`.

/s/<number> is answered as its fate has it, /good/<name> properly.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from tests.adversary.server_process import serve_questions
from tests.adversary.stamps import stamp
from tests.servers.connection import PIECE
from tests.servers.raw import RawConnection, RawServer
from tests.storm.fate import Fate, fate_of
from tests.storm.http2 import http2_server

_TARGET = re.compile(rb"([A-Z]{3,7}) /(s|good)/([\w.-]+) ")
_PATIENCE = 30.0  # seconds for a client to continue or to leave
_WHILE = 0.02
_REMEMBERED = 20_000  # requests, for more than a read timeout
_UNREAD = "unread"  # in the place of a fault


# Connection, name and fault of a request, and when all that was said about it was sent.
Entry = list[Any]


class Storm:
    """Respond to requests as their fates define it, and count them.

    Args:
        seed: of the run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.server = RawServer(self._serve)
        self.seen: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._came: deque[Entry] = deque(maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def report(self, question: Any) -> Any:
        """Reply to the parent: connections for a name, counts for names."""
        if isinstance(question, str):
            return self._history(question)
        if question is None:
            return self.faults
        with self._lock:
            return {name: self.seen[name] for name in question if self.seen[name]}

    def _history(self, name: str) -> list[Entry]:
        """Return what came in on the connections that carried a request."""
        came = list(self._came)
        connections = {entry[0] for entry in came if entry[1] == name}
        return [entry for entry in came if entry[0] in connections]

    def note(self, fate: Fate, connection: int) -> Entry:
        """Count a request.

        Args:
            fate: the request's.
            connection: where it came in.
        """
        entry: Entry = [connection, fate.name, fate.fault, math.inf]
        self._came.append(entry)
        with self._lock:
            self.seen[fate.name] += 1
            self.faults[fate.fault] += 1
        return entry

    def note_unread(self, conn: RawConnection) -> None:
        """Note requests that nobody will read, because the server ends or leaves a connection.

        They stay in the socket: a socket that is closed with unread data sends RST.
        """
        data = conn.take_buffered()
        with contextlib.suppress(OSError):
            conn.sock.settimeout(0)
            data += conn.sock.recv(PIECE, socket.MSG_PEEK)
        for _, kind, name in _TARGET.findall(data):
            prefix = "s" if kind == b"s" else ""
            self._came.append([conn.index, prefix + name.decode(), _UNREAD, math.inf])

    def _serve(self, conn: RawConnection) -> None:
        conn.sock.settimeout(_PATIENCE)
        with contextlib.suppress(TimeoutError):
            while self._exchange(conn):
                pass
        self.note_unread(conn)

    def _exchange(self, conn: RawConnection) -> bool:
        """Respond to one request; return whether the connection continues."""
        head = conn.read_head()
        found = _TARGET.match(head)
        if not found:
            return False
        method, kind, name = found[1], found[2], found[3].decode()
        if kind == b"good":
            conn.read_body(head)
            conn.send(_head(200, b"Content-Length: %d" % len(body := stamp(name))) + body)
            return True
        fate = fate_of(self.seed, int(name))
        entry = self.note(fate, conn.index)
        assert method.decode() == fate.method
        exchange = _Exchange(self, conn, fate, head)
        goes_on = exchange.run()
        entry[3] = time.monotonic()
        return goes_on


def _head(status: int, *lines: bytes) -> bytes:
    return b"".join(line + b"\r\n" for line in [b"HTTP/1.1 %d x" % status, *lines, b""])


class _Exchange:
    """One request and what becomes of it."""

    def __init__(self, storm: Storm, conn: RawConnection, fate: Fate, head: bytes) -> None:
        self._storm = storm
        self._conn = conn
        self._fate = fate
        self._head = head
        mark = stamp(fate.name)
        self._body = mark * (fate.size // len(mark) + 1)

    def run(self) -> bool:
        deed: Callable[[], bool] | None = _DEEDS.get(self._fate.fault, _Exchange._answer).__get__(
            self
        )
        assert deed is not None
        return deed()

    def _read(self) -> None:
        for _ in self._conn.iter_body(self._head):
            pass

    def _message(self, *lines: bytes) -> tuple[bytes, bytes]:
        """Return head and framed body of the response."""
        fate, body = self._fate, self._body
        if fate.framing == "length":
            return _head(200, b"Content-Length: %d" % len(body), *lines), body
        if fate.framing == "close":
            return _head(200, b"Connection: close", *lines), body
        step = max(1, len(body) // 5)
        pieces = [body[at : at + step] for at in range(0, len(body), step)]
        framed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        return _head(200, b"Transfer-Encoding: chunked", *lines), framed + b"0\r\n\r\n"

    def _answer(self) -> bool:
        self._read()
        return self._send_good()

    def _send_good(self) -> bool:
        self._conn.send(b"".join(self._message()))
        return self._goes_on()

    def _goes_on(self) -> bool:
        return self._fate.framing != "close"

    def _cut(self) -> bytes:
        """Return the part of the response that is sent: some of the head, or all of it and more."""
        head, body = self._message()
        if "head" in self._fate.fault:
            return head[: int(len(head) * self._fate.share)]
        return head + body[: int(len(body) * self._fate.share)]

    def _break_off(self) -> bool:
        self._read()
        self._conn.send(self._cut())
        if self._fate.fault.startswith("reset"):
            self._reset()
        return False

    def _leave_at_once(self) -> bool:
        if self._fate.share < 0.5:
            self._read()
        if self._fate.fault.startswith("reset"):
            self._reset()
        return False

    def _stall(self) -> bool:
        self._read()
        if self._fate.fault != "stall before head":
            self._conn.send(self._cut())
        self._conn.sock.settimeout(None)
        with contextlib.suppress(OSError):  # what was complete all the same leads to a next request
            self._conn.sock.recv(1, socket.MSG_PEEK)
        return False

    def _reset(self) -> None:
        self._storm.note_unread(self._conn)
        self._conn.reset()

    def _interim(self) -> bool:
        if self._fate.share < 0.5:
            self._conn.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._read()
        self._conn.send(
            b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * int(1 + self._fate.share * 5)
        )
        time.sleep(self._fate.delay)
        return self._send_good()

    def _answer_early(self) -> bool:
        mark = stamp(self._fate.name)
        self._conn.send(_head(413, b"Content-Length: %d" % len(mark), b"Connection: close") + mark)
        if self._fate.fault.endswith("reset"):
            time.sleep(self._fate.delay)
            self._reset()
        else:
            self._conn.sock.settimeout(_WHILE * 10)
            self._conn.finish_and_close()
        return False

    def _close_silently(self) -> bool:
        self._answer()
        if self._fate.fault.endswith("later"):
            time.sleep(self._fate.delay * 10)
        elif self._fate.share < 0.8:
            time.sleep(self._fate.delay)
        return False

    def _stray(self) -> bool:
        self._read()
        head, body = self._message()
        self._conn.send(head + body)
        if not self._goes_on():
            return False
        if self._fate.share < 0.5:
            until = time.monotonic() + self._fate.delay
            while time.monotonic() < until:
                pass
        else:
            time.sleep(self._fate.delay)
        mark = stamp(self._fate.name)
        self._conn.send(_head(200, b"Content-Length: %d" % len(mark)) + mark)
        return True

    def _read_slowly(self) -> bool:
        self._conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        for count, _ in enumerate(self._conn.iter_body(self._head, 4096)):
            if count < 10:
                time.sleep(self._fate.delay)
        return self._send_good()

    def _drip(self) -> bool:
        self._read()
        whole = b"".join(self._message())
        step = max(1, len(whole) // 8)
        for at in range(0, len(whole), step):
            self._conn.send(whole[at : at + step])
            time.sleep(self._fate.delay)
        return self._goes_on()

    def _half_close(self) -> bool:
        self._answer()
        with contextlib.suppress(OSError):
            self._conn.sock.shutdown(socket.SHUT_WR)
            self._conn.wait_closed(_WHILE)
        return False

    def _announce(self) -> bool:
        self._read()
        self._conn.send(b"".join(self._message(b"Connection: close")))
        if self._fate.fault.endswith("none"):
            with contextlib.suppress(OSError):
                self._conn.wait_closed(_WHILE)
        return False

    def _close_after_a_while(self) -> bool:
        goes_on = self._answer()
        self._conn.sock.settimeout(_WHILE)
        return goes_on


_DEEDS: dict[str, Callable[[_Exchange], bool]] = {
    "cut in head": _Exchange._break_off,
    "cut in body": _Exchange._break_off,
    "reset in head": _Exchange._break_off,
    "reset in body": _Exchange._break_off,
    "reset at once": _Exchange._leave_at_once,
    "close at once": _Exchange._leave_at_once,
    "stall before head": _Exchange._stall,
    "stall in head": _Exchange._stall,
    "stall in body": _Exchange._stall,
    "interim": _Exchange._interim,
    "early answer": _Exchange._answer_early,
    "early answer and reset": _Exchange._answer_early,
    "silent close": _Exchange._close_silently,
    "silent close later": _Exchange._close_silently,
    "stray": _Exchange._stray,
    "slow reader": _Exchange._read_slowly,
    "drip": _Exchange._drip,
    "half-close": _Exchange._half_close,
    "announced close": _Exchange._announce,
    "announced close that is none": _Exchange._announce,
    "close after a while": _Exchange._close_after_a_while,
}


def main() -> None:
    """Serve until the parent closes the pipe."""
    storm = Storm(int(sys.argv[1]))
    with storm.server as server, http2_server(storm) as streams:
        serve_questions({"http1": server.port, "http2": streams.port}, storm.report)


if __name__ == "__main__":
    main()
