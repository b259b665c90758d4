"""Conventions: few types are Any, class names are unique, few tests look inside."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import curlhttp

ROOT = Path(curlhttp.__file__).parent
MODULES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
FACADE = ROOT / "requests"
# pyarrow, fsspec, Dask and Ray, which a distributed fetch works with, have no types.
# Programs override methods of the facade with types of their own (requests/_types.py).
ANYS = {"core": 112, "facade": 265}
# curlhttp.Timeout is the setting, curlhttp.exceptions.Timeout the exception, as in requests.
# Transports carry requests: those of our clients, and one each for httpx and httpx2.
TWICE = {"AsyncTransport", "Timeout", "Transport"}


TESTS = Path(__file__).parent
# What users see is tested from outside. A unit that is an idea, such as a policy, a table or a
# parser, may be tested by itself. What several tests need to know or to force is in
# tests/support/internals.py and forced.py. These lists may only shrink.
IMPORT_PRIVATE_MODULES = {
    "": "test_architecture",
    "client": "test_settings test_windows",  # the table, and what is chosen on another system
    "distributed": (  # formats, folders and rows, which `curlhttp fetch` has too
        "test_bodies test_early_end test_engines test_formats test_host_queues test_rows test_since"
    ),
    "download": "test_spans test_without_posix",
    "features": (  # parsers, and layers with a clock or a connection of their own
        "test_html_charset test_http_date test_limits test_plain_request test_upgrade"
    ),
    "http": (
        "test_body test_cookie_jar test_cookie_parsing test_cookie_store test_decoding test_fork "
        "test_frozen test_json_types test_redaction test_url"
    ),
    "libcurl": (
        "test_attempt test_attempt_traces test_connection_pool test_connection_state test_dns "
        "test_driver test_head test_kqueue test_libcurl_log test_read_timeouts test_resolver "
        "test_socket_thread"
    ),
    "map": "test_backlog test_engine",
    "policies": (
        "test_adaptive test_alt_svc test_auth test_breaker_outcomes test_cache test_endpoints "
        "test_environment test_guard test_hedge test_hsts test_limits test_redirects "
        "test_retry_after test_robots test_sse"
    ),
    "record": "test_har test_redaction",
    "redis": "fake_clock test_breaker test_concurrency test_faults",  # the commands, and a clock
    "requests": "test_urllib3",  # urllib3's Retry and errors
    "runtime": "test_network test_run",
    "support": "attempt_traces curl_errors internals",
    "websocket": "test_frames",
}
# What layers ask of a policy has an underscore, because users hold the policy.
TOUCH_PRIVATE_NAMES = {
    "client": "test_resilience test_suggestions test_windows",
    "distributed": "test_worker",
    "features": "test_adaptive test_breaker test_hedge test_limits test_upgrade",
    "fuzz": "inspection",
    "http": "test_cookie_parsing test_cookie_store test_fork",
    "httpx": "test_settings",
    "libcurl": (
        "test_attempt test_connection_pool test_driver test_event_loops test_socket_thread"
    ),
    "otel": "test_spans",
    "policies": (
        "test_adaptive test_auth test_breaker test_breaker_threads test_budget test_circuit "
        "test_endpoints test_hedge test_limits test_retry"
    ),
    "redis": "fake_clock test_breaker test_budget test_concurrency test_faults test_rate",
    "support": "attempt_traces internals",
}
# Their names are those of requests and of other packages, or of the benchmarks.
OF_OTHERS = {"ecosystem", "programs", "requests"}


def is_facade(path: Path) -> bool:
    return FACADE in path.parents


@pytest.mark.parametrize("part", sorted(ANYS))
def test_few_types_are_any(part: str) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in MODULES.items()
        if is_facade(path) == (part == "facade")
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "Any"
    ]
    assert len(found) < ANYS[part], found


def test_no_class_of_the_core_has_the_name_of_another() -> None:
    homes: dict[str, set[Path]] = defaultdict(set)
    for path, tree in MODULES.items():
        if not is_facade(path):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    homes[node.name.lstrip("_")].add(path)
    assert {name for name, paths in homes.items() if len(paths) > 1} == TWICE


def test_docstrings_of_predicates_say_what_is_returned() -> None:
    told = [
        f"{path}:{node.lineno}"
        for path, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if (ast.get_docstring(node) or "").startswith("Tell whether")
    ]
    assert told == []


_DEFINED = re.compile(  # a function or class, an attribute of self, a variable
    r"(?:def|class) (_[A-Za-z]\w*)|(?:^ *|self\.)(_[A-Za-z]\w*)(?::[^=\n]+)? =", re.MULTILINE
)
_IN_THE_PACKAGE = re.compile(r"curlhttp\..*\b_[a-z]|curlhttp\._[a-z]")


def names_defined(path: Path) -> set[str]:
    """Return the private names that a file defines."""
    return {name for names in _DEFINED.findall(path.read_text()) for name in names if name}


def private_names_of(path: Path, private: set[str]) -> tuple[bool, bool]:
    """Return whether a file imports private modules, and whether it uses private names."""
    text = path.read_text()
    if not _IN_THE_PACKAGE.search(text) and private.isdisjoint(re.findall(r"\b_[A-Za-z]\w*", text)):
        return False, False
    imported, used = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            if ast.unparse(node.value) not in ("self", "cls"):
                used.add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("attr"):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            used |= {text.rpartition(".")[2] for text in texts if isinstance(text, str)}
    return any(map(_IN_THE_PACKAGE.match, imported)), bool(used & private - names_defined(path))


def by_folder(paths: list[Path]) -> dict[str, str]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        found[path.relative_to(TESTS).parent.as_posix().replace(".", "")].append(path.stem)
    return {folder: " ".join(names) for folder, names in found.items()}


def test_few_tests_look_inside() -> None:
    private = set[str]().union(*map(names_defined, MODULES)) - {"_fields", "_replace"}
    inside = {path: private_names_of(path, private) for path in sorted(TESTS.rglob("*.py"))}
    assert by_folder([path for path in inside if inside[path][0]]) == IMPORT_PRIVATE_MODULES
    touching = [path for path in inside if inside[path][1]]
    ours = [path for path in touching if path.relative_to(TESTS).parts[0] not in OF_OTHERS]
    assert by_folder(ours) == TOUCH_PRIVATE_NAMES
