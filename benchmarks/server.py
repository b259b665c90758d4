"""The server: nginx if it is installed, otherwise granian, in separate processes on one core.

It has ports on one address: HTTP/1.1, HTTP/1.1 over TLS, the same without session resumption,
HTTP/2 over TLS, and any number of additional origins on TLS. `/N` returns a body of N bytes. On
nginx, `/handshake` says whether the connection's handshake was "resumed" (7 bytes) or "full".
The asyncio server is for tests and for machines without the other two; do not measure rates with
it. One more port on HTTP/1.1, always the asyncio server's, answers after 5 ms. Nearly every real
server takes as long as that, so that a client has to wait, which costs CPU; the others have often
answered before a client looks.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import certifi

__all__ = ["KINDS", "Server", "serve"]

KINDS = ("auto", "nginx", "granian", "asyncio")
_URLS = {
    "http": "http",
    "http, 5 ms": "late",
    "https": "https",
    "https, full handshakes": "full",
    "h2": "h2",
}
_LATE = 0.005  # seconds
_ABILITIES = {
    "nginx": ("http", "https", "full", "h2", "late"),
    "granian": ("http", "https", "h2", "late"),
    "asyncio": ("http", "https", "late"),
}
_ORIGIN = "origin"
_PORTS = (10_000, 32_000)  # below those of clients, on Linux from 32,768 on, elsewhere from 49,152
_TYPE = "application/octet-stream"

_NGINX = """
daemon off; master_process off; worker_rlimit_nofile 16384;
pid {folder}/pid; error_log {folder}/errors; user root;
events {{ worker_connections 8192; }}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    access_log off; sendfile on; tcp_nopush on; open_file_cache max=100;
    keepalive_requests 1000000000; keepalive_timeout 1h; http2_max_concurrent_streams 1000;
    types {{}} default_type application/octet-stream; root {folder}/files;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:sessions:10m;
    map $ssl_session_reused $handshake {{ r resumed; default full; }}
    server {{ listen 127.0.0.1:{http} backlog=4096; }}
    server {{
        listen 127.0.0.1:{https} ssl backlog=4096; {origins}
        location = /handshake {{ return 200 $handshake; }}
    }}
    server {{
        listen 127.0.0.1:{full} ssl backlog=4096; ssl_session_cache off; ssl_session_tickets off;
        location = /handshake {{ return 200 $handshake; }}
    }}
    server {{ listen 127.0.0.1:{h2} ssl http2 backlog=4096; }}
}}
"""


@dataclass(frozen=True)
class Server:
    """A running server.

    Args:
        name: with its version.
        urls: base URLs of "http", "http, 5 ms" and "https" and, if it can, "h2" and
            "https, full handshakes".
        origins: base URLs of additional origins on TLS, if requested and supported.
        ca: path of the CA certificates: certifi's, the default of clients, and the server's own.
        processes: process ids.
    """

    name: str
    urls: dict[str, str]
    origins: tuple[str, ...]
    ca: str
    processes: tuple[int, ...]

    @property
    def tells_handshakes(self) -> bool:
        """Return whether the server has `/handshake`."""
        return self.name.startswith("nginx")

    def cpu(self) -> float:
        """Return the CPU seconds that the server has used, if /proc is available."""
        ticks = 0
        for process in self.processes:
            with suppress(OSError):
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def serve(
    sizes: Iterable[int], *, core: int | None = None, kind: str = "auto", origins: int = 0
) -> Iterator[Server]:
    """Run a server for bodies of these sizes.

    Args:
        sizes: bytes.
        core: the core to pin it to; None for any.
        kind: one of KINDS.
        origins: number of additional ports on TLS.
    """
    kind = _choose() if kind == "auto" else kind
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _certify(folder)
        ports = _free_ports(origins if kind != "granian" else 0)  # granian: a process for each
        commands = {"nginx": _nginx, "granian": _granian, "asyncio": _asyncio}[kind]
        late = [sys.executable, "-m", "benchmarks.server", "late", str(folder), str(ports["late"])]
        with _run([*commands(folder, ports, sizes), late], core, folder) as processes:
            for name in _ABILITIES[kind]:
                _wait_for(ports[name], processes, folder)
            bases = {
                name: f"{'http' if name in ('http', 'late') else 'https'}://127.0.0.1:{port}"
                for name, port in ports.items()
            }
            urls = {key: bases[name] for key, name in _URLS.items() if name in _ABILITIES[kind]}
            more = tuple(url for name, url in bases.items() if name.startswith(_ORIGIN))
            pids = tuple(process.pid for process in processes)
            yield Server(_describe(kind), urls, more, str(folder / "ca.pem"), pids)


def _choose() -> str:
    if shutil.which("nginx"):
        return "nginx"
    if importlib.util.find_spec("granian"):
        return "granian"
    raise SystemExit(
        "no server to measure against: install nginx, or granian with "
        "`pip install 'curlhttp[bench]'`; `--server asyncio` is enough to try the commands"
    )


def _describe(kind: str) -> str:
    if kind == "nginx":
        answer = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True)
        return answer.stderr.rpartition(" ")[2].strip().replace("/", " ")
    if kind == "granian":
        return f"granian {version('granian')}"
    return "asyncio (for tests: slower than the clients)"


def _certify(folder: Path) -> None:
    try:
        import trustme
    except ImportError:
        raise SystemExit("trustme makes the certificate: pip install 'curlhttp[bench]'") from None
    authority = trustme.CA()
    # As many CAs as clients have by default, because parsing them is part of the cost.
    shutil.copy(certifi.where(), folder / "ca.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem", append=True)
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(folder / "key.pem")
    for pem in leaf.cert_chain_pems:
        pem.write_to_path(folder / "cert.pem", append=True)


def _free_ports(origins: int) -> dict[str, int]:
    names = [*_URLS.values(), *[f"{_ORIGIN}{number}" for number in range(origins)]]
    sockets = {name: _bind_somewhere() for name in names}
    ports = {name: int(server.getsockname()[1]) for name, server in sockets.items()}
    for server in sockets.values():
        server.close()
    return ports


def _bind_somewhere() -> socket.socket:
    """Return a socket on a free port that the system gives to no client.

    A client could get an ephemeral port before the server binds it.
    """
    while True:
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", random.randrange(*_PORTS)))


@contextmanager
def _run(
    commands: list[list[str]], core: int | None, folder: Path
) -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    with open(folder / "output", "wb") as output:
        try:
            for command in commands:
                process = subprocess.Popen(command, stdout=output, stderr=output)
                started.append(process)
                if core is not None:
                    os.sched_setaffinity(process.pid, {core})
            yield started
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()


def _wait_for(port: int, processes: list[subprocess.Popen[bytes]], folder: Path) -> None:
    for _ in range(500):
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        if any(process.poll() is not None for process in processes):
            break
        time.sleep(0.02)
    output = (folder / "output").read_text(errors="replace")
    raise RuntimeError(f"the benchmark's server did not start:\n{output}")


# --- nginx ---


def _nginx(folder: Path, ports: dict[str, int], sizes: Iterable[int]) -> list[list[str]]:
    files = folder / "files"
    files.mkdir()
    for size in sizes:
        (files / str(size)).write_bytes(b"a" * size)
    origins = [port for name, port in ports.items() if name.startswith(_ORIGIN)]
    listen = " ".join(f"listen 127.0.0.1:{port} ssl;" for port in origins)
    text = _NGINX.format(folder=folder, origins=listen, **ports)
    if os.geteuid() != 0:
        text = text.replace("user root;", "")
    configuration = folder / "nginx.conf"
    configuration.write_text(text)
    return [["nginx", "-e", str(folder / "errors"), "-c", str(configuration)]]


# --- granian ---


def _granian(folder: Path, ports: dict[str, int], sizes: Iterable[int]) -> list[list[str]]:
    command = [sys.executable, "-m", "benchmarks.server", "granian", str(folder)]
    names = [name for name in _ABILITIES["granian"] if name != "late"]
    return [[*command, name, str(ports[name])] for name in names]


async def _respond(scope: Any, protocol: Any) -> None:
    """Respond to a request that granian passes on by RSGI."""
    size = int(scope.path[1:])
    protocol.response_bytes(200, [("content-type", _TYPE)], _bodies.setdefault(size, b"a" * size))


_bodies: dict[int, bytes] = {}


def _serve_granian(folder: Path, name: str, port: int) -> None:
    from granian.constants import HTTPModes, Interfaces
    from granian.server.embed import Server as Embedded

    tls = {} if name == "http" else {"ssl_cert": folder / "cert.pem", "ssl_key": folder / "key.pem"}
    server = Embedded(
        _respond,
        port=port,
        interface=Interfaces.RSGI,
        http=HTTPModes.http2 if name == "h2" else HTTPModes.http1,
        websockets=False,
        log_enabled=False,
        backlog=4096,
        **tls,
    )
    asyncio.run(server.serve())


# --- asyncio ---


def _asyncio(folder: Path, ports: dict[str, int], sizes: Iterable[int]) -> list[list[str]]:
    numbers = [str(port) for name, port in ports.items() if name not in ("h2", "full", "late")]
    return [[sys.executable, "-m", "benchmarks.server", "asyncio", str(folder), *numbers]]


class _Static(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.received = b""

    def data_received(self, data: bytes) -> None:
        *heads, self.received = (self.received + data).split(b"\r\n\r\n")
        for head in heads:
            self.respond(head)

    def respond(self, head: bytes) -> None:
        """Send the response to a request."""
        size = int(head.split(b" ", 2)[1][1:].partition(b"?")[0])
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
            b"Content-Length: %d\r\n\r\n" % size + b"a" * size
        )
        if b"connection: close" in head.lower():
            self.transport.close()


class _Late(_Static):
    def respond(self, head: bytes) -> None:
        """Send the response to a request after some milliseconds."""
        asyncio.get_running_loop().call_later(_LATE, super().respond, head)


async def _serve_late(port: int) -> None:
    loop = asyncio.get_running_loop()
    await (await loop.create_server(_Late, "127.0.0.1", port, backlog=4096)).serve_forever()


async def _serve_asyncio(folder: Path, ports: list[int]) -> None:
    loop = asyncio.get_running_loop()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    contexts = [None, *[tls] * (len(ports) - 1)]
    await asyncio.gather(
        *[
            (
                await loop.create_server(_Static, "127.0.0.1", port, ssl=context, backlog=4096)
            ).serve_forever()
            for port, context in zip(ports, contexts, strict=True)
        ]
    )


def main() -> None:
    kind, folder, *rest = sys.argv[1:]
    if kind == "granian":
        _serve_granian(Path(folder), rest[0], int(rest[1]))
    elif kind == "late":
        asyncio.run(_serve_late(int(rest[0])))
    else:
        asyncio.run(_serve_asyncio(Path(folder), [int(port) for port in rest]))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
