"""Which status and which libcurl code count as failures of an origin or of a proxy."""

from __future__ import annotations

import asyncio
from typing import Any

import pycurl
import pytest

from curlhttp import exceptions as e
from curlhttp._features.breaker.circuit import (
    Outcome,
    classify_error,
    classify_proxy,
    classify_status,
)
from curlhttp.types import Timings
from tests.support.curl_errors import error_of_code

CODES = {
    value
    for name, value in vars(pycurl).items()
    if name.startswith("E_") and not name.startswith("E_MULTI_") and isinstance(value, int)
} - {0}

# resilience.md, table 3.2; whatever is not here says nothing of the server
FAILURES = {
    6: "the name was not resolved",
    7: "not connected",
    8: "no HTTP header",
    16: "HTTP/2 framing",
    18: "a part of the body",
    28: "silent",
    35: "TLS handshake",
    52: "no answer",
    55: "sending broke",
    56: "receiving broke",
    65: "sending broke, and libcurl wanted to send again",
    92: "HTTP/2 stream",
    95: "HTTP/3",
    96: "QUIC handshake",
    100: "headers without end",
}
UNTRUSTED = {60, 90}
OF_THE_PROXY = {5, 97}


def failure_of(code: int, **facts: Any) -> e.RequestException:
    """Return the exception that a code becomes."""
    facts.setdefault("sent", code not in (1, 5, 6, 7, 35, 60))
    return error_of_code(code, **facts)


def connected(seconds: float) -> Timings:
    return Timings(0, 0, seconds, 0, 0, 0, False, None)


@pytest.mark.parametrize("code", sorted(CODES | {92, 95, 96, 97, 98, 100, 101}))
def test_each_code_counts_as_the_table_says(code: int) -> None:
    error = failure_of(code, timings=None)
    expected = Outcome.IGNORED
    if code in FAILURES:
        expected = Outcome.FAILURE
    elif code in OF_THE_PROXY:
        expected = Outcome.PROXY_FAILURE
    assert classify_error(error) is expected
    expected = Outcome.FAILURE if code in UNTRUSTED else expected
    assert classify_error(error, count_tls=True) is expected


def test_the_same_code_counts_by_its_meaning() -> None:
    not_http = failure_of(1, sent=True)
    assert classify_error(not_http) is Outcome.FAILURE
    no_protocol = failure_of(1)
    assert classify_error(no_protocol) is Outcome.IGNORED
    resend = failure_of(42, aborted_resend=True)
    assert classify_error(resend) is Outcome.FAILURE
    alert = failure_of(56, message="OpenSSL SSL routines: alert handshake failure")
    assert isinstance(alert, e.SSLError)
    assert classify_error(alert) is Outcome.FAILURE
    in_the_body = failure_of(56, has_head=True)
    assert classify_error(in_the_body) is Outcome.FAILURE


def test_our_own_time_limits_are_not_counted() -> None:
    total = failure_of(28, deadline_passed=True)
    assert isinstance(total, e.DeadlineExceeded)
    assert classify_error(total) is Outcome.IGNORED
    assert classify_error(failure_of(28)) is Outcome.FAILURE  # a read timeout
    assert classify_error(failure_of(28, sent=False)) is Outcome.FAILURE  # a connect timeout


@pytest.mark.parametrize(
    "error",
    [
        e.PoolTimeout("full"),
        e.ClientClosed("closed"),
        e.ContentDecodingError("corrupt"),
        e.ResponseTooLarge("large"),
        e.UnrewindableBodyError("spent"),
        e.InvalidURL("bad"),
        e.InvalidHeader("bad"),
        e.InvalidProxyURL("bad"),
        e.BlockedAddress("private"),
        e.CircuitBreakerOpen("open"),
        e.RequestException("libcurl is out of memory"),
        ValueError("the caller's body"),
        OSError("the caller's file"),
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        SystemExit(),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failures_that_the_server_did_not_cause_are_not_counted(error: BaseException) -> None:
    assert classify_error(error, count_tls=True) is Outcome.IGNORED
    assert classify_error(error, via_proxy=True) is Outcome.IGNORED
    assert classify_proxy(error) is Outcome.IGNORED


def test_each_status_counts_as_the_table_says() -> None:
    failures = {500, 502, 503, 504}
    found = {status: classify_status(status) for status in range(100, 1000)}
    assert {status for status in found if found[status] is Outcome.FAILURE} == failures
    assert {status for status in found if found[status] is Outcome.IGNORED} == {429}
    assert {found[status] for status in found.keys() - failures - {429}} == {Outcome.SUCCESS}


def test_which_statuses_are_failures_can_be_chosen() -> None:
    chosen = {429, 404}
    assert classify_status(429, chosen) is Outcome.FAILURE
    assert classify_status(404, chosen) is Outcome.FAILURE
    assert classify_status(503, chosen) is Outcome.SUCCESS


# --- proxies ---

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize("facts", [{"code": 5}, {"code": 7}, {"code": 56, "sent": False}])
def test_a_proxy_that_cannot_be_used_is_not_the_origins_failure(facts: dict[str, Any]) -> None:
    error = failure_of(proxy=PROXY, **facts)
    assert classify_error(error, via_proxy=True) is Outcome.PROXY_FAILURE
    assert classify_proxy(error) is Outcome.FAILURE


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (502, Outcome.FAILURE),
        (503, Outcome.FAILURE),
        (504, Outcome.FAILURE),
        (403, Outcome.IGNORED),
        (407, Outcome.IGNORED),
    ],
)
def test_an_error_of_an_origin_is_not_the_proxys_failure(status: int, outcome: Outcome) -> None:
    error = failure_of(7, proxy=PROXY, connect_code=status)
    assert isinstance(error, e.ProxyError)
    assert classify_error(error, via_proxy=True) is outcome
    assert classify_proxy(error) is Outcome.IGNORED


def test_a_connect_timeout_is_the_proxys_unless_that_was_connected() -> None:
    error = failure_of(28, proxy=PROXY, sent=False, timings=connected(0.0))
    assert classify_error(error, via_proxy=True) is Outcome.PROXY_FAILURE
    assert classify_error(error) is Outcome.FAILURE
    error = failure_of(28, proxy=PROXY, sent=False, timings=connected(0.01))
    assert classify_error(error, via_proxy=True) is Outcome.FAILURE
    assert classify_proxy(error) is Outcome.IGNORED


def test_a_response_is_a_success_of_the_proxy() -> None:
    assert classify_proxy(503) is Outcome.SUCCESS
    assert classify_proxy(failure_of(52, proxy=PROXY)) is Outcome.IGNORED
