"""Caddy on loopback: HTTP/1.1, HTTP/2 and HTTP/3 on TLS. Use it if `has_caddy()`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.servers.certs import Certs

_SECONDS = 30.0
_CONFIGURATION = """{{
  admin off
  auto_https off
  default_sni localhost
  storage file_system {folder}
}}
https://localhost:{port} {{
  tls cert.pem cert.pem
  respond "hello"
}}
"""


def has_caddy() -> bool:
    """Return whether Caddy is installed."""
    return shutil.which("caddy") is not None


class Caddy:
    """A Caddy that responds hello to every request.

    Args:
        folder: an empty one, for its files.
        certs: who signs its certificate.

    Attributes:
        port: of TCP, and of UDP for HTTP/3.
    """

    def __init__(self, folder: Path, certs: Certs) -> None:
        self._folder = folder
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port: int = one.getsockname()[1]
        (folder / "cert.pem").write_bytes(certs.server_pem())
        text = _CONFIGURATION.format(folder=folder, port=self.port)
        (folder / "Caddyfile").write_text(text)

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["caddy", "run", "--config", "Caddyfile"],
                cwd=self._folder,
                env={**os.environ, "HOME": str(self._folder)},
                stderr=log,
            )
        end = time.monotonic() + _SECONDS
        while b"serving initial configuration" not in (said := self._log()):
            if time.monotonic() > end or self._process.poll() is not None:
                self.kill()
                raise RuntimeError(f"Caddy did not start: {said!r}")
            time.sleep(0.01)

    def _log(self) -> bytes:
        return (self._folder / "log").read_bytes()

    def kill(self) -> None:
        """End it without a word to its clients."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
