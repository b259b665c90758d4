"""A name server whose names say how it treats them, and a web server for them on loopback.

For processes in a network and mount namespace of their own:

    unshare --net --mount python -m tests.day2.slow_names ...
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

PORT = 8000
_A, _AAAA = 1, 28
_ADDRESSES = {_A: socket.inet_aton("127.0.0.1"), _AAAA: socket.inet_pton(socket.AF_INET6, "::1")}
_LATE = 1.0  # seconds
_UNKNOWN = 3  # the RCODE of a name that does not exist
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
# The system asks for 150 s, longer than any test waits.
_RESOLV_CONF = "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n"


def enter_namespace(folder: Path, resolv_conf: str = _RESOLV_CONF) -> None:
    """Bring up loopback, and let the system ask this module's name server.

    Args:
        folder: for the file that replaces /etc/resolv.conf.
        resolv_conf: what it contains.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS
    file = folder / "resolv.conf"
    file.write_text(resolv_conf)
    target = os.path.realpath("/etc/resolv.conf")
    subprocess.run(["mount", "--bind", file, target], check=True)


class NameServer:
    """Answer queries for names.

    drops-aaaa, drops-a: answers only those of the other family.
    drops: answers none.
    late: answers after a second.
    unknown: says that there is no such name.
    All other names are those of this machine. Any name may have a number and labels after that.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            query, sender = self._socket.recvfrom(4096)
            name, kind, end = _parse(query)
            self.asked.append((name, kind))
            behaviour = name.partition(".")[0].rstrip("0123456789")
            if behaviour == "drops" or (behaviour, kind) in (
                ("drops-aaaa", _AAAA),
                ("drops-a", _A),
            ):
                continue
            answer = _answer(query[:end], kind, is_known=behaviour != "unknown")
            if behaviour == "late":
                threading.Timer(_LATE, self._socket.sendto, (answer, sender)).start()
            else:
                self._socket.sendto(answer, sender)


def _parse(query: bytes) -> tuple[str, int, int]:
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(labels).lower(), int.from_bytes(query[at + 1 : at + 3], "big"), at + 5


def _answer(query: bytes, kind: int, *, is_known: bool) -> bytes:
    record = b""
    if is_known and kind in _ADDRESSES:
        address = _ADDRESSES[kind]
        record = struct.pack("!HHHIH", 0xC00C, kind, 1, 60, len(address)) + address
    flags = 0x8180 | (0 if is_known else _UNKNOWN)
    counts = struct.pack("!HHHH", 1, bool(record), 0, 0)
    return query[:2] + struct.pack("!H", flags) + counts + query[12:] + record


class WebServer:
    """Respond with the address that was connected to."""

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
        with connection, suppress(OSError):
            while connection.recv(65536):
                body = address.encode()
                connection.sendall(_HEAD % len(body) + body)


if __name__ == "__main__":
    import sys

    enter_namespace(Path(sys.argv[1]), sys.argv[2].replace(";", "\n"))
    NameServer(), WebServer()
    sys.exit(subprocess.run(sys.argv[3:], check=False).returncode)
