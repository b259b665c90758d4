"""What RetryPolicy decides, without a client or an engine."""

from __future__ import annotations

import random
import threading
from dataclasses import FrozenInstanceError
from typing import Any

import pycurl
import pytest

from curlhttp import ClientRequest, Response, RetryBudget, RetryPolicy
from curlhttp import exceptions as e
from tests.support.curl_errors import error_of_code

URL = "http://h.test/"


def failing(kind: type[e.RequestException], sent: bool = True, **facts: Any) -> e.RequestException:
    error = kind("failed", request_sent=sent)
    for name, value in facts.items():
        assert hasattr(error, name)
        setattr(error, name, value)
    return error


def objection(failure: Any, method: str = "GET", headers: Any = None, **settings: Any) -> Any:
    return RetryPolicy(**settings)._get_give_up_reason(ClientRequest(method, URL, headers), failure)


def answered(status_code: int, method: str = "GET") -> Response:
    return Response.of(ClientRequest(method, URL), status_code)


# --- which methods ---


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "get"])
def test_idempotent_methods_may_be_processed_twice(method: str) -> None:
    assert objection(failing(e.ConnectionError), method) is None
    assert objection(answered(503), method) is None


@pytest.mark.parametrize("method", ["POST", "PATCH", "CONNECT", "FROB", "post"])
def test_other_methods_may_not(method: str) -> None:
    assert objection(failing(e.ConnectionError), method) == "not_idempotent"
    assert objection(answered(503), method) == "not_idempotent"


def test_methods_compare_upper_case() -> None:
    assert objection(failing(e.ConnectionError), "post", methods=["Post"]) is None
    assert objection(failing(e.ConnectionError), "PUT", methods=["Post"]) == "not_idempotent"


# --- what was not processed ---


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "FROB"])
@pytest.mark.parametrize(
    "error",
    [
        failing(e.ConnectionError, sent=False),  # refused, not resolved, handshake cut
        failing(e.ConnectTimeout, sent=False),
        failing(e.RemoteProtocolError, sent=False),
        failing(e.ProxyError, sent=False),
        failing(e.ConnectionError, refused=True),  # REFUSED_STREAM
    ],
)
def test_an_unprocessed_request_may_be_resent_with_any_method(
    error: e.RequestException, method: str
) -> None:
    assert objection(error, method) is None


def test_a_caller_may_declare_a_post_idempotent() -> None:
    error = failing(e.ConnectionError)
    assert objection(error, "POST", retry_non_idempotent=True) is None
    assert objection(error, "POST", {"Idempotency-Key": "k"}) is None
    assert objection(answered(503), "POST", {"idempotency-key": "k"}) is None


# --- which failures ---


@pytest.mark.parametrize(
    "error",
    [
        failing(e.ConnectionError),
        failing(e.RemoteProtocolError),
        failing(e.ReadTimeout),
        failing(e.WriteTimeout),
        failing(e.ChunkedEncodingError),
        failing(e.ProxyError, sent=False, connect_status=502),
        failing(e.ProxyError, sent=False, connect_status=503),
        failing(e.ProxyError, sent=False, connect_status=504),
    ],
)
def test_transient_errors_may_be_retried(error: e.RequestException) -> None:
    assert objection(error) is None


@pytest.mark.parametrize(
    "error",
    [
        failing(e.SSLError, sent=False, tls_failure="untrusted"),
        failing(e.SSLError, sent=False, tls_failure="handshake"),
        failing(e.SSLError, sent=False),
        failing(e.BlockedAddress, sent=False),
        failing(e.PoolTimeout, sent=False),
        failing(e.DeadlineExceeded),
        failing(e.ProxyError, sent=False, connect_status=407),
        failing(e.ProxyError, sent=False, connect_status=403),
        failing(e.InvalidURL, sent=False),
        failing(e.InvalidSchema, sent=False),
        failing(e.InvalidHeader),
        failing(e.ContentDecodingError),
        failing(e.ResponseTooLarge),
        failing(e.TooManyRedirects),
        failing(e.UnrewindableBodyError, sent=False),
        failing(e.ClientClosed, sent=False),
        failing(e.RequestException),
        failing(e.ConnectionError, sent=False, is_lasting=True),
        failing(e.RemoteProtocolError, is_lasting=True),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_permanent_errors_are_not_retried(error: e.RequestException, method: str) -> None:
    assert objection(error, method, retry_non_idempotent=True) == "not_retriable"


def test_every_exception_has_a_verdict_on_purpose() -> None:
    chancy = {
        name
        for name in e.__all__
        if issubclass(getattr(e, name), e.RequestException)
        and name != "JSONDecodeError"
        and objection(failing(getattr(e, name))) is None
    }
    assert chancy == {
        "ChunkedEncodingError",
        "ConnectTimeout",
        "ConnectionError",
        "ProxyError",
        "ReadTimeout",
        "RemoteProtocolError",
        "WriteTimeout",
    }


# --- libcurl's codes: resilience.md, table 3.2 ---

CODES = {
    value
    for name, value in vars(pycurl).items()
    if name.startswith("E_") and not name.startswith("E_MULTI_") and isinstance(value, int)
} - {0}
CODES |= {8, 92, 95, 96, 97, 98, 100, 101}  # those that pycurl has no name for

BY_CHANCE = {
    5: "the proxy's name was not resolved",
    6: "the name was not resolved",
    7: "not connected",
    8: "no HTTP header",
    16: "HTTP/2 framing",
    18: "a part of the body",
    28: "too slow",
    52: "no answer",
    55: "sending broke",
    56: "receiving broke",
    65: "sending broke, and libcurl wanted to send again",
    92: "HTTP/2 stream",
    95: "HTTP/3",
    96: "QUIC handshake",
    97: "the proxy refused",
}


def error_of(code: int, sent: bool, **facts: Any) -> e.RequestException:
    """Return the exception that a code becomes."""
    return error_of_code(code, sent=sent, **facts)


@pytest.mark.parametrize("code", sorted(CODES))
def test_each_code_is_tried_again_as_the_table_says(code: int) -> None:
    not_http = {1} if code == 1 else set()  # the scheme is not what failed, if it was sent
    may = code in {*BY_CHANCE, *not_http}
    assert (objection(error_of(code, sent=True)) is None) is may
    assert (objection(error_of(code, sent=True), "POST") is None) is False
    for method in ("GET", "POST"):
        assert (objection(error_of(code, sent=False), method) is None) is (code in BY_CHANCE)


def test_a_handshake_is_tried_again_if_it_was_cut_only() -> None:
    for facts in ({"os_errno": 104}, {"os_errno": 32}, {"message": "unexpected eof"}):
        assert objection(error_of(35, sent=False, **facts), "POST") is None
    assert objection(error_of(35, sent=False, message="wrong version")) == "not_retriable"
    alert = error_of(56, sent=True, message="SSL routines::tlsv13 alert certificate required")
    assert objection(alert) == "not_retriable"


def test_a_resend_that_was_stopped_is_for_the_policy_to_decide() -> None:
    stopped = error_of(42, sent=True, aborted_resend=True)
    assert objection(stopped) is None
    assert objection(stopped, "POST") == "not_idempotent"
    assert objection(error_of(42, sent=True)) == "not_retriable"  # the caller's own cancellation


def test_a_total_that_ran_out_is_final() -> None:
    assert objection(error_of(28, sent=False, deadline_passed=True)) == "not_retriable"


# --- the policy as a value ---


def test_the_default_is_three_attempts() -> None:
    policy = RetryPolicy()
    assert policy.max_retries == 2
    assert policy.statuses == {408, 425, 429, 502, 503, 504}
    assert policy.retry_after_max == 60.0
    assert policy.budget is not None


@pytest.mark.parametrize("value", [None, False, 0])
def test_none_means_no_policy(value: Any) -> None:
    assert RetryPolicy.of(value) is None
    assert RetryPolicy.of(value, RetryPolicy()) is None


def test_a_number_means_a_policy_that_shares_the_budget() -> None:
    base = RetryPolicy(1, statuses=[500], budget=RetryBudget(ratio=0.5))
    found = RetryPolicy.of(7, base)
    assert found is not None
    assert (found.max_retries, found.statuses, found.budget) == (7, {500}, base.budget)
    assert RetryPolicy.of(True, base) is RetryPolicy.of(base) is base
    alone = RetryPolicy.of(4)
    assert alone is not None
    assert alone.max_retries == 4


@pytest.mark.parametrize("value", ["3", 2.5, [1]])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="retry must be"):
        RetryPolicy.of(value)
    with pytest.raises((TypeError, ValueError), match="max_retries must be"):
        RetryPolicy(value)


@pytest.mark.parametrize(
    "setting", [{"max_retries": -1}, {"retry_after_max": -1.0}, {"retry_after_max": float("inf")}]
)
def test_a_number_out_of_range_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        RetryPolicy(**setting)


def test_a_policy_does_not_change() -> None:
    policy = RetryPolicy()
    with pytest.raises(FrozenInstanceError):
        policy.max_retries = 3  # type: ignore[misc]
    assert isinstance(policy.statuses, frozenset)
    assert isinstance(policy.methods, frozenset)


def test_threads_that_share_a_policy_do_not_share_its_state() -> None:
    policy = RetryPolicy(2)
    results: list[list[float]] = []
    ready = threading.Barrier(8)

    def draw() -> None:
        delays = policy.backoff_strategy.delays(lambda low, high: high)
        ready.wait()
        results.append([next(delays) for _ in range(100)])

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [results[0]] * 8
    assert results[0][:3] == [0.1, 0.2, 0.4]


# --- Retry-After against the backoff ---


def test_the_longer_of_backoff_and_retry_after_counts() -> None:
    policy = RetryPolicy(random=random.Random(1))
    assert policy._delay(5.0, None) == 5.0
    assert policy._delay(5.0, 1.0) == 5.0
    assert policy._delay(5.0, 0.0) == 5.0


def test_chance_adds_up_to_a_tenth_to_retry_after() -> None:
    policy = RetryPolicy(random=random.Random(1))
    waits = [policy._delay(0.0, 30.0) for _ in range(1000)]
    assert all(wait is not None and 30.0 <= wait <= 33.0 for wait in waits)
    assert len(set(waits)) > 900


def test_a_retry_after_above_the_limit_is_too_long() -> None:
    assert RetryPolicy(retry_after_max=10.0)._delay(0.0, 10.0) is not None
    assert RetryPolicy(retry_after_max=10.0)._delay(0.0, 10.1) is None
    assert RetryPolicy(retry_after_max=0.0)._delay(1.0, 0.0) == 1.0
