"""A server of another project, as a process in the foreground with its own folder.

Knows how such a process begins and ends; what it serves is in `origins` and `proxies`. All of them
answer the same paths: nginx and its like by asking the tests' own server, `Backend`,
application servers by an application in `apps`.

| path | answer |
|---|---|
| /stamp?id=I&n=N&wait=S | the id, N times, after S seconds; for any method |
| /upload?id=I | JSON of what came: its length and its sha256 |
| /204, /redirect/N, /trailers | no content; N redirects; a trailer named X-Checksum |
| /events, /ws | three server-sent events; an echo of WebSocket messages |
| /static/file.bin, /static/text.txt | files, with validators and ranges |
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from tests.servers import AppConnection, AppServer, Certs, Record, payload
from tests.servers.websocket import accept, echo

SECONDS = 30.0
FILE = payload(300_000)
TEXT = b"".join(b"line %d of a text that can be compressed\n" % number for number in range(500))
EVENTS = ["first", "second", "third"]
_LONG_AGO = 1_700_000_000
_SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"http2": False},
    "tls": {"http2": False},
    "h2": {"http2": True},
    "h3": {"http3": True},
}
VERSIONS = {"plain": "HTTP/1.1", "tls": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"}


class Endpoint(NamedTuple):
    """Where to send requests, and with which settings of a client."""

    url: str
    settings: dict[str, Any]


class Surroundings(NamedTuple):
    """What all programs share: certificates, the server behind, files to serve, a folder."""

    certs: Certs
    backend: Backend
    folder: Path


class Program:
    """One server. A subclass defines its name, its configuration and its endpoints.

    Attributes:
        name: what the tests call it.
        executable: what must be installed.
        version_command: prints the version, which is what `version_pattern` finds first.
        role: what it is in the tests.
        endpoints: "plain", "tls" (HTTP/1.1), "h2" and "h3", as far as it has them.
        can: what else it does: "static", "gzip", "br", "trailers", "events", "ws", "expect", and
            "short" (a port that ends connections after two requests), "mtls", "reload".
        scheme: of its URL, if it is a proxy.
        needs_length: the endpoints that refuse a body without a Content-Length.
    """

    name: ClassVar[str]
    executable: ClassVar[str]
    version_command: ClassVar[Sequence[str]]
    version_pattern: ClassVar[str] = r"(\d+(?:\.\d+)+)"
    role: ClassVar[str] = "origin"
    endpoints: ClassVar[Sequence[str]] = ("plain", "tls", "h2")
    can: ClassVar[frozenset[str]] = frozenset()
    scheme: ClassVar[str] = ""
    needs_length: ClassVar[Sequence[str]] = ()

    def __init__(self, around: Surroundings) -> None:
        if shutil.which(self.executable) is None:
            pytest.skip(f"{self.executable} is not installed")
        self.around = around
        # Not pytest's own folders: servers give up root, and must still read these.
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=around.folder))
        self.folder.chmod(0o777)
        self.files = around.folder / "files"
        self.seen_path = self.folder / "seen"
        self.cert = self.folder / "cert.pem"
        self.cert.write_bytes(around.certs.server_pem())
        self.cert.chmod(0o644)
        self.ca = self.folder / "ca.pem"
        self.ca.write_bytes(around.certs.ca_pem)
        self.ports: dict[str, int] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.prepare()

    # -- what a subclass says

    def prepare(self) -> None:
        """Write the files that it needs."""

    def command(self) -> Sequence[str]:
        """Return what starts it in the foreground."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return what its environment has on top of this process's."""
        return {}

    def reload(self) -> None:
        """Have it read its configuration again without losing a request."""
        raise NotImplementedError

    # -- for the tests

    @classmethod
    def version(cls) -> str:
        """Return the version that it says it has."""
        said = subprocess.run(
            cls.version_command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        found = re.search(cls.version_pattern, said.stdout.decode(errors="replace"))
        return found[1] if found else "unknown"

    def port(self, name: str) -> int:
        """Return its own port by its name, which is free when first asked for."""
        if name not in self.ports:
            with socket.socket() as found:
                found.bind(("127.0.0.1", 0))
                self.ports[name] = found.getsockname()[1]
        return self.ports[name]

    def endpoint(self, name: str, port: str | None = None) -> Endpoint:
        """Return an endpoint, or one like it at another port."""
        port = port or ("plain" if name == "plain" else "tls")
        if name == "plain":
            return Endpoint(f"http://127.0.0.1:{self.port(port)}", _SETTINGS[name])
        return Endpoint(f"https://localhost:{self.port(port)}", _SETTINGS[name])

    def proxy_url(self, port: str = "plain", credentials: str = "") -> str:
        """Return the proxy's URL; credentials end with an at sign."""
        return f"{self.scheme}://{credentials}127.0.0.1:{self.port(port)}"

    def seen(self) -> Counter[str]:
        """Return how often each id came in a request, by the server or its upstream."""
        if self.seen_path.exists():
            return Counter(self.seen_path.read_text().split())
        return self.around.backend.seen()

    def start(self) -> None:
        """Start it, and wait until it takes connections at all of its ports."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                list(map(str, self.command())),
                cwd=self.folder,
                env={**os.environ, "HOME": str(self.folder), **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + SECONDS
        while not self.is_up():
            if time.monotonic() > end or self.process.poll() is not None:
                self.kill()
                raise RuntimeError(f"{self.name} did not start: {self.log()[-2000:]}")
            time.sleep(0.01)

    def is_up(self) -> bool:
        """Return whether all of its ports take connections."""
        return all(_takes_connections(port) for port in self.ports.values())

    def log(self) -> str:
        """Return what it printed."""
        return (self.folder / "log").read_text(errors="replace")

    def signal(self, number: int) -> None:
        """Send a signal to the process that was started."""
        assert self.process is not None
        os.kill(self.process.pid, number)

    def stop(self) -> None:
        """End it as its operator would; what it holds for long it may drop."""
        if self.process is not None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            self.kill()

    def kill(self) -> None:
        """End it and its workers without a word to anybody."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            end = time.monotonic() + SECONDS  # its workers may be ending just now
            while (
                any(_takes_connections(port) for port in self.ports.values())
                and time.monotonic() < end
            ):
                time.sleep(0.005)


def _takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def make_files(folder: Path) -> None:
    """Write the files that servers serve, below `static`."""
    static = folder / "files" / "static"
    static.mkdir(parents=True)
    (static / "file.bin").write_bytes(FILE)
    (static / "text.txt").write_bytes(TEXT)
    for path in static.iterdir():  # a date that is younger than a minute is no strong validator
        os.utime(path, (_LONG_AGO, _LONG_AGO))


class Backend(AppServer):
    """The tests' own server, which is behind those that are no application servers."""

    def __init__(self) -> None:
        super().__init__()
        self.route("/stamp", _stamp)
        self.route("/events", _events)
        self.route("/ws", _websocket)
        self._counted = 0
        self._seen: Counter[str] = Counter()

    def seen(self) -> Counter[str]:
        """Return how often each id came."""
        end = len(self.requests)
        self._seen.update(record.query("id") for record in self.requests[self._counted : end])
        self._counted = end
        return self._seen


def _stamp(record: Record, conn: AppConnection) -> None:
    wait = float(record.query("wait", "0"))
    if wait and conn.wait_closed(wait):
        conn.closing = True
        return None
    body = record.query("id").encode() * int(record.query("n", "1"))
    return conn.reply(200, body, [("Content-Type", "text/plain")])


def _events(record: Record, conn: AppConnection) -> None:
    fields = [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]
    conn.begin(200, fields)
    for data in EVENTS:
        conn.chunk(f"data: {data}\n\n".encode())
    conn.chunk(b"")


def _websocket(record: Record, conn: AppConnection) -> None:
    conn.closing = True
    conn.send(accept(record.raw))
    with suppress(ConnectionError):
        echo(conn)
