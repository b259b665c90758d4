"""A client of any colour and one server: what is sent by each way in is counted and checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import curlhttp
from curlhttp import requests
from tests.servers_real.ledger import Ledger, Operation
from tests.servers_real.program import Door, Program
from tests.support.colours import AnyClient
from tests.support.ways import make_ask

WAYS = ("get", "stream", "map", "download")
POST_WAYS = ("post", "stream", "map")
OF_SESSIONS = ("session", "session's stream")
_TIMES = 50  # how often an answer repeats the id that it belongs to


class Talk:
    """Send requests to a server, and check that each gets its own answer.

    Args:
        client: of any colour, set for the door.
        session: of the drop-in.
        program: the server.
        door: where it is.
        ledger: what counts them.
        folder: for downloads.
    """

    def __init__(
        self,
        client: AnyClient,
        session: requests.Session,
        program: Program,
        door: Door,
        ledger: Ledger,
        folder: Path,
    ) -> None:
        self.client = client
        self.session = session
        self.program = program
        self.door = door
        self.ledger = ledger
        self.folder = folder

    def counted(self, method: str = "GET") -> Any:
        """Count one operation; use it in `with`, as an `Operation`."""
        return self.ledger.operation(self.program, method)

    def url(self, path: str, operation: Operation | None = None, **query: object) -> str:
        """Return the URL of a path, for an operation that the server is to see."""
        pairs = {**({"id": operation.id} if operation else {}), **query}
        text = "&".join(f"{name}={value}" for name, value in pairs.items())
        return f"{self.door.url}{path}" + (f"?{text}" if text else "")

    async def get(self, way: str = "get", **query: object) -> Any:
        """GET something that only this request is answered with."""
        with self.counted() as operation:
            url = self.url("/stamp", operation, n=_TIMES, **query)
            if way == "stream":
                async with await self.client.stream("GET", url) as stream:
                    response, body = stream.real, await stream.read()
            else:
                ask = make_ask(self.client, way, self.folder, self.session)
                response = await ask(url)
                is_file = way == "download"
                body = (self.folder / "downloaded").read_bytes() if is_file else response.content
            assert response.status_code == 200
            assert body == operation.id.encode() * _TIMES
            return response

    async def post(self, way: str, content: Any, expected: bytes, **options: Any) -> Any:
        """POST a body, and check that the server got it as it was sent."""
        with self.counted("POST") as operation:
            url = self.url("/upload", operation)
            response, body = await self._post(way, url, content, **options)
            assert response.status_code == 200
            checksum = hashlib.sha256(expected).hexdigest()
            found = json.loads(body)
            assert (found["length"], found["sha256"]) == (len(expected), checksum)
            return response

    async def _post(self, way: str, url: str, content: Any, **options: Any) -> tuple[Any, bytes]:
        if way == "stream":
            async with await self.client.stream("POST", url, content=content, **options) as stream:
                return stream.real, await stream.read()
        if way == "map":
            request = curlhttp.ClientRequest("POST", url, content=content, **options)
            (found,) = [found async for found in self.client.map([request])]
            if isinstance(found, Exception):
                raise found
        elif way in OF_SESSIONS:
            found = self.session.post(url, data=content, stream=way != "session", **options)
        else:
            found = await self.client.post(url, content=content, **options)
        return found, found.content


def pieces(content: bytes, size: int = 7000) -> Iterator[bytes]:
    """Yield a body piece by piece, so that its length is not known before."""
    for start in range(0, len(content), size):
        yield content[start : start + size]
