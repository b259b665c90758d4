"""The public names are those of public-names.txt in docs/reference: a removal is a decision."""

from __future__ import annotations

import ast
import copy
import difflib
import inspect
import pickle
import re
from types import ModuleType
from typing import Any

import pytest

import curlhttp
import curlhttp.types
from curlhttp import requests
from tests.support.public_names import COMMAND, PATH, find_public_names, to_text


def difference() -> str:
    stored = PATH.read_text(encoding="utf-8").splitlines()
    found = to_text(find_public_names()).splitlines()
    changes = list(difflib.unified_diff(stored, found, "stored", "found", n=0, lineterm=""))
    advice = f"Is this meant? docs/stability.md says what it takes. Then write it down: {COMMAND}"
    return "\n".join([*changes, advice]) if changes else ""


def test_the_public_names_and_their_parameters_are_those_that_are_written_down() -> None:
    assert not (found := difference()), found


def test_a_removed_name_and_a_changed_parameter_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def mock(
        base_url: str = "", *, assert_all_called: bool = False, real_time: bool = False
    ) -> None:
        """Change a default."""

    mock.__module__ = "curlhttp.testing"
    monkeypatch.setattr("curlhttp.testing.mock", mock)
    monkeypatch.setattr(curlhttp, "__all__", [n for n in curlhttp.__all__ if n != "Hedge"])
    found = difference()
    assert (
        "-curlhttp.testing.mock(base_url='', *, assert_all_called=True, real_time=False)" in found
    )
    assert (
        "+curlhttp.testing.mock(base_url='', *, assert_all_called=False, real_time=False)" in found
    )
    assert "-curlhttp.Hedge(" in found
    assert "\n+curlhttp.Hedge" not in found
    assert COMMAND in found


def test_the_names_of_a_module_are_there_with_what_the_reference_shows_of_them() -> None:
    names = find_public_names()
    assert set(curlhttp.__all__) <= {path.split(".")[1] for path in names}
    assert names["curlhttp.AdaptiveLimit.current"] == "(self, origin)"
    assert "curlhttp.AdaptiveLimit._enqueue" not in names
    assert names["curlhttp.types.Timings.tls"] == ""
    assert "timeout=Timeout(connect=10, read=60)" in names["curlhttp.Client"]
    assert names["curlhttp.requests.sessions.Session"] == " = curlhttp.Session"
    assert not [rest for rest in names.values() if " at 0x" in rest]


# --- where names are ---

TO_TYPES = [
    *("AsyncAuthFlow", "AsyncEventStream", "AsyncResults", "AsyncWebSocket", "Attempt"),
    *("AttemptEvent", "AuthFlow", "BreakerMetrics", "ClientStats", "ConnectionStats"),
    *("EndpointState", "EventStream", "HarLog", "LimitStats", "Middleware", "OriginStats"),
    *("Results", "Send", "ServerSentEvent", "TimeStats", "Timings", "Transition", "WebSocket"),
]
TO_REQUESTS = [
    *("PreparedRequest", "Request", "adapters", "api", "auth", "certs", "compat", "cookies"),
    *("help", "hooks", "models", "packages", "session", "sessions", "status_codes"),
    *("structures", "utils"),
]
MOVED = [
    *((name, f"curlhttp.types.{name}") for name in TO_TYPES),
    *((name, f"curlhttp.requests.{name}") for name in TO_REQUESTS),
]


def test_a_name_that_moved_is_an_error_that_says_where_it_is() -> None:
    assert {name for name, _ in MOVED}.isdisjoint({*curlhttp.__all__, *dir(curlhttp)})
    wrong = []
    for name, home in MOVED:
        module, _, last = home.rpartition(".")
        assert getattr(getattr(curlhttp, module.removeprefix("curlhttp.")), last) is not None
        for code in (
            f"curlhttp.{name}",
            f"from curlhttp import {name}",
            f"from curlhttp import Client, {name}",
        ):
            try:
                exec(code, {"curlhttp": curlhttp})
            except (AttributeError, ImportError) as error:
                if re.search(rf"{name}'.*write {re.escape(home)}$", str(error)):
                    continue
            wrong.append(code)
    assert wrong == []


def test_an_unknown_name_is_pythons_own_error() -> None:
    for module in ("curlhttp", "curlhttp.types", "curlhttp.exceptions"):
        with pytest.raises(ImportError, match="cannot import name 'Nonsense' from"):
            exec(f"from {module} import Nonsense", {})
    with pytest.raises(
        AttributeError, match=r"module 'curlhttp\.types' has no attribute 'Nonsense'"
    ):
        _ = curlhttp.types.Nonsense  # type: ignore[attr-defined]


def test_no_class_is_two_things() -> None:
    assert isinstance(curlhttp.Timeout(connect=1), curlhttp.Timeout)
    for kind in (curlhttp.Timeout, curlhttp.Response, requests.Response):
        assert type(kind) is type  # so that isinstance() has no rule of its own
    received = curlhttp.ClientRequest("GET", "http://localhost/").respond(200)
    assert isinstance(received, curlhttp.Response)
    assert not isinstance(received, requests.Response)
    assert issubclass(requests.Response, curlhttp.Response)


def test_curlhttp_as_requests_has_the_verbs_the_session_the_codes_and_the_errors() -> None:
    import curlhttp as requests_here

    verbs = {"get", "options", "head", "post", "put", "patch", "delete", "request"}
    errors = set(requests.exceptions.__dict__) & set(curlhttp.exceptions.__all__) - {"Timeout"}
    assert verbs | errors | {"Session", "codes", "exceptions"} <= set(dir(requests_here))
    for name in {*errors, "Session", "codes"}:
        here = getattr(requests.exceptions, name, None) or getattr(requests, name)
        assert getattr(requests_here, name) is here
    assert requests_here.exceptions.Timeout is requests.Timeout


@pytest.mark.parametrize("module", [curlhttp, curlhttp.types])
def test_type_checkers_see_the_names_that_are_there(module: ModuleType) -> None:
    [block] = [
        node
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen = set()
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            seen.add(alias.name)
            if node.module not in ("curlhttp", "curlhttp.requests"):
                home = __import__(str(node.module), fromlist=["*"])
                if not isinstance(getattr(home, alias.name), str):  # the text of an alias
                    assert getattr(module, alias.name) is getattr(home, alias.name)
    extras = {"distributed", "httpx", "httpx2", "redis"}
    assert seen - extras == set(module.__all__) - {"__version__"}
    assert set(dir(module)) == set(module.__all__)
    assert len(module.__all__) == len(set(module.__all__))


def test_a_program_that_wraps_a_client_can_annotate_it() -> None:
    """Python evaluates annotations in a module without the __future__ import."""
    space: dict[str, Any] = {}
    exec(
        "from curlhttp.types import *\n"
        "def get(url, timeout: TimeoutInput | UseClientDefault = USE_CLIENT_DEFAULT,\n"
        "    auth: AuthInput | None = None, items: list[Item] | None = None,\n"
        "    **options: RequestOptions) -> Results | Timings: ...\n",
        space,
        space,
    )
    for name in curlhttp.types.__all__:
        assert not isinstance(space[name], str)
        if name != "USE_CLIENT_DEFAULT":
            assert space[name] | None


def test_the_clients_default_is_one_object() -> None:
    default = curlhttp.types.USE_CLIENT_DEFAULT
    assert isinstance(default, curlhttp.types.UseClientDefault)
    assert copy.deepcopy(default) is pickle.loads(pickle.dumps(default)) is default
    assert repr(default) == "<the client's>"
