"""What the core imports from features: a list that may only shrink.

The core is what every request needs; a feature is what some do. Features import the core. Where the
core still imports a feature, also late or for types, the import is in the list below; a new feature
registers itself instead. `_engine.running_maps` is not a feature: it is how a thread that waits
runs other coroutines meanwhile. Nor is `_engine.outcomes`: each attempt leaves its outcome there,
and `_client.stats` reads them.
"""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.servers.app import AppServer
from tests.test_architecture import imported_by, is_within, modules, parse

FEATURES = tuple(
    f"curlhttp.{name}"
    for name in (
        "_policy",
        *(
            "_flow.alt_svc",
            "_flow.attempt_middleware",
            "_flow.auth",
            "_flow.breaker",
            "_flow.cache",
        ),
        *("_flow.coalesce", "_flow.endpoints", "_flow.fallback", "_flow.file_lock", "_flow.hedge"),
        *("_flow.certificates", "_flow.hooks", "_flow.hsts", "_flow.limits", "_flow.middleware"),
        *("_flow.raise_for_status", "_flow.redirects", "_flow.retry"),
        *("_flow.sse", "_flow.waits"),
        *("_client.apps", "_client.cache", "_client.cache_storage", "_client.download"),
        *("_client.event_stream", "_client.map", "_client.negotiate", "_client.partial_file"),
        *("_client.record", "_client.stats", "_client.websocket"),
        "_curl.address_guard",
        *("_httpx", "_pyinstaller", "cli", "distributed", "httpx", "httpx2", "otel", "progress"),
        *("redis", "requests", "testing"),
    )
)

STILL_IMPORTED = {
    "_client.async_client": {
        "_client.download",
        "_client.event_stream",
        "_client.map.async_results",
        "_client.map.scheduler",
        "_client.websocket.handshake",
        "_client.websocket.websocket",
    },
    "_client.base": {
        "_client.cache",
        "_client.record.record",
        "_client.stats",
        "_flow.fallback",
        "_flow.hooks",
        "_policy.auth",
        "_policy.breaker.breaker",
        "_policy.endpoints",
        "_policy.environment",
        "_policy.guard",
        "_policy.hedge",
        "_policy.limits",
        "_policy.retry",
    },
    "_client.client": {
        "_client.download",
        "_client.event_stream",
        "_client.map.results",
        "_client.map.scheduler",
        "_client.websocket.handshake",
        "_client.websocket.websocket",
    },
    "_client.request_builder": {
        "_policy.auth",
        "_policy.endpoints",
        "_policy.retry",
    },
    "_client.routing": {
        "_curl.address_guard",
        "_policy.alt_svc",
        "_policy.environment",
        "_policy.guard",
    },
    "_models.inputs": {
        "_policy.auth",
    },
    "_models.request": {
        "_policy.auth",
        "_policy.retry",
    },
}


def find_imports() -> dict[str, set[str]]:
    """Return which modules of features each module of the core names, wherever in it."""
    files = modules()
    found = {}
    for name, path in files.items():
        if is_within(name, FEATURES) or name in {"curlhttp", "curlhttp.__main__"}:
            continue  # the package names everything, and loads it when it is asked for
        named = {module for node in ast.walk(parse(path)) for module in imported_by(node)}
        if of_features := {
            module.removeprefix("curlhttp.")
            for module in named
            if module in files and is_within(module, FEATURES)
        }:
            found[name.removeprefix("curlhttp.")] = of_features
    return found


def test_the_core_imports_no_further_feature() -> None:
    """A new import is of a feature that the core must not know; remove those that are gone."""
    assert find_imports() == STILL_IMPORTED


LOADED = {
    "_flow.auth",
    "_flow.hooks",
    "_flow.redirects",
    "_policy",
    "_policy.auth",
    "_policy.environment",
    "_policy.redirects",
}

# All features but those are missing, as if their files had been deleted.
PROGRAM = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import anyio, curlhttp

with curlhttp.Client() as client:
    assert client.get(URL + "/redirect/1").content == b"hello"
    with client.stream("POST", URL + "/echo", content=b"sent") as response:
        response.read()

async def main():
    async with curlhttp.AsyncClient() as client:
        assert (await client.get(URL + "/redirect/1")).content == b"hello"
        async with client.stream("POST", URL + "/echo", content=b"sent") as response:
            await response.aread()

anyio.run(main, backend="asyncio")
anyio.run(main, backend="trio")
print(*(name for name in sys.modules if name.startswith("curlhttp.")))
"""


def test_without_the_files_of_all_features_the_core_works(app: AppServer) -> None:
    """Redirects, authentication and hooks are always on."""
    missing = {
        name
        for name in modules()
        if is_within(name, FEATURES) and name.removeprefix("curlhttp.") not in LOADED
    }
    code = f"URL = {app.url!r}\nMISSING = {missing!r}\n{PROGRAM}"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 0, found.stderr
    loaded = {
        name.removeprefix("curlhttp.") for name in found.stdout.split() if is_within(name, FEATURES)
    }
    assert loaded == LOADED


def test_each_feature_is_there() -> None:
    files = modules()
    assert [name for name in FEATURES if name not in files] == []
