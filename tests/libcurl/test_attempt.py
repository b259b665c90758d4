"""The table of an attempt, without sockets: events in, states and results out."""

from __future__ import annotations

from copy import copy
from typing import Any

import pycurl
import pytest

from curlhttp._libcurl import attempt as table
from curlhttp._libcurl.attempt import (
    ABORT,
    AGAIN,
    AGAIN_KEPT,
    ALIVE,
    CONNECTED,
    CONNECTING,
    DISCARD,
    DOWNGRADED,
    EARLY,
    EVENTS,
    FAIL,
    FAILED,
    GO,
    HOLD,
    KEPT,
    LEFT_AGAIN,
    LEFT_KEPT,
    LEFT_NEW,
    MOVING,
    ON_KEPT,
    ON_NEW,
    OPEN,
    REFUSED,
    RESTART,
    RESTARTED,
    SEND,
    STATES,
    STOPPED,
    TURNED_AWAY,
    UNFIT,
    WAITING,
    AttemptState,
    Ending,
)

_HTTP2, _ABORTED, _SEND_ERROR, _RECV_ERROR, _STREAM = 16, 42, 55, 56, 92
_POST: dict[str, Any] = {"once": True}
_GET: dict[str, Any] = {"once": False}


def _run(attempt: AttemptState, *events: int) -> list[int]:
    return [attempt.receive(event) for event in events]


# --- Which pairs of a state and an event there are ---

_ALLOWED = {
    WAITING: {OPEN, KEPT, UNFIT, DISCARD, FAILED},
    CONNECTING: {OPEN, CONNECTED, UNFIT, DISCARD, FAILED},
    TURNED_AWAY: {FAILED, RESTARTED},
    ON_KEPT: {OPEN, KEPT, UNFIT, REFUSED, DOWNGRADED, ALIVE, EARLY, FAILED},
    ON_NEW: {OPEN, KEPT, UNFIT, REFUSED, DOWNGRADED, ALIVE, EARLY, FAILED},
    LEFT_KEPT: {OPEN, CONNECTED, REFUSED, DOWNGRADED, ALIVE, FAILED},
    LEFT_NEW: {OPEN, CONNECTED, REFUSED, DOWNGRADED, ALIVE, FAILED},
    AGAIN: {OPEN, KEPT, UNFIT, REFUSED, DOWNGRADED, ALIVE, EARLY, FAILED},
    AGAIN_KEPT: {OPEN, KEPT, UNFIT, REFUSED, DOWNGRADED, ALIVE, EARLY, FAILED},
    LEFT_AGAIN: {OPEN, CONNECTED, REFUSED, DOWNGRADED, ALIVE, FAILED},
    STOPPED: {REFUSED, DOWNGRADED, ALIVE, FAILED},
    MOVING: {REFUSED, DOWNGRADED, ALIVE, FAILED, RESTARTED},
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("rule", [_POST, _GET], ids=["once", "repeatable"])
def test_a_pair_that_is_not_allowed_sends_nothing_and_changes_nothing(
    state: int, rule: dict[str, Any]
) -> None:
    for event in EVENTS:
        attempt = AttemptState(**rule)
        attempt.state = state
        before = [getattr(attempt, name) for name in AttemptState.__slots__]
        result = attempt.receive(event)
        after = [getattr(attempt, name) for name in AttemptState.__slots__]
        if event in _ALLOWED[state]:
            # What is allowed has a row without a condition, so there is always a result.
            assert (state, event) in table._TABLE
            assert table._TABLE[state, event][-1][0] is None
        else:
            assert (state, event) not in table._TABLE
            assert (event, result, after) == (event, ABORT, before)


def test_libcurls_codes_are_those_of_pycurl() -> None:
    for name, code in {
        "HTTP2": table._HTTP2,
        "SEND_ERROR": table._SEND_ERROR,
        "RECV_ERROR": table._RECV_ERROR,
        "ABORTED_BY_CALLBACK": table._ABORTED_BY_CALLBACK,
        "SEND_FAIL_REWIND": table._SEND_FAIL_REWIND,
    }.items():
        assert getattr(pycurl, f"E_{name}") == code


# --- The first time ---


@pytest.mark.parametrize("rule", [_POST, _GET])
def test_a_request_goes_out_on_a_kept_connection_that_is_fit(rule: dict[str, Any]) -> None:
    attempt = AttemptState(**rule)
    assert _run(attempt, KEPT) == [SEND]
    assert (attempt.state, attempt.is_out, attempt.has_opened) == (ON_KEPT, True, False)


@pytest.mark.parametrize("rule", [_POST, _GET])
def test_a_request_goes_out_on_the_connection_that_was_opened(rule: dict[str, Any]) -> None:
    attempt = AttemptState(**rule)
    assert _run(attempt, OPEN, OPEN, CONNECTED) == [GO, GO, SEND]  # happy eyeballs open two
    assert (attempt.state, attempt.is_out, attempt.has_opened) == (ON_NEW, True, True)


@pytest.mark.parametrize("rule", [_POST, _GET])
def test_a_request_on_a_connection_that_is_not_fit_gets_another_one(rule: dict[str, Any]) -> None:
    attempt = AttemptState(**rule)
    assert _run(attempt, UNFIT, FAILED, RESTARTED) == [ABORT, RESTART, GO]
    assert (attempt.state, attempt.was_sent, attempt.moves) == (WAITING, False, 1)


def test_a_discarded_connection_counts_as_no_move() -> None:
    attempt = AttemptState(**_POST)
    assert _run(attempt, DISCARD, FAILED, RESTARTED, KEPT) == [ABORT, RESTART, GO, SEND]
    assert attempt.moves == 0


# --- After the connection broke ---


def test_libcurl_may_send_a_get_again_once_after_a_kept_connection_broke() -> None:
    attempt = AttemptState(**_GET)
    assert _run(attempt, KEPT, OPEN, CONNECTED) == [SEND, GO, SEND]
    assert attempt.state == AGAIN


def test_libcurl_must_not_send_a_post_again_after_a_kept_connection_broke() -> None:
    attempt = AttemptState(**_POST)
    assert _run(attempt, KEPT, OPEN, CONNECTED) == [SEND, GO, ABORT]
    assert attempt.state == STOPPED
    assert attempt.receive(FAILED, Ending(_ABORTED)) == FAIL
    assert attempt.was_stopped


def test_a_get_skips_the_other_kept_connections_after_one_broke() -> None:
    attempt = AttemptState(**_GET)
    assert _run(attempt, KEPT, KEPT) == [SEND, ABORT]
    assert attempt.receive(FAILED, Ending(_ABORTED)) == RESTART
    assert attempt.receive(RESTARTED) == GO
    assert attempt.is_second


def test_a_request_that_may_have_been_processed_is_not_sent_a_third_time() -> None:
    attempt = AttemptState(**_GET)
    _run(attempt, KEPT, KEPT, FAILED, RESTARTED)
    assert _run(attempt, KEPT, OPEN, CONNECTED) == [SEND, GO, ABORT]
    assert attempt.receive(FAILED, Ending(_ABORTED)) == FAIL


@pytest.mark.parametrize("event", [KEPT, UNFIT])
def test_a_post_goes_to_no_other_kept_connection_even_if_a_guard_refuses_that(event: int) -> None:
    attempt = AttemptState(**_POST)
    assert _run(attempt, KEPT, event) == [SEND, ABORT]
    assert attempt.receive(FAILED, Ending(_ABORTED)) == FAIL


def test_an_ended_http2_connection_is_retried_once_unless_a_goaway_explains_it() -> None:
    attempt = AttemptState(**_GET)
    attempt.receive(KEPT)
    assert attempt.receive(FAILED, Ending(_HTTP2)) == RESTART
    _run(attempt, RESTARTED, OPEN, CONNECTED)
    assert attempt.receive(FAILED, Ending(_STREAM, is_reset=True, has_goaway=True)) == RESTART
    _run(attempt, RESTARTED, OPEN, CONNECTED)
    assert attempt.receive(FAILED, Ending(_HTTP2)) == FAIL


def test_a_broken_response_is_not_requested_again() -> None:
    attempt = AttemptState(**_GET)
    attempt.receive(KEPT)
    assert attempt.receive(FAILED, Ending(_HTTP2, has_response=True)) == FAIL


def test_a_send_error_on_a_new_connection_is_final() -> None:
    for events, result in (((KEPT,), RESTART), ((OPEN, CONNECTED), FAIL)):
        attempt = AttemptState(**_GET)
        _run(attempt, *events)
        assert attempt.receive(FAILED, Ending(_SEND_ERROR, is_shared=True)) == result


# --- What the server certainly did not process ---


def test_a_post_goes_out_again_if_nothing_of_it_left() -> None:
    attempt = AttemptState(**_POST)
    attempt.receive(KEPT)
    assert attempt.receive(FAILED, Ending(_HTTP2, nothing_left=True)) == RESTART
    attempt.receive(RESTARTED)
    assert not attempt.was_sent


def test_the_end_of_a_kept_quic_connection_shows_when_a_request_goes_out() -> None:
    ending = Ending(_RECV_ERROR, nothing_left=True, is_quic=True)
    for events, result in (((KEPT,), RESTART), ((OPEN, CONNECTED), FAIL)):
        attempt = AttemptState(**_POST)
        _run(attempt, *events)
        assert attempt.receive(FAILED, ending) == result


def test_a_stopped_post_goes_out_again_if_quic_had_sent_nothing() -> None:
    attempt = AttemptState(**_POST)
    assert _run(attempt, KEPT, OPEN, CONNECTED) == [SEND, GO, ABORT]
    ending = Ending(_ABORTED, nothing_left=True, is_quic=True)
    assert attempt.receive(FAILED, ending) == RESTART


def test_a_refused_post_follows_libcurl_to_the_connection_that_it_opened() -> None:
    attempt = AttemptState(**_POST)
    assert _run(attempt, KEPT, REFUSED, OPEN, CONNECTED) == [SEND, GO, GO, SEND]
    assert (attempt.state, attempt.is_second, attempt.heard) == (ON_NEW, False, -1)


def test_a_refused_post_is_restarted_if_libcurl_offers_a_kept_connection() -> None:
    attempt = AttemptState(**_POST)
    assert _run(attempt, KEPT, REFUSED, KEPT) == [SEND, GO, ABORT]
    assert attempt.receive(FAILED, Ending(_ABORTED)) == RESTART


def test_a_body_that_comes_in_pieces_is_not_sent_again_by_libcurl() -> None:
    attempt = AttemptState(once=True, is_fed=True)
    assert _run(attempt, KEPT, REFUSED, OPEN, CONNECTED) == [SEND, GO, GO, ABORT]
    assert attempt.receive(FAILED, Ending(_ABORTED)) == RESTART  # its transfer rewinds it


def test_a_server_that_refuses_on_new_connections_gets_three_requests() -> None:
    attempt = AttemptState(**_POST)
    assert _run(attempt, OPEN, CONNECTED) == [GO, SEND]
    assert _run(attempt, REFUSED, OPEN, CONNECTED) == [GO, GO, SEND]
    assert _run(attempt, REFUSED, OPEN, CONNECTED) == [GO, GO, SEND]
    assert _run(attempt, REFUSED, OPEN, CONNECTED) == [GO, GO, ABORT]
    assert attempt.receive(FAILED, Ending(_ABORTED)) == FAIL


def test_goaways_may_exclude_a_request_five_times() -> None:
    attempt = AttemptState(**_POST)
    ending = Ending(_STREAM, is_reset=True, is_excluded=True, has_goaway=True)
    owns = []
    for _ in range(5):
        attempt.receive(KEPT)
        assert attempt.receive(FAILED, ending) == RESTART
        attempt.receive(RESTARTED)
        owns.append(attempt.needs_own_connection)
    assert owns == [False, False, False, True, True]  # at first all share a new one
    attempt.receive(KEPT)
    assert attempt.receive(FAILED, ending) == FAIL


def test_without_a_log_a_given_up_connection_that_had_not_ended_means_a_refusal() -> None:
    attempt = AttemptState(**_GET)
    assert _run(attempt, KEPT, ALIVE, OPEN, CONNECTED) == [SEND, GO, GO, SEND]
    assert (attempt.state, attempt.sent) == (ON_NEW, 1)


def test_without_a_log_a_given_up_new_connection_means_a_refusal() -> None:
    attempt = AttemptState(**_GET)
    assert _run(attempt, OPEN, CONNECTED, OPEN, CONNECTED) == [GO, SEND, GO, SEND]
    assert (attempt.state, attempt.refusals) == (ON_NEW, 1)


def test_a_post_needs_the_log_to_be_called_refused() -> None:
    attempt = AttemptState(**_POST)
    assert _run(attempt, OPEN, CONNECTED, ALIVE, OPEN, CONNECTED)[-1] == ABORT


def test_a_refusal_after_two_sends_does_not_undo_the_doubt() -> None:
    attempt = AttemptState(**_GET)
    assert _run(attempt, KEPT, OPEN, CONNECTED, OPEN, CONNECTED) == [SEND, GO, SEND, GO, SEND]
    assert attempt.is_second


def test_a_refusal_is_heard_over_a_connection_that_had_not_ended() -> None:
    attempt = AttemptState(**_POST)
    _run(attempt, KEPT, REFUSED, ALIVE)
    assert attempt.is_refused(Ending(0))


@pytest.mark.parametrize("events", [(OPEN, CONNECTED), (KEPT,)])
def test_a_server_may_ask_for_http1_once(events: tuple[int, ...]) -> None:
    attempt = AttemptState(**_POST)
    _run(attempt, KEPT, DOWNGRADED)
    assert _run(attempt, *events)[-1] == SEND
    assert _run(attempt, OPEN, CONNECTED) == [GO, ABORT]


def test_a_downgrade_to_a_connection_that_is_not_fit_moves_on() -> None:
    attempt = AttemptState(**_POST)
    assert _run(attempt, KEPT, DOWNGRADED, UNFIT, FAILED) == [SEND, GO, ABORT, RESTART]


# --- The end ---


def test_an_early_response_makes_a_get_go_out_again_and_a_post_fail() -> None:
    get, post = AttemptState(**_GET), AttemptState(**_POST)
    assert _run(get, KEPT, EARLY, FAILED, RESTARTED) == [SEND, ABORT, RESTART, GO]
    assert get.is_second
    assert _run(get, KEPT, EARLY) == [SEND, FAIL]
    assert _run(post, KEPT, EARLY) == [SEND, FAIL]


@pytest.mark.parametrize("reason", ["refuses_tls", "has_error"])
@pytest.mark.parametrize("events", [(KEPT,), (UNFIT,), (KEPT, KEPT), (OPEN,)])
def test_some_failures_are_final(events: tuple[int, ...], reason: str) -> None:
    attempt = AttemptState(**_GET)
    _run(attempt, *events)
    assert attempt.receive(FAILED, Ending(_HTTP2, nothing_left=True, **{reason: True})) == FAIL


@pytest.mark.parametrize("events", [(), (KEPT,), (KEPT, OPEN), (OPEN, CONNECTED)])
def test_an_attempt_waits_for_its_names_in_the_state_that_it_has(events: tuple[int, ...]) -> None:
    attempt = AttemptState(**_GET)
    _run(attempt, *events)
    state = attempt.state
    assert attempt.receive(FAILED, Ending(_ABORTED, awaits_names=True)) == HOLD
    assert attempt.state == state


def test_a_reset_attempt_is_like_a_new_one_but_for_its_rule() -> None:
    attempt, new = AttemptState(once=True, is_fed=True), AttemptState(**_POST)
    _run(attempt, KEPT, REFUSED, OPEN, CONNECTED, UNFIT, FAILED)
    attempt.reset()
    attempt.state = WAITING
    for name in AttemptState.__slots__:
        assert getattr(attempt, name) == getattr(new, name)


# --- All sequences ---

_ENDINGS = [
    Ending(0),
    Ending(_HTTP2),
    Ending(_HTTP2, nothing_left=True),
    Ending(_ABORTED),
    Ending(_STREAM, is_reset=True),
    Ending(_STREAM, is_reset=True, is_excluded=True, has_goaway=True),
    Ending(_SEND_ERROR, is_shared=True),
    Ending(_ABORTED, nothing_left=True, is_quic=True),
]


def test_no_sequence_of_events_sends_a_post_again_that_may_have_been_processed() -> None:
    todo, known = [AttemptState(once=True)], set()
    while todo:
        before = todo.pop()
        key = tuple(getattr(before, name) for name in AttemptState.__slots__ if name != "moves")
        if key in known or before.starts > 2 or before.sent > 2:
            continue
        known.add(key)
        for event in EVENTS:
            for ending in _ENDINGS if event == FAILED else [Ending(0)]:
                after = copy(before)
                result = after.receive(event, ending)
                if before.is_out and result == SEND:
                    assert before.heard in (REFUSED, DOWNGRADED)
                if before.is_out and before.state != MOVING and after.state == MOVING:
                    is_certain = result == RESTART and table._was_unprocessed(before, ending)
                    assert before.heard == DOWNGRADED or is_certain
                todo.append(after)
