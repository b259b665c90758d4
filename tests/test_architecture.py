"""Which part may import which, read from the imports; and what importing the package loads."""

from __future__ import annotations

import ast
import subprocess
import sys
import typing
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import curlhttp
from curlhttp._libcurl import check_libcurl, check_pycurl
from curlhttp.cli.advisories import ADVISORIES
from tests.support.internals import run_script

ROOT = Path(curlhttp.__file__).parent
LOOPS = {"anyio", "asyncio", "sniffio", "trio", "uvloop"}
SOCKETS = {"http.client", "select", "selectors", "socket", "ssl", "urllib.request"}
CLOCKS = {"datetime", "time"}
VALUES = ("curlhttp.exceptions", "curlhttp._http", "curlhttp._version")
RUNTIME, CURL, CLIENT = ("curlhttp._runtime",), ("curlhttp._libcurl",), ("curlhttp._client",)
CORE = VALUES + RUNTIME + CURL + CLIENT
FEATURES = ("curlhttp._features",)
FACADE = ("curlhttp.requests",)
CLIENTS = {"curlhttp._api.client", "curlhttp._api.async_client"}
PURE = {"pycurl", *LOOPS, *SOCKETS, *CLOCKS}

# A folder or file: (what of the package it may import, what else it must not import). The longest
# name that fits a file is the one that counts.
RULES: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "_version.py": ((), PURE),
    "exceptions.py": (VALUES, PURE),
    # the core
    "_http": (VALUES, PURE - {"datetime"}),
    "_http/ssl_context.py": (VALUES, PURE - SOCKETS),
    "_runtime": (VALUES + RUNTIME, PURE - CLOCKS - LOOPS),
    "_runtime/engine.py": (VALUES + RUNTIME, PURE),
    "_libcurl": (VALUES + RUNTIME + CURL, {"http.client", "http.cookiejar"}),
    "_libcurl/engines/loops.py": (VALUES + RUNTIME + CURL, PURE - LOOPS),
    "_client": (CORE, PURE),
    "_client/transport.py": (CORE, {"pycurl", *SOCKETS, "datetime", *CLIENTS}),
    # the features
    "_features": (CORE + FEATURES, CLIENTS | PURE - {"datetime"}),
    "_api": ((*CORE, *FEATURES, "curlhttp._api"), PURE),
    "_features/guard/checker.py": (CORE + FEATURES, CLIENTS | PURE - SOCKETS - CLOCKS),
    "_features/hsts/layer.py": (CORE + FEATURES, CLIENTS | PURE - CLOCKS),
    "_features/limits/layer.py": (CORE + FEATURES, CLIENTS | PURE - CLOCKS),
    "_features/map": (CORE + FEATURES, CLIENTS | PURE - LOOPS),
    "_features/map/engine.py": (CORE + FEATURES, CLIENTS | PURE - CLOCKS),
    "_features/download": (CORE + FEATURES, CLIENTS | PURE - SOCKETS),
    "_features/uvloop.py": ((), CLIENTS | PURE - LOOPS),
    "_features/cache/storage.py": (VALUES + FEATURES, CLIENTS | PURE - CLOCKS),
    "_features/apps": (CORE + FEATURES, {"pycurl", *SOCKETS, "datetime"}),
    # with extras, and for tests
    "redis": (
        (*VALUES, *RUNTIME, "curlhttp._features.shared_store", "curlhttp.redis"),
        CLIENTS | PURE - CLOCKS,
    ),
    "otel": (
        (*CORE, "curlhttp._features.attempt_numbers", "curlhttp.otel"),
        CLIENTS | PURE - {"time"},
    ),
    "_httpx": (
        (
            *(*CORE, "curlhttp._httpx", "curlhttp._features.guard"),
            *("curlhttp._features.stats", "curlhttp._features.upgrade"),
        ),
        {"pycurl", "httpx", "httpx2", *LOOPS, *CLOCKS, *CLIENTS},
    ),
    "httpx.py": (("curlhttp._httpx",), {"httpx2"} | PURE),
    "httpx2.py": (("curlhttp._httpx",), {"httpx"} | PURE),
    "distributed": (
        (*VALUES, *RUNTIME, *FEATURES, "curlhttp._api", "curlhttp.distributed"),
        {*FACADE, "pycurl", *LOOPS, *SOCKETS},
    ),
    "testing": (
        (
            *(*VALUES, *RUNTIME, "curlhttp.testing"),
            *("curlhttp._client.streamed_response", "curlhttp._client.transport"),
        ),
        PURE,
    ),
    "progress.py": (VALUES, PURE - CLOCKS),
    "types.py": (("curlhttp", *VALUES), PURE),
    "cli": (("curlhttp",), {*FACADE, "pycurl"}),
    "_pyinstaller": ((), PURE),
    # the drop-in
    "requests": (
        (*CORE, *FEATURES, *FACADE),
        {"pycurl", *CLIENTS, *LOOPS},
    ),
}
# What decides imports only values and what decides: it reads no clock, waits for nothing and sends
# nothing.
DECIDING = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in (
        *("*/policy.py", "breaker/[bcs]*.py", "limits/adaptive.py", "download/resume.py"),
        *("auth/aws.py", "auth/digest.py", "auth/oauth2.py", "auth/subrequest.py"),
        *("auth/token_auth.py", "shared_store.py"),
    )
    for path in (ROOT / "_features").glob(pattern)
)
RULES |= dict.fromkeys(DECIDING, (VALUES + FEATURES, PURE))
# The environment's proxies are those that urllib finds; it sends nothing for that.
EXCEPTIONS = {("_client/environment.py", "urllib")}


def files_of(part: str) -> list[Path]:
    """Return the files of a part, without those of a narrower one."""
    path = ROOT / part
    if path.is_file():
        return [path]
    narrower = [ROOT / other for other in RULES if other.startswith(f"{part}/")]
    return [
        file
        for file in sorted(path.rglob("*.py"))
        if not any(file == other or other in file.parents for other in narrower)
    ]


@cache
def parse(path: Path) -> ast.Module:
    """Return the tree of a file, which many tests look at."""
    return ast.parse(path.read_text())


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return every module that a file imports, wherever in it, except for type checkers alone."""
    tree = parse(path)
    unread = {
        below
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for below in ast.walk(statement)
    }
    read = (node for node in ast.walk(tree) if node not in unread)
    return frozenset(module for node in read for module in imported_by(node))


def imported_by(node: ast.AST) -> Iterator[str]:
    """Give the modules that a statement imports, and names that may be modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{ast.unparse(node)} is relative"
        module = node.module or ""
        yield module
        yield from (f"{module}.{alias.name}" for alias in node.names)


def is_within(module: str, parents: object) -> bool:
    assert isinstance(parents, (tuple, set))
    return any(module == parent or module.startswith(parent + ".") for parent in parents)


ALL_FILES = {str(path.relative_to(ROOT)): part for part in RULES for path in files_of(part)}


def test_a_part_imports_only_what_is_further_in() -> None:
    assert [
        f"{name} imports {module}"
        for name, part in ALL_FILES.items()
        for module in sorted(imports_of(ROOT / name) - {"curlhttp"})
        if module.split(".")[0] == "curlhttp"
        and not is_within(module, RULES[part][0])
        and not is_within(module, {"curlhttp.exceptions"})
    ] == []


def test_a_part_does_not_import_forbidden_modules() -> None:
    assert [
        f"{name} imports {module}"
        for name, part in ALL_FILES.items()
        for module in sorted(imports_of(ROOT / name))
        if is_within(module, RULES[part][1]) and (name, module.split(".")[0]) not in EXCEPTIONS
    ] == []


def test_only_curl_imports_pycurl() -> None:
    importers = {
        path.relative_to(ROOT).parts[0]
        for path in ROOT.rglob("*.py")
        if not imports_of(path).isdisjoint({"pycurl", "curlhttp._libcurl.pycurl"})
    }
    assert importers == {"_libcurl"}


def test_a_layer_awaits_nothing_of_an_event_loop() -> None:
    """Every `await` in a layer is for send, an engine, a hook or a coroutine of the flow."""
    layers = [path for path in modules().values() if "def make_layer(" in path.read_text()]
    assert len(layers) > 10
    for path in layers:
        source = path.read_text()
        for word in ("asyncio", "anyio", "trio", "create_task", "gather("):
            assert word not in source, f"{path.name} mentions {word}"


def test_the_rules_find_what_they_forbid(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(
        "def f():\n    from curlhttp._libcurl import connection_pool\n    import socket, time\n"
        "if TYPE_CHECKING:\n    import select\n"
    )
    found = imports_of(bad)
    assert "select" not in found
    assert {"curlhttp._libcurl.connection_pool", "socket", "time"} <= found
    assert not is_within("curlhttp._libcurl.connection_pool", VALUES)
    assert is_within("asyncio.events", LOOPS)


def test_every_file_belongs_to_a_part() -> None:
    """`__init__` and `__main__` load what is asked for; all others have a row."""
    tops = {path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py")}
    assert tops - {"__init__.py", "__main__.py"} == {part.partition("/")[0] for part in RULES}


# --- circles of imports, at run time and late ones together ---


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules of which each imports itself by way of the others."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        reached[start] = seen
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return sorted(map(list, found))


def test_no_module_imports_itself_by_way_of_others() -> None:
    files = modules()
    graph = {
        name: {module for module in imports_of(path) if module in files} - {name, "curlhttp"}
        for name, path in files.items()
    }
    assert circles(graph) == []


def folder_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


# From the bottom to the top, as in ARCHITECTURE.md.
ORDER = [
    *("curlhttp._version", "curlhttp.exceptions", "curlhttp._http", "curlhttp.progress"),
    *("curlhttp._runtime", "curlhttp._libcurl", "curlhttp._client", "curlhttp._features"),
    *("curlhttp._api", "curlhttp.redis", "curlhttp.testing", "curlhttp.otel", "curlhttp.requests"),
    *("curlhttp._httpx", "curlhttp.httpx", "curlhttp.httpx2", "curlhttp.distributed"),
    *("curlhttp.types", "curlhttp.cli", "curlhttp.__main__"),
]
# Errors say which request, response and attempts they are about.
UP = {
    ("curlhttp.exceptions", "curlhttp._http"),
}


def test_which_arrows_run_up_with_those_for_type_checkers() -> None:
    files = modules()
    found = set()
    for name, path in files.items():
        if name == "curlhttp":
            continue
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("curlhttp."):
                here, there = folder_of(name), folder_of(node.module or "")
                if ORDER.index(there) > ORDER.index(here):
                    found.add((here, there))
    assert found == UP


# Where types refer to each other, so that files import each other for type checkers: errors and
# values, and the drop-in's classes, as in requests.
MUTUAL_TYPES = [{"curlhttp.exceptions", "curlhttp._http"}, {"curlhttp.requests"}]


def test_circles_with_those_for_type_checkers_are_of_values_or_of_the_drop_in() -> None:
    files = modules()
    graph = {}
    for name, path in files.items():
        named = {module for node in ast.walk(parse(path)) for module in imported_by(node)}
        graph[name] = {module for module in named if module in files} - {name, "curlhttp"}
    for circle in circles(graph):
        assert {folder_of(module) for module in circle} in MUTUAL_TYPES, circle


def test_circles_are_found() -> None:
    graph: dict[str, set[str]] = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}
    assert circles(graph) == [["b", "c"], ["e"]]


def test_a_file_has_a_docstring() -> None:
    trees = {name: parse(ROOT / name) for name in ALL_FILES}
    assert [n for n, tree in trees.items() if tree.body and not ast.get_docstring(tree)] == []


# Where an f-string makes a URL that is not shown: file, and the formatted expression.
URLS_IN_THE_MAKING = {
    ("_features/typed_urls.py", "url"),
    ("_http/config.py", "url"),
    ("_http/config.py", "self.url"),  # a Proxy's, which has no credentials
    ("_http/url.py", "self.target"),
    ("_http/url.py", "target"),
    ("cli/doctor.py", "proxy.url"),
    ("requests/_core_request.py", "url.target"),
    ("requests/sessions.py", "location"),
    ("requests/adapters.py", "url"),
}


def test_no_message_formats_a_url_that_is_not_scrubbed() -> None:
    """Messages say f"{request}: ...", display_url(...) or redact_url(...)."""
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FormattedValue):
                shown = ast.unparse(node.value)
                name = shown.rpartition(".")[2].lstrip("_")
                if name in {"url", "base_url", "target", "location"}:
                    found.add((path.relative_to(ROOT).as_posix(), shown))
    assert found == URLS_IN_THE_MAKING


# --- what an import loads ---

LATE = (
    "asyncio anyio trio uvloop http.cookiejar http.client ssl h2 brotli zlib curlhttp._api.client"
)


def loaded_after(program: str, names: str = LATE) -> set[str]:
    """Return which of the modules a fresh interpreter has loaded after a program."""
    code = f"import sys\n{program}\nprint(*[n for n in {names.split()} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=ROOT.parent
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_loads_next_to_nothing() -> None:
    assert loaded_after("") - {"zlib"} == set()
    assert loaded_after("import curlhttp") - {"zlib"} == set()


def test_making_a_client_loads_no_event_loop() -> None:
    loaded = loaded_after("import curlhttp; curlhttp.Client()")
    assert loaded & {"asyncio", "anyio", "trio", "uvloop", "http.cookiejar", "brotli"} == set()


def test_a_blocking_get_loads_no_event_loop() -> None:
    from tests.servers import AppServer

    with AppServer() as app:
        program = (
            f"import curlhttp; c = curlhttp.Client(); "
            f"r = c.post({app.url + '/echo'!r}, json=1); r.json(); "
            f"s = c.stream('GET', {app.url!r}); assert s.read() == b'hello'"
        )
        loaded = loaded_after(program)
    assert loaded & {"asyncio", "anyio", "trio", "uvloop", "http.cookiejar"} == set()


def test_the_drop_in_loads_when_it_is_used() -> None:
    names = "curlhttp.requests curlhttp.requests.sessions urllib3 requests"
    for program in ("import curlhttp", "import curlhttp; curlhttp.Client().close()"):
        assert loaded_after(program, names) == set()
    assert loaded_after("import curlhttp; curlhttp.Session", names) >= {"curlhttp.requests"}


def test_a_get_loads_no_more_than_it_needs() -> None:
    from tests.servers import AppServer

    heavy = (
        "asyncio anyio urllib3 requests ssl email http.client http.cookiejar logging hashlib "
        "socket selectors signal dataclasses pycurl certifi curlhttp._http.origin_stats"
    )
    late = "packages help utils cookies compat auth _original_response _retries _urllib3"
    modules = " ".join(f"curlhttp.requests.{name}" for name in late.split())
    packages = {
        "curlhttp": (
            "curlhttp.requests curlhttp._api.client curlhttp._client.options "
            "urllib.parse ipaddress base64 copy"
        ),
        "curlhttp.requests": "curlhttp._client.client",
    }
    with AppServer() as app:
        for package, other in packages.items():
            program = f"import {package} as p; assert p.get({app.url!r}).content == b'hello'"
            assert loaded_after(program, f"{heavy} {other} {modules}") == set()


def test_a_first_get_compiles_no_annotations() -> None:
    """typing does for each one that is text; the first takes as long as a hundred others."""
    from tests.servers import AppServer

    with AppServer() as app:
        program = f"import curlhttp; curlhttp.get({app.url!r})"
        loaded_after(f"import typing; typing.ForwardRef.__init__ = None\n{program}")


@pytest.mark.parametrize("order", ["curlhttp, pycurl", "pycurl, curlhttp"])
def test_a_program_with_pycurl_shares_its_extension(order: str) -> None:
    program = (
        f"import {order}\n"
        "from curlhttp import _libcurl\n"
        "assert _libcurl.pycurl.Curl is pycurl.Curl and _libcurl.pycurl.error is pycurl.error\n"
        "pycurl.AsyncCurlMulti; curlhttp.Client().close()"
    )
    assert loaded_after(program, "pycurl._pycurl") == {"pycurl._pycurl"}


def test_a_trio_program_does_not_load_asyncios_engine_too_early() -> None:
    loaded = loaded_after("import curlhttp; curlhttp.AsyncClient", "uvloop trio")
    assert loaded == set()


def test_programs_can_evaluate_the_types_of_what_they_derive_from() -> None:
    from curlhttp.requests import PreparedRequest, Response, Session, cookies, structures

    jars = (cookies.RequestsCookieJar, structures.CaseInsensitiveDict)
    for kind in (PreparedRequest, Response, Session, *jars):
        typing.get_type_hints(kind)  # as attrs does for the classes of requests-cache


# --- the public names ---


def test_every_public_name_resolves() -> None:
    for name in curlhttp.__all__:
        assert getattr(curlhttp, name) is not None
    assert len(curlhttp.__all__) == len(set(curlhttp.__all__))
    assert set(dir(curlhttp)) >= set(curlhttp.__all__)


def test_every_exception_is_public() -> None:
    from curlhttp import exceptions

    names = set(exceptions.__all__) - {"Timeout"}  # as in requests; ours is TimeoutException
    assert names <= set(curlhttp.__all__)
    for name in names:
        assert getattr(curlhttp, name) is getattr(exceptions, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'gett'"):
        _ = curlhttp.gett  # type: ignore[attr-defined]
    assert not hasattr(curlhttp, "__wrapped__")


def test_star_import_imports_the_public_names() -> None:
    space: dict[str, object] = {}
    exec("from curlhttp import *", space)
    assert set(curlhttp.__all__) <= set(space)


# --- pycurl's and libcurl's version ---


@pytest.mark.parametrize(
    ("version", "needed"),
    [
        (
            'PycURL/"7.46.0" libcurl/8.23.0 OpenSSL/3.6.5',
            "pycurl 7.47 or newer.* 7.46.0: pip",
        ),
        ("PycURL/7.45.7 libcurl/8.12.1-DEV OpenSSL/3.4.1", "pycurl 7.47 or newer, and .* 7.45.7: "),
        (
            'PycURL/"7.49.0" libcurl/7.79.1 OpenSSL/1.1.1',
            "libcurl 7.80 or newer.* 7.79.1: .*wh",
        ),
    ],
)
def test_a_pycurl_or_libcurl_that_lacks_something_is_refused(version: str, needed: str) -> None:
    with pytest.raises(ImportError, match=needed):
        check_pycurl(version)


@pytest.mark.parametrize("version", ['PycURL/"7.47" libcurl/8.5.0', "PycURL/8.0 libcurl/9.1", "?"])
def test_any_other_pycurl_is_accepted(version: str) -> None:
    check_pycurl(version)


@pytest.mark.parametrize("version", ["7.88.1", "8.22.9", "8.5.0", "8.22.0-DEV"])
def test_an_old_libcurl_is_warned_of(version: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"libcurl {version} is older than 8.23.0"):
        check_libcurl(version)


@pytest.mark.parametrize("version", ["8.23.0", "8.23.1", "8.100.0", "9.0.0", "8.23.0-DEV"])
def test_a_safe_libcurl_is_not_warned_of(version: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_libcurl(version)


def test_import_warns_of_each_version_that_an_advisory_touches() -> None:
    for each in ADVISORIES:
        if each.touches:
            with pytest.warns(RuntimeWarning, match="known vulnerabilities"):
                check_libcurl(".".join(map(str, each.last)))


def test_import_warns_of_no_version_without_one() -> None:
    major, minor, _ = max(each.last for each in ADVISORIES if each.touches)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_libcurl(f"{major}.{minor + 1}.0")


_IN_A_SUBINTERPRETER = """
try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:  # before Python 3.13
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
number = interpreters.create()
try:
    said = run(number, "import curlhttp")
except Exception as error:
    said = error
interpreters.destroy(number)
print(getattr(said, "formatted", said))
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="all interpreters share one GIL")
def test_an_isolated_subinterpreter_says_that_it_cannot_load_it() -> None:
    said = run_script(_IN_A_SUBINTERPRETER)
    assert "ImportError" in said
    assert "curlhttp runs only in the main interpreter" in said
