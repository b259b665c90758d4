"""Decide whether libcurl may send a request again: one attempt as a table of states. Pure.

libcurl sends a request again on its own when a kept connection turns out to be dead, or when an
HTTP/2 server refused the request. No option turns this off. But libcurl says when it opens a socket
and when it is about to send, and there we can stop it. `Transfer` passes these events to `receive`,
which returns what to do. Nothing here acts, except on the attempt's own state.

Two rules follow from one question: may the server have processed the request?

1.  Certainly not, if none of it left, if the server refused it (RFC 9113, section 8.7), or if the
    server asked for HTTP/1.1. Then any request may go out again, up to _MAX_SENDS times.
2.  It may have, if a kept connection ended: the server may have closed it just before. Then a
    request that may be processed twice goes out again, once. A request that must not ("once", such
    as a POST) does not: the caller gets an error.

A pair of a state and an event that is not in the table changes nothing and returns ABORT.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from curlhttp._http.named_tuple import NamedTuple

# --- States ---

WAITING = 0  # nothing has gone out, and libcurl has opened no connection
CONNECTING = 1  # nothing has gone out; libcurl opens a connection
TURNED_AWAY = 2  # nothing has gone out, because the connection was not fit
ON_KEPT = 3  # it went out on a kept connection
ON_NEW = 4  # it went out on a connection that was opened for it
LEFT_KEPT = 5  # libcurl gave up the kept connection that it went out on, and opens another one
LEFT_NEW = 6  # libcurl gave up the connection that was opened for it, and opens another one
AGAIN = 7  # it went out twice, the last time on a connection that libcurl opened
AGAIN_KEPT = 8  # it went out twice, the last time on a kept connection
LEFT_AGAIN = 9  # it went out twice; libcurl gave up that connection, and opens another one
STOPPED = 10  # libcurl was about to send it again, and was stopped
MOVING = 11  # it went out, and goes out again on another connection

STATES = range(MOVING + 1)
_OUT = (ON_KEPT, ON_NEW, LEFT_KEPT, LEFT_NEW, AGAIN, AGAIN_KEPT, LEFT_AGAIN, STOPPED, MOVING)
_HAS_OPENED = frozenset({CONNECTING, ON_NEW, LEFT_KEPT, LEFT_NEW, AGAIN, LEFT_AGAIN, STOPPED})

# --- Events ---

OPEN = 0  # libcurl opens a socket
CONNECTED = 1  # it is about to send, on the connection that it has opened
KEPT = 2  # it is about to send, on a kept connection that is fit
UNFIT = 3  # it is about to send, on a kept connection that has ended or is not clean
DISCARD = 4  # it is about to send, on a connection that it is made to close
REFUSED = 5  # its log says that the server processed nothing of the request
DOWNGRADED = 6  # its log says that the server wants HTTP/1.1, and so processed nothing
ALIVE = 7  # it gives up the connection, which has not ended
EARLY = 8  # the response came before the request, and so belongs to another one
FAILED = 9  # it has ended the attempt with an error
RESTARTED = 10  # the attempt begins again

EVENTS = range(RESTARTED + 1)

# --- Results ---

DONE = 0  # the response is whole
GO = 1  # nothing to do
SEND = 2  # libcurl may send
ABORT = 3  # libcurl must not send; it ends the attempt
RESTART = 4  # the attempt begins again, on another connection
FAIL = 5  # the attempt has failed
HOLD = 6  # the attempt begins again when its names are looked up

_MAX_SENDS = 6  # of one attempt, while servers refuse it
_MAX_REFUSALS = 3  # on connections that were opened for it: such a server refuses it always
_SHARED_MOVES = 3  # see `needs_own_connection`

# libcurl's codes (curl.h)
_HTTP2, _SEND_ERROR, _RECV_ERROR, _HTTP2_STREAM, _HTTP3 = 16, 55, 56, 92, 95
_ABORTED_BY_CALLBACK, _SEND_FAIL_REWIND = 42, 65
# It gives up a refused request with these: after our abort, without a way to rewind, or after five
# tries; or after a GOAWAY with an error, which it (8.23) reports for each stream.
_AFTER_REFUSAL = (
    _HTTP2_STREAM,
    _ABORTED_BY_CALLBACK,
    _SEND_FAIL_REWIND,
    _SEND_ERROR,
    _RECV_ERROR,
)
_ENDED_QUIC = (_RECV_ERROR, _HTTP3)


class Ending(NamedTuple):
    """How libcurl ended an attempt that failed.

    Attributes:
        code: its result code.
        nothing_left: it sent no byte of the request.
        has_response: header lines have arrived.
        is_reset: it reset the stream of HTTP/2, without a response.
        is_excluded: the reset stream is one that a GOAWAY left out.
        has_goaway: the server sent a GOAWAY on the connection.
        is_quic: the connection uses HTTP/3.
        is_shared: the connection uses HTTP/2 or HTTP/3.
        refuses_tls: the server refused TLS, and would refuse it again.
        awaits_names: it ended the attempt because its names are looked up.
        has_error: a callback or a check has found another error.
    """

    code: int
    nothing_left: bool = False
    has_response: bool = False
    is_reset: bool = False
    is_excluded: bool = False
    has_goaway: bool = False
    is_quic: bool = False
    is_shared: bool = False
    refuses_tls: bool = False
    awaits_names: bool = False
    has_error: bool = False


_NO_ENDING = Ending(0)


class AttemptState:
    """What one request has been through; reset by `reset` for the next one.

    Attributes:
        state: see above.
        once: the request must not be processed twice.
        is_fed: its body is read piece by piece, and cannot be read again unnoticed.
        heard: the last of REFUSED, DOWNGRADED and ALIVE since it went out, -1 for none.
        is_second: it may have been processed once, before it went out the last time.
        sent: how often it went out before the last time.
        refusals: how often it was refused on connections that were opened for it.
        moves: how often it went out on another connection, because nothing was processed.
        starts: how often it began again.
    """

    __slots__ = (
        "heard",
        "is_fed",
        "is_second",
        "moves",
        "once",
        "refusals",
        "sent",
        "starts",
        "state",
    )

    def __init__(self, *, once: bool = False, is_fed: bool = False) -> None:
        self.once = once
        self.state = WAITING
        self.reset()
        self.is_fed = is_fed

    def reset(self) -> None:
        """Forget everything but the state, which every attempt changes, and `once`."""
        self.is_fed = self.is_second = False
        self.heard = -1
        self.sent = self.refusals = self.moves = self.starts = 0

    def receive(self, event: int, ending: Ending = _NO_ENDING) -> int:
        """Change the state after an event, and return the result.

        Args:
            event: see above.
            ending: for FAILED.
        """
        for condition, result, after, effect in _TABLE.get((self.state, event), ()):
            if condition is None or condition(self, ending):
                if effect is not None:
                    effect(self, ending)
                if after is not None:
                    self.state = after
                return result
        return ABORT

    @property
    def is_out(self) -> bool:
        """Return whether it went out since it began, or began again."""
        return self.state >= ON_KEPT

    @property
    def was_sent(self) -> bool:
        """Return whether a server may have seen it."""
        return self.state >= ON_KEPT or self.is_second

    @property
    def has_opened(self) -> bool:
        """Return whether libcurl has opened a connection for it since it began."""
        return self.state in _HAS_OPENED

    @property
    def was_stopped(self) -> bool:
        """Return whether libcurl was about to send it again, or has done so."""
        return self.state >= AGAIN

    @property
    def needs_own_connection(self) -> bool:
        """Return whether it may share no connection with other requests any more.

        Those that a GOAWAY excluded first share a new connection; later each gets its own.
        """
        return self.moves > _SHARED_MOVES

    def is_refused(self, ending: Ending) -> bool:
        """Return whether the server said that it did not process it (RFC 9113, section 8.7)."""
        return self.heard == REFUSED or ending.is_excluded


# --- Conditions ---


def _was_downgraded(attempt: AttemptState, ending: Ending) -> bool:
    return attempt.heard == DOWNGRADED


def _was_refused(attempt: AttemptState, ending: Ending) -> bool:
    return attempt.heard == REFUSED


def _left_refused(attempt: AttemptState, ending: Ending) -> bool:
    # Nobody reads the log of a request that may go out twice. But without a refusal, libcurl sends
    # again only after a kept connection has ended.
    return attempt.heard == REFUSED or (
        not attempt.once and attempt.heard != DOWNGRADED and _had_not_ended(attempt)
    )


def _had_not_ended(attempt: AttemptState) -> bool:
    return attempt.heard == ALIVE or attempt.state != LEFT_KEPT


def _may_follow(attempt: AttemptState, ending: Ending) -> bool:
    refusals = attempt.refusals + (attempt.state != LEFT_KEPT)
    return (
        _left_refused(attempt, ending)
        and not attempt.is_fed
        and attempt.sent + 1 < _MAX_SENDS
        and refusals < _MAX_REFUSALS
    )


def _must_not_repeat(attempt: AttemptState, ending: Ending) -> bool:
    return attempt.once or attempt.is_second


def _ends_for_good(attempt: AttemptState, ending: Ending) -> bool:
    return ending.refuses_tls or ending.has_error


def _awaits_names(attempt: AttemptState, ending: Ending) -> bool:
    return ending.awaits_names and not _ends_for_good(attempt, ending)


def _was_unprocessed(attempt: AttemptState, ending: Ending) -> bool:
    """Return whether the server certainly processed nothing of what was sent."""
    if _left_nothing(attempt, ending):
        return True
    return ending.code in _AFTER_REFUSAL and attempt.is_refused(ending)


def _left_nothing(attempt: AttemptState, ending: Ending) -> bool:
    """Return whether libcurl sent nothing, on a connection that had ended or broke HTTP/2."""
    code, state = ending.code, attempt.state
    if not ending.nothing_left:
        return False
    if ending.is_quic and code in _ENDED_QUIC:
        # libcurl notices the end of a connection only when a request goes out on it.
        return state == ON_KEPT
    if ending.is_quic and code == _ABORTED_BY_CALLBACK:  # it was about to send it again
        return state in (STOPPED, MOVING)
    return code == _HTTP2 and state in (ON_KEPT, ON_NEW, LEFT_KEPT, LEFT_NEW)


def _may_go_again(attempt: AttemptState, ending: Ending) -> bool:
    """Return whether a failed attempt begins again."""
    if _ends_for_good(attempt, ending) or attempt.sent + 1 >= _MAX_SENDS:
        return False
    if _was_unprocessed(attempt, ending) and attempt.refusals < _MAX_REFUSALS:
        return True
    if attempt.once or ending.has_response:
        return False
    if attempt.is_second and not ending.has_goaway:  # a reload may end the next one too
        return False
    if ending.code == _HTTP2 or ending.is_reset:
        return True  # the connection ended; a server that reloads ends all its streams
    # The server may have ended the kept connection just before it broke.
    return ending.code == _SEND_ERROR and ending.is_shared and not attempt.has_opened


# --- Effects ---


def _hear(event: int) -> _Effect:
    def hear(attempt: AttemptState, ending: Ending) -> None:
        attempt.heard = event

    return hear


def _hear_alive(attempt: AttemptState, ending: Ending) -> None:
    if attempt.heard < 0:
        attempt.heard = ALIVE


def _count_refusal(attempt: AttemptState, ending: Ending) -> None:
    attempt.heard = REFUSED
    attempt.refusals += attempt.state != LEFT_KEPT


def _follow(attempt: AttemptState, ending: Ending) -> None:
    """Count a refusal, after which libcurl sends the request on the connection that it opened."""
    attempt.refusals += attempt.state != LEFT_KEPT
    attempt.is_second = attempt.is_second or attempt.state == LEFT_AGAIN
    attempt.sent += 1
    attempt.heard = -1


def _move(attempt: AttemptState, ending: Ending) -> None:
    attempt.moves += 1


def _move_on(attempt: AttemptState, ending: Ending) -> None:
    """Count what was sent before the attempt begins again."""
    attempt.sent += attempt.is_out
    if _was_unprocessed(attempt, ending):
        attempt.moves += 1
    else:
        attempt.is_second = True


def _begin_again(attempt: AttemptState, ending: Ending) -> None:
    attempt.starts += 1
    attempt.heard = -1


_Condition = Callable[[AttemptState, Ending], bool]
_Effect = Callable[[AttemptState, Ending], None]
_Row = tuple[
    tuple[int, ...], tuple[int, ...], "_Condition | None", int, "int | None", "_Effect | None"
]
_ANY = tuple(STATES)
_SENT_ONCE = (ON_KEPT, ON_NEW)
_LEFT = (LEFT_KEPT, LEFT_NEW, LEFT_AGAIN)
_OTHER = (KEPT, UNFIT)

# --- The table: of the rows for a state and an event, the first whose condition holds counts ---

_ROWS: tuple[_Row, ...] = (
    # states, events, condition, result, next state, effect
    #
    # libcurl opens a connection
    ((WAITING, CONNECTING), (OPEN,), None, GO, CONNECTING, None),
    ((ON_KEPT, LEFT_KEPT), (OPEN,), None, GO, LEFT_KEPT, None),
    ((ON_NEW, LEFT_NEW), (OPEN,), None, GO, LEFT_NEW, None),
    ((AGAIN, AGAIN_KEPT, LEFT_AGAIN), (OPEN,), None, GO, LEFT_AGAIN, None),
    # It is about to send the request for the first time
    ((WAITING,), (KEPT,), None, SEND, ON_KEPT, None),
    ((CONNECTING,), (CONNECTED,), None, SEND, ON_NEW, None),
    ((WAITING, CONNECTING), (UNFIT,), None, ABORT, TURNED_AWAY, _move),
    ((WAITING, CONNECTING), (DISCARD,), None, ABORT, TURNED_AWAY, None),
    # It is about to send the request again, on a connection that it opened
    ((LEFT_KEPT, LEFT_NEW), (CONNECTED,), _was_downgraded, SEND, AGAIN, None),
    (_LEFT, (CONNECTED,), _may_follow, SEND, ON_NEW, _follow),
    (_LEFT, (CONNECTED,), _left_refused, ABORT, STOPPED, _count_refusal),
    ((LEFT_KEPT,), (CONNECTED,), _must_not_repeat, ABORT, STOPPED, None),
    ((LEFT_KEPT,), (CONNECTED,), None, SEND, AGAIN, None),
    ((LEFT_NEW, LEFT_AGAIN), (CONNECTED,), None, ABORT, STOPPED, None),
    # ... on another kept connection. After a restart of the server all of them are dead, and
    # libcurl would try one after the other. So the attempt moves to a new one.
    (_SENT_ONCE, (KEPT,), _was_downgraded, SEND, AGAIN_KEPT, None),
    (_SENT_ONCE, (UNFIT,), _was_downgraded, ABORT, MOVING, None),
    (_SENT_ONCE, _OTHER, _was_refused, ABORT, STOPPED, None),
    (_SENT_ONCE, _OTHER, _must_not_repeat, ABORT, STOPPED, None),
    (_SENT_ONCE, _OTHER, None, ABORT, MOVING, None),
    ((AGAIN, AGAIN_KEPT), _OTHER, None, ABORT, STOPPED, None),
    # What libcurl reports of the server that it went to
    (_OUT, (REFUSED,), None, GO, None, _hear(REFUSED)),
    (_OUT, (DOWNGRADED,), None, GO, None, _hear(DOWNGRADED)),
    (_OUT, (ALIVE,), None, GO, None, _hear_alive),
    ((*_SENT_ONCE, AGAIN, AGAIN_KEPT), (EARLY,), _must_not_repeat, FAIL, None, None),
    ((*_SENT_ONCE, AGAIN, AGAIN_KEPT), (EARLY,), None, ABORT, MOVING, None),
    # The end
    (_ANY, (FAILED,), _awaits_names, HOLD, None, None),
    ((TURNED_AWAY, MOVING), (FAILED,), _ends_for_good, FAIL, None, None),
    ((TURNED_AWAY,), (FAILED,), None, RESTART, None, None),
    ((MOVING,), (FAILED,), None, RESTART, None, _move_on),
    (_OUT, (FAILED,), _may_go_again, RESTART, MOVING, _move_on),
    (_ANY, (FAILED,), None, FAIL, None, None),
    ((TURNED_AWAY, MOVING), (RESTARTED,), None, GO, WAITING, _begin_again),
)

_Choice = tuple["_Condition | None", int, "int | None", "_Effect | None"]
_TABLE: dict[tuple[int, int], tuple[_Choice, ...]] = {}
for _states, _events, *_choice in _ROWS:
    for _pair in product(_states, _events):
        _TABLE[_pair] = (*_TABLE.get(_pair, ()), tuple(_choice))  # type: ignore[arg-type]
