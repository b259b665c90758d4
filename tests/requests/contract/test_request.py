"""Request and PreparedRequest as objects: attributes, hooks, copies, subclasses."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

from tests.servers import AppServer

ARGUMENTS = [
    "method",
    "url",
    "headers",
    "files",
    "data",
    "params",
    "auth",
    "cookies",
    "hooks",
    "json",
]


def hook(response: Any, **kwargs: Any) -> None:
    """Do nothing."""


# -- Request


def test_request_takes_its_arguments_in_the_documented_order(requests: Any) -> None:
    assert list(inspect.signature(requests.Request).parameters) == ARGUMENTS
    prepare = inspect.signature(requests.PreparedRequest.prepare)
    assert list(prepare.parameters) == ["self", *ARGUMENTS]
    request = requests.Request("get", "u", {"a": "b"}, [1], {"d": 1}, {"p": 1}, (), {"c": "d"})
    assert vars(request) == {
        "method": "get",
        "url": "u",
        "headers": {"a": "b"},
        "files": [1],
        "data": {"d": 1},
        "params": {"p": 1},
        "auth": (),
        "cookies": {"c": "d"},
        "hooks": {"response": []},
        "json": None,
    }


def test_request_without_arguments_has_empty_defaults(requests: Any) -> None:
    request = requests.Request()
    assert (request.method, request.url, request.json) == (None, None, None)
    assert (request.headers, request.params) == ({}, {})
    assert (request.files, request.data) == ([], [])
    assert (request.auth, request.cookies) == (None, None)
    assert request.hooks == {"response": []}


def test_requests_show_their_method(requests: Any) -> None:
    assert repr(requests.Request()) == "<Request [None]>"
    assert repr(requests.Request("get")) == "<Request [get]>"
    assert repr(requests.PreparedRequest()) == "<PreparedRequest [None]>"
    assert repr(requests.Request("get", "http://x/").prepare()) == "<PreparedRequest [GET]>"


def test_request_is_prepared_with_all_it_has(requests: Any) -> None:
    prepared = requests.Request(
        "get", "http://x/", {"A": "b"}, None, {"d": 1}, {"p": 1}, ("a", "b"), {"c": "d"}
    ).prepare()
    assert type(prepared) is requests.PreparedRequest
    assert (prepared.method, prepared.url, prepared.body) == ("GET", "http://x/?p=1", "d=1")
    assert list(prepared.headers.items()) == [
        ("A", "b"),
        ("Cookie", "c=d"),
        ("Content-Length", "3"),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Authorization", "Basic YTpi"),
    ]


@pytest.mark.parametrize(
    ("method", "expected"),
    [("get", "GET"), (b"put", "PUT"), ("a b", "A B"), (None, None), ("", "")],
)
def test_method_is_put_in_upper_case(requests: Any, method: Any, expected: Any) -> None:
    request = requests.PreparedRequest()
    request.prepare_method(method)
    assert request.method == expected


def test_method_that_is_no_text_is_refused(requests: Any) -> None:
    with pytest.raises(AttributeError):
        requests.Request(5, "http://x/").prepare()


# -- hooks


@pytest.mark.parametrize(
    "given", [hook, [hook], (hook,), {hook}, [5, hook, None]], ids=lambda it: type(it).__name__
)
def test_hooks_are_a_function_or_several(requests: Any, given: Any) -> None:
    request = requests.Request("GET", "http://x/", hooks={"response": given})
    assert request.hooks == {"response": [hook]}
    assert request.prepare().hooks == {"response": [hook]}


@pytest.mark.parametrize("given", [None, {}, {"response": None}, {"response": 5}])
def test_anything_else_is_no_hook(requests: Any, given: Any) -> None:
    request = requests.Request("GET", "http://x/", hooks=given)
    assert request.hooks == request.prepare().hooks == {"response": []}


def test_unknown_event_is_refused(requests: Any) -> None:
    text = 'Unsupported event specified, with event name "foo"'
    with pytest.raises(ValueError) as caught:
        requests.Request(hooks={"foo": hook})
    assert str(caught.value) == text
    with pytest.raises(ValueError) as caught:
        requests.PreparedRequest().prepare("GET", "http://x/", hooks={"foo": hook})
    assert str(caught.value) == text
    with pytest.raises(KeyError):
        requests.Request().deregister_hook("foo", hook)


def test_hook_can_be_taken_back(requests: Any) -> None:
    request = requests.Request()
    request.register_hook(event="response", hook=hook)
    assert request.hooks == {"response": [hook]}
    assert request.deregister_hook("response", hook) is True
    assert request.deregister_hook("response", hook) is False
    assert request.hooks == {"response": []}


def test_hooks_of_a_prepared_request_are_its_own(requests: Any) -> None:
    hooks = {"response": [hook]}
    request = requests.Request("GET", "http://x/", hooks=hooks)
    prepared = request.prepare()
    prepared.register_hook("response", print)
    assert hooks == request.hooks == {"response": [hook]}


# -- PreparedRequest


def test_prepared_request_is_empty_until_it_is_prepared(requests: Any) -> None:
    request = requests.PreparedRequest()
    assert (request.method, request.url, request.headers, request.body) == (None,) * 4
    assert (request._cookies, request._body_position) == (None, None)
    assert request.hooks == {"response": []}


def test_prepared_request_has_a_jar_even_without_cookies(requests: Any) -> None:
    for cookies in (None, dict[str, str]()):
        prepared = requests.Request("GET", "http://x/", cookies=cookies).prepare()
        assert type(prepared._cookies) is requests.cookies.RequestsCookieJar
        assert len(prepared._cookies) == 0
        assert prepared._cookies is prepared._cookies
        assert "Cookie" not in prepared.headers


def test_cookies_become_a_header(requests: Any) -> None:
    prepared = requests.Request("GET", "http://x/", cookies={"a": "b", "c": "d e"}).prepare()
    assert prepared.headers["Cookie"] == "a=b; c=d e"
    assert dict(prepared._cookies) == {"a": "b", "c": "d e"}


def test_jar_sends_only_the_cookies_of_the_url(requests: Any) -> None:
    jar = requests.cookies.RequestsCookieJar()
    jar.set("other", "1", domain="other.com")
    jar.set("mine", "2", domain="x.com", path="/p")
    jar.set("safe", "3", domain="x.com", secure=True)
    prepared = requests.Request("GET", "https://x.com/p/q", cookies=jar).prepare()
    assert sorted(prepared.headers["Cookie"].split("; ")) == ["mine=2", "safe=3"]
    assert prepared._cookies is jar
    assert "Cookie" not in requests.Request("GET", "http://x.com/", cookies=jar).prepare().headers


def test_explicit_cookie_header_wins_over_the_jar(requests: Any) -> None:
    for name in ("Cookie", "cookie"):
        prepared = requests.Request(
            "GET", "http://x/", headers={name: "x=y"}, cookies={"a": "b"}
        ).prepare()
        assert list(prepared.headers.items()) == [(name, "x=y")]


def test_copy_shares_body_and_hooks_and_nothing_else(requests: Any) -> None:
    one = requests.Request(
        "POST", "http://x/", data=b"x", cookies={"a": "b"}, hooks={"response": hook}
    ).prepare()
    two = one.copy()
    assert type(two) is requests.PreparedRequest
    assert (two.method, two.url, two.body) == (one.method, one.url, one.body)
    assert two.hooks is one.hooks
    assert two.headers == one.headers
    assert two.headers is not one.headers
    assert dict(two._cookies) == {"a": "b"}
    assert two._cookies is not one._cookies
    assert vars(requests.PreparedRequest().copy()) == vars(requests.PreparedRequest())
    plain = requests.Request("GET", "http://x/").prepare()
    assert plain.copy()._cookies is not plain._cookies


def test_prepared_request_can_be_pickled(requests: Any) -> None:
    for cookies in (None, {"a": "b"}):
        one = requests.Request("POST", "http://x/", json=[1], cookies=cookies).prepare()
        two = pickle.loads(pickle.dumps(one))
        assert (two.method, two.url, two.body) == ("POST", "http://x/", b"[1]")
        assert two.headers == one.headers
        assert dict(two._cookies) == (cookies or {})


def test_prepare_calls_what_a_subclass_overrides_and_in_order(requests: Any) -> None:
    calls: list[tuple[Any, ...]] = []

    def recorded(name: str) -> Any:
        def method(self: Any, *args: Any) -> None:
            calls.append((name, *args))
            getattr(requests.PreparedRequest, name)(self, *args)

        return method

    steps = ["method", "url", "headers", "cookies", "body", "content_length", "auth", "hooks"]
    made = {f"prepare_{step}": recorded(f"prepare_{step}") for step in steps}
    request = type("Recording", (requests.PreparedRequest,), made)()
    request.prepare("POST", "http://u:p@x/", data="x", json=5, cookies={"a": "b"})
    assert calls == [
        ("prepare_method", "POST"),
        ("prepare_url", "http://u:p@x/", None),
        ("prepare_headers", None),
        ("prepare_cookies", {"a": "b"}),
        ("prepare_body", "x", None, 5),
        ("prepare_content_length", "x"),
        ("prepare_auth", None, "http://u:p@x/"),
        ("prepare_content_length", "x"),
        ("prepare_hooks", None),
    ]


def test_subclass_can_add_to_what_is_sent(requests: Any, session: Any, app: AppServer) -> None:
    class Signed(requests.PreparedRequest):  # type: ignore[misc]
        def prepare_body(self, data: Any, files: Any, json: Any = None) -> None:
            super().prepare_body(data, files, json)
            self.headers["X-Signature"] = f"{len(self.body)}"

    request = Signed()
    request.prepare("POST", app.url + "/echo", data=b"12345")
    session.send(request)
    assert app.requests[-1].header("x-signature") == "5"
    assert app.requests[-1].body == b"12345"


def test_attributes_changed_after_preparation_are_sent(
    requests: Any, session: Any, app: AppServer
) -> None:
    request = session.prepare_request(requests.Request("GET", app.url + "/"))
    request.url = app.url + "/echo?b"
    request.method = "PATCH"
    request.headers["X-A"] = "b"
    request.body = b"abc"
    request.prepare_content_length(request.body)
    assert session.send(request).request is request
    seen = app.requests[-1]
    assert (seen.method, seen.target, seen.body) == ("PATCH", "/echo?b", b"abc")
    assert seen.header("x-a") == "b"
