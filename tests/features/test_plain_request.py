"""The code that a plain request runs, and what each setting adds."""

from __future__ import annotations

import http
import pickle
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import Timeout
from curlhttp import exceptions as e
from curlhttp._features.redirects import get_next_hop
from curlhttp.testing import Answer, ScriptedEngine
from tests.servers import AppServer
from tests.support.colours import AnyClient
from tests.support.scripted import URL, Scripted, moved

pytestmark = pytest.mark.anyio

PACKAGE = Path(curlhttp.__file__).parent
FLOW = {PACKAGE / f"_client/{name}.py" for name in ("base_layer", "exchange")}
VERBS = ("get", "post", "put", "patch", "delete", "head", "options")
CHALLENGE = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'}


def entered(script: list[Any], verb: str = "get", **settings: Any) -> list[tuple[str, str]]:
    """Return file and name of the functions of the flow that a request calls, in order."""
    import_module("curlhttp._features.auth.flow")  # not by the request
    found: list[tuple[str, str]] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "call":
            return
        if path in FLOW or frame.f_code is get_next_hop.__code__:
            found.append((path.stem, frame.f_code.co_name))
        elif path.name in ("layer.py", "flow.py"):
            found.append((path.parent.name, frame.f_code.co_name))

    with curlhttp.Client(transport=ScriptedEngine(script), **settings) as client:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            getattr(client, verb)(URL)
        finally:
            sys.setprofile(before)
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_a_plain_request_is_one_coroutine_of_the_flow(verb: str) -> None:
    # The last step twice: the attempts of an engine that the user passes are counted there.
    expected = [("base_layer", "through"), ("exchange", "send"), ("exchange", "send")]
    assert entered([200], verb) == expected


@pytest.mark.parametrize(
    ("script", "settings", "expected"),
    [
        ([moved("/x"), 200], {}, {"get_next_hop"}),
        ([Answer(302)], {}, {"get_next_hop"}),
        ([moved("/x")], {"follow_redirects": False}, set()),
        ([Answer(headers={"Set-Cookie": "a=1"})], {}, {"store_cookies"}),
        ([200], {"cookies": {"a": "1"}}, {"with_cookies"}),
        (
            [200],
            {"auth": ("u", "p")},
            {
                "authenticate",
                "_get_flow_method",
                "_drive",
                "_advance",
                "with_cookies",
                "store_cookies",
            },
        ),
        ([200], {"timeout": Timeout(total=5)}, {"with_deadline", "prepare"}),
        ([404], {}, set()),
    ],
)
def test_a_request_enters_only_the_functions_that_it_needs(
    script: list[Any], settings: dict[str, Any], expected: set[str]
) -> None:
    found = {function for _, function in entered(script, **settings)}
    assert found == {"through", "send"} | expected


async def test_cookies_of_a_response_are_sent_with_the_next_request(scripted: Scripted) -> None:
    client, engine = scripted([Answer(headers={"Set-Cookie": "a=1"}), 200])
    await client.get(URL)
    await client.get(URL)
    assert [sent.headers.get("Cookie") for sent in engine.sent] == [None, "a=1"]


async def test_cookies_that_the_program_sets_later_go_with_the_next_request(
    scripted: Scripted,
) -> None:
    client, engine = scripted([200, 200, 200])
    await client.get(URL)
    client.real.cookies.set("a", "1")
    await client.get(URL)
    client.real.cookies = {"b": "2"}
    await client.get(URL)
    assert [sent.headers.get("Cookie") for sent in engine.sent] == [None, "a=1", "b=2"]


async def test_headers_that_are_changed_or_replaced_go_with_the_next_request(
    scripted: Scripted,
) -> None:
    client, engine = scripted([200, 200, 200])
    client.real.headers["X"] = "changed"
    await client.get(URL)
    client.real.headers = {"X": "replaced"}
    await client.get(URL)
    client.real.headers["X"] = "both"
    await client.get(URL)
    assert [sent.headers["X"] for sent in engine.sent] == ["changed", "replaced", "both"]


async def test_a_request_that_changes_its_headers_changes_no_other(scripted: Scripted) -> None:
    client, engine = scripted([200, 200])
    request = client.real.build_request("GET", URL)
    request.headers["X"] = "mine"
    await client.send(request)
    await client.get(URL)
    assert [sent.headers.get("X") for sent in engine.sent] == ["mine", None]


async def test_a_url_with_credentials_authenticates_that_request_alone(
    scripted: Scripted,
) -> None:
    client, engine = scripted([200, 200])
    await client.get("http://u:p@h.test/")
    await client.get(URL)
    assert ["Authorization" in sent.headers for sent in engine.sent] == [True, False]


@pytest.mark.parametrize("method", ["GET", "get", "QUERY", *map(str.upper, VERBS)])
async def test_request_sends_what_the_verb_sends(scripted: Scripted, method: str) -> None:
    client, engine = scripted([200, 200])
    by_name = await client.request(method, URL)
    await client.send(client.real.build_request(method, URL))
    assert by_name.request.method == method.upper()
    assert engine.sent[0].method == engine.sent[1].method
    assert engine.sent[0].headers == engine.sent[1].headers


@pytest.mark.parametrize("method", [None, 5, [], "", "a b", "GET\r\n", b"\xff"])
async def test_an_invalid_method_is_refused(scripted: Scripted, method: Any) -> None:
    client, engine = scripted([200])
    with pytest.raises(e.InvalidMethod):
        await client.request(method, URL)
    with pytest.raises(e.InvalidMethod):  # before the URL, for callers who swap the two
        await client.request(method, "no-url")
    assert engine.sent == []


@pytest.mark.skipif(not hasattr(http, "HTTPMethod"), reason="Python 3.10 has no http.HTTPMethod")
async def test_a_method_that_is_a_kind_of_text_becomes_text(scripted: Scripted) -> None:
    client, _ = scripted([200])
    found = await client.request(http.HTTPMethod.GET, URL)  # type: ignore[attr-defined]
    assert type(found.request.method) is str


@pytest.mark.parametrize("base", [curlhttp.Client, curlhttp.AsyncClient])
async def test_a_subclass_that_builds_requests_builds_all_of_them(base: Any) -> None:
    class Marking(base):  # type: ignore[misc]
        def build_request(self, *args: Any, **options: Any) -> curlhttp.ClientRequest:
            request: curlhttp.ClientRequest = super().build_request(*args, **options)
            request.headers["Marked"] = "yes"
            return request

    engine = ScriptedEngine([200] * (len(VERBS) + 2))
    client = Marking(transport=engine)
    calls = [getattr(client, verb)(URL) for verb in VERBS]
    calls += [client.request("GET", URL), client.request("get", URL)]
    for call in calls:
        if base is curlhttp.AsyncClient:
            await call
    assert [sent.headers.get("Marked") for sent in engine.sent] == ["yes"] * len(calls)


async def test_a_challenge_between_redirects_is_met_with_its_cookies(
    scripted: Scripted,
) -> None:
    asks = Answer(401, headers={**CHALLENGE, "Set-Cookie": "c=1"})
    client, engine = scripted([moved("/a"), asks, moved("/b"), 200])
    found = await client.get(URL, auth=curlhttp.DigestAuth("u", "p"))
    assert [past.status_code for past in found.history] == [302, 401, 302]
    assert [sent.headers.get("Cookie") for sent in engine.sent] == [None, None, "c=1", "c=1"]


async def test_too_many_redirects_has_the_last_response(scripted: Scripted) -> None:
    client, engine = scripted([moved("/a"), moved("/b"), moved("/c")], max_redirects=2)
    with pytest.raises(e.TooManyRedirects, match="Exceeded 2 redirects") as caught:
        await client.get(URL)
    error = caught.value
    assert error.request is not None
    assert error.response is not None
    assert str(error.request.url) == "http://h.test/b"
    assert [past.status_code for past in error.response.history] == [302, 302]
    assert error.request_sent
    assert error.timings is not None
    assert len(engine.sent) == 3


@pytest.mark.parametrize("most", [0, 1])
async def test_redirects_are_counted_from_none_on(scripted: Scripted, most: int) -> None:
    client, _ = scripted([moved("/a"), 200], max_redirects=most)
    if most:
        assert (await client.get(URL)).status_code == 200
    else:
        with pytest.raises(e.TooManyRedirects):
            await client.get(URL)


async def test_a_client_closed_between_two_redirects_sends_no_more(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    async def close(request: Any, send: Any) -> Any:
        response = await send(request)
        await client.aclose()
        return response

    client = make_client(middleware=[close])
    with pytest.raises(e.ClientClosed):
        await client.get(app.url + "/redirect/2")
    assert len(app.requests) == 1


async def test_errors_of_a_redirect_can_be_pickled_and_name_it(scripted: Scripted) -> None:
    client, _ = scripted([moved("/a"), moved("ftp://x/")])
    with pytest.raises(e.InvalidSchema) as caught:
        await client.get(URL, headers={"Authorization": "secret"})
    twin = pickle.loads(pickle.dumps(caught.value))
    assert str(twin.request.url) == "http://h.test/a"
    assert [past.status_code for past in twin.response.history] == [302]
    assert "secret" not in repr(twin.request.headers)


async def test_the_type_of_a_body_goes_with_that_request_alone(scripted: Scripted) -> None:
    client, engine = scripted([200] * 6)
    await client.post(URL, json=1)
    await client.post(URL, data={"a": "b"})
    first = client.real.build_request("POST", URL, json=2)
    first.headers["X"] = "mine"
    await client.send(first)
    client.real.headers["Y"] = "all"
    await client.post(URL, json=3)
    await client.post(URL, json=4, headers={"Content-Type": "text/mine"})
    await client.get(URL)
    types = ["application/json", "application/x-www-form-urlencoded"]
    found = [sent.headers.get("Content-Type") for sent in engine.sent]
    assert found == [*types, types[0], types[0], "text/mine", None]
    assert [sent.headers.get("X") for sent in engine.sent] == [None, None, "mine", None, None, None]
    assert [sent.headers.get("Y") for sent in engine.sent] == [None] * 3 + ["all"] * 3
