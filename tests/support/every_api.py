"""Every way in: what both clients and the drop-in promise holds however a request is sent.

A scenario marked `EVERY_WAY` awaits `ask(url, ...)`, which sends a GET by a verb, a stream, a map
or a download, with the clients and, in the colour "blocking", with the drop-in too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from curlhttp import requests
from tests.support.colours import AnyClient
from tests.support.downloads import download

Ask = Callable[..., Awaitable[Any]]

_OF_CLIENTS = [
    (colour, way)
    for colour in ("blocking", "asyncio", "trio")
    for way in ("get", "stream", "map", "download")
]
_OF_SESSIONS = [("blocking", way) for way in ("session", "session's stream")]

EVERY_WAY = pytest.mark.parametrize(("colour", "way"), [*_OF_CLIENTS, *_OF_SESSIONS])
EVERY_WAY_OF_CLIENTS = pytest.mark.parametrize(("colour", "way"), _OF_CLIENTS)


def make_ask(client: AnyClient, way: str, folder: Path, session: requests.Session) -> Ask:
    """Return a function that sends a GET, takes in all of the answer and returns it.

    It raises what came of it instead, and takes the keywords that all ways have.

    Args:
        client: of any colour.
        way: one of those of EVERY_WAY.
        folder: where a download leaves its file, "downloaded".
        session: of the drop-in.
    """

    async def ask(url: str, **options: Any) -> Any:
        if way == "get":
            return await client.get(url, **options)
        if way == "download":
            return await download(client, url, folder / "downloaded", **options)
        if way == "map":
            (result,) = [result async for result in client.map([url], **options)]
            if isinstance(result, Exception):
                raise result
            return result
        if way == "stream":
            async with await client.stream("GET", url, **options) as stream:
                await stream.read()
                return stream.real
        response = session.get(url, stream=way != "session", **options)
        _ = response.content
        return response

    return ask
