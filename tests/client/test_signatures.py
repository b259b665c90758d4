"""What help(), inspect and completion in a notebook show of the clients."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from typing import Any
from unittest.mock import create_autospec

import pytest

import curlhttp
from curlhttp import AsyncClient, Client
from curlhttp.types import RouteOptions

VERBS = ["request", "get", "options", "head", "post", "put", "patch", "delete", "stream", "sse"]
BODILESS = ["download", "map", "websocket"]
CLIENTS = pytest.mark.parametrize("client", [Client, AsyncClient])


def keywords(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


@CLIENTS
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_shows_each_keyword_of_a_request(client: Any, verb: str) -> None:
    wanted = keywords(Client.build_request) - {"method", "url", "route"}
    wanted |= set(RouteOptions.__annotations__)
    assert wanted <= keywords(getattr(client, verb))
    assert "options" not in keywords(getattr(client, verb))
    with curlhttp.Client() as made:
        shown = keywords(getattr(made, verb) if client is Client else getattr(client, verb))
    assert "self" not in shown or client is AsyncClient


@CLIENTS
@pytest.mark.parametrize("verb", BODILESS)
def test_methods_without_a_body_show_no_body_parameters(client: Any, verb: str) -> None:
    shown = keywords(getattr(client, verb))
    assert {"headers", "timeout", "verify"} <= shown
    assert not {"data", "json", "content", "files"} & shown
    assert ("progress" in shown) == (verb == "download")


@CLIENTS
@pytest.mark.parametrize("verb", ["get", "head", "map", "__init__"])
def test_defaults_mean_something(client: Any, verb: str) -> None:
    shown = str(inspect.signature(getattr(client, verb)))
    for hidden in ("UNSET", "Unset", "_DEFAULT", "<", "object at"):
        assert hidden not in shown
    kind = "TimeoutInput" if verb == "__init__" else "TimeoutInput | UseClientDefault"
    assert f"timeout: '{kind}' = " in shown


def test_a_constructor_shows_the_limits_that_it_has() -> None:
    parameters = inspect.signature(Client).parameters
    assert parameters["max_connections"].default == curlhttp.Limits().max_connections
    assert repr(parameters["timeout"].default) == "Timeout(connect=10, read=60)"


def test_head_shows_that_it_follows_no_redirects() -> None:
    assert inspect.signature(Client.head).parameters["follow_redirects"].default is False
    got = inspect.signature(Client.get).parameters["follow_redirects"].default
    assert repr(got) == "client.follow_redirects"


@CLIENTS
def test_help_shows_keywords(client: Any) -> None:
    text = pydoc.plain(pydoc.render_doc(client.get))
    assert "headers: " in text
    assert "**options" not in text
    assert "max_connections" in pydoc.plain(pydoc.render_doc(client))


def test_a_signature_binds_and_compares_like_any_other() -> None:
    found = inspect.signature(Client.get)
    assert found.bind(None, "http://x/", timeout=3).arguments["timeout"] == 3
    with pytest.raises(TypeError):
        found.bind(None, "http://x/", colour="red")
    assert found == inspect.signature(Client.get)
    assert found.replace(parameters=[]).parameters == {}


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_notebook_completes_keywords() -> None:
    completer = pytest.importorskip("IPython.core.completer", reason="needs IPython")
    with curlhttp.Client() as client:
        found = completer.IPCompleter(namespace={"client": client}, use_jedi=False)
        found.use_jedi = False
        _, matches = found.complete(line_buffer="client.get(url, max_resp", cursor_pos=24)
    assert "max_response_size=" in matches


def drop_in() -> list[Any]:
    verbs = ["get", "options", "head", "post", "put", "patch", "delete"]
    functions = [getattr(curlhttp.requests, verb) for verb in [*verbs, "request"]]
    return functions + [getattr(curlhttp.Session, verb) for verb in verbs]


def test_the_drop_in_shows_each_keyword_of_a_request() -> None:
    wanted = keywords(curlhttp.Session.request) - {"self", "method", "url"}
    for function in drop_in():
        name = function.__name__
        assert keywords(function) >= wanted
        assert "kwargs" not in keywords(function)
        assert "headers: " in pydoc.plain(pydoc.render_doc(function))
        follows = inspect.signature(function).parameters["allow_redirects"].default
        assert follows is (name != "head")


def test_the_functions_show_each_keyword_of_a_client() -> None:
    for verb in ("request", "stream", "get", "head", "options", "post", "put", "patch", "delete"):
        function = getattr(curlhttp, verb)
        assert keywords(function) == keywords(getattr(Client, verb)) - {"self"}
        shown = inspect.signature(function).parameters
        assert repr(shown["timeout"].default) == "Client().timeout"
    by_position = list(inspect.signature(curlhttp.post).parameters)[:3]
    assert by_position == ["url", "data", "json"]


def test_a_double_of_a_function_refuses_what_the_function_refuses() -> None:
    double = create_autospec(curlhttp.requests.get)
    double("http://x/", {"a": "1"}, timeout=3)
    with pytest.raises(TypeError):
        double("http://x/", colour="red")
    session = create_autospec(curlhttp.Session, instance=True)
    session.post("http://x/", b"body", headers={})
    with pytest.raises(TypeError):
        session.post("http://x/", colour="red")


def test_signatures_are_built_lazily() -> None:
    code = (
        "import curlhttp\n"
        "curlhttp.Client().close()\n"
        "assert curlhttp.Client.get.__signature__._made is None\n"
        "assert curlhttp.requests.get.__signature__._made is None\n"
        "assert curlhttp.Session.get.__signature__._made is None"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)
