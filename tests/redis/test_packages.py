"""Programs that are packaged: the scripts are found in a zip, and what is missing is said."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest

from tests.servers import AppServer
from tests.servers.redis_server import RedisServer
from tests.support.internals import ROOT

pytestmark = pytest.mark.slow

_PROGRAM = """
import sys
import curlhttp
from curlhttp.redis import RedisStore

assert ".pyz" in curlhttp.__file__, curlhttp.__file__
what, url, redis = sys.argv[1:]
if what == "quickstart":
    with curlhttp.Client() as client:
        print(client.get(url).status_code)
elif what == "redis":
    store = RedisStore(redis, on_error="refuse", timeout=20)
    with curlhttp.Client(rate_limit=curlhttp.RateLimit(100, store=store)) as client:
        print(client.get(url).status_code)
    store.close()
elif what == "cache":
    with curlhttp.Client(cache=curlhttp.Cache(":memory:")) as client:
        print(client.get(url).status_code)
else:
    from curlhttp.cli import main

    sys.argv = ["curlhttp", url]
    sys.exit(main())
"""


def _run(folder: Path, *arguments: str, leave_out: str = "") -> subprocess.CompletedProcess[str]:
    tree, app = folder / "tree", folder / "app.pyz"
    shutil.copytree(
        ROOT / "curlhttp",
        tree / "curlhttp",
        ignore=shutil.ignore_patterns("__pycache__", leave_out),
    )
    (tree / "__main__.py").write_text(_PROGRAM)
    zipapp.create_archive(tree, app)
    return subprocess.run(
        [sys.executable, app, *arguments], cwd=folder, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("what", ["quickstart", "redis", "cache", "command line"])
def test_a_zipapp_works(app: AppServer, redis: RedisServer, tmp_path: Path, what: str) -> None:
    done = _run(tmp_path, what, app.url, redis.url)
    assert done.returncode == 0, done.stderr
    assert len(app.requests) == 1
    if what != "command line":
        assert done.stdout.strip() == "200"


def test_a_store_without_its_scripts_is_an_error(redis: RedisServer, tmp_path: Path) -> None:
    done = _run(tmp_path, "redis", "http://127.0.0.1:9/", redis.url, leave_out="rate.lua")
    assert "FileNotFoundError: curlhttp/redis/rate.lua is missing" in done.stderr
