"""Programs that are packaged, as a zip or by PyInstaller: they work, or say what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipapp
from importlib.metadata import EntryPoint
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

assert getattr(sys, "frozen", False) or ".pyz" in curlhttp.__file__, curlhttp.__file__
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
elif what == "features":
    settings = {
        "retry": 1,
        "hedge": curlhttp.Hedge(after=30),
        "breaker": curlhttp.CircuitBreaker(),
        "rate_limit": curlhttp.RateLimit(100),
        "concurrency_limit": curlhttp.ConcurrencyLimit(2),
        "fallback": lambda request, outcome: None,
        "coalesce": True,
        "hsts": "hsts.txt",
        "http3": "auto" if curlhttp._libcurl.has_http3() else False,
        "certificates": True,
        "raise_for_status": True,
        "hooks": {"request": lambda request: None},
        "base_url": curlhttp.Endpoints([url]),
    }
    with curlhttp.Client(**settings) as client:
        print(client.get("/").status_code)
    try:
        curlhttp.Client(allow_redirects=True)
    except TypeError as error:
        assert "write follow_redirects=" in str(error), error
elif what == "drop-in":
    from curlhttp import requests

    print(requests.get(url).status_code)
    assert requests.packages.urllib3 and requests.compat.json and requests.utils.quote
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


_WHAT = ["quickstart", "redis", "cache", "features", "drop-in", "command line"]
# What the environment of the tests has, and a program on curlhttp does not need.
_HEAVY = (
    "IPython",
    "dask",
    "matplotlib",
    "mypy",
    "numpy",
    "pandas",
    "pyarrow",
    "pytest",
    "tkinter",
)


@pytest.mark.parametrize("what", _WHAT)
def test_a_zipapp_works(app: AppServer, redis: RedisServer, tmp_path: Path, what: str) -> None:
    done = _run(tmp_path, what, app.url, redis.url)
    assert done.returncode == 0, done.stderr
    assert len(app.requests) == 1
    if what != "command line":
        assert done.stdout.strip() == "200"


def test_a_store_without_its_scripts_is_an_error(redis: RedisServer, tmp_path: Path) -> None:
    done = _run(tmp_path, "redis", "http://127.0.0.1:9/", redis.url, leave_out="rate.lua")
    assert "FileNotFoundError: curlhttp/redis/rate.lua is missing" in done.stderr


def test_a_file_of_pyinstaller_works(app: AppServer, redis: RedisServer, tmp_path: Path) -> None:
    """One test, because a build takes longer than all its programs."""
    program = _build(tmp_path)
    for count, what in enumerate(_WHAT, 1):
        done = subprocess.run(
            [program, what, app.url, redis.url],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert len(app.requests) == count
        if what != "command line":
            assert done.stdout.strip() == "200"


def _build(folder: Path) -> Path:
    """Build one file with PyInstaller, without options that concern curlhttp."""
    pytest.importorskip("PyInstaller")
    (folder / "program.py").write_text(_PROGRAM)
    command = [sys.executable, "-m", "PyInstaller", "--onefile", "--log-level", "WARN"]
    command += [f"--exclude-module={name}" for name in _HEAVY]
    # As the entry point does where curlhttp was installed, not only found on the path.
    command += [f"--additional-hooks-dir={path}" for path in get_hook_dirs()]
    done = subprocess.run(
        [*command, f"--paths={ROOT}", "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    return next((folder / "dist").glob("program*"))


def get_hook_dirs() -> list[str]:
    """Return what PyInstaller finds by the entry point."""
    point = EntryPoint("hook-dirs", "curlhttp._pyinstaller:get_hook_dirs", "pyinstaller40")
    found: list[str] = point.load()()
    return found


def test_pyinstaller_finds_the_hooks_by_an_entry_point() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    group = (
        '[project.entry-points.pyinstaller40]\nhook-dirs = "curlhttp._pyinstaller:get_hook_dirs"'
    )
    assert group in settings
    assert {path.name for path in Path(get_hook_dirs()[0]).glob("hook-*.py")} == {
        "hook-curlhttp.py",
        "hook-curlhttp.cli.py",
    }
