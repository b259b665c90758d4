"""When a transfer is checked, and which timeout it ends with, on a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pycurl
import pytest

import curlhttp
from curlhttp import ClientRequest, Timeout
from curlhttp import exceptions as e
from curlhttp._libcurl.attempt import ON_NEW, AttemptState
from curlhttp._libcurl.driver import Driver
from curlhttp._libcurl.handle import Shares
from curlhttp._libcurl.options import get_first_limit
from curlhttp._libcurl.read_timeouts import find_silent
from curlhttp._libcurl.transfer import Transfer
from curlhttp._libcurl.upload import Upload

SOCKET = 7
URL = "http://a.test/"


class Sends:
    """A transfer of HTTP/1.1 that has sent its head at 0, as far as timeouts look at it."""

    attempt = AttemptState()
    attempt.state = ON_NEW
    paused, attached = False, True
    wake = handle = True
    last_activity = check_at = upload_at = 0.0
    uploaded = 0
    upload_mark = progress_mark = head = None

    def __init__(self, content: Any, timeout: Any) -> None:
        self.request = ClientRequest("POST", URL, content=content)
        self.request.timeout = timeout
        self.upload = Upload(bytes)
        self.lines = [b"HTTP/1.1 100 Continue\r\n"]
        self.easy = self

    @property
    def first_limit(self) -> float | None:
        return get_first_limit(self.request)

    def getinfo(self, option: int) -> int:
        return {pycurl.ACTIVESOCKET: SOCKET, pycurl.SIZE_UPLOAD_T: self.uploaded}[option]


def run_out(sends: Any, happens: Callable[[float], float]) -> tuple[float, type[e.Timeout]]:
    """Let time pass until the transfer ends.

    Args:
        sends: from the start.
        happens: gets the time before each check; returns that of the socket's last event.
    """
    next_look = get_first_limit(sends.request)
    assert next_look is not None
    for _ in range(100):
        now = next_look
        assert now < inf
        found, next_look = find_silent([sends], now, {SOCKET: happens(now)})
        if found:
            ((_, error),) = found
            return now, type(error)
    raise AssertionError("it never ends")


def nothing(now: float) -> float:
    return 0.0


def test_a_later_transfer_does_not_delay_the_check_of_an_earlier_one() -> None:
    first: Any = Sends(b"x", Timeout(read=4))
    second: Any = Sends(b"x", Timeout(read=4))
    second.last_activity = 3.0
    assert find_silent([second, first], 3.5, {}) == ([], 4)
    ((silent, _),), next_look = find_silent([second, first], 4.0, {})
    assert (silent, next_look) == (first, 7)


def test_many_transfers_are_not_looked_at_all_the_time() -> None:
    many: list[Any] = [Sends(b"x", Timeout(read=4)) for _ in range(10_000)]
    for number, each in enumerate(many):
        each.last_activity = number / 1e6
    now, looks, found = 0.0, 0, 0
    while found < len(many):
        silent, now = find_silent(many[found:], now, {})
        found += len(silent)
        looks += 1
    assert looks < 10


@pytest.mark.parametrize("read", [None, 0.5, 60])
def test_a_stalled_upload_ends_after_the_write_timeout(read: float | None) -> None:
    sends = Sends(b"x" * 100, Timeout(write=4, read=read))
    assert run_out(sends, nothing) == (4, e.WriteTimeout)


def test_received_bytes_do_not_restart_the_write_timeout() -> None:
    sends = Sends(b"x" * 100, Timeout(write=4, read=60))
    assert run_out(sends, lambda now: now) == (5, e.WriteTimeout)


def test_each_sent_byte_restarts_the_timer() -> None:
    sends = Sends(b"x" * 100, Timeout(write=4, read=60))

    def moves(now: float) -> float:
        sends.uploaded = min(int(now), 9)  # the last at 9 s
        return min(now, 9.0)

    assert run_out(sends, moves) == (13, e.WriteTimeout)


def test_the_wait_for_the_body_does_not_count_and_ends_with_its_next_piece() -> None:
    sends = Sends(iter([b"x"]), Timeout(write=4, read=60))

    def starves(now: float) -> float:
        sends.upload.is_starving = now < 2.5
        sends.upload.fed_at = 0.0 if sends.upload.is_starving else 2.5
        return 0.0

    assert run_out(sends, starves) == (6.5, e.WriteTimeout)


@pytest.mark.parametrize("write", [None, 4])
def test_a_caller_that_reads_waits_for_the_server_while_the_body_has_no_data(write: Any) -> None:
    sends: Any = Sends(iter([b"x"]), Timeout(write=write, read=10))
    sends.upload.is_starving = sends.head = True
    assert run_out(sends, nothing) == (10, e.ReadTimeout)


def test_a_stalled_upload_ends_while_nobody_reads_the_response() -> None:
    sends: Any = Sends(b"x" * 100, Timeout(write=4, read=10))
    sends.head, sends.wake = True, None
    assert run_out(sends, nothing) == (4, e.WriteTimeout)


def test_the_read_timeout_starts_once_the_body_is_sent() -> None:
    sends = Sends(b"x" * 100, Timeout(write=400, read=1))

    def ends(now: float) -> float:
        sends.uploaded = 100 if now >= 1.5 else 0
        return min(now, 1.5)

    assert run_out(sends, ends) == (2.5, e.ReadTimeout)


def test_a_resent_body_restarts_the_write_timeout() -> None:
    sends = Sends(b"x" * 100, Timeout(write=4, read=None))

    def starts_over(now: float) -> float:
        sends.uploaded = 100 if now < 6 else 0
        sends.last_activity = 0.0 if now < 6 else 6.0
        return 0.0

    assert run_out(sends, starts_over) == (10, e.WriteTimeout)


def test_of_a_body_of_unknown_length_the_end_may_be_in_libcurls_buffer() -> None:
    sends = Sends(iter([b"x"]), Timeout(write=4, read=1))
    sends.upload.is_read_out, sends.upload.fed, sends.uploaded = True, 100, 60
    assert run_out(sends, nothing) == (4, e.WriteTimeout)


def test_a_body_of_unknown_length_is_out_when_all_that_was_read_is() -> None:
    sends = Sends(iter([b"x"]), Timeout(write=4, read=1))
    sends.upload.is_read_out, sends.upload.fed = True, 100
    sends.uploaded = 108  # with the chunks' sizes
    assert run_out(sends, nothing) == (1, e.ReadTimeout)


def test_the_write_timeout_is_not_for_requests_without_a_body() -> None:
    assert get_first_limit(Sends(None, Timeout(write=1, read=None)).request) is None
    assert run_out(Sends(None, Timeout(write=1, read=5)), nothing) == (5, e.ReadTimeout)


def test_a_changed_read_timeout_is_not_that_of_the_next_request() -> None:
    with curlhttp.Client(timeout=Timeout(read=40)) as client:
        transfer = Transfer(client.limits, Shares())
        request = client.build_request("GET", URL)
        transfer.prepare(request)
        assert transfer.first_limit == 40
        transfer.attached = Driver(client.limits, 1)
        transfer.set_read_timeout(3)
        assert transfer.first_limit == request.timeout.read == 3
        transfer.clean()
        transfer.prepare(client.build_request("GET", URL))
        assert transfer.first_limit == 40
        transfer.close()
