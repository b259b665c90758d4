"""The core imports no feature, also not late or for types, and works without their files.

The core is what every request needs; a feature is what some do. Features import the core. Where a
signature of the core has a type of a feature, it names it as users do: `curlhttp.Hedge`.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.app import AppServer
from tests.test_architecture import ROOT, imported_by, is_within, modules, parse

FEATURES = tuple(
    f"curlhttp.{name}"
    for name in (
        *("_api", "_features", "_httpx", "_pyinstaller", "cli", "distributed", "httpx", "httpx2"),
        *("otel", "progress", "redis", "requests", "testing"),
    )
)


# They name everything, and load it when they are asked for.
NAMING = {"curlhttp", "curlhttp.types", "curlhttp.__main__"}


def find_imports() -> dict[str, set[str]]:
    """Return which modules of features each module of the core names, wherever in it."""
    files = modules()
    found = {}
    for name, path in files.items():
        if is_within(name, FEATURES) or name in NAMING:
            continue
        named = {module for node in ast.walk(parse(path)) for module in imported_by(node)}
        if of_features := {
            module.removeprefix("curlhttp.")
            for module in named
            if module in files and is_within(module, FEATURES)
        }:
            found[name.removeprefix("curlhttp.")] = of_features
    return found


def test_the_core_imports_no_feature() -> None:
    assert find_imports() == {}


# As if the files of modules had been deleted.
HIDE = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
PROGRAM = """
import anyio, curlhttp

assert curlhttp.get(URL).content == b"hello"
with curlhttp.Client() as client:
    client.get(URL + "/cookies/set?a=1")
    with client.stream("POST", URL + "/echo", content=b"sent") as response:
        response.read()

async def main():
    async with curlhttp.AsyncClient() as client:
        await client.get(URL + "/cookies/set?a=1")
        async with client.stream("POST", URL + "/echo", content=b"sent") as response:
            await response.aread()

anyio.run(main, backend="asyncio")
anyio.run(main, backend="trio")
print(*(name for name in sys.modules if name.startswith("curlhttp.")))
"""


def run_without(missing: set[str], url: str) -> str:
    """Run the program without some modules, and return its output."""
    code = f"URL = {url!r}\nMISSING = {missing!r}\n{HIDE}\n{PROGRAM}"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 0, f"{sorted(missing)}\n{found.stderr}"
    return found.stdout


def test_without_the_files_of_all_features_the_core_works(app: AppServer) -> None:
    """The clients have the methods of all features, which load them."""
    features = {name for name in modules() if is_within(name, FEATURES)}
    clients = {name for name in features if is_within(name, ("curlhttp._api",))}
    loaded = run_without(features - clients, app.url)
    assert {name for name in loaded.split() if is_within(name, FEATURES)} <= clients


@pytest.mark.slow
def test_without_the_files_of_any_feature_all_others_work(app: AppServer) -> None:
    """As if its folder had been deleted; what shows a feature alone is in its own tests."""
    files = modules()
    features = {
        ".".join(name.split(".")[: 3 if is_within(name, ("curlhttp._features",)) else 2])
        for name in files
        if is_within(name, FEATURES) and name != "curlhttp._features"
    } - {"curlhttp._api"}
    assert len(features) > 40
    for feature in sorted(features):
        run_without({name for name in files if is_within(name, (feature,))}, app.url)


# Tests of the core that use no feature, but those that the servers and fixtures of all tests need.
CORE_TESTS = {
    "http": (
        "test_body test_cookie_jar test_cookie_parsing test_cookie_store test_decoding test_fork "
        "test_frozen test_headers test_request test_sse"
    ),
    "runtime": "test_run",
    "libcurl": (
        "test_attempt test_attempt_traces test_connection_pool test_dns test_driver "
        "test_driver_pool test_event_loops test_head test_kqueue test_libcurl_log test_open_files "
        "test_queue test_read_timeouts test_resolver"
    ),
}
NEEDED_BY_TESTS = {
    *("curlhttp.requests", "curlhttp.testing"),
    *(f"curlhttp._features.{name}" for name in ["attempt_numbers", "http_date", "shared_store"]),
    "curlhttp._features.retry",
    "curlhttp._api",
}


@pytest.mark.slow
def test_without_the_files_of_features_the_tests_of_the_core_pass(tmp_path: Path) -> None:
    missing = {
        name
        for name in modules()
        if is_within(name, FEATURES)
        and name != "curlhttp._features"
        and not is_within(name, NEEDED_BY_TESTS)
    }
    (tmp_path / "hide.py").write_text(f"MISSING = {missing!r}\n{HIDE}")
    files = [
        f"tests/{folder}/{name}.py"
        for folder, names in CORE_TESTS.items()
        for name in names.split()
    ]
    command = ("-m", "pytest", "-q", "-n", "0", "-p", "hide", "--basetemp", tmp_path / "base")
    done = subprocess.run(
        [sys.executable, *command, *files],
        cwd=ROOT.parent,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_each_feature_is_there() -> None:
    files = modules()
    assert [name for name in FEATURES if name not in files] == []


ADDED = """
import curlhttp
from curlhttp.testing import Answer, ScriptedEngine

engine = ScriptedEngine([503, 200, 200])
client = curlhttp.Client(transport=engine, retry=1, numbering="X-Number")
client.get("https://h.test/")
client.get("https://h.test/", raise_for_status=True)  # builds the chain again
assert [sent.headers["X-Number"] for sent in engine.sent] == ["1", "2", "3"]
engine = ScriptedEngine([Answer(delay=5), 200])
curlhttp.Client(transport=engine, hedge=curlhttp.Hedge(after=1), numbering="X-Number").get(
    "https://h.test/"
)
assert [sent.headers["X-Number"] for sent in engine.sent] == ["1", "2"]
other = ScriptedEngine([200])
curlhttp.Client(transport=other).get("https://h.test/")
assert "X-Number" not in other.sent[0].headers
try:
    curlhttp.Client(numbering=1)
except TypeError as error:
    print(error)
"""


def test_a_feature_is_added_as_the_architecture_says(tmp_path: Path) -> None:
    text = (ROOT.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    (module,) = re.findall(r"```python\n# curlhttp/(\S+)\n(.*?)```", text, re.DOTALL)
    package = tmp_path / "curlhttp"
    shutil.copytree(ROOT, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / module[0]).write_text(module[1], encoding="utf-8")
    after = {
        "_feature(": 'not_for=(HANDSHAKE,), function="make_admitting_layer"),\n',
        '"numbering"': "SETTINGS: dict[str, Setting] = {\n",
        "numbering: str": "    transport: AnyTransport | None\n",
        "numbering: the": "        transport: replaces libcurl",
    }
    for file, added in re.findall(r"\| `(_\w+/\S+\.py)`, [^|]*\| `(.+?)`(?= here|  ?\|\n)", text):
        place = next(place for begin, place in after.items() if added.startswith(begin))
        path = package / file
        source = path.read_text(encoding="utf-8")
        assert place in source
        added = f"        {added}\n{place}" if "replaces" in place else f"{place}    {added}\n"
        path.write_text(source.replace(place, added), encoding="utf-8")
        after = {begin: other for begin, other in after.items() if other != place}
    assert not after
    found = subprocess.run(
        [sys.executable, "-c", ADDED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == "numbering must be the name of a header\n"
