"""Ctrl-C around the hand-over of a transfer loses no slot, wherever the interpreter lets it in."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import curlhttp
from curlhttp import Timeout
from tests.servers import AppServer

_WHERE = ("connection_pool.py", "blocking.py")


class _Interrupt:
    """Raises KeyboardInterrupt at the n-th place of the hand-over where a signal could come in.

    The interpreter looks for signals when a function begins and when a call has returned.
    """

    def __init__(self, number: int) -> None:
        self.left = number
        self._is_after_call: dict[FrameType, bool] = {}
        self._keeps_alive = self._trace  # see tests/flow/test_unawaited.py

    def __enter__(self) -> None:
        self._others = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # else Python 3.12 reports none at all
        sys.settrace(self._keeps_alive)

    def __exit__(self, *details: object) -> None:
        sys.settrace(self._others)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call" and frame.f_back is not None:
            self._is_after_call[frame.f_back] = False  # it looks when it begins, no more
        code = frame.f_code
        # A driver does not see slots, and Ctrl-C in a callback of libcurl is another test's.
        if not code.co_filename.endswith(_WHERE) or "Driver" in getattr(code, "co_qualname", ""):
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._is_after_call[frame] = True
        if event == "opcode":
            self._step(frame, dis.opname[frame.f_code.co_code[frame.f_lasti]])
        return self._trace

    def _step(self, frame: FrameType, name: str) -> None:
        comes = self._is_after_call.get(frame, False)
        self._is_after_call[frame] = name.startswith("CALL")
        if comes:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


def _free(client: curlhttp.Client) -> int:
    pool = client._engine._pool  # type: ignore[attr-defined]
    return int(pool.slots.used) - len(pool._ready)


def _new(url: str) -> curlhttp.Client:
    return curlhttp.Client(max_connections=1, timeout=Timeout(pool=0.1))


def _ready(url: str) -> curlhttp.Client:
    client = _new(url)
    assert client.get(url).ok
    return client


def _idle(url: str) -> curlhttp.Client:
    client = _ready(url)
    client._engine._pool._release_ready()  # type: ignore[attr-defined]
    return client


@pytest.mark.skipif(
    not (3, 11) <= sys.version_info < (3, 14), reason="signals come in at other places"
)
@pytest.mark.parametrize("make", [_ready, _idle, _new])
def test_ctrl_c_while_a_transfer_changes_hands_loses_no_slot(
    app: AppServer, make: Callable[[str], curlhttp.Client]
) -> None:
    url, lost = app.url + "/bytes/3", []
    for number in range(1, 1000):
        with make(url) as client:
            try:
                with _Interrupt(number):
                    client.get(url)
                break
            except KeyboardInterrupt:
                if _free(client):
                    lost.append(number)
                    continue
                assert client.get(url).ok  # with the one slot that there is
            assert len(client._engine._pool.all) == 1  # type: ignore[attr-defined]
    assert number > 12
    assert not lost
