"""An adapter's max_retries, and timeout=: what is sent again, when, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import AppServer, RawServer, refused_port, stall_at_once
from tests.support.pace import paced


@pytest.fixture
def retrying(session: Any, requests: Any) -> Any:
    """Return a function that gives a session with an adapter of that max_retries."""

    def make(max_retries: Any) -> Any:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=max_retries))
        session.trust_env = False
        return session

    return make


@pytest.fixture
def retry(requests: Any) -> Any:
    """Return the class Retry that code written for requests imports."""
    return requests.packages.urllib3.util.retry.Retry


@pytest.fixture
def dead() -> Iterator[str]:
    """Return the URL of a port where nobody listens."""
    with refused_port() as port:
        yield f"http://127.0.0.1:{port}/x"


def reason(error: BaseException) -> str:
    return type(error.args[0].reason).__name__


@pytest.mark.parametrize(
    ("max_retries", "total", "read"),
    [(0, 0, False), (3, 3, None), (False, 0, False), (None, 3, None)],
)
def test_a_number_of_retries_becomes_a_retry(
    requests: Any, retry: Any, max_retries: Any, total: int, read: Any
) -> None:
    made = requests.adapters.HTTPAdapter(max_retries=max_retries).max_retries
    assert (made.total, made.read, made.connect) == (total, read, None)
    assert isinstance(made, retry)


def test_a_retry_is_taken_as_it_is(requests: Any, retry: Any) -> None:
    own = retry(2)
    assert requests.adapters.HTTPAdapter(max_retries=own).max_retries is own


def test_a_bad_status_is_tried_again_and_given_up(
    requests: Any, retrying: Any, retry: Any, app: AppServer
) -> None:
    session = retrying(retry(2, status_forcelist=[500]))
    with pytest.raises(requests.exceptions.RetryError, match="too many 500 error resp") as caught:
        session.get(app.url + "/status/500")
    assert len(app.requests) == 3
    error = caught.value
    assert type(error.args[0]).__name__ == "MaxRetryError"
    assert reason(error) == "ResponseError"
    assert str(error).startswith(f"HTTPConnectionPool(host='127.0.0.1', port={app.port}): Max ret")


def test_the_last_bad_response_comes_back_where_that_is_asked_for(
    retrying: Any, retry: Any, app: AppServer
) -> None:
    session = retrying(retry(2, status_forcelist=[500], raise_on_status=False))
    got = session.get(app.url + "/status/500")
    assert (got.status_code, len(app.requests)) == (500, 3)
    history = got.raw.retries.history
    assert [(item.method, item.url, item.status) for item in history] == [
        ("GET", "/status/500", 500)
    ] * 2


def test_a_response_after_some_retries_is_whole(retrying: Any, retry: Any, app: AppServer) -> None:
    answers = [503, 500, 200]
    app.route("/moody", lambda record, conn: conn.reply(answers.pop(0), b"body"))
    got = retrying(retry(5, status_forcelist=[500, 503])).get(app.url + "/moody")
    assert (got.status_code, got.content, answers) == (200, b"body", [])
    assert got.raw.retries.total == 3


def test_a_streamed_response_can_be_the_second_one(
    retrying: Any, retry: Any, app: AppServer
) -> None:
    answers = [503, 200]
    app.route("/moody", lambda record, conn: conn.reply(answers.pop(0), b"body"))
    with retrying(retry(1, status_forcelist=[503])).get(app.url + "/moody", stream=True) as got:
        assert b"".join(got.iter_content(2)) == b"body"


@pytest.mark.parametrize(("allowed", "attempts"), [({}, 1), ({"allowed_methods": None}, 2)])
def test_a_post_is_sent_again_only_where_that_is_allowed(
    retrying: Any, retry: Any, app: AppServer, allowed: dict[str, Any], attempts: int
) -> None:
    session = retrying(retry(1, status_forcelist=[500], raise_on_status=False, **allowed))
    assert session.post(app.url + "/status/500", data=b"body").status_code == 500
    assert [record.body for record in app.requests] == [b"body"] * attempts


def test_retry_after_is_followed_even_with_a_number(
    retrying: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    app.route("/later", lambda record, conn: conn.reply(429, b"", [("Retry-After", "7")]))
    assert retrying(2).get(app.url + "/later").status_code == 429
    assert (len(app.requests), naps) == (3, [7, 7])


def test_a_backoff_is_waited_for(
    retrying: Any, retry: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    policy = retry(4, status_forcelist=[500], backoff_factor=0.5, raise_on_status=False)
    retrying(policy).get(app.url + "/status/500")
    assert naps == [1, 2, 4]


def test_a_bad_retry_after_is_an_error(requests: Any, retrying: Any, app: AppServer) -> None:
    app.route("/later", lambda record, conn: conn.reply(503, b"", [("Retry-After", "soon")]))
    with pytest.raises(requests.exceptions.InvalidHeader, match="Invalid Retry-After header: soon"):
        retrying(2).get(app.url + "/later")


@pytest.mark.parametrize("max_retries", [0, 2])
def test_nobody_listening_is_a_connection_error(
    requests: Any, retrying: Any, dead: str, max_retries: int
) -> None:
    with pytest.raises(requests.ConnectionError) as caught:
        retrying(max_retries).get(dead)
    assert type(caught.value) is requests.ConnectionError
    if max_retries:
        assert reason(caught.value) == "NewConnectionError"
        assert "Max retries exceeded with url: /x" in str(caught.value)


def test_no_answer_is_tried_again_for_a_get_alone(requests: Any, retrying: Any, retry: Any) -> None:
    for method, attempts in (("GET", 3), ("POST", 1)):
        with RawServer(read_and_close) as server:
            with pytest.raises(requests.ConnectionError) as caught:
                retrying(retry(2)).request(method, server.url)
            assert len(server.requests) == attempts
            assert type(caught.value) is requests.ConnectionError
            if method == "GET":
                assert reason(caught.value) == "ProtocolError"


def read_and_close(conn: Any) -> None:
    conn.read_request()


@pytest.mark.parametrize(("settings", "attempts"), [({"read": 0}, 1), ({"read": False}, 1)])
def test_no_answer_is_not_tried_again_where_that_is_said(
    requests: Any, retrying: Any, retry: Any, settings: dict[str, Any], attempts: int
) -> None:
    with RawServer(read_and_close) as server:
        with pytest.raises(requests.ConnectionError):
            retrying(retry(2, **settings)).get(server.url)
        assert len(server.requests) == attempts


def test_a_silent_server_is_tried_again(requests: Any, retrying: Any, retry: Any) -> None:
    with RawServer(read_and_stall) as server:
        with pytest.raises(requests.ConnectionError) as caught:
            retrying(retry(1)).get(server.url, timeout=(30, paced(0.05)))
        assert len(server.requests) == 2
        assert reason(caught.value) == "ReadTimeoutError"
        with pytest.raises(requests.ReadTimeout):
            retrying(0).get(server.url, timeout=(30, paced(0.05)))
        with pytest.raises(requests.ReadTimeout):
            retrying(retry(1)).post(server.url, timeout=(30, paced(0.05)))
        assert len(server.requests) == 4


def read_and_stall(conn: Any) -> None:
    conn.read_request()
    stall_at_once(conn)


def test_a_proxy_that_is_not_there_is_a_proxy_error(
    requests: Any, retrying: Any, app: AppServer, dead: str
) -> None:
    with pytest.raises(requests.exceptions.ProxyError) as caught:
        retrying(2).get(app.url, proxies={"http": dead})
    assert reason(caught.value) == "ProxyError"


def test_a_retry_of_ones_own_sees_each_attempt(retrying: Any, retry: Any, app: AppServer) -> None:
    seen: list[Any] = []

    class Watching(retry):  # type: ignore[misc]
        def increment(self, method: Any = None, url: Any = None, *args: Any, **kw: Any) -> Any:
            seen.append((method, url, kw["response"].status))
            return super().increment(method, url, *args, **kw)

    session = retrying(Watching(2, status_forcelist=[500], raise_on_status=False))
    session.get(app.url + "/status/500?q=1")
    assert seen == [("GET", "/status/500?q=1", 500)] * 3


# --- timeout= ---


@pytest.mark.parametrize(
    ("timeout", "message"),
    [
        *[
            (wrong, f"Invalid timeout {wrong}. Pass a (connect, read) timeout tuple, or a single "
                    "float to set both timeouts to the same value.")
            for wrong in [(1, 2, 3), (1,), (), (0, 1), ("a", 1), (True, 1)]
        ],
        ([1, 2], "Timeout value connect was [1, 2], but it must be an int, float or None."),
        ("x", "Timeout value connect was x, but it must be an int, float or None."),
        ({}, "Timeout value connect was {}, but it must be an int, float or None."),
        (True, "Timeout cannot be a boolean value. It must be an int, float or None."),
        (0, "Attempted to set connect timeout to 0, but the timeout cannot be set to a value "
            "less than or equal to 0."),
        (-1, "Attempted to set connect timeout to -1, but the timeout cannot be set to a value "
             "less than or equal to 0."),
    ],
)  # fmt: skip
def test_a_wrong_timeout_is_a_value_error(
    session: Any, app: AppServer, timeout: Any, message: str
) -> None:
    with pytest.raises(ValueError) as caught:
        session.get(app.url, timeout=timeout)
    assert str(caught.value) == message
    assert app.requests == []


def test_true_is_no_timeout_even_after_one(session: Any, app: AppServer) -> None:
    session.get(app.url, timeout=30)
    with pytest.raises(ValueError, match="cannot be a boolean"):
        session.get(app.url, timeout=True)


def test_all_kinds_of_timeouts_are_taken(requests: Any, session: Any, app: AppServer) -> None:
    kind = requests.packages.urllib3.util.timeout.Timeout
    for timeout in (
        None, 30, 30.5, (None, None), (30, None), (None, 30),
        kind(30), kind(connect=30, read=31), kind(),
    ):  # fmt: skip
        assert session.get(app.url, timeout=timeout).ok


@pytest.mark.parametrize("settings", [{"read": 0.05}, {"total": 0.05}])
def test_a_timeout_of_urllib3s_is_kept(
    requests: Any, session: Any, settings: dict[str, float]
) -> None:
    limits = {name: paced(seconds) for name, seconds in settings.items()}
    timeout = requests.packages.urllib3.util.timeout.Timeout(**limits)
    with RawServer(stall_at_once) as server, pytest.raises(requests.ReadTimeout):
        session.get(server.url, timeout=timeout)


def test_a_total_of_urllib3s_bounds_each_wait_and_not_the_body(
    requests: Any, session: Any, app: AppServer
) -> None:
    timeout = requests.packages.urllib3.util.timeout.Timeout(total=paced(0.1))
    url = app.url + f"/drip?n=8&interval={paced(0.03)}"
    assert session.get(url, timeout=timeout).content == b"x" * 8
