"""Record what libcurl's callbacks deliver about each attempt, and what was decided.

    python -m tests.support.attempt_traces FILE tests.fuzz --seed 1 --cases 5000
    CURLHTTP_TRACES=FILE python -m pytest -p tests.support.attempt_traces -n 0 tests/client

adds the distinct traces to FILE, a line of JSON for each. Those of
`tests/libcurl/attempt_traces.jsonl` were recorded before one table made the decisions;
`tests/libcurl/test_attempt_traces.py` replays them.

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

import curlhttp._libcurl.driver as driver_module
from curlhttp._libcurl.attempt import ALIVE, DONE, FAIL, HOLD, MOVING, RESTART, TURNED_AWAY, WAITING
from curlhttp._libcurl.libcurl_log import parse_log_event
from curlhttp._libcurl.transfer import Transfer

_RESULTS = {DONE: "done", FAIL: "fail", RESTART: "restart", HOLD: "hold"}
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
        upload = transfer.upload
        fed = 0 if upload is None else 2 if upload.feed is not None else 1
        _found.add(json.dumps([transfer.attempt.once, fed, steps], separators=(",", ":")))


def _end_facts(transfer: Transfer) -> dict[str, Any]:
    """Return what the decision about a failure may depend on."""
    ending = transfer.ending()
    facts = {
        "code": ending.code if ending.code in _CODES else _ANOTHER,
        "response": ending.has_response,
        "reset": ending.is_reset,
        "excluded": ending.is_excluded,
        "goaway": ending.has_goaway,
        "quic": ending.is_quic,
        "shares": ending.is_shared,
        "nothing_left": ending.nothing_left,
    }
    return {key: value for key, value in facts.items() if value}


def _claims(transfer: Transfer) -> dict[str, bool]:
    """Return what an error would say of the attempt."""
    attempt, ending = transfer.attempt, transfer.ending()
    refused = attempt.is_refused(ending)
    claims = {
        "sent": attempt.was_sent,
        "connected": attempt.is_out,
        "stopped": ending.code == pycurl.E_ABORTED_BY_CALLBACK and attempt.was_stopped,
        "refused": refused and not attempt.is_second,
        "refused_last": refused and attempt.is_second,
    }
    return {key: True for key, value in claims.items() if value}


def _decision(transfer: Transfer, result: int) -> str:
    if result == int(pycurl.PREREQFUNC_OK):
        return "send"
    return "restart" if transfer.attempt.state in (TURNED_AWAY, MOVING) else "abort"


def _on_send(original: Any) -> Any:
    def call(self: Transfer, *route: Any) -> int:
        is_new, is_first = bool(self.sockets), self.attempt.state == WAITING
        result: int = original(self, *route)
        decision = _decision(self, result)
        # If it was sent before, most connections need not be fit, since it does not go out.
        fits = None if is_new else True if decision == "send" else False if is_first else None
        _add(self, "send", "new" if is_new else "kept", fits, decision)
        return result

    return call


def _on_guarded_send(original: Any) -> Any:
    def call(self: Transfer, *route: Any) -> int:
        count, is_new = len(_steps(self)), bool(self.sockets)
        result: int = original(self, *route)
        if len(_steps(self)) == count:  # the guard refused the connection
            _add(self, "blocked", "new" if is_new else "kept", _decision(self, result))
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
        before = self.attempt.heard
        original(self, descriptor)
        if self.attempt.heard == ALIVE and before != ALIVE:
            _add(self, "open")

    return call


def _reject_early_response(original: Any) -> Any:
    def call(self: Transfer, *, has_head: bool) -> None:
        original(self, has_head=has_head)
        _add(self, "early", has_head, "fail" if self.failed is not None else "restart")

    return call


def _conclude_in_task(original: Any) -> Any:
    def call(self: Transfer) -> int:
        facts, has_error = _end_facts(self), self.failed is not None
        result: int = original(self)
        if self.code:
            _add(self, "task", facts, has_error, _RESULTS[result])
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
        discards, shares = self.handle.is_discarding, self.ending().is_shared
        facts = _end_facts(self)
        original(self)
        _add(
            self,
            "again",
            {**facts, "discards": discards, "shares": shares},
            self.handle._avoids_reuse,
            self.attempt.is_second,
        )

    return call


def _finish(original: Any) -> Any:
    def call(transfer: Transfer) -> int:
        result: int = original(transfer)
        if not (_steps(transfer) and _steps(transfer)[-1][0] == "early"):
            _add(transfer, "end", {"response": bool(transfer.lines)}, _RESULTS[result])
        return result

    return call


def _finish_failed(original: Any) -> Any:
    def call(transfer: Transfer, code: int, message: str) -> int:
        transfer.code, transfer.message = code, message
        facts, refuses_tls = _end_facts(transfer), transfer.ending().refuses_tls
        result: int = original(transfer, code, message)
        upload, has_error = transfer.upload, transfer.failed is not None
        decision = _RESULTS[result]
        if upload is not None and upload.feed is not None and result == FAIL:
            decision = "task"
        _add(
            transfer,
            "end",
            facts | ({"refuses_tls": True} if refuses_tls else {}),
            has_error,
            decision,
        )
        if decision in ("fail", "task"):
            _add(transfer, "claims", _claims(transfer))
        return result

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
        ("on_send", _on_send),
        ("on_guarded_send", _on_guarded_send),
        ("on_socket", _on_socket),
        ("on_discard", _on_discard),
        ("on_lookup", _on_lookup),
        ("on_log", _on_log),
        ("note_unwatched", _note_unwatched),
        ("reject_early_response", _reject_early_response),
        ("conclude_in_task", _conclude_in_task),
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
