"""A client of any colour and one server; every request is counted and checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread

import curlhttp
from curlhttp import requests
from tests.servers_real.ledger import Ledger, Operation
from tests.servers_real.program import Endpoint, Program
from tests.support.colours import AnyClient
from tests.support.every_api import make_fetch

APIS = ("get", "stream", "map", "download")
POST_APIS = ("post", "stream", "map")
OF_SESSIONS = ("session", "session's stream")
_TIMES = 50  # how often a response repeats the id that it belongs to


class Sender:
    """Send requests to a server, and check that each gets its own response.

    Args:
        client: of any colour, set up for the endpoint.
        session: of the drop-in.
        program: the server.
        endpoint: where the server listens.
        ledger: what counts them.
        folder: for downloads.
    """

    def __init__(
        self,
        client: AnyClient,
        session: requests.Session,
        program: Program,
        endpoint: Endpoint,
        ledger: Ledger,
        folder: Path,
    ) -> None:
        self.client = client
        self.session = session
        self.program = program
        self.endpoint = endpoint
        self.ledger = ledger
        self.folder = folder

    def counted(self, method: str = "GET") -> Any:
        """Count one operation; use it in `with`, as an `Operation`."""
        may_be_stopped = not self.client.is_blocking
        return self.ledger.operation(self.program, method, may_be_stopped=may_be_stopped)

    def url(self, path: str, operation: Operation | None = None, **query: object) -> str:
        """Return the URL of a path, for an operation that the server is to see."""
        pairs = {**({"id": operation.id} if operation else {}), **query}
        text = "&".join(f"{name}={value}" for name, value in pairs.items())
        return f"{self.endpoint.url}{path}" + (f"?{text}" if text else "")

    async def get(self, api: str = "get", **query: object) -> Any:
        """GET a response that only this request can get."""
        with self.counted() as operation:
            url = self.url("/stamp", operation, n=_TIMES, **query)
            if api == "stream":
                async with await self.client.stream("GET", url) as stream:
                    response, body = stream.real, await stream.read()
            else:
                fetch = make_fetch(self.client, api, self.folder, self.session)
                response = await fetch(url)
                is_file = api == "download"
                body = (self.folder / "downloaded").read_bytes() if is_file else response.content
            assert response.status_code == 200
            assert body == operation.id.encode() * _TIMES
            return response

    async def stamp(self, method: str, **query: object) -> Any:
        """Send a request whose response only it can get, with the clients' plain verb."""
        with self.counted(method) as operation:
            content = None if method == "GET" else b"pay"
            url = self.url("/stamp", operation, n=_TIMES, **query)
            response = await self.client.request(method, url, content=content)
            assert response.status_code == 200
            assert response.content == operation.id.encode() * _TIMES
            return response

    async def try_stamp(self, method: str, **query: object) -> Any:
        """Return the response, or the error."""
        try:
            return await self.stamp(method, **query)
        except curlhttp.RequestException as error:
            return error

    async def in_thread(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Run a function concurrently with others: in a thread if the client blocks."""
        if not self.client.is_blocking:
            return await function()
        return await anyio.to_thread.run_sync(_drive, function)

    async def post(self, api: str, content: Any, expected: bytes, **options: Any) -> Any:
        """POST a body, and check that the server got it as it was sent."""
        with self.counted("POST") as operation:
            url = self.url("/upload", operation)
            response, body = await self._post(api, url, content, **options)
            assert response.status_code == 200
            checksum = hashlib.sha256(expected).hexdigest()
            found = json.loads(body)
            assert (found["length"], found["sha256"]) == (len(expected), checksum)
            return response

    async def _post(self, api: str, url: str, content: Any, **options: Any) -> tuple[Any, bytes]:
        if api == "stream":
            async with await self.client.stream("POST", url, content=content, **options) as stream:
                return stream.real, await stream.read()
        if api == "map":
            request = curlhttp.ClientRequest("POST", url, content=content, **options)
            (found,) = [found async for found in self.client.map([request])]
            if isinstance(found, Exception):
                raise found
        elif api in OF_SESSIONS:
            found = self.session.post(url, data=content, stream=api != "session", **options)
        else:
            found = await self.client.post(url, content=content, **options)
        return found, found.content


def _drive(function: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine that never waits, because its client blocks."""
    waiting = function().__await__()
    try:
        next(waiting)
    except StopIteration as ended:
        return ended.value
    raise RuntimeError("it waits")


def pieces(content: bytes, size: int = 7000) -> Iterator[bytes]:
    """Yield a body piece by piece, so that its length is not known before."""
    for start in range(0, len(content), size):
        yield content[start : start + size]
