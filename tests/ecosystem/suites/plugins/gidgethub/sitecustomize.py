"""Python imports this at its start: the backends of gidgethub are the port, on our clients."""

from importlib import import_module

from gidgethub_on_curlhttp import GitHubAPI

import curlhttp

for _library, _client in (("aiohttp", "ClientSession"), ("httpx2", "AsyncClient")):
    setattr(import_module(_library), _client, curlhttp.AsyncClient)
for _backend in ("aiohttp", "httpx"):
    import_module(f"gidgethub.{_backend}").GitHubAPI = GitHubAPI  # type: ignore[attr-defined]
