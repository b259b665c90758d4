"""The table of an attempt decides as the code before it did, in each trace that was recorded then.

The traces are of the fuzzer, the storm and the tests of clients: tests/support/attempt_traces.py.
"""

from __future__ import annotations

import json
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from curlhttp._libcurl import attempt as table
from curlhttp._libcurl.attempt import AttemptState, Ending

_TRACES = [
    json.loads(line)
    for line in Path(__file__).with_name("attempt_traces.jsonl").read_text().splitlines()
]
_ABORTED = 42
_BY_TASK = 2


class _Differs(Exception):
    """The code before the table remembered that an earlier connection had not ended.

    So it let a request go out a third time, although the last connection may have ended.
    """


class _Replay:
    """Passes the events of one trace to the table, and compares the decisions."""

    def __init__(self, once: bool, fed: int) -> None:
        self.attempt = AttemptState(once=once, is_fed=fed > 0)
        self.by_task = fed == _BY_TASK
        self.awaits_names = False
        self.rewinds = True
        self.was_alive = False
        self.result = -1

    def _decide(self, result: int) -> str:
        """Return today's decision in the words of the traces."""
        if result == table.SEND:
            return "send"
        assert result == table.ABORT
        goes_on = self.attempt.state in (table.TURNED_AWAY, table.MOVING)
        return "restart" if goes_on else "abort"

    def socket(self) -> None:
        self.attempt.receive(table.OPEN)

    def send(self, which: str, fits: bool | None, decision: str) -> None:
        if which == "new" and self.attempt.state == table.WAITING:
            # It was taken for new, because the one that was opened before it was discarded.
            events = [table.KEPT]
        elif which == "new":
            events = [table.CONNECTED]
        elif fits is None:  # nobody looked at it, so it made no difference
            events = [table.KEPT, table.UNFIT]
        else:
            events = [table.KEPT if fits else table.UNFIT]
        before = copy(self.attempt)
        for event in events:
            self.attempt = copy(before)
            found = self._decide(self.attempt.receive(event))
            if self.was_alive and before.starts and (found, decision) == ("abort", "send"):
                raise _Differs
            assert found == decision

    def discard(self, decision: str) -> None:
        assert self._decide(self.attempt.receive(table.DISCARD)) == decision

    def blocked(self, which: str, decision: str) -> None:
        if which == "kept" and decision == "restart":
            assert self._decide(self.attempt.receive(table.UNFIT)) == decision

    def rewind(self, succeeds: bool) -> None:
        self.rewinds = succeeds

    def lookup(self, decision: str) -> None:
        self.awaits_names = decision == "hold"

    def log(self, what: str, has_response: bool) -> None:
        if what == "downgrades":
            self.attempt.receive(table.DOWNGRADED)
        elif not has_response:
            self.attempt.receive(table.REFUSED)

    def open(self) -> None:
        self.was_alive = True
        self.attempt.receive(table.ALIVE)

    def early(self, has_head: bool, decision: str) -> None:
        if not has_head:
            result = self.attempt.receive(table.EARLY)
            assert result == (table.FAIL if decision == "fail" else table.ABORT)

    def end(self, facts: dict[str, Any], *rest: Any) -> None:
        if len(rest) == 1:  # libcurl calls it successful
            assert rest[0] in ("done", "fail")
            return
        has_error, decision = rest
        has_error = has_error and self.rewinds
        if decision == "task":
            self.ending = _ending(facts, has_error)
            return
        ending = _ending(facts, has_error, self.awaits_names)
        self.awaits_names = False
        self._end(ending, decision)

    def _end(self, ending: Ending, decision: str) -> None:
        self.ending = ending
        result = self.result = self.attempt.receive(table.FAILED, ending)
        if not self.rewinds and decision == "fail":  # it would go out again with another body
            decision, self.result = "restart", table.FAIL
        expected = {"restart": table.RESTART, "fail": table.FAIL, "hold": table.HOLD}[decision]
        assert result == expected

    def task(self, facts: dict[str, Any], has_error: bool, decision: str) -> None:
        self._end(_ending(facts, has_error and self.rewinds), decision)

    def claims(self, claims: dict[str, bool]) -> None:
        attempt = self.attempt
        if self.result != table.FAIL:
            return
        refused = attempt.is_refused(self.ending)
        stopped = attempt.was_stopped and self.ending.code == _ABORTED
        assert claims.get("sent", False) == attempt.was_sent
        assert claims.get("connected", False) == attempt.is_out
        assert claims.get("stopped", False) == stopped
        assert claims.get("refused", False) == (refused and not attempt.is_second)
        assert claims.get("refused_last", False) == (refused and attempt.is_second)

    def again(self, facts: dict[str, Any], fresh: bool, is_second: bool) -> None:
        if self.result != table.RESTART:  # its response came too early
            assert self.attempt.receive(table.FAILED, Ending(0)) == table.RESTART
        assert self.attempt.receive(table.RESTARTED) == table.GO
        self.result = -1
        assert (not facts["shares"] or self.attempt.needs_own_connection) == fresh
        assert self.attempt.is_second == is_second


def _ending(facts: dict[str, Any], has_error: bool, awaits_names: bool = False) -> Ending:
    return Ending(
        code=facts.get("code", 0),
        nothing_left=facts.get("nothing_left", False),
        has_response=facts.get("response", False),
        is_reset=facts.get("reset", False) and not facts.get("response"),
        is_excluded=facts.get("excluded", False) and not facts.get("response"),
        has_goaway=facts.get("goaway", False),
        is_quic=facts.get("quic", False),
        is_shared=facts.get("shares", False),
        refuses_tls=facts.get("refuses_tls", False),
        awaits_names=awaits_names,
        has_error=has_error,
    )


def test_the_traces_cover_what_can_happen() -> None:
    steps = [step for *_, steps in _TRACES for step in steps]
    decisions = {(step[0], step[-1]) for step in steps if isinstance(step[-1], str)}
    wanted = {
        ("send", "send"),
        ("send", "abort"),
        ("send", "restart"),
        ("discard", "restart"),
        ("lookup", "hold"),
        ("end", "restart"),
        ("end", "hold"),
        ("task", "restart"),
    }
    assert wanted <= decisions


@pytest.mark.parametrize("part", range(8))
def test_the_table_decides_as_in_the_recorded_traces(part: int) -> None:
    for once, fed, steps in _TRACES[part::8]:
        replay = _Replay(once, fed)
        for event, *facts in steps:
            try:
                getattr(replay, event)(*facts)
            except _Differs:
                break
            except AssertionError as error:
                trace = json.dumps([once, fed, steps])
                raise AssertionError(f"{[event, *facts]} of {trace}") from error
