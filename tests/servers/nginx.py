"""nginx on loopback: HTTP/2 on TLS and without, counting processed requests in its log.

For what a real server does with its connections. Use it where `has_nginx()`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.servers.certs import Certs

_SECONDS = 30.0
_CONFIGURATION = """
daemon off; worker_processes 1; pid pid; error_log error.log notice;
events {{ worker_connections 4096; }}
http {{
  log_format ids '$arg_id $connection'; access_log access.log ids;
  client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp;
  uwsgi_temp_path temp; scgi_temp_path temp;
  keepalive_requests {keepalive_requests};
  server {{
    listen 127.0.0.1:{tls} ssl http2; listen 127.0.0.1:{plain} http2;
    ssl_certificate cert.pem; ssl_certificate_key cert.pem;
    location / {{ return 200 'hello'; }}
  }}
}}
"""


def has_nginx() -> bool:
    """Return whether nginx is installed."""
    return shutil.which("nginx") is not None


class Nginx:
    """An nginx that responds hello to every request over HTTP/2.

    Args:
        folder: an empty one, for its files.
        certs: who signs its certificate.
        keepalive_requests: how many a connection carries before nginx ends it by GOAWAY.

    Attributes:
        urls: its base URL by http2= of a client: True on TLS, and "prior-knowledge".
    """

    def __init__(self, folder: Path, certs: Certs, *, keepalive_requests: int = 1000) -> None:
        self.folder = folder
        tls, plain = _free_ports()
        self.urls: dict[object, str] = {
            True: f"https://127.0.0.1:{tls}",
            "prior-knowledge": f"http://127.0.0.1:{plain}",
        }
        self._ports = (tls, plain)
        (folder / "cert.pem").write_bytes(certs.server_pem())
        text = _CONFIGURATION.format(tls=tls, plain=plain, keepalive_requests=keepalive_requests)
        (folder / "nginx.conf").write_text(text)

    def __enter__(self) -> Self:
        folder = str(self.folder)
        command = ["nginx", "-p", folder, "-e", "error.log", "-c", "nginx.conf"]
        self._process = subprocess.Popen(command)
        _wait_for(self._ports, self._process, self.folder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, once it has written its log."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:  # somebody holds a connection
                self._process.terminate()
                self._process.wait()

    def reload(self) -> None:
        """Have other workers take over, and the present ones end their connections by GOAWAY."""
        os.kill(self._process.pid, signal.SIGHUP)

    def processed(self) -> Counter[str]:
        """Return how often a request with `?id=` was processed, by its id; after `stop`."""
        return Counter(line.split()[0] for line in self._log())

    def connections(self) -> int:
        """Return how many connections carried requests; after `stop`."""
        return len({line.split()[1] for line in self._log()})

    def _log(self) -> list[str]:
        return (self.folder / "access.log").read_text().splitlines()


def _free_ports() -> tuple[int, int]:
    # Both are held until both are known: else they might be one.
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait_for(ports: tuple[int, ...], process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + _SECONDS
    while not _is_up(ports, folder):
        if time.monotonic() > end or process.poll() is not None:
            process.kill()
            process.wait()
            log = folder / "error.log"
            raise RuntimeError(f"nginx did not start: {log.read_text() if log.exists() else ''}")
        time.sleep(0.01)


def _is_up(ports: tuple[int, ...], folder: Path) -> bool:
    # nginx listens first, then sets its signal handlers, then writes its pid: a SIGHUP before
    # that ends it.
    if not (folder / "pid").exists():
        return False
    try:
        for port in ports:
            socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
