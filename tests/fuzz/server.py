"""The server of the fuzzer, in its own process: `python -m tests.fuzz.server SEED`.

/good/<name> is valid and has the name's stamp; /<kind>/<case>/<hop> as that case has it. On
HTTP/2 without TLS likewise, and CONNECT c<case>.localhost:443 makes it a hostile proxy.
"""

from __future__ import annotations

import contextlib
import math
import re
import socket
import sys
import time
from collections import deque
from typing import Any

from hpack import Decoder
from hpack.exceptions import HPACKError

from tests.adversary.server_process import serve_questions
from tests.adversary.stamps import stamp
from tests.fuzz.case import Case
from tests.fuzz.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    SETTINGS,
    WITH_PRIORITY,
    Frame,
)
from tests.fuzz.heads import Answer
from tests.fuzz.socks import read_name, read_target
from tests.servers.raw import RawConnection, RawServer

_TARGET = re.compile(
    rb"(?:http://[^/ ]*)?/(?:(good)/([\w.-]+)|(h1|h2|connect|proxied|socks)/(\d+)/(\d+))"
)
_TUNNEL = re.compile(rb"c(\d+)\.localhost:443$")
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_IDLE = 0.01  # seconds that a connection may stand still: some responses are never complete
_REMEMBERED = 50_000


class Fuzzer:
    """Respond to requests as their cases define it, and record what was sent where.

    Args:
        seed: of the run.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.server = RawServer(self._serve)
        # [case, hop, connection, when all of it was sent, with what was not asked for]
        self.sent: deque[list[Any]] = deque(maxlen=_REMEMBERED)

    def history(self, owner: str) -> Any:
        """Return what was sent on the connections that carried a case, and when."""
        entries = list(self.sent)
        connections = {entry[2] for entry in entries if entry[0] == owner}
        return [entry for entry in entries if entry[2] in connections][-40:]

    def _serve(self, conn: RawConnection) -> None:
        conn.sock.settimeout(_IDLE * 20)
        with contextlib.suppress(TimeoutError):
            if conn.starts_with(_PREFACE[:4]):
                Streams(self, conn).run()
            elif conn.starts_with(b"\x04") or conn.starts_with(b"\x05"):
                self._serve_socks(conn)
            else:
                self._serve_http1(conn)

    def _serve_socks(self, conn: RawConnection) -> None:
        with contextlib.suppress(ConnectionError):  # it leaves at the first broken reply
            name = read_name(conn)
            case = Case(self.seed, int(name.removeprefix("c")), "socks", self.server.port)
            for count, reply in enumerate(case.handshake()):
                if count:
                    read_target(conn)
                conn.send(reply)
            self._serve_http1(conn)

    def _serve_http1(self, conn: RawConnection) -> None:
        while True:
            head = conn.read_head()
            if not head:
                return
            for _ in conn.iter_body(head):
                pass
            conn.sock.settimeout(_IDLE)
            method, _, rest = head.partition(b" ")
            target = rest.partition(b" ")[0]
            if not self._answer(conn, method, target):
                return

    def _answer(self, conn: RawConnection, method: bytes, target: bytes) -> bool:
        """Respond to a request; return whether the connection continues."""
        if found := _TARGET.match(target):
            if found[1]:
                conn.send(_good(method, found[2].decode()))
                return True
            kind, name, hop = found[3].decode(), found[4].decode(), int(found[5])
        elif found := _TUNNEL.match(target):
            kind, name, hop = "connect", found[1].decode(), 0
        else:  # where an odd Location leads
            conn.send(b"HTTP/1.1 404 Elsewhere\r\nContent-Length: 0\r\n\r\n")
            return True
        return self._send(conn, Case(self.seed, int(name), kind, self.server.port), hop)

    def _send(self, conn: RawConnection, case: Case, hop: int) -> bool:
        return self.send(conn, case, hop, case.answer(hop))

    def send(self, conn: RawConnection, case: Case, hop: int, made: Answer) -> bool:
        """Send a response, and what nobody asked for; return whether the connection continues."""
        entry = [case.owner, hop, conn.index, math.inf]
        self.sent.append(entry)
        for piece in made.pieces:
            if piece:
                conn.send(piece)
        if made.stray:
            until = time.monotonic() + made.delay
            if made.delay > 1e-3:
                time.sleep(made.delay)
            while time.monotonic() < until:
                pass
            conn.send(made.stray)
        entry[3] = time.monotonic()
        return end(conn, made)


def end(conn: RawConnection, made: Answer) -> bool:
    """End a connection as a response has it; return whether it continues."""
    if made.ending == "keep":
        return True
    if made.ending == "reset":
        conn.reset()
    elif made.ending == "half":
        with contextlib.suppress(OSError):
            conn.sock.shutdown(socket.SHUT_WR)
            conn.wait_closed(_IDLE)
    elif made.ending == "stall":
        # Until the client leaves, or takes the response for complete and sends the next request.
        conn.sock.settimeout(None)
        with contextlib.suppress(OSError):
            conn.sock.recv(1)
    return False


def _good(method: bytes, name: str) -> bytes:
    body = stamp(name)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head if method == b"HEAD" else head + body


class Streams:
    """The server's side of one HTTP/2 connection; it heeds no flow control."""

    def __init__(self, fuzzer: Fuzzer, conn: RawConnection) -> None:
        self._fuzzer = fuzzer
        self._conn = conn
        self._decoder = Decoder(max_header_list_size=1 << 24)
        self._paths: dict[int, bytes] = {}

    def run(self) -> None:
        """Respond to requests until the connection ends."""
        conn = self._conn
        conn.read_exactly(len(_PREFACE))
        conn.send(Frame(SETTINGS, 0, 0, b"").wire())
        with contextlib.suppress(ConnectionError, HPACKError):
            while self._turn():
                conn.sock.settimeout(_IDLE)

    def _turn(self) -> bool:
        """Read a frame and do what it asks for; return whether the connection continues."""
        header = self._conn.read_exactly(9)
        kind, flags = header[3], header[4]
        stream = int.from_bytes(header[5:9], "big") & 0x7FFFFFFF
        payload = self._conn.read_exactly(int.from_bytes(header[:3], "big"))
        if kind == SETTINGS and not flags & 1:
            self._conn.send(Frame(SETTINGS, 1, 0, b"").wire())
        elif kind == PING and not flags & 1:
            self._conn.send(Frame(PING, 1, 0, payload).wire())
        elif kind == HEADERS:
            block = payload[5:] if flags & WITH_PRIORITY else payload
            if not flags & END_HEADERS:
                block += self._continued()
            fields = dict(self._decoder.decode(block, raw=True))
            self._paths[stream] = fields[b":method"] + b" " + fields[b":path"]
        if kind in (HEADERS, DATA) and flags & END_STREAM and stream in self._paths:
            return self._answer(stream, *self._paths.pop(stream).split(b" ", 1))
        return True

    def _continued(self) -> bytes:
        """Return the rest of a header block."""
        block, flags = b"", 0
        while not flags & END_HEADERS:
            header = self._conn.read_exactly(9)
            flags = header[4]
            block += self._conn.read_exactly(int.from_bytes(header[:3], "big"))
        return block

    def _answer(self, stream: int, method: bytes, target: bytes) -> bool:
        conn = self._conn
        found = _TARGET.match(target)
        if not found or found[1]:
            body = stamp(found[2].decode()) if found and method != b"HEAD" else b""
            conn.send(Frame(HEADERS, END_HEADERS, stream, b"\x88").wire())
            conn.send(Frame(DATA, END_STREAM, stream, body).wire())
            return True
        fuzzer = self._fuzzer
        case = Case(fuzzer.seed, int(found[4]), "h2", fuzzer.server.port)
        hop = int(found[5])
        made = case.answer(hop, stream)
        return fuzzer.send(conn, case, hop, made)


def main() -> None:
    """Serve until the parent closes the pipe."""
    fuzzer = Fuzzer(int(sys.argv[1]))
    with fuzzer.server as server:
        serve_questions({"port": server.port}, fuzzer.history)


if __name__ == "__main__":
    main()
