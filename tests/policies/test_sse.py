"""When a stream of events is reconnected: which requests, how often, and after which delay."""

from __future__ import annotations

import math
from typing import Any

import pytest

from curlhttp import ClientRequest, Response, RetryPolicy
from curlhttp._features.sse.policy import Reconnections
from curlhttp.exceptions import (
    CircuitBreakerOpen,
    ConnectionError,
    ContentDecodingError,
    HTTPError,
    ReadTimeout,
    RequestException,
    SSLError,
)
from tests.support.scripted import URL, steady


def reconnections(
    most: bool | int = True, method: str = "GET", retry: RetryPolicy | None = None, key: str = ""
) -> Reconnections:
    request = ClientRequest(method, URL, {"Idempotency-Key": key} if key else {})
    request.retry = retry
    return Reconnections(request, most)


def broken(kind: Any = ReadTimeout, **facts: Any) -> RequestException:
    error: RequestException = kind("x", request_sent=True)
    for name, value in facts.items():
        setattr(error, name, value)
    return error


def refusal(status: int) -> HTTPError:
    response = Response.of(ClientRequest("GET", URL), status)
    return HTTPError("x", response=response, request_sent=True)


def test_delays_grow_until_an_event_arrives() -> None:
    stream = reconnections(retry=steady())
    assert [stream.next_delay(None, None, None) for _ in range(4)] == [1, 2, 4, 8]
    stream.succeeded()
    assert stream.next_delay(broken(), None, None) == 1


@pytest.mark.parametrize("policy", [None, RetryPolicy(3)])
def test_by_default_delays_are_some_seconds_and_at_most_thirty(
    policy: RetryPolicy | None,
) -> None:
    for _ in range(50):
        stream = reconnections(retry=policy)
        delays = [stream.next_delay(None, None, None) or -1 for _ in range(20)]
        assert 1 <= delays[0] <= 2
        assert 15 <= delays[-1] <= 30


def test_the_servers_time_is_used_with_jitter() -> None:
    for _ in range(50):
        delay = reconnections().next_delay(None, 5000, None)
        assert delay is not None
        assert 5 <= delay <= 5.5


def test_without_events_delays_exceed_the_servers_time() -> None:
    stream = reconnections(retry=steady())
    stream.next_delay(None, 5000, None)
    assert [stream.next_delay(None, 5000, None) for _ in range(3)] == [6, 7, 9]


def test_the_servers_time_is_at_most_a_day() -> None:
    delay = reconnections().next_delay(None, 10**18 - 1, None)
    assert delay is not None
    assert delay <= 86_400 * 1.1


def test_a_number_counts_connections_in_a_row() -> None:
    stream = reconnections(2)
    assert stream.next_delay(broken(), None, None) is not None
    stream.succeeded()
    assert [stream.next_delay(broken(), None, None) is None for _ in range(3)] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("most", [False, 0])
def test_without_reconnection_there_is_no_next_request(most: int) -> None:
    assert reconnections(most).next_delay(None, None, None) is None


@pytest.mark.parametrize("most", [-1, None, 1.5, "1"])
def test_a_wrong_number_is_refused(most: Any) -> None:
    with pytest.raises(ValueError, match="reconnect must be"):
        reconnections(most)


def test_a_request_that_is_not_idempotent_is_not_sent_twice() -> None:
    assert reconnections(method="POST").next_delay(broken(), None, None) is None
    policy = steady(retry_non_idempotent=True)
    for options in ({"key": "1"}, {"retry": policy}):
        allowed = reconnections(method="POST", **options)
        assert allowed.next_delay(broken(), None, None) is not None


def test_a_post_is_not_sent_again_after_the_end_of_its_stream() -> None:
    policy = steady(retry_non_idempotent=True)
    for options in ({}, {"key": "1"}, {"retry": policy}):
        ended = reconnections(method="POST", **options)
        assert ended.next_delay(None, None, None) is None
    assert reconnections().next_delay(None, None, None) is not None


def test_permanent_errors_end_the_stream() -> None:
    for failure in (broken(SSLError), broken(ContentDecodingError), refusal(404), refusal(503)):
        assert reconnections().next_delay(failure, None, None) is None
    assert reconnections().next_delay(broken(ConnectionError), None, None) is not None
    assert reconnections().next_delay(broken(is_lasting=True), None, None) is None


def test_statuses_of_the_requests_policy_do_not_end_the_stream() -> None:
    assert reconnections(retry=steady()).next_delay(refusal(503), None, 4.0) >= 4  # type: ignore[operator]
    assert reconnections(retry=steady()).next_delay(refusal(404), None, None) is None
    assert reconnections(retry=steady()).next_delay(refusal(503), None, 61.0) is None


def test_an_open_breaker_is_waited_for_unless_it_was_forced() -> None:
    def opened(seconds: float) -> CircuitBreakerOpen:
        return CircuitBreakerOpen("x", retry_after=seconds)

    assert reconnections(retry=steady()).next_delay(opened(9.0), None, None) == 9
    assert reconnections(retry=steady()).next_delay(opened(math.inf), None, None) is None
