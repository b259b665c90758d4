"""When urllib3 is imported, and its retries and timeouts, from libcurl's errors."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import urllib3

from curlhttp import ClientRequest, Timeout, requests
from curlhttp import exceptions as e
from curlhttp.requests._core_request import to_timeout
from curlhttp.requests._retries import (
    increment_after_error,
    increment_after_response,
    pause,
    to_retry,
    to_urllib3_error,
)
from curlhttp.requests.adapters import never_retries
from tests.servers import AppServer
from tests.support.internals import run_script

URL = "https://host:8443/path?q=1#f"
SENT = ClientRequest("GET", "https://host:8443/path?q=1")


# --- what loads urllib3 ---


def test_a_program_finds_the_parts_of_urllib3_that_requests_loads() -> None:
    program = """
import curlhttp
curlhttp.alias_requests()
import requests, urllib3
requests.Session()
print(urllib3.contrib.__name__)
"""
    assert run_script(program) == "urllib3.contrib\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        "r.raw.headers",
        "s.adapters['http://'].max_retries",
        "requests.packages.urllib3.util.retry.Retry",
        "from requests.packages.urllib3.util.retry import Retry",
        "r.raw.retries",
        "s.prepare_request(requests.Request('GET', 'HTTP://Host/'))",
    ],
)
def test_urllib3_is_not_loaded_before_it_is_needed(app: AppServer, use: str) -> None:
    program = (
        "import sys, curlhttp; curlhttp.alias_requests(); import requests; "
        f"s = requests.Session(); r = s.get({app.url!r}); r.text; r.headers; r.cookies; "
        "assert 'urllib3' not in sys.modules, 'a plain request loads it'\n"
        f"{use}\n"
        "assert 'urllib3' in sys.modules\n"
        "assert requests.adapters.HTTPAdapter().max_retries.__class__ is "
        "sys.modules['urllib3'].Retry"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert done.returncode == 0, done.stderr


# --- retries, with errors of libcurl's ---


def test_nothing_is_ever_sent_again_by_default() -> None:
    for plain in (0, False, to_retry(0), urllib3.Retry(0, read=False)):
        assert never_retries(plain)
    for other in (1, True, None, urllib3.Retry(0), urllib3.Retry(1, read=False)):
        assert not never_retries(other)
    assert not never_retries(urllib3.Retry(0, read=False, status_forcelist=[500]))
    own = type("Own", (urllib3.Retry,), {"__module__": "own"})
    assert not never_retries(own(0, read=False))


def fail(kind: type[e.RequestException], sent: bool = False, code: int | None = None) -> Any:
    return kind("what happened", request_sent=sent, curl_code=code)


_HANDSHAKE_FAILURE = "SSLV3_ALERT_HANDSHAKE_FAILURE"
TRIED_AGAIN = [
    (fail(e.ConnectTimeout), "connect", "ConnectTimeoutError", e.ConnectTimeout),
    (fail(e.ConnectionError, code=7), "connect", "NewConnectionError", e.ConnectionError),
    (fail(e.ConnectionError, code=6), "connect", "NameResolutionError", e.ConnectionError),
    (fail(e.ProxyError, code=7), "connect", "ProxyError", e.ProxyError),
    (fail(e.ProxyError, True), "other", "ProxyError", e.ProxyError),
    (fail(e.SSLError), "other", "SSLError", e.SSLError),
    (fail(e.ReadTimeout, True), "read", "ReadTimeoutError", e.ConnectionError),
    (fail(e.WriteTimeout, True), "read", "ProtocolError", e.ConnectionError),
    (fail(e.ConnectionError, True), "read", "ProtocolError", e.ConnectionError),
    (fail(e.RemoteProtocolError, True), "read", "ProtocolError", e.RemoteProtocolError),
]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("error:0A00010B:SSL routines::wrong version number)", "WRONG_VERSION_NUMBER"),
        ("error:0A000410:SSL routines::ssl/tls alert handshake failure (1)", _HANDSHAKE_FAILURE),
        ("error:14094410:SSL routines:ssl3_read:sslv3 alert handshake failure", _HANDSHAKE_FAILURE),
        ("words of another library", ""),
    ],
)
def test_a_tls_failure_has_openssls_reason(words: str, reason: str) -> None:
    below: Any = to_urllib3_error(e.SSLError(f"it failed (curl error 35: {words})")).args[0]
    assert (type(below), below.reason) == (ssl.SSLError, reason)
    assert words in str(below)
    assert str(below).startswith(f"[SSL: {reason}]") == bool(reason)


@pytest.mark.parametrize(("error", "count", "reason", "kind"), TRIED_AGAIN)
def test_an_error_is_counted_and_raised_as_urllib3s(
    error: e.RequestException, count: str, reason: str, kind: Any
) -> None:
    retries = urllib3.Retry(2, connect=2, read=2, other=2, status=2)
    fewer = increment_after_error(retries, "GET", URL, error)
    assert {name: getattr(fewer, name) for name in ("total", "connect", "read", "other")} == {
        **dict.fromkeys(("connect", "read", "other"), 2),
        "total": 1,
        count: 1,
    }
    assert fewer.history[0].url == "/path?q=1"
    with pytest.raises(kind) as caught:
        increment_after_error(urllib3.Retry(0), "GET", URL, error)
    raised: Any = caught.value
    assert type(raised) is kind
    given_up = raised.args[0]
    assert isinstance(given_up, urllib3.exceptions.MaxRetryError)
    assert type(given_up.reason) is getattr(urllib3.exceptions, reason)
    assert (given_up.url, given_up.pool.host, given_up.pool.port) == ("/path?q=1", "host", 8443)
    assert str(raised).startswith("HTTPSConnectionPool(host='host', port=8443): Max retries exceed")
    assert "what happened" in str(raised)
    assert raised.__cause__ is error
    assert (raised.curl_code, raised.request_sent) == (error.curl_code, error.request_sent)


@pytest.mark.parametrize(
    ("error", "method", "settings"),
    [
        (fail(e.DeadlineExceeded, True), "GET", {}),
        (fail(e.PoolTimeout), "GET", {}),
        (fail(e.BlockedAddress), "GET", {}),
        (fail(e.CircuitBreakerOpen), "GET", {}),
        (fail(e.InvalidURL), "GET", {}),
        (fail(e.ContentDecodingError, True), "GET", {}),
        (fail(e.ResponseTooLarge, True), "GET", {}),
    ],
)
def test_a_permanent_error_is_raised_unchanged(
    error: e.RequestException, method: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(type(error)) as caught:
        increment_after_error(urllib3.Retry(**{"total": 5, **settings}), method, URL, error)
    assert caught.value is error
    assert error.args == ("what happened",)


@pytest.mark.parametrize(
    ("kind", "sent", "method", "settings", "inner"),
    [
        (e.ConnectionError, True, "POST", {}, "ProtocolError"),
        (e.ReadTimeout, True, "POST", {}, "ReadTimeoutError"),
        (e.ReadTimeout, True, "GET", {"read": False}, "ReadTimeoutError"),
        (e.WriteTimeout, True, "POST", {}, "ProtocolError"),
        (e.ConnectionError, False, "GET", {"connect": False}, "NewConnectionError"),
        (e.ConnectTimeout, False, "GET", {"total": False}, "ConnectTimeoutError"),
    ],
)
def test_an_error_without_retries_is_raised_itself_with_urllib3s_in_it(
    kind: type[e.RequestException],
    sent: bool,
    method: str,
    settings: dict[str, Any],
    inner: str,
) -> None:
    error = fail(kind, sent)
    with pytest.raises(kind, match="what happened") as caught:
        increment_after_error(urllib3.Retry(**{"total": 5, **settings}), method, URL, error)
    assert caught.value is error
    assert type(error.args[0]) is getattr(urllib3.exceptions, inner)


def test_a_body_that_breaks_off_is_the_same_error_with_retries_and_without() -> None:
    error = fail(e.ChunkedEncodingError, True)
    assert increment_after_error(urllib3.Retry(1), "GET", URL, error).total == 0
    for method, retries in (("GET", urllib3.Retry(0)), ("POST", urllib3.Retry(5))):
        with pytest.raises(e.ChunkedEncodingError, match="what happened") as caught:
            increment_after_error(retries, method, URL, error)
        assert caught.value is error


def test_an_exception_of_a_custom_retry_is_raised() -> None:
    class Own(urllib3.Retry):
        def increment(self, *args: Any, **kw: Any) -> Any:
            raise KeyError("own")

    with pytest.raises(KeyError):
        increment_after_error(Own(1), "GET", URL, fail(e.ConnectionError))


def test_something_that_only_works_like_a_retry_will_do() -> None:
    class Alike:
        raise_on_status = True

        def __init__(self, left: int) -> None:
            self.left = left

        def increment(self, method: str, url: str, **kw: Any) -> Alike:
            if not self.left:
                raise kw["error"]
            return Alike(self.left - 1)

        def is_retry(self, *args: Any) -> bool:
            return False

        def sleep(self, response: Any = None) -> None:
            self.slept = True

    error = fail(e.ConnectionError)
    following = increment_after_error(Alike(1), "GET", URL, error)
    assert following.left == 0
    pause(following, None, SENT)
    assert following.slept
    with pytest.raises(e.ConnectionError) as caught:
        increment_after_error(following, "GET", URL, error)
    assert caught.value is error
    assert increment_after_response(Alike(0), "GET", URL, Raw(500)) is None


class Raw:
    def __init__(self, status: int, **headers: str) -> None:
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.is_drained = False

    def get_redirect_location(self) -> bool:
        return False

    def drain_conn(self) -> None:
        self.is_drained = True


def test_a_request_is_retried_until_the_attempts_are_used_up() -> None:
    retries = urllib3.Retry(1, status_forcelist=[500])
    assert increment_after_response(retries, "GET", URL, Raw(200)) is None
    fewer = increment_after_response(retries, "GET", URL, Raw(500))
    assert fewer.history[0][:4] == ("GET", "/path?q=1", None, 500)
    raw = Raw(500)
    with pytest.raises(e.RetryError, match="too many 500 error responses") as caught:
        increment_after_response(fewer, "GET", URL, raw)
    assert raw.is_drained
    assert isinstance(caught.value.args[0], urllib3.exceptions.MaxRetryError)
    assert increment_after_response(fewer.new(raise_on_status=False), "GET", URL, Raw(500)) is None


@pytest.mark.parametrize(
    "value",
    ["x", "9" * 5000, "Fri, 31 Dec 99999 23:59:59 GMT", f"Fri, 31 Dec {'9' * 22} 23:59:59 GMT"],
)
def test_a_retry_after_that_cannot_be_read_is_requests_error(app: AppServer, value: str) -> None:
    app.route("/later", lambda record, conn: conn.reply(503, b"", [("Retry-After", value)]))
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=_AFTER_503))
        with pytest.raises(e.InvalidHeader) as caught:
            session.get(app.url + "/later")
    request: Any = caught.value.request
    assert isinstance(request, requests.PreparedRequest)
    assert caught.value.request_sent


_AFTER_503 = urllib3.Retry(1, status_forcelist=[503])


def test_no_wait_for_another_attempt_outlasts_the_total(app: AppServer) -> None:
    app.route("/later", lambda record, conn: conn.reply(503, b"", [("Retry-After", "3600")]))
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=_AFTER_503))
        with pytest.raises(e.DeadlineExceeded) as caught:
            session.get(app.url + "/later", timeout=Timeout(total=30))
    assert caught.value.request_sent
    assert len(app.requests) == 1


# --- timeouts ---


def parse_timeout(value: Any) -> tuple[float | None, float | None, float | None]:
    found = to_timeout(value)
    return found.connect, found.read, found.total


def test_timeouts_of_all_kinds_become_numbers() -> None:
    kind = urllib3.Timeout
    assert to_timeout(None) == Timeout()
    assert parse_timeout(2) == parse_timeout((2, 2)) == (2, 2, None)
    assert parse_timeout((1, None)) == (1, None, None)
    assert parse_timeout(Timeout(total=9, connect=1, read=None)) == (1, None, 9)
    assert parse_timeout(kind(connect=1, read=2)) == (1, 2, None)
    assert parse_timeout(kind()) == parse_timeout(kind(connect=None)) == (None, None, None)
    # urllib3's total is none of the whole exchange.
    assert parse_timeout(kind(total=3)) == (3, 3, None)
    assert parse_timeout(kind(total=3, connect=1, read=9)) == (1, 3, None)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.5, "1", b"", object()])
def test_an_invalid_timeout_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError):
        parse_timeout(value)
    with pytest.raises(ValueError, match="Invalid timeout"):
        parse_timeout((1, value))


@pytest.mark.parametrize(("method", "attempts"), [("POST", 1), ("GET", 3)])
def test_a_tls_failure_after_the_request_was_sent_does_not_repeat_a_post(
    method: str, attempts: int
) -> None:
    """The server's word on a client certificate comes after the request, with TLS 1.3."""
    retries: Any = urllib3.Retry(total=2)
    made = 0
    with pytest.raises(requests.exceptions.SSLError) as caught:
        while True:
            made += 1
            error = e.SSLError("refused", curl_code=56, request_sent=True)
            retries = increment_after_error(retries, method, "https://host/", error)
    assert made == attempts
    assert "Max retries exceeded" in str(caught.value)
