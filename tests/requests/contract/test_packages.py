"""requests.packages, and what code takes from urllib3 there: the real one, and our stand-in."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import io
import itertools
import pickle
import re
import socket
import ssl
import sys
import time
import warnings
from typing import Any

import pytest

SHIM = "curlhttp.requests.packages._urllib3"

TOP = [
    "BaseHTTPResponse",
    "HTTPConnectionPool",
    "HTTPHeaderDict",
    "HTTPResponse",
    "HTTPSConnectionPool",
    "PoolManager",
    "ProxyManager",
    "Retry",
    "Timeout",
    "add_stderr_logger",
    "connection_from_url",
    "disable_warnings",
    "encode_multipart_formdata",
    "make_headers",
    "proxy_from_url",
    "exceptions",
    "__version__",
]
UTIL = [
    "Retry",
    "Timeout",
    "Url",
    "parse_url",
    "make_headers",
    "create_urllib3_context",
    "assert_fingerprint",
    "is_fp_closed",
    "resolve_cert_reqs",
    "resolve_ssl_version",
    "SSLContext",
    "SKIP_HEADER",
    "ALPN_PROTOCOLS",
]

# Each name with the class that it is caught as, besides itself.
EXCEPTIONS = {
    "HTTPError": "Exception",
    "HTTPWarning": "Warning",
    "PoolError": "HTTPError",
    "RequestError": "PoolError",
    "SSLError": "HTTPError",
    "ProxyError": "HTTPError",
    "DecodeError": "HTTPError",
    "ProtocolError": "HTTPError",
    "MaxRetryError": "RequestError",
    "HostChangedError": "RequestError",
    "TimeoutStateError": "HTTPError",
    "TimeoutError": "HTTPError",
    "ReadTimeoutError": "TimeoutError RequestError",
    "ConnectTimeoutError": "TimeoutError",
    "NewConnectionError": "ConnectTimeoutError HTTPError",
    "NameResolutionError": "NewConnectionError",
    "EmptyPoolError": "PoolError",
    "FullPoolError": "PoolError",
    "ClosedPoolError": "PoolError",
    "LocationValueError": "ValueError HTTPError",
    "LocationParseError": "LocationValueError",
    "URLSchemeUnknown": "LocationValueError",
    "ResponseError": "HTTPError",
    "SecurityWarning": "HTTPWarning",
    "InsecureRequestWarning": "SecurityWarning",
    "NotOpenSSLWarning": "SecurityWarning",
    "SystemTimeWarning": "SecurityWarning",
    "InsecurePlatformWarning": "SecurityWarning",
    "DependencyWarning": "HTTPWarning",
    "ResponseNotChunked": "ProtocolError ValueError",
    "BodyNotHttplibCompatible": "HTTPError",
    "IncompleteRead": "HTTPError http.client.IncompleteRead",
    "InvalidChunkLength": "HTTPError http.client.IncompleteRead",
    "InvalidHeader": "HTTPError",
    "ProxySchemeUnknown": "AssertionError URLSchemeUnknown",
    "ProxySchemeUnsupported": "ValueError",
    "HeaderParsingError": "HTTPError",
    "UnrewindableBodyError": "HTTPError",
}


@pytest.fixture(params=["as found", "stand-in"])
def urllib3(request: pytest.FixtureRequest, requests: Any) -> Any:
    """Return requests.packages.urllib3, then the stand-in, whether or not it is the same."""
    if request.param == "as found":
        return requests.packages.urllib3
    return importlib.import_module(SHIM)


class Answer:
    """A response as Retry sees it."""

    def __init__(self, status: int, location: str | None = None, **headers: str) -> None:
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.location = location

    def get_redirect_location(self) -> str | bool | None:
        return self.location or False


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of the naps that are asked for; none is taken."""
    taken: list[float] = []
    monkeypatch.setattr(time, "sleep", taken.append)
    return taken


def counts(retry: Any) -> dict[str, Any]:
    names = ("total", "connect", "read", "redirect", "status", "other")
    return {name: value for name in names if (value := getattr(retry, name)) is not None}


def type_named(urllib3: Any, name: str) -> Any:
    if name == "http.client.IncompleteRead":
        return importlib.import_module("http.client").IncompleteRead
    builtin = getattr(importlib.import_module("builtins"), name, None)
    if name in ("TimeoutError", "ConnectionError") or builtin is None:
        return getattr(urllib3.exceptions, name)
    return builtin


# --- requests.packages itself ---


@pytest.mark.parametrize(
    "name",
    [
        "urllib3",
        "urllib3.exceptions",
        "urllib3.util",
        "urllib3.util.retry",
        "urllib3.util.timeout",
        "urllib3.util.ssl_",
        "urllib3.util.connection",
        "urllib3.util.url",
        "urllib3.util.request",
        "urllib3.util.response",
        "urllib3.poolmanager",
        "urllib3.connectionpool",
        "urllib3.connection",
        "urllib3.response",
        "urllib3._collections",
        "urllib3.fields",
        "urllib3.filepost",
        "idna",
        "idna.core",
    ],
)
def test_a_package_is_the_same_by_import_and_by_attribute(requests: Any, name: str) -> None:
    by_import = importlib.import_module(f"{requests.__name__}.packages.{name}")
    by_attribute = requests.packages
    for part in name.split("."):
        by_attribute = getattr(by_attribute, part)
    assert by_import is by_attribute
    assert sys.modules[f"{requests.__name__}.packages.{name}"] is by_import


def test_chardet_is_whichever_detector_is_installed(requests: Any) -> None:
    for name in ("chardet", "charset_normalizer"):
        if importlib.util.find_spec(name) is not None:
            assert requests.packages.chardet is importlib.import_module(name)
            found = importlib.import_module(f"{requests.__name__}.packages.chardet")
            assert found is requests.packages.chardet
            return
    assert requests.packages.chardet is None


def test_installed_urllib3_and_idna_are_what_the_packages_are(requests: Any) -> None:
    pytest.importorskip("urllib3")
    for name in ("urllib3", "urllib3.util.retry", "urllib3.exceptions", "idna"):
        ours = importlib.import_module(f"{requests.__name__}.packages.{name}")
        assert ours is importlib.import_module(name)
        assert ours.__spec__ is not None
        assert ours.__spec__.name == name


def test_a_package_that_is_not_there_is_an_import_error(requests: Any) -> None:
    for name in ("six", "urllib3.util.nothing", "idna.nothing"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"{requests.__name__}.packages.{name}")
    assert not hasattr(requests.packages, "six")


def test_the_top_level_has_the_names_of_urllib3(urllib3: Any) -> None:
    for name in TOP:
        assert getattr(urllib3, name) is not None
    for name in UTIL:
        assert getattr(urllib3.util, name) is not None
    assert urllib3.Retry is urllib3.util.Retry is urllib3.util.retry.Retry
    assert urllib3.Timeout is urllib3.util.timeout.Timeout
    assert not hasattr(urllib3, "nothing")
    assert not hasattr(urllib3.util, "nothing")


def test_warnings_can_be_switched_off(urllib3: Any) -> None:
    kind = urllib3.exceptions.InsecureRequestWarning
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("seen", kind, stacklevel=1)
        urllib3.disable_warnings(kind)
        warnings.warn("not seen", kind, stacklevel=1)
        warnings.warn("seen too", urllib3.exceptions.DependencyWarning, stacklevel=1)
        urllib3.disable_warnings()
        warnings.warn("not seen either", urllib3.exceptions.DependencyWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["seen", "seen too"]


# --- exceptions ---


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_is_caught_as_in_urllib3(urllib3: Any, name: str) -> None:
    kind = getattr(urllib3.exceptions, name)
    for base in EXCEPTIONS[name].split():
        assert issubclass(kind, type_named(urllib3, base))
    assert kind.__name__ == name or name == "HTTPError"


def test_unrelated_exceptions_are_not_mixed_up(urllib3: Any) -> None:
    e = urllib3.exceptions
    assert not issubclass(e.ReadTimeoutError, e.ConnectTimeoutError)
    assert not issubclass(e.SSLError, e.ProtocolError)
    assert not issubclass(e.NewConnectionError, e.PoolError)
    assert not issubclass(e.ProxySchemeUnsupported, e.HTTPError)
    assert e.ConnectionError is e.ProtocolError


def test_exceptions_say_where_and_why(urllib3: Any) -> None:
    e = urllib3.exceptions
    pool = urllib3.HTTPConnectionPool("h", 80)
    given_up = e.MaxRetryError(pool, "/x", ValueError("r"))
    assert str(given_up) == (
        "HTTPConnectionPool(host='h', port=80): Max retries exceeded with url: /x "
        "(Caused by ValueError('r'))"
    )
    assert (given_up.pool, given_up.url, str(given_up.reason)) == (pool, "/x", "r")
    assert e.MaxRetryError(None, "/x").reason is None
    assert str(e.NewConnectionError("conn", "m")) == "conn: m"
    assert str(e.ReadTimeoutError(pool, "/u", "m")) == "HTTPConnectionPool(host='h', port=80): m"
    assert e.ReadTimeoutError(pool, "/u", "m").url == "/u"
    assert str(e.LocationParseError("x")) == "Failed to parse: x"
    assert e.LocationParseError("x").location == "x"
    assert str(e.URLSchemeUnknown("ftp")) == "Not supported URL scheme ftp"
    assert e.URLSchemeUnknown("ftp").scheme == "ftp"
    assert "had no scheme" in str(e.ProxySchemeUnknown(None))
    assert "unsupported scheme x" in str(e.ProxySchemeUnknown("x"))
    assert str(e.IncompleteRead(3, 5)) == "IncompleteRead(3 bytes read, 5 more expected)"
    assert (e.IncompleteRead(3, 5).partial, e.IncompleteRead(3, 5).expected) == (3, 5)
    proxy = e.ProxyError("m", ValueError("z"))
    assert isinstance(proxy.original_error, ValueError)
    assert proxy.args[0] == "m"
    changed = e.HostChangedError(pool, "/u", 2)
    assert (changed.retries, "foreign host" in str(changed)) == (2, True)
    unresolved = e.NameResolutionError("h", "conn", socket.gaierror(-2, "nn"))
    assert str(unresolved) == "conn: Failed to resolve 'h' ([Errno -2] nn)"
    assert "unparsed data: b'x'" in str(e.HeaderParsingError([], b"x"))
    assert e.ResponseError.GENERIC_ERROR == "too many error responses"
    assert e.ResponseError.SPECIFIC_ERROR.format(status_code=5) == "too many 5 error responses"


def test_a_bad_chunk_length_says_how_far_it_got(urllib3: Any) -> None:
    class Body:
        length_remaining = 4

        def tell(self) -> int:
            return 3

    error = urllib3.exceptions.InvalidChunkLength(Body(), b"zz")
    assert (error.partial, error.expected, error.length) == (3, 4, b"zz")
    assert "b'zz'" in str(error)


def test_exceptions_survive_pickle(urllib3: Any) -> None:
    e = urllib3.exceptions
    pool = urllib3.HTTPConnectionPool("h", 80)
    for error in (
        e.PoolError(pool, "m"),
        e.MaxRetryError(pool, "/x"),
        e.ReadTimeoutError(pool, "/x", "m"),
        e.NewConnectionError(pool, "m"),
        e.NameResolutionError("h", pool, socket.gaierror(-2, "nn")),
        e.IncompleteRead(3, 5),
        e.ProtocolError("a", "b"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again).rpartition(":")[2] == str(error).rpartition(":")[2]
    assert pickle.loads(pickle.dumps(e.MaxRetryError(pool, "/x"))).url == "/x"


# --- Retry ---


def test_retry_has_the_defaults_of_urllib3(urllib3: Any) -> None:
    retry = urllib3.Retry()
    assert counts(retry) == {"total": 10}
    assert retry.allowed_methods == {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"}
    assert retry.status_forcelist == set()
    assert (retry.backoff_factor, retry.backoff_max, retry.backoff_jitter) == (0, 120, 0)
    assert (retry.raise_on_redirect, retry.raise_on_status) == (True, True)
    assert (retry.history, retry.respect_retry_after_header) == ((), True)
    assert retry.remove_headers_on_redirect == {"authorization", "cookie", "proxy-authorization"}
    assert {413, 429, 503} == urllib3.Retry.RETRY_AFTER_STATUS_CODES
    assert retry.allowed_methods == urllib3.Retry.DEFAULT_ALLOWED_METHODS
    assert urllib3.Retry.DEFAULT.total == 3
    assert repr(retry) == "Retry(total=10, connect=None, read=None, redirect=None, status=None)"


def test_retry_takes_its_arguments_by_position_too(urllib3: Any) -> None:
    retry = urllib3.Retry(1, 2, 3, 4, 5, 6, ["X"], [7], 8, 9, False, False)
    assert counts(retry) == {
        "total": 1, "connect": 2, "read": 3, "redirect": 4, "status": 5, "other": 6,
    }  # fmt: skip
    assert (retry.allowed_methods, retry.status_forcelist) == (["X"], [7])
    assert (retry.backoff_factor, retry.backoff_max) == (8, 9)
    assert (retry.raise_on_redirect, retry.raise_on_status) == (False, False)


def test_retry_refuses_the_names_of_urllib3_1(urllib3: Any) -> None:
    with pytest.raises(TypeError, match="method_whitelist"):
        urllib3.Retry(method_whitelist=["GET"])


def test_retry_with_false_leaves_redirects_alone(urllib3: Any) -> None:
    for retry in (urllib3.Retry(False), urllib3.Retry(5, redirect=False)):
        assert (retry.redirect, retry.raise_on_redirect) == (0, False)


def test_a_new_retry_differs_only_where_it_is_told_to(urllib3: Any) -> None:
    class Own(urllib3.Retry):  # type: ignore[misc]
        pass

    retry = Own(4, status_forcelist=[500], backoff_factor=2, remove_headers_on_redirect=["X-A"])
    new = retry.new(total=3, read=1)
    assert type(new) is Own
    assert counts(new) == {"total": 3, "read": 1}
    assert (new.status_forcelist, new.backoff_factor) == ([500], 2)
    assert new.remove_headers_on_redirect == {"x-a"}
    assert counts(retry) == {"total": 4}
    with pytest.raises(TypeError):
        retry.new(nothing=1)


def test_retry_from_a_number(urllib3: Any) -> None:
    from_int = urllib3.Retry.from_int
    retry = urllib3.Retry(7)
    assert from_int(retry) is retry
    assert counts(from_int(5)) == {"total": 5}
    assert counts(from_int(5, redirect=False)) == {"total": 5, "redirect": 0}
    assert counts(from_int(None)) == {"total": 3}
    assert counts(from_int(None, default=2)) == {"total": 2}
    assert from_int(False).total is False


@pytest.mark.parametrize(
    ("kind", "method", "spent"),
    [
        ("connect", "GET", "connect"),
        ("connect", "POST", "connect"),
        ("refused", "POST", "connect"),
        ("unresolved", "GET", "connect"),
        ("proxy refused", "POST", "connect"),
        ("proxy broke", "POST", "other"),
        ("read", "GET", "read"),
        ("protocol", "GET", "read"),
        ("tls", "POST", "other"),
        ("anything", "POST", "other"),
    ],
)
def test_an_error_is_counted_by_its_kind(urllib3: Any, kind: str, method: str, spent: str) -> None:
    five = dict.fromkeys(("total", "connect", "read", "redirect", "status", "other"), 5)
    error = errors(urllib3)[kind]
    retry = urllib3.Retry(**five).increment(method, "/x", error=error)
    assert counts(retry) == {**five, "total": 4, spent: 4}
    assert retry.history == ((method, "/x", error, None, None),)
    assert retry.history[0].error is error


def errors(urllib3: Any) -> dict[str, Exception]:
    e = urllib3.exceptions
    refused = e.NewConnectionError("conn", "refused")
    return {
        "connect": e.ConnectTimeoutError("slow"),
        "refused": refused,
        "unresolved": e.NameResolutionError("h", "conn", socket.gaierror(-2, "nn")),
        "proxy refused": e.ProxyError("m", refused),
        "proxy broke": e.ProxyError("m", OSError("x")),
        "read": e.ReadTimeoutError(None, "/x", "slow"),
        "protocol": e.ProtocolError("x"),
        "tls": e.SSLError("x"),
        "anything": ValueError("x"),
    }


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("read", {"read": False}),
        ("protocol", {"read": False}),
        ("connect", {"connect": False}),
        ("proxy refused", {"connect": False}),
        ("anything", {"total": False}),
        ("tls", {"total": False}),
    ],
)
def test_an_error_that_is_not_to_be_counted_comes_as_it_is(
    urllib3: Any, kind: str, settings: dict[str, Any]
) -> None:
    error = errors(urllib3)[kind]
    with pytest.raises(type(error)) as caught:
        urllib3.Retry(**settings).increment("GET", "/x", error=error)
    assert caught.value is error


@pytest.mark.parametrize("method", ["POST", "PATCH", None])
def test_what_may_have_arrived_is_not_sent_again(urllib3: Any, method: str | None) -> None:
    error = errors(urllib3)["protocol"]
    with pytest.raises(type(error)) as caught:
        urllib3.Retry(5).increment(method, "/x", error=error)
    assert caught.value is error
    anything = urllib3.Retry(5, allowed_methods=None)
    assert anything.increment("POST", "/x", error=error).total == 4


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("connect", {"total": 0}),
        ("connect", {"connect": 0}),
        ("read", {"read": 0}),
        ("anything", {"other": 0}),
        ("anything", {"other": False}),
    ],
)
def test_the_last_error_is_the_reason_for_giving_up(
    urllib3: Any, kind: str, settings: dict[str, Any]
) -> None:
    error = errors(urllib3)[kind]
    with pytest.raises(urllib3.exceptions.MaxRetryError) as caught:
        urllib3.Retry(**settings).increment("GET", "/x", error=error, _pool="pool")
    assert caught.value.reason is caught.value.__cause__ is error
    assert (caught.value.url, caught.value.pool) == ("/x", "pool")


def test_a_total_of_none_never_runs_out(urllib3: Any) -> None:
    retry = urllib3.Retry(None)
    for _ in range(3):
        retry = retry.increment("GET", "/x", error=errors(urllib3)["connect"])
    assert counts(retry) == {}
    assert len(retry.history) == 3
    assert not retry.is_exhausted()


def test_statuses_and_redirects_are_counted(urllib3: Any) -> None:
    retry = urllib3.Retry(5, status=5, redirect=5)
    after_status = retry.increment("GET", "/x", response=Answer(500))
    assert counts(after_status) == {"total": 4, "status": 4, "redirect": 5}
    assert after_status.history == (("GET", "/x", None, 500, None),)
    after_redirect = retry.increment("GET", "/x", response=Answer(302, "/y"))
    assert counts(after_redirect) == {"total": 4, "status": 5, "redirect": 4}
    assert after_redirect.history == (("GET", "/x", None, 302, "/y"),)
    assert counts(retry.increment("GET", "/x")) == {"total": 4, "status": 5, "redirect": 5}


@pytest.mark.parametrize(
    ("settings", "answer", "reason"),
    [
        ({"total": 0}, Answer(500), "too many 500 error responses"),
        ({"status": 0}, Answer(503), "too many 503 error responses"),
        ({"total": False}, Answer(500), "too many 500 error responses"),
        ({"redirect": 0}, Answer(302, "/y"), "too many redirects"),
        ({"total": 0}, None, "too many error responses"),
    ],
)
def test_too_many_bad_answers_are_an_error(
    urllib3: Any, settings: dict[str, Any], answer: Answer | None, reason: str
) -> None:
    with pytest.raises(urllib3.exceptions.MaxRetryError) as caught:
        urllib3.Retry(**settings).increment("GET", "/x", response=answer)
    assert isinstance(caught.value.reason, urllib3.exceptions.ResponseError)
    assert str(caught.value.reason) == reason


@pytest.mark.parametrize(
    ("settings", "method", "status", "has_retry_after", "expected"),
    [
        ({"status_forcelist": [500]}, "GET", 500, False, True),
        ({"status_forcelist": [500]}, "get", 500, False, True),
        ({"status_forcelist": [500]}, "POST", 500, False, False),
        ({"status_forcelist": [500]}, "GET", 502, False, False),
        ({"status_forcelist": [500], "total": 0}, "GET", 500, False, True),
        ({"status_forcelist": [500], "allowed_methods": None}, "POST", 500, False, True),
        ({"status_forcelist": [500], "allowed_methods": ["POST"]}, "POST", 500, False, True),
        ({"status_forcelist": [500], "allowed_methods": ["POST"]}, "GET", 500, False, False),
        ({}, "GET", 429, True, True),
        ({}, "GET", 429, False, False),
        ({}, "GET", 404, True, False),
        ({}, "POST", 429, True, False),
        ({"total": 0}, "GET", 429, True, False),
        ({"total": None}, "GET", 429, True, False),
        ({"respect_retry_after_header": False}, "GET", 429, True, False),
    ],
)
def test_which_answers_call_for_another_attempt(
    urllib3: Any,
    settings: dict[str, Any],
    method: str,
    status: int,
    has_retry_after: bool,
    expected: bool,
) -> None:
    assert urllib3.Retry(**settings).is_retry(method, status, has_retry_after) is expected


def test_a_count_below_zero_is_exhausted(urllib3: Any) -> None:
    assert urllib3.Retry(-1).is_exhausted()
    assert urllib3.Retry(None, other=-1).is_exhausted()
    for retry in (urllib3.Retry(0), urllib3.Retry(None), urllib3.Retry(False, read=False)):
        assert not retry.is_exhausted()


def test_waits_double_from_the_second_failure_on(urllib3: Any) -> None:
    retry = urllib3.Retry(20, backoff_factor=0.5)
    waits = []
    for _ in range(11):
        waits.append(retry.get_backoff_time())
        retry = retry.increment("GET", "/x", error=ValueError())
    assert waits == [0, 0, 1, 2, 4, 8, 16, 32, 64, 120, 120]
    assert retry.new(backoff_max=3).get_backoff_time() == 3
    redirected = retry.increment("GET", "/x", response=Answer(302, "/y"))
    assert redirected.get_backoff_time() == 0


def test_jitter_is_added_to_a_wait(urllib3: Any) -> None:
    retry = urllib3.Retry(9, backoff_factor=1, backoff_jitter=5, history=("a", "b"))
    retry = urllib3.Retry(9, backoff_factor=1, backoff_jitter=5)
    for _ in range(2):
        retry = retry.increment("GET", "/x", response=Answer(500))
    waits = {retry.get_backoff_time() for _ in range(50)}
    assert len(waits) > 10
    assert all(2 <= wait <= 7 for wait in waits)
    assert retry.new(backoff_max=1).get_backoff_time() == 1


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ("5", 5),
        (" 5 ", 5),
        ("0", 0),
        ("99999999", 21600),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0),
        ("Thu, 01 Jan 2099 00:00:00 GMT", 21600),
    ],
)
def test_retry_after_is_seconds_or_a_date(urllib3: Any, field: str, seconds: int) -> None:
    assert urllib3.Retry().parse_retry_after(field) == seconds
    assert urllib3.Retry().get_retry_after(Answer(503, Retry_After=field)) == seconds
    assert urllib3.Retry().get_retry_after(Answer(503)) is None


@pytest.mark.parametrize("field", ["x", "", "-5", "+5", "5.5", "\u0665"])
def test_a_retry_after_of_neither_kind_is_an_error(urllib3: Any, field: str) -> None:
    with pytest.raises(urllib3.exceptions.InvalidHeader, match="Invalid Retry-After header: "):
        urllib3.Retry().parse_retry_after(field)


def test_retry_after_comes_before_the_backoff(urllib3: Any, naps: list[float]) -> None:
    retry = urllib3.Retry(9, backoff_factor=1)
    retry.sleep()
    assert naps == []
    for _ in range(2):
        retry = retry.increment("GET", "/x", response=Answer(500))
    retry.sleep()
    retry.sleep(Answer(503, Retry_After="7"))
    retry.sleep(Answer(503))
    retry.sleep(Answer(503, Retry_After="0"))
    retry.new(respect_retry_after_header=False).sleep(Answer(503, Retry_After="9"))
    assert naps == [2, 7, 2, 2, 2]
    assert retry.sleep_for_retry(Answer(503, Retry_After="1")) is True
    assert retry.sleep_for_retry(Answer(503)) is False


def test_a_retry_survives_pickle_and_copies(urllib3: Any) -> None:
    retry = urllib3.Retry(4, status_forcelist=[1]).increment("GET", "/x", response=Answer(500))
    for again in (pickle.loads(pickle.dumps(retry)), copy.deepcopy(retry)):
        assert vars(again) == vars(retry)


# --- Timeout ---


def test_a_timeout_has_its_limits(urllib3: Any) -> None:
    both = urllib3.Timeout(connect=2, read=7)
    assert (both.connect_timeout, both.read_timeout, both.total) == (2, 7, None)
    same = urllib3.Timeout.from_float(4)
    assert (same.connect_timeout, same.read_timeout) == (4, 4)
    bounded = urllib3.Timeout(total=5, connect=9, read=7)
    assert (bounded.connect_timeout, bounded.total) == (5, 5)
    none = urllib3.Timeout(connect=None, read=None)
    assert (none.connect_timeout, none.read_timeout) == (None, None)
    assert repr(both) == str(both) == "Timeout(connect=2, read=7, total=None)"
    assert repr(both.clone()) == repr(both)
    assert both.clone() is not both
    assert urllib3.Timeout(5).connect_timeout == 5
    default = urllib3.Timeout.DEFAULT_TIMEOUT
    assert urllib3.Timeout().connect_timeout is default
    assert urllib3.Timeout.resolve_default_timeout(default) is socket.getdefaulttimeout()
    assert urllib3.Timeout.resolve_default_timeout(3) == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "Timeout cannot be a boolean value. It must be an int, float or None."),
        ("x", "Timeout value {} was x, but it must be an int, float or None."),
        ("3", "Timeout value {} was 3, but it must be an int, float or None."),
        ([1], "Timeout value {} was [1], but it must be an int, float or None."),
        (0, "Attempted to set {} timeout to 0, but the timeout cannot be set to a value less "
            "than or equal to 0."),
        (-1, "Attempted to set {} timeout to -1, but the timeout cannot be set to a value less "
             "than or equal to 0."),
    ],
)  # fmt: skip
def test_a_limit_is_a_positive_number(urllib3: Any, value: Any, message: str) -> None:
    for name in ("connect", "read", "total"):
        with pytest.raises(ValueError, match="^" + re.escape(message.format(name)) + "$"):
            urllib3.Timeout(**{name: value})


def test_a_total_needs_a_clock_that_runs(urllib3: Any) -> None:
    timeout = urllib3.Timeout(5)
    for ask in (lambda: timeout.read_timeout, timeout.get_connect_duration):
        with pytest.raises(urllib3.exceptions.TimeoutStateError):
            ask()
    timeout.start_connect()
    assert 4 < timeout.read_timeout <= 5
    assert 0 <= timeout.get_connect_duration() < 1
    with pytest.raises(urllib3.exceptions.TimeoutStateError):
        timeout.start_connect()
    bounded = urllib3.Timeout(total=5, read=2)
    assert bounded.read_timeout == 2
    bounded.start_connect()
    assert bounded.read_timeout == 2


# --- HTTPHeaderDict ---


@pytest.fixture
def headers(urllib3: Any) -> Any:
    made = urllib3.HTTPHeaderDict({"A": "1"}, b="2")
    made.add("a", "3")
    made.add("Set-Cookie", "x=1")
    made.add("set-cookie", "y=2")
    return made


def test_repeated_fields_are_joined_and_apart(headers: Any) -> None:
    assert headers["a"] == headers.get("A") == "1, 3"
    for name in ("getlist", "getheaders", "getallmatchingheaders", "iget", "get_all"):
        assert getattr(headers, name)("SET-COOKIE") == ["x=1", "y=2"]
    assert headers.getlist("nothing") == []
    assert headers.getlist("nothing", None) is None
    assert headers.get("nothing") is None
    fields = [("A", "1"), ("A", "3"), ("b", "2"), ("Set-Cookie", "x=1"), ("Set-Cookie", "y=2")]
    assert list(headers.items()) == list(headers.iteritems()) == fields
    assert len(headers.items()) == 5
    assert ("a", "3") in headers.items()
    assert ("a", "4") not in headers.items()
    assert list(headers.itermerged()) == [("A", "1, 3"), ("b", "2"), ("Set-Cookie", "x=1, y=2")]
    assert dict(headers) == {"A": "1, 3", "b": "2", "Set-Cookie": "x=1, y=2"}
    assert list(headers) == ["A", "b", "Set-Cookie"]
    assert list(headers.values()) == ["1, 3", "2", "x=1, y=2"]
    assert len(headers) == 3
    assert repr(headers) == f"HTTPHeaderDict({dict(headers)})"


def test_a_field_can_be_set_and_removed(headers: Any) -> None:
    headers["SET-cookie"] = "z"
    assert headers.getlist("set-cookie") == ["z"]
    assert "SET-cookie" in list(headers)
    del headers["A"]
    assert "a" not in headers
    assert 5 not in headers
    for name in ("a", "nothing"):
        with pytest.raises(KeyError):
            del headers[name]
        with pytest.raises(KeyError):
            headers[name]
    headers.discard("b")
    headers.discard("b")
    assert headers.setdefault("New") == ""
    assert headers.setdefault("new", "other") == ""
    assert headers.pop("nothing", 3) == 3
    assert headers.pop("new") == ""
    assert list(headers) == ["SET-cookie"]
    headers.clear()
    assert not headers


def test_a_value_can_be_combined_with_the_last_one(headers: Any) -> None:
    headers.add("a", "9", combine=True)
    headers.add("new", "1", combine=True)
    assert headers.getlist("a") == ["1", "3, 9"]
    assert headers.getlist("new") == ["1"]


def test_fields_come_from_all_kinds_of_sources(urllib3: Any) -> None:
    made = urllib3.HTTPHeaderDict([("p", "1"), ("P", "2")])
    made.extend({"p": "3"}, q="4")
    made.extend(urllib3.HTTPHeaderDict(p="5"))

    class Keyed:
        def keys(self) -> list[str]:
            return ["p"]

        def __getitem__(self, name: str) -> str:
            return "6"

    made.extend(Keyed())
    assert made.getlist("p") == ["1", "2", "3", "5", "6"]
    assert made.getlist("q") == ["4"]
    assert urllib3.HTTPHeaderDict(made).getlist("p") == ["1", "2", "3", "5", "6"]
    made.update({"P": "7"})
    assert made.getlist("p") == ["7"]
    with pytest.raises(TypeError):
        made.extend({}, {})


def test_headers_are_compared_whatever_the_case(urllib3: Any, headers: Any) -> None:
    assert headers == {"a": "1, 3", "B": "2", "set-cookie": "x=1, y=2"}
    assert headers == headers.copy()
    assert headers != {"a": "1"}
    assert headers != 5
    assert urllib3.HTTPHeaderDict(a="1") == [("A", "1")]
    with pytest.raises(TypeError):
        hash(headers)


def test_copies_of_headers_are_their_own(headers: Any) -> None:
    for twin in (headers.copy(), pickle.loads(pickle.dumps(headers)), copy.deepcopy(headers)):
        assert twin == headers
        assert type(twin) is type(headers)
        twin.add("a", "new")
        assert headers.getlist("a") == ["1", "3"]


def test_headers_are_joined_by_a_bar(headers: Any) -> None:
    assert (headers | {"A": "9"}).getlist("a") == ["1", "3", "9"]
    assert ({"A": "9", "k": "v"} | headers).getlist("a") == ["9", "1", "3"]
    assert headers.getlist("a") == ["1", "3"]
    headers |= {"A": "9"}
    assert headers.getlist("a") == ["1", "3", "9"]
    with pytest.raises(TypeError):
        headers | 5


def test_a_container_lets_go_of_what_was_used_least(urllib3: Any) -> None:
    gone: list[int] = []
    kept = urllib3._collections.RecentlyUsedContainer(2, gone.append)
    kept["a"], kept["b"] = 1, 2
    assert kept["a"] == 1
    kept["c"] = 3
    assert (gone, kept.keys(), len(kept)) == ([2], {"a", "c"}, 2)
    kept["a"] = 9
    del kept["a"]
    kept.clear()
    assert gone == [2, 1, 9, 3]
    with pytest.raises(NotImplementedError):
        iter(kept)


# --- util ---


@pytest.mark.parametrize(
    ("url", "parts", "text"),
    [
        ("http://google.com/mail/", ("http", None, "google.com", None, "/mail/", None, None), None),
        ("google.com:80", (None, None, "google.com", 80, None, None, None), None),
        ("google.com/foo?bar", (None, None, "google.com", None, "/foo", "bar", None), None),
        ("http://u:p@H.com:8080/a b?c=d#e", ("http", "u:p", "h.com", 8080, "/a%20b", "c=d", "e"),
         "http://u:p@h.com:8080/a%20b?c=d#e"),
        ("", (None,) * 7, None),
        ("/path", (None, None, None, None, "/path", None, None), None),
        ("http://[::1]:80/", ("http", None, "[::1]", 80, "/", None, None), None),
        ("HTTP://EX.com/%7e?x= y", ("http", None, "ex.com", None, "/%7E", "x=%20y", None),
         "http://ex.com/%7E?x=%20y"),
        ("//h/p", (None, None, "h", None, "/p", None, None), "h/p"),
        ("http://h/../a/./b/..", ("http", None, "h", None, "/a/", None, None), "http://h/a/"),
        ("http://\xfc.de/", ("http", None, "xn--tda.de", None, "/", None, None),
         "http://xn--tda.de/"),
        ("user@h", (None, "user", "h", None, None, None, None), None),
        ("http://h?q", ("http", None, "h", None, "", "q", None), None),
        ("http://h:/", ("http", None, "h", None, "/", None, None), "http://h/"),
        ("ftp://h/%zz", ("ftp", None, "h", None, "/%zz", None, None), None),
        ("http://h/a%2fb", ("http", None, "h", None, "/a%2Fb", None, None), "http://h/a%2Fb"),
        ("http://[fe80::1%25en0]/", ("http", None, "[fe80::1%en0]", None, "/", None, None),
         "http://[fe80::1%en0]/"),
        ("http://@h/", ("http", None, "h", None, "/", None, None), "http://h/"),
        ("http://h/?", ("http", None, "h", None, "/", "", None), None),
    ],
)  # fmt: skip
def test_a_url_is_taken_apart(urllib3: Any, url: str, parts: tuple[Any, ...], text: Any) -> None:
    parsed = urllib3.util.parse_url(url)
    assert parsed == parts
    assert str(parsed) == parsed.url == (url if text is None else text)


@pytest.mark.parametrize("url", ["http://x:y/", "http://a:99999/", "http://a b/"])
def test_a_bad_url_is_an_error(urllib3: Any, url: str) -> None:
    with pytest.raises(urllib3.exceptions.LocationParseError):
        urllib3.util.parse_url(url)


def test_the_parts_of_a_url_are_put_together(urllib3: Any) -> None:
    url = urllib3.util.Url("HTTP", "a:b%20c", "h", 80, "p", "q", "f")
    assert url.url == "http://a:b%20c@h:80/p?q#f"
    assert (url.hostname, url.netloc, url.authority) == ("h", "h:80", "a:b%20c@h:80")
    assert url.request_uri == "/p?q"
    assert (url.auth_decoded, url.auth_decoded_joined) == (("a", "b c"), "a:b c")
    empty = urllib3.util.Url()
    assert (empty.url, empty.request_uri, empty.netloc) == ("", "/", None)
    assert (empty.auth_decoded, empty.auth_decoded_joined) == ((None, None), None)


def test_header_fields_are_made_from_keywords(urllib3: Any) -> None:
    make = urllib3.util.make_headers
    assert make() == {}
    assert make(keep_alive=True) == {"connection": "keep-alive"}
    assert make(accept_encoding=["a", "b"]) == {"accept-encoding": "a,b"}
    assert make(accept_encoding="x") == {"accept-encoding": "x"}
    assert make(accept_encoding=True)["accept-encoding"].startswith("gzip,deflate")
    assert make(user_agent="me", disable_cache=True) == {
        "user-agent": "me",
        "cache-control": "no-cache",
    }
    assert make(basic_auth="u:p") == {"authorization": "Basic dTpw"}
    assert make(proxy_basic_auth="u:\xfc") == {"proxy-authorization": "Basic dTr8"}


def test_ipv6_can_be_switched_off(urllib3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = urllib3.util.connection
    monkeypatch.setattr(connection, "HAS_IPV6", True)
    assert connection.allowed_gai_family() == socket.AF_UNSPEC
    monkeypatch.setattr(connection, "HAS_IPV6", False)
    assert connection.allowed_gai_family() == socket.AF_INET


@pytest.mark.filterwarnings("ignore:.*ssl_version:FutureWarning", "ignore::DeprecationWarning")
def test_a_tls_context_checks_certificates(urllib3: Any) -> None:
    make = urllib3.util.ssl_.create_urllib3_context
    context = make()
    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.options & ssl.OP_NO_TICKET
    unchecked = make(cert_reqs=ssl.CERT_NONE)
    assert (unchecked.verify_mode, unchecked.check_hostname) == (ssl.CERT_NONE, False)
    assert len(make(ciphers="ECDHE+AESGCM").get_ciphers()) < len(context.get_ciphers())
    assert not make(options=0).options & ssl.OP_NO_TICKET
    newest = make(ssl_minimum_version=ssl.TLSVersion.TLSv1_3)
    assert newest.minimum_version == ssl.TLSVersion.TLSv1_3
    only = make(ssl_version=ssl.PROTOCOL_TLSv1_2)
    assert only.minimum_version == only.maximum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(ValueError, match="Can't specify both"):
        make(ssl_version=ssl.PROTOCOL_TLSv1_2, ssl_minimum_version=ssl.TLSVersion.TLSv1_3)


def test_names_of_tls_settings_are_resolved(urllib3: Any) -> None:
    ssl_ = urllib3.util.ssl_
    assert ssl_.resolve_cert_reqs(None) == ssl.CERT_REQUIRED
    assert ssl_.resolve_cert_reqs("CERT_NONE") == ssl.CERT_NONE
    assert ssl_.resolve_cert_reqs("REQUIRED") == ssl.CERT_REQUIRED
    assert ssl_.resolve_cert_reqs(0) == 0
    assert ssl_.resolve_ssl_version(None) == ssl.PROTOCOL_TLS
    assert ssl_.resolve_ssl_version("TLSv1_2") == ssl.PROTOCOL_TLSv1_2
    assert [ssl_.is_ipaddress(host) for host in ("1.2.3.4", b"::1", "fe80::1%en0", "h")] == [
        True,
        True,
        True,
        False,
    ]


def test_a_certificate_is_known_by_its_digest(urllib3: Any) -> None:
    check = urllib3.util.ssl_.assert_fingerprint
    digest = "06298432e8066b29e2223bcc23aa9504b56ae508fabf3435508869b9c3190e22"
    check(b"cert", digest)
    check(b"cert", ":".join(re.findall("..", digest.upper())))
    for cert, fingerprint in ((b"cert", "a" * 64), (b"cert", "aa"), (None, digest)):
        with pytest.raises(urllib3.exceptions.SSLError):
            check(cert, fingerprint)


def test_whether_a_file_is_closed(urllib3: Any) -> None:
    file = io.BytesIO()
    assert not urllib3.util.is_fp_closed(file)
    file.close()
    assert urllib3.util.is_fp_closed(file)
    with pytest.raises(ValueError, match="Unable to determine"):
        urllib3.util.is_fp_closed(5)


# --- forms ---


def test_a_form_is_encoded(urllib3: Any) -> None:
    body, content_type = urllib3.encode_multipart_formdata(
        {"a": "b", "c": ("f.txt", b"data"), "d": ('\xfc".x', "x", "text/q"), "e": 5}, boundary="BB"
    )
    assert content_type == "multipart/form-data; boundary=BB"
    assert (
        body
        == (
            '--BB\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n'
            '--BB\r\nContent-Disposition: form-data; name="c"; filename="f.txt"\r\n'
            "Content-Type: text/plain\r\n\r\ndata\r\n"
            '--BB\r\nContent-Disposition: form-data; name="d"; filename="\xfc%22.x"\r\n'
            "Content-Type: text/q\r\n\r\nx\r\n"
            '--BB\r\nContent-Disposition: form-data; name="e"\r\n\r\n5\r\n--BB--\r\n'
        ).encode()
    )
    _, content_type = urllib3.encode_multipart_formdata([])
    assert re.fullmatch("multipart/form-data; boundary=[0-9a-f]{32}", content_type)


def test_a_field_of_a_form_renders_its_headers(urllib3: Any) -> None:
    kind = urllib3.fields.RequestField
    field = kind("n", "d", filename="f.txt", headers={"X-A": "1", "Content-Type": "x"})
    assert field.render_headers() == "Content-Type: x\r\nX-A: 1\r\n\r\n"
    body, _ = urllib3.encode_multipart_formdata([field], boundary="B")
    assert body == b"--B\r\nContent-Type: x\r\nX-A: 1\r\n\r\nd\r\n--B--\r\n"
    field.make_multipart(content_type="t/p", content_location="/l")
    assert field.render_headers() == (
        'Content-Disposition: form-data; name="n"; filename="f.txt"\r\n'
        "Content-Type: t/p\r\nContent-Location: /l\r\nX-A: 1\r\n\r\n"
    )
    guessed = kind.from_tuples("n", ("f.png", b"x"))
    assert guessed.headers["Content-Type"] == "image/png"
    assert urllib3.fields.guess_content_type(None) == "application/octet-stream"
    render = urllib3.fields.format_multipart_header_param
    assert render("n", 'a"b\r\n\xfc\\') == 'n="a%22b%0D%0A\xfc\\"'


# --- pools, which hold settings ---


def test_a_pool_manager_keeps_its_settings(urllib3: Any) -> None:
    with urllib3.PoolManager(2, headers={"a": "b"}, maxsize=3, cert_reqs="CERT_NONE") as manager:
        assert manager.headers == {"a": "b"}
        assert manager.connection_pool_kw == {"maxsize": 3, "cert_reqs": "CERT_NONE"}
        assert manager.proxy is None
        pool = manager.connection_from_url("https://H:5/x")
        assert (pool.scheme, pool.host, pool.port) == ("https", "h", 5)
        assert str(pool) == "HTTPSConnectionPool(host='h', port=5)"
        assert pool.cert_reqs == "CERT_NONE"
        assert manager.connection_from_host("h", 5, scheme="https") is pool
        other = manager.connection_from_host("h", pool_kwargs={"cert_reqs": None, "maxsize": 1})
        assert (other.port, len(manager.pools)) == (80, 2)
    assert len(manager.pools) == 0
    for host, scheme in ((None, "http"), ("h", "ftp")):
        with pytest.raises(urllib3.exceptions.LocationValueError):
            manager.connection_from_host(host, scheme=scheme)


def test_a_proxy_manager_knows_its_proxy(urllib3: Any) -> None:
    manager = urllib3.proxy_from_url(
        "http://u:p@px:3128", num_pools=2, proxy_headers={"x": "y"}, maxsize=1
    )
    assert manager.proxy.url == "http://u:p@px:3128"
    assert manager.proxy_headers == {"x": "y"}
    assert manager.connection_pool_kw["maxsize"] == 1
    assert manager.connection_pool_kw["_proxy"] == manager.proxy
    assert isinstance(manager, urllib3.ProxyManager)
    assert isinstance(manager, urllib3.PoolManager)
    assert urllib3.ProxyManager("http://px").proxy.port == 80
    for url in ("px:80", "socks5://px:80"):
        with pytest.raises(urllib3.exceptions.ProxySchemeUnknown):
            urllib3.proxy_from_url(url)


def test_a_pool_knows_its_own_host(urllib3: Any) -> None:
    pool = urllib3.HTTPConnectionPool("h")
    assert [pool.is_same_host(url) for url in ("/x", "http://h/", "http://h:81/", "http://g/")] == [
        True,
        True,
        False,
        False,
    ]
    assert pool.retries.total == 3
    with pytest.raises(urllib3.exceptions.LocationValueError):
        urllib3.HTTPConnectionPool("")
    assert urllib3.connection_from_url("https://h").port == 443


def test_socket_options_can_be_extended(urllib3: Any) -> None:
    kind = urllib3.connection.HTTPConnection
    assert kind.default_socket_options == [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    assert urllib3.connection.HTTPSConnection.default_port == 443
    assert str(kind("h", 80)) == "HTTPConnection(host='h', port=80)"
    assert urllib3.connectionpool.HTTPConnectionPool.ConnectionCls is kind


# --- responses that tests build ---


def respond(urllib3: Any, body: bytes, **settings: Any) -> Any:
    settings = {"status": 200, "preload_content": False, **settings}
    return urllib3.HTTPResponse(io.BytesIO(body), **settings)


def test_a_response_has_its_head(urllib3: Any) -> None:
    response = respond(
        urllib3,
        b"",
        headers={"A": "1", "Location": "/x"},
        status=302,
        reason="Found",
        version=11,
        request_url="/y",
    )
    assert (response.status, response.reason, response.version) == (302, "Found", 11)
    assert isinstance(response.headers, urllib3.HTTPHeaderDict)
    assert response.getheader("a") == response.getheaders()["A"] == "1"
    assert response.getheader("nothing", "default") == "default"
    assert response.info() is response.headers
    assert (response.geturl(), response.get_redirect_location()) == ("/y", "/x")
    assert respond(urllib3, b"").get_redirect_location() is False
    assert (response.retries, response.connection, response._original_response) == (None,) * 3
    assert isinstance(response, io.IOBase)
    assert isinstance(response, urllib3.BaseHTTPResponse)


def test_a_response_is_read_in_parts(urllib3: Any) -> None:
    response = respond(urllib3, b"hello\nworld\n")
    assert response.read(3) == b"hel"
    assert response.tell() == 3
    assert response.read(0) == b""
    assert not response.closed
    assert response.read() == b"lo\nworld\n"
    assert response.read() == b""
    assert response.read(1) == b""
    assert response.closed
    assert response.isclosed()


def test_a_response_gives_pieces_and_lines(urllib3: Any) -> None:
    body = b"hello\nworld\n"
    assert list(respond(urllib3, body).stream(4)) == [b"hell", b"o\nwo", b"rld\n"]
    assert list(respond(urllib3, body)) == [b"hello\n", b"world\n"]
    assert respond(urllib3, body).readline() == b"hello\n"
    assert respond(urllib3, body).readlines() == [b"hello\n", b"world\n"]
    assert io.BufferedReader(respond(urllib3, body)).read() == body
    buffer = bytearray(4)
    assert respond(urllib3, body).readinto(buffer) == 4
    assert buffer == b"hell"
    response = respond(urllib3, body)
    assert (response.read1(3), response.read1(), response.read1()) == (b"hel", b"lo\nworld\n", b"")
    # A file that is its own to close can be wrapped whole.
    assert io.TextIOWrapper(respond(urllib3, body, auto_close=False)).read() == body.decode()


def test_a_response_that_outlives_its_file_is_closed_once_and_for_all(urllib3: Any) -> None:
    response = respond(urllib3, b"abc", auto_close=False)
    assert response.read() == b"abc"
    assert not response.closed
    response.close()
    response.flush()
    assert response.closed


def test_the_data_of_a_response_stay(urllib3: Any) -> None:
    response = respond(urllib3, b'{"a": 1}')
    assert response.data == response.data == b'{"a": 1}'
    assert response.json() == {"a": 1}
    assert response.read() == b""
    assert respond(urllib3, b"x", preload_content=True).data == b"x"
    assert urllib3.HTTPResponse(b"abc").data == b"abc"
    cached = respond(urllib3, b"abc")
    cached.read(cache_content=True)
    assert cached.data == b"abc"


def test_a_response_undoes_its_content_coding(urllib3: Any) -> None:
    import gzip
    import zlib

    coded = gzip.compress(b"abc" * 100)
    headers = {"Content-Encoding": "gzip"}
    response = respond(urllib3, coded, headers=headers)
    assert (response.read(5), len(response.read())) == (b"abcab", 295)
    assert respond(urllib3, coded, headers=headers).read(decode_content=False) == coded
    raw = respond(urllib3, coded, headers=headers, decode_content=False)
    assert raw.read() == coded
    raw = respond(urllib3, coded, headers=headers, decode_content=False)
    assert raw.read(decode_content=True) == b"abc" * 100
    raw = respond(urllib3, coded, headers=headers)
    raw.decode_content = False
    assert b"".join(raw.stream(7)) == coded
    twice = gzip.compress(zlib.compress(b"q"))
    assert respond(urllib3, twice, headers={"content-encoding": "deflate, gzip"}).read() == b"q"
    unknown = respond(urllib3, coded, headers={"content-encoding": "unknown"})
    assert unknown.read() == coded
    with pytest.raises(urllib3.exceptions.DecodeError, match="content-encoding: gzip"):
        respond(urllib3, b"garbage", headers=headers).read()
    mixed = respond(urllib3, coded, headers=headers)
    mixed.read(1)
    with pytest.raises(RuntimeError):
        mixed.read(decode_content=False)


def test_a_body_that_is_too_short_is_an_error(urllib3: Any) -> None:
    headers = {"Content-Length": "10"}
    short = respond(urllib3, b"short", headers=headers)
    assert short.length_remaining == 10
    with pytest.raises(urllib3.exceptions.ProtocolError, match="IncompleteRead") as caught:
        short.read(100)
    assert isinstance(caught.value.args[1], urllib3.exceptions.IncompleteRead)
    lax = respond(urllib3, b"short", headers=headers, enforce_content_length=False)
    assert lax.read(100) == b"short"
    with pytest.raises(urllib3.exceptions.InvalidHeader):
        respond(urllib3, b"x", headers={"Content-Length": "1, 2"})
    for settings in ({"request_method": "HEAD"}, {"status": 204}):
        assert respond(urllib3, b"", headers=headers, **settings).length_remaining == 0
    assert respond(urllib3, b"", headers={"Content-Length": "z"}).length_remaining is None


def test_a_body_that_breaks_off_is_an_error(urllib3: Any) -> None:
    class Broken(io.BytesIO):
        def __init__(self, error: Exception) -> None:
            super().__init__()
            self.error = error

        def read(self, size: int | None = -1) -> bytes:
            raise self.error

    for error, kind in (
        (OSError("gone"), "ProtocolError"),
        (socket.timeout("slow"), "ReadTimeoutError"),  # noqa: UP041
    ):
        response = urllib3.HTTPResponse(Broken(error), preload_content=False, status=200)
        with pytest.raises(getattr(urllib3.exceptions, kind)):
            response.read()


def test_a_closed_response_gives_nothing(urllib3: Any) -> None:
    response = respond(urllib3, b"abc")
    with response:
        assert response.readable()
    assert response.closed
    assert response.read() == b""
    response = respond(urllib3, b"abc")
    response.release_conn()
    response.drain_conn()
    assert response.read() == b""


def test_closing_a_response_gives_its_connection_up(urllib3: Any) -> None:
    class Connection:
        closed = False

        def close(self) -> None:
            self.closed = True

    class Pool:
        taken_back: Any = None

        def _put_conn(self, connection: Any) -> None:
            self.taken_back = connection

    connection, pool = Connection(), Pool()
    respond(urllib3, b"abc", connection=connection, pool=pool).close()
    assert (connection.closed, pool.taken_back) == (True, None)
    response = respond(urllib3, b"abc", connection=connection, pool=pool)
    before = response.connection
    response.release_conn()
    assert (before, response.connection) == (connection, None)
    assert pool.taken_back is connection


def test_a_file_gives_no_chunks(urllib3: Any) -> None:
    e = urllib3.exceptions
    with pytest.raises(e.ResponseNotChunked):
        next(respond(urllib3, b"x").read_chunked())
    chunked = respond(urllib3, b"abc", headers={"Transfer-Encoding": "chunked"})
    assert chunked.chunked
    assert not chunked.supports_chunked_reads()
    with pytest.raises(e.BodyNotHttplibCompatible):
        next(chunked.read_chunked())
    assert b"".join(itertools.islice(chunked.stream(2), 2)) == b"abc"
