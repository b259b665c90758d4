"""Send requests while a name moves from one address to another; writes what came back as JSON.

Runs in a mount namespace of its own, in which it may write /etc/hosts:

    unshare --mount python -m tests.day2.moving_name FILE
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

import curlhttp
import curlhttp.httpx
from curlhttp import requests

NAME = "moving.test"
_HOSTS = Path("/etc/hosts")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n"


def _move(address: str | None) -> None:
    _HOSTS.write_text("127.0.0.1 localhost\n" + (f"{address} {NAME}\n" if address else ""))


class _Server:
    """Respond with its own address."""

    def __init__(self, address: str, port: int = 0) -> None:
        self._socket = socket.create_server((address, port))
        self.port = self._socket.getsockname()[1]
        self._head = _HEAD + address.encode()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(self._head)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _try(get: Callable[[str], str], url: str) -> str:
    try:
        return get(url)
    except (curlhttp.RequestException, httpx.HTTPError) as error:
        return type(error).__name__


def _follow(get: Callable[[str], str]) -> list[str]:
    """Return what is received at the old address, and after each of two moves."""
    _move("127.0.0.2")
    old = _Server("127.0.0.2")
    new = _Server("127.0.0.3", old.port)
    url = f"http://{NAME}:{old.port}/"
    received = [_try(get, url)]
    old.close()
    _move("127.0.0.3")
    received += [_try(get, url), _try(get, url)]
    new.close()
    _move(None)
    received.append(_try(get, url))
    newest = _Server("127.0.0.4", old.port)
    _move("127.0.0.4")
    received.append(_try(get, url))
    newest.close()
    return received


def _get_ways() -> dict[str, Callable[[str], str]]:
    client, retrying = curlhttp.Client(), curlhttp.Client(retry=1)
    session, loop = requests.Session(), asyncio.new_event_loop()
    async_client = curlhttp.AsyncClient()
    other = httpx.Client(transport=curlhttp.httpx.Transport())

    def stream(url: str) -> str:
        with client.stream("GET", url) as response:
            return response.read().decode()

    def get_all(url: str) -> str:
        found: Any = next(iter(client.map([url])))
        return found.text if isinstance(found, curlhttp.Response) else type(found).__name__

    def download(url: str) -> str:
        client.download(url, "moved", resume=False)
        return Path("moved").read_text()

    def run(url: str) -> str:
        command = [sys.executable, "-m", "curlhttp", "curl", "-s", url]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    return {
        "Client": lambda url: client.get(url).text,
        "retry": lambda url: retrying.get(url).text,
        "stream": stream,
        "map": get_all,
        "download": download,
        "AsyncClient": lambda url: loop.run_until_complete(async_client.get(url)).text,
        "get": lambda url: curlhttp.get(url).text,
        "Session": lambda url: session.get(url).text,
        "httpx": lambda url: other.get(url).text,
        "command line": run,
    }


if __name__ == "__main__":
    subprocess.run(["mount", "--bind", sys.argv[1], _HOSTS], check=True)
    sys.stdout.write(json.dumps({name: _follow(get) for name, get in _get_ways().items()}))
