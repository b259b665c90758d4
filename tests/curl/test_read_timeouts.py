"""When a transfer is checked, and which timeout it ends with, on a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pycurl
import pytest

from curlhttp import ClientRequest, Timeout
from curlhttp import exceptions as e
from curlhttp._curl.attempt import ON_NEW, AttemptState
from curlhttp._curl.read_timeouts import ReadTimeouts, get_first_limit
from curlhttp._curl.upload import Upload

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
    upload_mark = progress_mark = None

    def __init__(self, content: Any, timeout: Any) -> None:
        self.request = ClientRequest("POST", URL, content=content)
        self.request.timeout = timeout
        self.upload = Upload(bytes)
        self.lines = [b"HTTP/1.1 100 Continue\r\n"]
        self.easy = self

    def getinfo(self, option: int) -> int:
        return {pycurl.ACTIVESOCKET: SOCKET, pycurl.SIZE_UPLOAD_T: self.uploaded}[option]


def run_out(sends: Any, happens: Callable[[float], float]) -> tuple[float, type[e.Timeout]]:
    """Let time pass until the transfer ends.

    Args:
        sends: from the start.
        happens: gets the time before each check; returns that of the socket's last event.
    """
    timeouts, limit = ReadTimeouts(), get_first_limit(sends.request)
    assert limit is not None
    timeouts.next_check = limit
    for _ in range(100):
        now = timeouts.next_check
        assert now < inf
        found = timeouts.find_silent([sends], now, {SOCKET: happens(now)})
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
    timeouts = ReadTimeouts()
    assert timeouts.find_silent([second, first], 3.5, {}) == []
    assert timeouts.next_check == 4
    assert [found for found, _ in timeouts.find_silent([second, first], 4.0, {})] == [first]
    assert timeouts.next_check == 7


def test_many_transfers_are_not_looked_at_all_the_time() -> None:
    many: list[Any] = [Sends(b"x", Timeout(read=4)) for _ in range(10_000)]
    for number, each in enumerate(many):
        each.last_activity = number / 1e6
    timeouts, now, looks, found = ReadTimeouts(), 0.0, 0, 0
    while found < len(many):
        found += len(timeouts.find_silent(many[found:], now, {}))
        now = timeouts.next_check
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
