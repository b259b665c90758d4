"""gidgethub on curlhttp: its `GitHubAPI`, for asyncio, uvloop and trio.

async with curlhttp.AsyncClient(retry=2) as client:
    github = GitHubAPI(client, "my-name", oauth_token=token)
    issue = await github.getitem("/repos/python/cpython/issues/1")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from gidgethub import abc

import curlhttp


class GitHubAPI(abc.GitHubAPI):
    """GitHub's API through a client, which may have retries, limits, a cache and so on.

    Args:
        client: sends the requests. Close it yourself.
        requester: the name that GitHub sees as User-Agent.
        options: the keywords of gidgethub's GitHubAPI.
    """

    def __init__(self, client: curlhttp.AsyncClient, requester: str, **options: Any) -> None:
        super().__init__(requester, **options)
        self._client = client

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Mapping[str, str], bytes]:
        response = await self._client.request(method, url, headers=headers, content=body)
        return response.status_code, response.headers, response.content

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
