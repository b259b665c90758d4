"""A small caching reverse proxy on AsyncClient, for suites that test caches over the network.

python -m tests.cache.proxy --port 8002 --origin http://127.0.0.1:8000 [--private]
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy

from curlhttp import AsyncClient, Cache, RequestException

_HOP_BY_HOP = {
    *("connection", "content-length", "keep-alive", "proxy-authenticate", "proxy-authorization"),
    *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "host"),
}


class Proxy:
    """Forward requests through a client, and return the responses."""

    def __init__(self, origin: str, client: AsyncClient) -> None:
        self._origin = origin
        self._client = client

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to the requests of one connection."""
        with suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = lines[0].split(" ", 2)
                pairs = [line.split(":", 1) for line in lines[1:] if line]
                fields = [(name.strip(), value.strip()) for name, value in pairs]
                body = await _body(reader, {name.lower(): value for name, value in fields})
                writer.write(await self._answer(method, target, fields, body))
                await writer.drain()
        writer.close()

    async def _answer(
        self, method: str, target: str, fields: list[tuple[str, str]], body: bytes
    ) -> bytes:
        named = {name.strip().lower() for key, value in fields if key.lower() == "connection"
                 for name in value.split(",")}  # fmt: skip
        skipped = _HOP_BY_HOP | named
        sent = [(name, value) for name, value in fields if name.lower() not in skipped]
        try:
            # As it is on the wire: the caller undoes the coding.
            async with self._client.stream(
                method, self._origin + target, headers=sent, content=body or None
            ) as response:
                pieces = [piece async for piece in response.aiter_raw()]
        except (RequestException, ValueError) as error:
            said = f"{type(error).__name__}: {error}".encode("ascii", "replace")
            return b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n" % len(said) + said
        content = b"".join(pieces)
        back = [
            f"{name}: {value}"
            for name, value in response.headers.multi_items()
            if name.lower() not in _HOP_BY_HOP
        ]
        if response.cache_status:
            back.append(f"Cache-Status: {response.cache_status}")
        is_body_intact = method != "HEAD" and response.status_code not in (204, 304)
        if is_body_intact:
            back.append(f"Content-Length: {len(content)}")
        elif length := response.headers.get("content-length"):
            back.append(f"Content-Length: {length}")
        head = [f"HTTP/1.1 {response.status_code} {response.reason}", *back, "", ""]
        return "\r\n".join(head).encode("latin-1", "replace") + (content if is_body_intact else b"")


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" not in headers.get("transfer-encoding", ""):
        return await reader.readexactly(int(headers.get("content-length", "0")))
    pieces = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        pieces.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return b"".join(pieces)


async def main() -> None:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8002)
    parser.add_argument("--origin", default="http://127.0.0.1:8000")
    parser.add_argument("--private", action="store_true")
    arguments = parser.parse_args()
    with Cache(":memory:", shared=not arguments.private) as cache:
        async with AsyncClient(
            cache=cache,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # the caller keeps them
            follow_redirects=False,
            trust_env=False,
            headers=_NO_HEADERS,
        ) as client:
            proxy = Proxy(arguments.origin, client)
            server = await asyncio.start_server(
                proxy.serve, "127.0.0.1", arguments.port, limit=2**20
            )
            async with server:
                await server.serve_forever()


# The headers of the client that asks are sent, and no others.
_NO_HEADERS = {"User-Agent": None, "Accept": None, "Accept-Encoding": None}

if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
