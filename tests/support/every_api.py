"""Run a scenario with every API that sends requests: verbs, streams, maps, downloads, sessions.

A scenario marked `EVERY_API` awaits `fetch(url, ...)`, which sends a GET with each API of the
clients and, in the colour "blocking", of the drop-in too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from curlhttp import requests
from tests.support.colours import AnyClient
from tests.support.downloads import download

Fetch = Callable[..., Awaitable[Any]]

_OF_CLIENTS = [
    (colour, api)
    for colour in ("blocking", "asyncio", "trio")
    for api in ("get", "stream", "map", "download", "download_many")
]
_OF_SESSIONS = [("blocking", api) for api in ("session", "session's stream")]

EVERY_API = pytest.mark.parametrize(("colour", "api"), [*_OF_CLIENTS, *_OF_SESSIONS])
EVERY_CLIENT_API = pytest.mark.parametrize(("colour", "api"), _OF_CLIENTS)


def make_fetch(client: AnyClient, api: str, folder: Path, session: requests.Session) -> Fetch:
    """Return a function that sends a GET, reads the whole response and returns it.

    It raises the error of a failed request, and takes the keywords that all APIs share.

    Args:
        client: of any colour.
        api: one of those of EVERY_API.
        folder: where a download leaves its file, "downloaded".
        session: of the drop-in.
    """

    async def fetch(url: str, **options: Any) -> Any:
        if api == "get":
            return await client.get(url, **options)
        if api == "download":
            return await download(client, url, folder / "downloaded", **options)
        if api == "download_many":
            found = client.download_many([(url, folder / "downloaded")], **options)
            (result,) = [each async for each in found]
            if isinstance(result, Exception):
                raise result
            return result.response
        if api == "map":
            (result,) = [result async for result in client.map([url], **options)]
            if isinstance(result, Exception):
                raise result
            return result
        if api == "stream":
            async with await client.stream("GET", url, **options) as stream:
                await stream.read()
                return stream.real
        response = session.get(url, stream=api != "session", **options)
        _ = response.content
        return response

    return fetch
