"""Record what libcurl's callbacks deliver about each attempt, and what was decided.

    python -m tests.support.attempt_traces FILE tests.fuzz --seed 1 --cases 5000
    CURLHTTP_TRACES=FILE python -m pytest -p tests.support.attempt_traces -n 0 tests/client

adds the distinct traces to FILE, a line of JSON for each. Those of
`tests/curl/attempt_traces.jsonl` were recorded before one table made the decisions;
`tests/curl/test_attempt_traces.py` replays them.

A trace is [once, fed, steps]. Once: the request must not go out twice without the flow. Fed: 0 if
its body is in memory, 1 if libcurl reads it, 2 if a task does. A step is [event, facts...,
decision].
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import pycurl

import curlhttp._curl.driver as driver_module
from curlhttp._curl.libcurl_log import get_stream_reset, is_excluded_by_goaway, parse_log_event
from curlhttp._curl.transfer import Transfer

_DECISIONS = {int(pycurl.PREREQFUNC_OK): "send", int(pycurl.PREREQFUNC_ABORT): "abort"}
# The decisions depend on these of libcurl's codes (curl.h); one stands for all others.
_CODES, _ANOTHER = (0, 16, 42, 55, 56, 65, 92, 95), 1
_running: dict[int, list[Any]] = {}
_found: set[str] = set()


def _steps(transfer: Transfer) -> list[Any]:
    return _running.setdefault(id(transfer), [])


def _add(transfer: Transfer, *step: object) -> None:
    steps = _steps(transfer)
    if not (steps and steps[-1] == list(step) and step[0] in ("socket", "log", "open")):
        steps.append(list(step))


def _wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, wraps(original)(make(original)))


def _store(transfer: Transfer) -> None:
    steps = _running.pop(id(transfer), None)
    request = transfer.request
    if steps and request is not None:
        fed = 0 if transfer.feed is None else 2 if transfer.is_fed_by_task else 1
        _found.add(json.dumps([transfer.sends_once, fed, steps], separators=(",", ":")))


def _end_facts(transfer: Transfer) -> dict[str, Any]:
    """Return what the decision about a failure may depend on."""
    connection, code, message = transfer.connection, transfer.code, transfer.message
    stream = get_stream_reset(message) if code == 92 else 0
    beyond = connection is not None and stream > connection.last_stream
    facts = {
        "code": code if code in _CODES else _ANOTHER,
        "response": bool(transfer.lines),
        "reset": stream > 0,
        "excluded": stream > 0 and (beyond or is_excluded_by_goaway(message)),
        "goaway": transfer.has_goaway,
        "quic": connection is not None and connection.is_quic,
        "shares": transfer._shares,
        "nothing_left": not transfer.easy.getinfo(pycurl.REQUEST_SIZE),
    }
    return {key: value for key, value in facts.items() if value}


def _claims(transfer: Transfer) -> dict[str, bool]:
    """Return what an error would say of the attempt."""
    refused = transfer.is_refused()
    claims = {
        "sent": transfer.was_sent,
        "connected": transfer.sends > 0,
        "stopped": transfer.code == pycurl.E_ABORTED_BY_CALLBACK and transfer.sends > 1,
        "refused": refused and not transfer.is_second,
        "refused_last": refused and transfer.is_second,
    }
    return {key: True for key, value in claims.items() if value}


def _decision(transfer: Transfer, otherwise: str) -> str:
    if not transfer.restarts:
        return otherwise
    return "hold" if transfer.lookup is not None else "restart"


def _on_send(original: Any) -> Any:
    def call(self: Transfer, *route: Any) -> int:
        is_new, before, shown = self._connecting, self.connection, self.restarts
        result: int = original(self, *route)
        decision = "restart" if self.restarts and not shown else _DECISIONS[result]
        if is_new:
            fits = None
        elif decision == "send":
            fits = True
        else:  # if it was sent before, most connections are not looked at
            fits = (
                None if self.sends > 1 or (self.sends == 1 and self.connection is before) else False
            )
        _add(self, "send", "new" if is_new else "kept", fits, decision)
        return result

    return call


def _on_guarded_send(original: Any) -> Any:
    def call(self: Transfer, *route: Any) -> int:
        count, is_new = len(_steps(self)), self._connecting
        result: int = original(self, *route)
        if len(_steps(self)) == count:  # the guard refused the connection
            decision = "restart" if self.restarts else "abort"
            _add(self, "blocked", "new" if is_new else "kept", decision)
        return result

    return call


def _on_socket(original: Any) -> Any:
    def call(self: Transfer, descriptor: int, purpose: int) -> int:
        _add(self, "socket")
        return original(self, descriptor, purpose)  # type: ignore[no-any-return]

    return call


def _on_discard(original: Any) -> Any:
    def call(self: Transfer, *route: Any) -> int:
        _add(self, "discard", "restart")
        return original(self, *route)  # type: ignore[no-any-return]

    return call


def _on_lookup(original: Any) -> Any:
    def call(self: Transfer) -> int:
        result: int = original(self)
        if result:
            _add(self, "lookup", "fail" if self.failed is not None else "hold")
        return result

    return call


def _on_log(original: Any) -> Any:
    def call(self: Transfer, kind: int, text: bytes) -> None:
        found = parse_log_event(kind, text)
        if found is not None and found[0] in ("refused", "downgrades"):
            _add(self, "log", found[0], bool(self.lines))
        original(self, kind, text)

    return call


def _note_unwatched(original: Any) -> Any:
    def call(self: Transfer, descriptor: int) -> None:
        before, self._was_open = self._was_open, False
        original(self, descriptor)
        if self._was_open:
            _add(self, "open")
        self._was_open = self._was_open or before

    return call


def _reject_early_response(original: Any) -> Any:
    def call(self: Transfer, *, has_head: bool) -> None:
        original(self, has_head=has_head)
        _add(self, "early", has_head, "fail" if self.failed is not None else "restart")

    return call


def _rewind_if_unprocessed(original: Any) -> Any:
    def call(self: Transfer) -> bool:
        result: bool = original(self)
        if self.is_fed_by_task:
            facts = _end_facts(self)
            _add(self, "task", facts, self.failed is not None, "restart" if result else "fail")
        return result

    return call


def _rewinds(original: Any) -> Any:
    def call(self: Transfer) -> bool:
        result: bool = original(self)
        if not result:
            _add(self, "rewind", result)
        return result

    return call


def _restart(original: Any) -> Any:
    def call(self: Transfer) -> None:
        discards, shares = self.handle.is_discarding, self._shares
        facts = _end_facts(self)
        fresh: list[bool] = []
        avoid = type(self.handle).avoid_reuse

        def note(handle: Any, avoids: bool) -> None:
            fresh.append(avoids)
            avoid(handle, avoids)

        type(self.handle).avoid_reuse = note  # type: ignore[method-assign]
        try:
            original(self)
        finally:
            type(self.handle).avoid_reuse = avoid  # type: ignore[method-assign]
        _add(
            self,
            "again",
            {**facts, "discards": discards, "shares": shares},
            fresh[-1],
            self.is_second,
        )

    return call


def _finish(original: Any) -> Any:
    def call(transfer: Transfer) -> None:
        original(transfer)
        otherwise = "done" if transfer.failed is None else "fail"
        if not (_steps(transfer) and _steps(transfer)[-1][0] == "early"):
            _add(
                transfer, "end", {"response": bool(transfer.lines)}, _decision(transfer, otherwise)
            )

    return call


def _finish_failed(original: Any) -> Any:
    def call(transfer: Transfer, code: int, message: str) -> None:
        transfer.code, transfer.message = code, message
        facts = _end_facts(transfer)
        original(transfer, code, message)
        has_failed, by_task = transfer.failed is not None, transfer.is_fed_by_task
        facts |= {"refuses_tls": True} if transfer.note_refusal() else {}
        decision = "task" if by_task and not transfer.restarts else _decision(transfer, "fail")
        _add(transfer, "end", facts, has_failed, decision)
        if decision in ("fail", "task"):
            _add(transfer, "claims", _claims(transfer))

    return call


def _at_end(original: Any) -> Any:
    def call(self: Transfer) -> None:
        with suppress(AttributeError):  # it is made just now
            _store(self)
        original(self)

    return call


def record() -> None:
    """Record from now on."""
    for name, make in (
        ("_on_send", _on_send),
        ("_on_guarded_send", _on_guarded_send),
        ("_on_socket", _on_socket),
        ("_on_discard", _on_discard),
        ("_on_lookup", _on_lookup),
        ("_on_log", _on_log),
        ("note_unwatched", _note_unwatched),
        ("reject_early_response", _reject_early_response),
        ("rewind_if_unprocessed", _rewind_if_unprocessed),
        ("_rewinds", _rewinds),
        ("restart", _restart),
        ("clean", _at_end),
        ("close", _at_end),
    ):
        _wrap(Transfer, name, make)
    _wrap(driver_module, "finish", _finish)
    _wrap(driver_module, "finish_failed", _finish_failed)


def store(path: Path) -> None:
    """Add the distinct traces to a file."""
    known = set(path.read_text().splitlines()) if path.exists() else set()
    path.write_text("\n".join(sorted(known | _found, key=lambda line: (len(line), line))) + "\n")


if "CURLHTTP_TRACES" in os.environ:  # as a plugin of pytest
    record()

    def pytest_sessionfinish() -> None:
        """Store what was found."""
        store(Path(os.environ["CURLHTTP_TRACES"]))


if __name__ == "__main__":
    # This file runs as a program, so it records in the module of the same name.
    import tests.support.attempt_traces as recorder

    file, sys.argv = Path(sys.argv[1]), sys.argv[2:]
    recorder.record()
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    finally:
        recorder.store(file)
