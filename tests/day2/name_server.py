"""A name server whose names say how it treats them, and a web server for them on loopback.

For processes in a network and mount namespace of their own:

    unshare --net --mount python -m tests.day2.slow_names ...
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

PORT = 8000
_A, _CNAME, _AAAA = 1, 5, 28
_ADDRESSES = {_A: socket.inet_aton("127.0.0.1"), _AAAA: socket.inet_pton(socket.AF_INET6, "::1")}
_REFUSES = socket.inet_aton("127.0.0.9")
_LATE = {"late": 1.0, "late-aaaa": 0.2}  # seconds
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
_UPGRADED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: %b\r\n\r\n"
)
_KEY = re.compile(rb"sec-websocket-key: *(\S+)", re.IGNORECASE).search
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# The system asks for 150 s, longer than any test waits.
_RESOLV_CONF = "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n"


def enter_namespace(folder: Path, resolv_conf: str = _RESOLV_CONF) -> None:
    """Bring up loopback, and let the system ask this module's name server.

    Args:
        folder: for the file that replaces /etc/resolv.conf.
        resolv_conf: what it contains.
    """
    import fcntl  # not on Windows

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS
    file = folder / "resolv.conf"
    file.write_text(resolv_conf)
    target = os.path.realpath("/etc/resolv.conf")
    subprocess.run(["mount", "--bind", file, target], check=True)


class NameServer:
    """Answer queries for names.

    fine: with the addresses of this machine.
    drops-a, drops-aaaa: only for the other family.
    drops: not at all.
    late: after a second.
    late-aaaa: for the one family with an address that refuses, and later for the other one.
    unknown: there is no such name.
    v4, v6: only with an address of this family.
    servfail, notimp: with an error.
    garbage, cut: with bytes that are no answer, or with a part of one.
    truncated: with a part of the addresses, and none over TCP.
    many: with 200 addresses, over TCP, of which the last one is this machine's.
    odd: as an alias of a name with odd bytes.
    loop: as an alias of itself.

    A name may end in a number, and have labels after that.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self._run, daemon=True).start()
        threading.Thread(target=self._run_tcp, daemon=True).start()

    @staticmethod
    def _run_tcp() -> None:
        with socket.create_server(("127.0.0.1", 53)) as listening:
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    query = connection.recv(4096)[2:]
                    name, kind, end = _parse(query)
                    if name.startswith("many"):
                        answer = _answer_with(query[:end], *_make_records(kind, 200))
                        connection.sendall(len(answer).to_bytes(2, "big") + answer)

    def _run(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(4096)
            name, kind, end = _parse(query)
            way = name.partition(".")[0]
            if (odd := _answer_oddly(way, query[:end], kind)) is not None:
                self._socket.sendto(odd, sender)
                continue
            way = way.rstrip("0123456789")
            if way == "drops" or (way, kind) in (("drops-a", _A), ("drops-aaaa", _AAAA)):
                continue
            address = _ADDRESSES.get(kind)
            if (way, kind) == ("late-aaaa", _A):
                address = _REFUSES
            answer = _answer(query[:end], kind, None if way == "unknown" else address)
            if way == "late" or (way, kind) == ("late-aaaa", _AAAA):
                threading.Timer(_LATE[way], self._socket.sendto, (answer, sender)).start()
            else:
                self._socket.sendto(answer, sender)


def _parse(query: bytes) -> tuple[str, int, int]:
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(labels).lower(), int.from_bytes(query[at + 1 : at + 3], "big"), at + 5


def _answer(query: bytes, kind: int, address: bytes | None) -> bytes:
    flags, record = 0x8183, b""  # there is no such name
    if address is not None:
        flags = 0x8180
        record = struct.pack("!HHHIH", 0xC00C, kind, 1, 60, len(address)) + address
    counts = struct.pack("!HHHH", 1, bool(record), 0, 0)
    return query[:2] + struct.pack("!H", flags) + counts + query[12:] + record


def _answer_oddly(way: str, query: bytes, kind: int) -> bytes | None:
    """Return an answer that a sound name server does not send, or None."""
    address = _ADDRESSES.get(kind, b"")
    if way in ("v4", "v6"):
        return _answer_with(query, *([(kind, address)] if (way == "v4") == (kind == _A) else []))
    if way in ("servfail", "notimp"):
        return query[:2] + (b"\x81\x82" if way == "servfail" else b"\x81\x84") + query[4:]
    if way == "garbage":
        return query[:2] + b"\xff" * 40
    if way == "cut":
        return _answer_with(query, (kind, address))[:-3]
    if way in ("truncated", "many"):
        whole = _answer_with(query, *_make_records(kind, 5))
        return whole[:2] + b"\x83\x80" + whole[4:]
    if way in ("odd", "loop"):
        target = b"\xc0\x0c" if way == "loop" else b'\x0b\xff\x00 \n"%;|\x1b[1\x04test\x00'
        return _answer_with(query, (_CNAME, target), (kind, address))
    return None


def _make_records(kind: int, number: int) -> list[tuple[int, bytes]]:
    others = [_ADDRESSES[kind][:-2] + bytes([9, n % 250 + 1]) for n in range(number - 1)]
    return [(kind, address) for address in (*others, _ADDRESSES[kind])]


def _answer_with(query: bytes, *records: tuple[int, bytes]) -> bytes:
    """Return an answer with records, each a type and data."""
    written = b"".join(
        struct.pack("!HHHIH", 0xC00C, kind, 1, 60, len(data)) + data for kind, data in records
    )
    head = query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(records), 0, 0)
    return head + query[12:] + written


class WebServer:
    """Respond with the address that was connected to, as an event or a WebSocket message."""

    def __init__(self) -> None:
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            listening = socket.create_server((address, PORT), family=family, backlog=1000)
            threading.Thread(target=self._run, args=(listening, address), daemon=True).start()

    def _run(self, listening: socket.socket, address: str) -> None:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=self._serve, args=(connection, address), daemon=True).start()

    @staticmethod
    def _serve(connection: socket.socket, address: str) -> None:
        text = address.encode()
        with connection, suppress(OSError):
            while request := connection.recv(65536):
                if key := _KEY(request):
                    accept = base64.b64encode(hashlib.sha1(key[1] + _GUID).digest())
                    message = b"\x81" + bytes([len(text)]) + text
                    connection.sendall(_UPGRADED % accept + message)
                elif request.startswith(b"GET /events"):
                    event = b"data: " + text + b"\n\n"
                    connection.sendall(_HEAD % len(event) + event)
                else:
                    connection.sendall(_HEAD % len(text) + text)
