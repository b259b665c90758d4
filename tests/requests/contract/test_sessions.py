"""Session: what it holds, how it merges that into requests, how it sends them."""

from __future__ import annotations

import base64
import datetime
import pickle
from collections import OrderedDict
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from urllib3.util import SKIP_HEADER

from tests.servers import AppServer
from tests.support.pace import paced


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a netrc with credentials for this machine."""
    path = tmp_path / "netrc"
    path.write_text("machine 127.0.0.1\nlogin net\npassword rc\n")
    monkeypatch.setenv("NETRC", str(path))


# -- what a session holds


def test_attributes_of_a_session_have_their_defaults(requests: Any, session: Any) -> None:
    assert session.headers == requests.utils.default_headers()
    assert isinstance(session.headers, requests.structures.CaseInsensitiveDict)
    assert session.auth is None
    assert session.proxies == {}
    assert session.hooks == {"response": []}
    assert session.params == {}
    assert session.stream is False
    assert session.verify is True
    assert session.cert is None
    assert session.max_redirects == 30
    assert session.trust_env is True
    assert isinstance(session.cookies, requests.cookies.RequestsCookieJar)
    assert len(session.cookies) == 0
    assert isinstance(session.adapters, OrderedDict)
    assert list(session.adapters) == ["https://", "http://"]


def test_sessions_do_not_share_what_they_hold(requests: Any) -> None:
    with requests.Session() as one, requests.Session() as two:
        one.headers["X-One"] = "1"
        one.params["a"] = "1"
        one.cookies["a"] = "1"
        one.hooks["response"].append(print)
        one.proxies["http"] = "x"
        assert "X-One" not in two.headers
        assert two.params == {}
        assert not two.cookies
        assert two.hooks == {"response": []}
        assert two.proxies == {}


def test_attrs_names_what_is_pickled(requests: Any) -> None:
    assert set(requests.Session.__attrs__) >= {
        "headers",
        "cookies",
        "auth",
        "proxies",
        "hooks",
        "params",
        "verify",
        "cert",
        "adapters",
        "stream",
        "trust_env",
        "max_redirects",
    }


def test_session_returns_a_session(requests: Any) -> None:
    with requests.session() as made:
        assert type(made) is requests.Session


def test_a_session_is_a_context_manager_that_closes(requests: Any, app: AppServer) -> None:
    with requests.Session() as session:
        assert isinstance(session, requests.Session)
        session.get(app.url + "/")
        assert app.open_connections == 1
    assert app.wait_for(lambda: app.open_connections == 0)


def test_close_closes_each_adapter(requests: Any) -> None:
    closed = []

    class Adapter(requests.adapters.BaseAdapter):  # type: ignore[misc]
        def close(self) -> None:
            closed.append(self)

    session = requests.Session()
    first, second = Adapter(), Adapter()
    session.mount("http://", first)
    session.mount("https://", second)
    session.close()
    assert set(map(id, closed)) == {id(first), id(second)}


def test_a_closed_session_works_again(requests: Any, app: AppServer) -> None:
    session = requests.Session()
    session.get(app.url + "/")
    session.close()
    assert session.get(app.url + "/").status_code == 200
    session.close()


def test_a_session_keeps_its_connection(session: Any, app: AppServer) -> None:
    for _ in range(3):
        session.get(app.url + "/")
    assert app.connections == 1


# -- request()


def test_request_takes_its_arguments_by_position(requests: Any, app: AppServer) -> None:
    seen: list[dict[str, Any]] = []

    class Session(requests.Session):  # type: ignore[misc]
        def send(self, request: Any, **kwargs: Any) -> Any:
            seen.append(kwargs)
            return super().send(request, **kwargs)

    called = []
    with Session() as session:
        response = session.request(
            "POST",
            app.url + "/echo",
            {"q": "1"},
            {"d": "2"},
            {"X-H": "3"},
            {"c": "4"},
            None,
            ("u", "p"),
            5,
            False,
            {"no_proxy": "*"},
            {"response": lambda r, **_: called.append(r)},
            True,
            False,
            None,
            None,
        )
        answer = response.json()
    headers = dict(answer["headers"])
    assert answer["target"] == "/echo?q=1"
    assert answer["body"] == "d=2"
    assert (headers["X-H"], headers["Cookie"]) == ("3", "c=4")
    assert headers["Authorization"] == basic("u", "p")
    assert len(called) == 1
    (kwargs,) = seen
    assert kwargs["timeout"] == 5
    assert kwargs["allow_redirects"] is False
    assert (kwargs["stream"], kwargs["verify"], kwargs["cert"]) == (True, False, None)


def test_request_passes_settings_to_send_by_keyword(requests: Any, app: AppServer) -> None:
    seen: list[dict[str, Any]] = []

    class Session(requests.Session):  # type: ignore[misc]
        def send(self, request: Any, **kwargs: Any) -> Any:
            seen.append(kwargs)
            return super().send(request, **kwargs)

    with Session() as session:
        session.get(app.url + "/")
    assert set(seen[0]) >= {"timeout", "allow_redirects", "proxies", "stream", "verify", "cert"}
    assert seen[0]["allow_redirects"] is True
    assert seen[0]["timeout"] is None


def test_an_unknown_argument_is_a_type_error(session: Any, app: AppServer) -> None:
    with pytest.raises(TypeError):
        session.get(app.url, nonsense=1)


@pytest.mark.parametrize(
    ("verb", "arguments", "method", "body"),
    [
        ("get", (), "GET", ""),
        ("options", (), "OPTIONS", ""),
        ("post", ({"a": 1},), "POST", "a=1"),
        ("put", ({"a": 1},), "PUT", "a=1"),
        ("patch", ({"a": 1},), "PATCH", "a=1"),
        ("delete", (), "DELETE", ""),
    ],
)
def test_a_verb_sends_its_method(
    session: Any, app: AppServer, verb: str, arguments: tuple[Any, ...], method: str, body: str
) -> None:
    answer = getattr(session, verb)(app.url + "/echo", *arguments).json()
    assert (answer["method"], answer["body"]) == (method, body)


def test_head_of_a_session_does_not_follow_and_the_others_do(session: Any, app: AppServer) -> None:
    assert session.head(app.url + "/redirect/1").status_code == 302
    assert session.head(app.url + "/redirect/1", allow_redirects=True).status_code == 200
    for verb in ("get", "options", "post", "put", "patch", "delete"):
        assert getattr(session, verb)(app.url + "/redirect/1").status_code == 200
        response = getattr(session, verb)(app.url + "/redirect/1", allow_redirects=False)
        assert response.status_code == 302


def test_a_lower_case_method_goes_out_in_capitals(session: Any, app: AppServer) -> None:
    response = session.request("post", app.url + "/echo")
    assert response.json()["method"] == "POST"
    assert response.request.method == "POST"


def test_a_url_may_be_bytes(session: Any, app: AppServer) -> None:
    response = session.get(app.url.encode() + b"/echo")
    assert response.url == app.url + "/echo"


# -- merging


def test_params_of_session_and_request_are_merged_and_none_removes(
    session: Any, app: AppServer
) -> None:
    session.params = {"a": "1", "b": "2", "c": "3"}
    answer = session.get(app.url + "/echo", params={"b": "4", "c": None, "d": "5"}).json()
    assert answer["target"] == "/echo?a=1&b=4&d=5"


def test_params_that_are_pairs_replace_those_of_the_session(session: Any, app: AppServer) -> None:
    session.params = {"a": "1"}
    answer = session.get(app.url + "/echo", params=[("b", "2"), ("b", "3")]).json()
    assert answer["target"] == "/echo?b=2&b=3"


def test_params_of_the_session_go_out_with_those_of_the_url(session: Any, app: AppServer) -> None:
    session.params["key"] = "secret"
    assert session.get(app.url + "/echo?x=1").json()["target"] == "/echo?x=1&key=secret"


def test_text_as_params_replaces_those_of_the_session(session: Any, app: AppServer) -> None:
    session.params = {"a": "1"}
    assert session.get(app.url + "/echo", params="b=2").json()["target"] == "/echo?b=2"


def test_headers_of_the_request_win_whatever_their_case(session: Any, app: AppServer) -> None:
    session.headers["X-One"] = "session"
    session.headers["X-Two"] = "session"
    session.get(app.url + "/echo", headers={"x-oNE": "request"})
    sent = dict(app.requests[-1].headers)
    assert sent["x-oNE"] == "request"
    assert sent["X-Two"] == "session"
    assert "X-One" not in sent
    assert session.headers["X-One"] == "session"


def test_a_header_of_none_leaves_that_of_the_session_out(session: Any, app: AppServer) -> None:
    session.headers["X-One"] = "session"
    response = session.get(app.url + "/echo", headers={"x-one": None, "Accept": None})
    assert "x-one" not in response.request.headers
    assert "accept" not in response.request.headers
    assert app.requests[-1].header("x-one") is None
    assert app.requests[-1].header("accept") is None
    session.get(app.url + "/echo")
    assert app.requests[-1].header("x-one") == "session"


def test_a_header_of_none_in_the_session_is_left_out(session: Any, app: AppServer) -> None:
    session.headers["X-One"] = None
    session.get(app.url + "/echo")
    assert app.requests[-1].header("x-one") is None


def test_urllib3s_mark_leaves_a_header_out(session: Any, app: AppServer) -> None:
    names = ("user-agent", "Accept-Encoding")
    session.get(app.url, headers=dict.fromkeys(names, SKIP_HEADER))
    assert [app.requests[0].header(name) for name in names] == [None, None]
    with pytest.raises(ValueError, match="SKIP_HEADER"):
        session.get(app.url, headers={"X-Own": SKIP_HEADER})
    assert len(app.requests) == 1


def test_headers_of_a_session_can_be_updated_and_replaced(session: Any, app: AppServer) -> None:
    session.headers.update({"user-agent": "mine/1.0", "X-A": "1"})
    session.get(app.url + "/echo")
    assert app.requests[-1].values("user-agent") == ["mine/1.0"]
    session.headers = {"X-B": "2", "User-Agent": "plain dict"}
    session.get(app.url + "/echo")
    assert app.requests[-1].header("x-b") == "2"
    assert app.requests[-1].header("x-a") is None


def test_the_default_headers_go_out_in_their_order(requests: Any, app: AppServer) -> None:
    requests.get(app.url + "/echo")
    names = [name for name, _ in app.requests[-1].headers]
    assert [name for name in names if name != "Host"] == [
        "User-Agent",
        "Accept-Encoding",
        "Accept",
        "Connection",
    ]


def test_authorization_of_the_headers_goes_out(session: Any, app: AppServer) -> None:
    session.get(app.url + "/echo", headers={"Authorization": "Bearer x"})
    assert app.requests[-1].header("authorization") == "Bearer x"


# -- prepare_request, send


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("Session", "prepare_request"),
        ("Session", "merge_environment_settings"),
        ("Session", "send"),
        ("Session", "get_adapter"),
        ("PreparedRequest", "__init__"),
        ("PreparedRequest", "prepare"),
        ("PreparedRequest", "prepare_headers"),
        ("Request", "__init__"),
        ("HTTPAdapter", "send"),
        ("HTTPAdapter", "build_response"),
        ("HTTPAdapter", "add_headers"),
    ],
)
def test_each_step_of_a_plain_get_may_be_replaced(
    requests: Any,
    session: Any,
    app: AppServer,
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
    name: str,
) -> None:
    session.get(app.url)
    kind = getattr(requests, owner, None) or getattr(requests.adapters, owner)
    step, called = getattr(kind, name), []

    def replacement(self: Any, *args: Any, **kwargs: Any) -> Any:
        called.append(name)
        return step(self, *args, **kwargs)

    if name != "add_headers":  # replaced in a subclass, as everyone does
        monkeypatch.setattr(kind, name, replacement)
    if owner == "HTTPAdapter":
        session.mount("http://", type("Own", (kind,), {name: replacement})())
    session.get(app.url)
    assert called
    if owner == "Session":
        called.clear()
        monkeypatch.undo()
        own = type("Own", (requests.Session,), {name: replacement})
        with own() as other:
            other.get(app.url)
        assert called
        called.clear()
        setattr(session, name, lambda *args, **kwargs: replacement(session, *args, **kwargs))
        session.get(app.url)
        assert called


def test_the_class_of_prepared_requests_may_be_replaced(
    requests: Any, session: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.get(app.url)

    class Own(requests.PreparedRequest):  # type: ignore[misc]
        pass

    monkeypatch.setattr(requests.sessions, "PreparedRequest", Own)
    assert type(session.get(app.url).request) is Own


def test_a_header_that_equals_a_good_one_may_be_invalid(
    requests: Any, session: Any, app: AppServer
) -> None:
    session.headers["X-Key"] = b"value"
    session.get(app.url)
    session.headers["X-Key"] = bytearray(b"value")
    with pytest.raises(requests.exceptions.InvalidHeader):
        session.get(app.url)


def test_what_changes_from_one_request_to_the_next_is_sent(
    requests: Any, session: Any, app: AppServer
) -> None:
    url = app.url + "/redirect/1"
    session.get(url)
    session.headers["X-One"] = "1"
    session.get(app.url)
    session.headers["X-One"] = "2"
    session.get(app.url)
    del session.headers["X-One"]
    assert [each.header("x-one") for each in app.requests] == [None, None, "1", "2"]
    assert session.get(url, allow_redirects=False).status_code == 302
    assert session.get(url).status_code == 200
    assert session.head(url).status_code == 302
    prepared = session.prepare_request(requests.Request("GET", app.url))
    prepared.headers["X-Two"] = "3"
    session.send(prepared)
    assert app.requests[-1].header("x-two") == "3"
    session.close()
    session.cookies.set("a", "b")
    assert session.get(app.url).request.headers["Cookie"] == "a=b"
    session.auth = ("u", "p")
    assert "Authorization" in session.get(app.url).request.headers
    session.auth, session.params = None, {"q": "1"}
    assert session.get(app.url).url.endswith("?q=1")
    session.params, seen = {}, []
    session.hooks["response"].append(lambda response, **kwargs: seen.append(response))
    assert session.get(app.url) is seen[0]
    with pytest.raises(ValueError, match="Timeout"):
        session.get(app.url, timeout=True)
    with pytest.raises(ValueError, match="timeout"):
        session.get(app.url, timeout=0)


def test_prepare_request_merges_what_the_session_holds(requests: Any, session: Any) -> None:
    session.headers["X-S"] = "1"
    session.params["a"] = "1"
    session.auth = ("u", "p")
    session.cookies["c"] = "1"
    prepared = session.prepare_request(
        requests.Request("post", "http://host/path", data={"d": "1"}, headers={"X-R": "2"})
    )
    assert isinstance(prepared, requests.PreparedRequest)
    assert prepared.method == "POST"
    assert prepared.url == "http://host/path?a=1"
    assert prepared.body == "d=1"
    assert prepared.headers["X-S"] == "1"
    assert prepared.headers["X-R"] == "2"
    assert prepared.headers["Cookie"] == "c=1"
    assert prepared.headers["Authorization"] == basic("u", "p")


def test_prepare_alone_knows_nothing_of_a_session(requests: Any, session: Any) -> None:
    prepared = requests.Request("GET", "http://host/").prepare()
    assert "User-Agent" not in prepared.headers


def test_send_sends_what_was_prepared_and_changed(
    requests: Any, session: Any, app: AppServer
) -> None:
    prepared = session.prepare_request(requests.Request("POST", app.url + "/echo", data="old"))
    prepared.body = "newer"
    prepared.headers["Content-Length"] = "5"
    prepared.headers["X-Late"] = "1"
    prepared.method = "PUT"
    response = session.send(prepared)
    assert response.request is prepared
    assert response.json()["body"] == "newer"
    assert response.json()["method"] == "PUT"
    assert app.requests[-1].header("x-late") == "1"


def test_send_adds_no_headers_of_the_session(requests: Any, session: Any, app: AppServer) -> None:
    session.headers["X-S"] = "1"
    session.send(requests.Request("GET", app.url + "/echo").prepare())
    assert app.requests[-1].header("x-s") is None


def test_a_prepared_request_can_be_sent_twice(requests: Any, session: Any, app: AppServer) -> None:
    prepared = requests.Request("POST", app.url + "/echo", json={"a": 1}).prepare()
    assert session.send(prepared).json()["body"] == session.send(prepared).json()["body"]


def test_send_refuses_a_request_that_is_not_prepared(
    requests: Any, session: Any, app: AppServer
) -> None:
    with pytest.raises(ValueError, match="You can only send PreparedRequests"):
        session.send(requests.Request("GET", app.url))


def test_send_follows_unless_told_not_to(requests: Any, session: Any, app: AppServer) -> None:
    prepared = requests.Request("GET", app.url + "/redirect/1").prepare()
    assert session.send(prepared).status_code == 200
    assert session.send(prepared, allow_redirects=False).status_code == 302


def test_send_falls_back_on_what_the_session_says(requests: Any, app: AppServer) -> None:
    seen: list[dict[str, Any]] = []

    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def send(self, request: Any, **kwargs: Any) -> Any:
            seen.append(kwargs)
            return super().send(request, stream=kwargs["stream"])

    prepared = requests.Request("GET", app.url + "/").prepare()
    with requests.Session() as session:
        session.mount("http://", Adapter())
        session.send(prepared)
        session.stream = True
        session.verify = False
        session.cert = "cert"
        session.send(prepared).close()
        session.send(prepared, stream=False, verify="ca", timeout=3)
    plain, held, told = seen
    assert (plain["stream"], plain["verify"], plain["cert"]) == (False, True, None)
    assert (held["stream"], held["verify"], held["cert"]) == (True, False, "cert")
    assert (told["stream"], told["verify"], told["timeout"]) == (False, "ca", 3)
    assert set(plain) >= {"stream", "verify", "cert", "proxies"}


def test_an_unmatched_url_has_no_adapter(requests: Any, session: Any) -> None:
    with pytest.raises(requests.exceptions.InvalidSchema) as caught:
        session.get_adapter("gopher://host/")
    assert str(caught.value) == "No connection adapters were found for 'gopher://host/'"


def test_stream_of_the_session_streams(session: Any, app: AppServer) -> None:
    session.stream = True
    with session.get(app.url + "/bytes/100") as response:
        assert response._content_consumed is False
        assert len(response.content) == 100


def test_elapsed_is_the_time_until_the_head(session: Any, app: AppServer) -> None:
    response = session.get(app.url + "/")
    assert isinstance(response.elapsed, datetime.timedelta)
    assert datetime.timedelta(0) < response.elapsed < datetime.timedelta(seconds=30)


def test_elapsed_does_not_count_the_body(session: Any, app: AppServer) -> None:
    slow = session.get(app.url + f"/drip?n=4&interval={paced(0.05)}")
    assert slow.elapsed < datetime.timedelta(seconds=paced(0.15))
    waited = session.get(app.url + "/delay/0.05")
    assert waited.elapsed >= datetime.timedelta(seconds=0.05)


# -- hooks


def test_a_hook_of_the_request_sees_the_response(requests: Any, app: AppServer) -> None:
    seen = []
    response = requests.get(app.url, hooks={"response": lambda r, **kwargs: seen.append(r)})
    assert seen == [response]


def test_hooks_may_be_a_list_and_run_in_order(session: Any, app: AppServer) -> None:
    seen: list[int] = []
    hooks = [lambda r, **_: seen.append(1), lambda r, **_: seen.append(2)]
    session.get(app.url, hooks={"response": hooks})
    assert seen == [1, 2]


def test_a_hook_may_return_another_response(requests: Any, session: Any, app: AppServer) -> None:
    other = requests.Response()
    other.status_code = 299
    other._content = b"other"
    assert session.get(app.url, hooks={"response": lambda r, **_: other}) is other


def test_each_hook_gets_what_the_one_before_returned(
    requests: Any, session: Any, app: AppServer
) -> None:
    other = requests.Response()
    other._content = b""
    seen = []
    hooks = [lambda r, **_: other, lambda r, **_: seen.append(r)]
    assert session.get(app.url, hooks={"response": hooks}) is other
    assert seen == [other]


def test_hooks_of_the_session_run(session: Any, app: AppServer) -> None:
    seen = []
    session.hooks["response"].append(lambda r, **_: seen.append(r.status_code))
    session.get(app.url)
    assert seen == [200]


def test_a_hook_of_the_session_may_be_a_single_function(session: Any, app: AppServer) -> None:
    seen = []
    session.hooks = {"response": lambda r, **_: seen.append(r.status_code)}
    session.get(app.url)
    assert seen == [200]


def test_hooks_of_the_request_replace_those_of_the_session(session: Any, app: AppServer) -> None:
    seen: list[str] = []
    session.hooks["response"].append(lambda r, **_: seen.append("session"))
    session.get(app.url, hooks={"response": lambda r, **_: seen.append("request")})
    assert seen == ["request"]


@pytest.mark.parametrize("hooks", [None, {}, {"response": []}])
def test_empty_hooks_of_the_request_leave_those_of_the_session(
    session: Any, app: AppServer, hooks: Any
) -> None:
    seen: list[str] = []
    session.hooks["response"].append(lambda r, **_: seen.append("session"))
    session.get(app.url, hooks=hooks)
    assert seen == ["session"]


def test_hooks_run_on_each_hop_with_the_settings(session: Any, app: AppServer) -> None:
    seen = []

    def hook(response: Any, *args: Any, **kwargs: Any) -> None:
        assert args == ()
        seen.append((response.status_code, set(kwargs), kwargs["timeout"], kwargs["verify"]))

    session.get(app.url + "/redirect/2", hooks={"response": hook}, timeout=7, verify=False)
    names = {"timeout", "verify", "proxies", "stream", "cert"}
    assert [row[0] for row in seen] == [302, 302, 200]
    assert all(row[1] >= names and row[2:] == (7, False) for row in seen)


def test_a_hook_may_raise(requests: Any, session: Any, app: AppServer) -> None:
    def hook(response: Any, **_: Any) -> None:
        response.raise_for_status()

    with pytest.raises(requests.HTTPError):
        session.get(app.url + "/status/500", hooks={"response": hook})


def test_a_hook_runs_before_the_body_of_a_stream_is_read(session: Any, app: AppServer) -> None:
    seen = []
    with session.get(
        app.url + "/bytes/10",
        stream=True,
        hooks={"response": lambda r, **_: seen.append(r._content_consumed)},
    ):
        assert seen == [False]


def test_a_hook_may_send_again_and_keep_what_was_before(session: Any, app: AppServer) -> None:
    def again(response: Any, **kwargs: Any) -> Any:
        following = response.request.copy()
        following.url = app.url + "/"
        answer = response.connection.send(following, **kwargs)
        answer.history.append(response)
        return answer

    answer = session.get(app.url + "/cookies/set?a=1", hooks={"response": again})
    assert answer.text == "hello"
    assert [hop.url for hop in answer.history] == [app.url + "/cookies/set?a=1"]
    assert session.cookies.get_dict() == {"a": "1"}


def test_an_unknown_hook_is_an_error(requests: Any) -> None:
    request = requests.Request("GET", "http://x/")
    with pytest.raises(ValueError, match="Unsupported event"):
        request.register_hook("nonsense", print)


# -- auth


def test_auth_of_the_session_goes_out(session: Any, app: AppServer) -> None:
    session.auth = ("u", "p")
    session.get(app.url + "/echo")
    assert app.requests[-1].header("authorization") == basic("u", "p")


def test_auth_of_the_request_beats_that_of_the_session(session: Any, app: AppServer) -> None:
    session.auth = ("u", "p")
    session.get(app.url + "/echo", auth=("v", "q"))
    assert app.requests[-1].header("authorization") == basic("v", "q")


@pytest.mark.usefixtures("netrc")
def test_netrc_is_used_without_other_auth(session: Any, app: AppServer) -> None:
    session.get(app.url + "/echo")
    assert app.requests[-1].header("authorization") == basic("net", "rc")


@pytest.mark.usefixtures("netrc")
def test_auth_of_session_and_request_beat_netrc(session: Any, app: AppServer) -> None:
    session.get(app.url + "/echo", auth=("v", "q"))
    assert app.requests[-1].header("authorization") == basic("v", "q")
    session.auth = ("u", "p")
    session.get(app.url + "/echo")
    assert app.requests[-1].header("authorization") == basic("u", "p")


@pytest.mark.usefixtures("netrc")
def test_netrc_is_not_read_when_the_environment_is_not_trusted(
    session: Any, app: AppServer
) -> None:
    session.trust_env = False
    session.get(app.url + "/echo")
    assert app.requests[-1].header("authorization") is None


@pytest.mark.usefixtures("netrc")
def test_netrc_overwrites_a_header_of_the_caller(session: Any, app: AppServer) -> None:
    session.get(app.url + "/echo", headers={"Authorization": "Bearer x"})
    assert app.requests[-1].header("authorization") == basic("net", "rc")


def test_userinfo_of_the_url_is_the_last_resort(session: Any, app: AppServer) -> None:
    url = app.url.replace("//", "//me:p%40ss@") + "/echo"
    response = session.get(url)
    assert app.requests[-1].header("authorization") == basic("me", "p@ss")
    assert response.url == url
    session.get(url, auth=("v", "q"))
    assert app.requests[-1].header("authorization") == basic("v", "q")


@pytest.mark.usefixtures("netrc")
def test_netrc_beats_userinfo_of_the_url(session: Any, app: AppServer) -> None:
    session.get(app.url.replace("//", "//me:pass@") + "/echo")
    assert app.requests[-1].header("authorization") == basic("net", "rc")


def test_auth_may_be_any_callable(session: Any, app: AppServer) -> None:
    def auth(prepared: Any) -> Any:
        prepared.headers["X-Token"] = prepared.url.rpartition("/")[2]
        return prepared

    session.get(app.url + "/echo", auth=auth)
    assert app.requests[-1].header("x-token") == "echo"


# -- cookies


def test_cookies_of_responses_are_kept_and_sent(session: Any, app: AppServer) -> None:
    response = session.get(app.url + "/cookies/set?a=1&b=2")
    assert response.cookies.get_dict() == {"a": "1", "b": "2"}
    assert session.cookies.get_dict() == {"a": "1", "b": "2"}
    assert session.get(app.url + "/cookies").json()["cookies"] == {"a": "1", "b": "2"}


def test_cookies_of_the_request_are_sent_and_not_kept(session: Any, app: AppServer) -> None:
    answer = session.get(app.url + "/cookies", cookies={"one": "1"}).json()
    assert answer["cookies"] == {"one": "1"}
    assert dict(session.cookies) == {}
    assert session.get(app.url + "/cookies").json()["cookies"] == {}


def test_cookies_of_the_request_join_and_beat_those_of_the_session(
    session: Any, app: AppServer
) -> None:
    session.cookies.update({"a": "session", "b": "session"})
    answer = session.get(app.url + "/cookies", cookies={"b": "request", "c": "request"}).json()
    assert answer["cookies"] == {"a": "session", "b": "request", "c": "request"}
    assert session.cookies["b"] == "session"


def test_cookies_of_the_request_may_be_a_jar(requests: Any, session: Any, app: AppServer) -> None:
    jar = requests.cookies.RequestsCookieJar()
    jar.set("a", "1", domain="127.0.0.1", path="/cookies")
    jar.set("b", "2", domain="elsewhere.example", path="/")
    assert session.get(app.url + "/cookies", cookies=jar).json()["cookies"] == {"a": "1"}


def test_cookies_may_be_a_jar_of_the_standard_library(
    requests: Any, session: Any, app: AppServer
) -> None:
    jar = CookieJar()
    jar.set_cookie(requests.cookies.create_cookie("a", "1"))
    assert session.get(app.url + "/cookies", cookies=jar).json()["cookies"] == {"a": "1"}
    session.cookies = jar
    session.get(app.url + "/cookies/set?b=2")
    assert {cookie.name for cookie in jar} == {"a", "b"}


def test_cookies_of_the_session_may_be_replaced_by_a_dict_jar(
    requests: Any, session: Any, app: AppServer
) -> None:
    session.cookies = requests.utils.cookiejar_from_dict({"a": "1"})
    assert session.get(app.url + "/cookies").json()["cookies"] == {"a": "1"}


def test_an_explicit_cookie_header_wins_over_the_jar(session: Any, app: AppServer) -> None:
    session.cookies["a"] = "jar"
    answer = session.get(app.url + "/cookies", headers={"Cookie": "h=1"}).json()
    assert answer["header"] == "h=1"


def test_a_response_has_only_the_cookies_it_set(session: Any, app: AppServer) -> None:
    session.cookies["before"] = "1"
    assert session.get(app.url + "/cookies/set?a=1").cookies.get_dict() == {"a": "1"}
    assert session.get(app.url + "/").cookies.get_dict() == {}


def test_a_cookie_set_through_send_is_kept(requests: Any, session: Any, app: AppServer) -> None:
    session.send(requests.Request("GET", app.url + "/cookies/set?a=1").prepare())
    assert session.cookies["a"] == "1"


def test_a_deleted_cookie_is_not_sent(session: Any, app: AppServer) -> None:
    session.get(app.url + "/cookies/set?a=1&b=2")
    del session.cookies["a"]
    assert session.get(app.url + "/cookies").json()["cookies"] == {"b": "2"}
    session.cookies.clear()
    assert session.get(app.url + "/cookies").json()["cookies"] == {}


def test_a_cookie_of_another_host_stays_there(requests: Any, session: Any, app: AppServer) -> None:
    session.get(app.url + "/cookies/set?a=1")
    assert session.get(app.at("localhost") + "/cookies").json()["cookies"] == {}


# -- merge_setting, merge_hooks


@pytest.mark.parametrize(
    ("request_setting", "session_setting", "merged"),
    [
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1}, None, {"a": 1}),
        (None, None, None),
        ({"a": 2, "b": 3}, {"a": 1, "c": 4}, {"a": 2, "b": 3, "c": 4}),
        ({"a": None}, {"a": 1, "b": 2}, {"b": 2}),
        ({"x": None}, {"a": 1}, {"a": 1}),
        ({}, {"a": 1}, {"a": 1}),
        (False, True, False),
        ("text", {"a": 1}, "text"),
        ({"a": 1}, "text", {"a": 1}),
        ([("a", 1)], {"b": 2}, [("a", 1)]),
        (0, None, 0),
    ],
)
def test_merge_setting(
    requests: Any, request_setting: Any, session_setting: Any, merged: Any
) -> None:
    assert requests.sessions.merge_setting(request_setting, session_setting) == merged


def test_merge_setting_makes_the_kind_of_dict_that_it_is_given(requests: Any) -> None:
    kind = requests.structures.CaseInsensitiveDict
    merged = requests.sessions.merge_setting({"A": 1}, {"a": 2, "B": 3}, dict_class=kind)
    assert type(merged) is kind
    assert dict(merged) == {"A": 1, "B": 3}
    default = requests.sessions.merge_setting({"z": 1}, {"a": 2})
    assert isinstance(default, OrderedDict)
    assert list(default) == ["a", "z"]


def test_merge_setting_leaves_its_arguments_alone(requests: Any) -> None:
    one, two = {"a": None}, {"a": 1}
    requests.sessions.merge_setting(one, two)
    assert (one, two) == ({"a": None}, {"a": 1})


def test_merge_hooks_prefers_the_request_unless_it_is_empty(requests: Any) -> None:
    merge: Callable[..., Any] = requests.sessions.merge_hooks
    one, two = {"response": [print]}, {"response": [len]}
    assert merge(one, two) == one
    assert merge({"response": []}, two) == two
    assert merge(None, two) == two
    assert merge(one, {"response": []}) == one
    assert merge(one, None) == one


# -- adapters


def test_the_longest_prefix_wins(requests: Any, session: Any) -> None:
    adapters = {
        prefix: requests.adapters.HTTPAdapter()
        for prefix in ("http://", "http://host", "http://host/path", "http://host/")
    }
    for prefix, adapter in adapters.items():
        session.mount(prefix, adapter)
    assert session.get_adapter("http://other/") is adapters["http://"]
    assert session.get_adapter("http://host/path/x") is adapters["http://host/path"]
    assert session.get_adapter("http://host/other") is adapters["http://host/"]
    assert session.get_adapter("http://hostess/") is adapters["http://host"]
    assert list(session.adapters)[0:2] == ["http://host/path", "http://host/"]


def test_prefixes_match_whatever_the_case(requests: Any, session: Any) -> None:
    adapter = requests.adapters.HTTPAdapter()
    session.mount("HTTP://Host/Path", adapter)
    assert session.get_adapter("http://hoST/path/x") is adapter


def test_mounting_again_replaces(requests: Any, session: Any) -> None:
    adapter = requests.adapters.HTTPAdapter()
    session.mount("http://", adapter)
    assert session.get_adapter("http://x/") is adapter
    assert sorted(session.adapters) == ["http://", "https://"]


def test_a_mounted_object_sends(requests: Any, session: Any) -> None:
    class Adapter(requests.adapters.BaseAdapter):  # type: ignore[misc]
        def send(self, request: Any, **kwargs: Any) -> Any:
            response = requests.Response()
            response.status_code = 200
            response.url = request.url
            response._content = b"from " + request.url.encode()
            response.request = request
            return response

        def close(self) -> None:
            pass

    session.mount("mem://", Adapter())
    response = session.get("mem://some/thing?q#f")
    assert response.content == b"from mem://some/thing?q#f"
    assert response.history == []


# -- pickling, subclassing


def test_a_session_can_be_pickled(requests: Any, app: AppServer) -> None:
    session = requests.Session()
    session.headers["X-A"] = "1"
    session.auth = ("u", "p")
    session.params = {"a": "1"}
    session.verify = False
    session.max_redirects = 3
    session.trust_env = False
    session.cookies["c"] = "1"
    session.get(app.url + "/")
    copy = pickle.loads(pickle.dumps(session))
    session.close()
    assert copy.headers == session.headers
    assert copy.auth == ("u", "p")
    assert (copy.verify, copy.max_redirects, copy.trust_env) == (False, 3, False)
    assert copy.cookies.get_dict() == {"c": "1"}
    assert type(copy.cookies) is requests.cookies.RequestsCookieJar
    assert list(copy.adapters) == ["https://", "http://"]
    with copy:
        answer = copy.get(app.url + "/echo").json()
    sent = dict(answer["headers"])
    assert (sent["X-A"], sent["Cookie"], sent["Authorization"]) == ("1", "c=1", basic("u", "p"))
    assert answer["target"] == "/echo?a=1"


def test_a_subclass_may_override_request(requests: Any, app: AppServer) -> None:
    class Session(requests.Session):  # type: ignore[misc]
        def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
            kwargs.setdefault("timeout", 5)
            return super().request(method, app.url + url, *args, **kwargs)

    with Session() as session:
        assert session.get("/echo", params={"a": 1}).json()["target"] == "/echo?a=1"
        assert session.post("/echo", "body").json()["body"] == "body"


def test_a_subclass_may_override_get_adapter(requests: Any) -> None:
    asked = []
    answer = requests.Response()
    answer.status_code = 201
    answer._content = b""

    class Adapter(requests.adapters.BaseAdapter):  # type: ignore[misc]
        def send(self, request: Any, **kwargs: Any) -> Any:
            return answer

        def close(self) -> None:
            pass

    class Session(requests.Session):  # type: ignore[misc]
        def get_adapter(self, url: str) -> Any:
            asked.append(url)
            return Adapter()

    with Session() as session:
        assert session.get("http://anywhere.invalid/x") is answer
    assert asked == ["http://anywhere.invalid/x"]


def test_a_function_uses_the_session_class_that_is_set(
    requests: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Session(requests.Session):  # type: ignore[misc]
        def request(self, *args: Any, **kwargs: Any) -> Any:
            seen.append(kwargs["method"])
            return super().request(*args, **kwargs)

    monkeypatch.setattr(requests.sessions, "Session", Session)
    requests.get(app.url)
    assert seen == ["get"]


def test_a_program_may_put_another_function_in_the_place_of_what_keeps_cookies(
    requests: Any, session: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        requests.sessions, "extract_cookies_to_jar", lambda jar, *rest: seen.append(jar)
    )
    session.get(app.url + "/cookies/set?a=1")
    assert seen == [session.cookies]
    assert not list(session.cookies)
