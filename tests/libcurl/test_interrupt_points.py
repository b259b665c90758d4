"""Ctrl-C wherever the interpreter checks for signals: no coroutine and no slot is lost."""

from __future__ import annotations

import dis
import gc
import logging
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

import curlhttp
from curlhttp import CircuitBreaker, Client, Hedge, RateLimit, Timeout, requests
from curlhttp.types import Send
from tests.servers import AppServer
from tests.support.internals import get_slots, handles_of, shared_transfers
from tests.support.values import slow_but_for

if TYPE_CHECKING:
    from typing_extensions import Self

# Not what libcurl calls back: see tests/libcurl/test_interrupt.py.
_BELOW = "curlhttp._libcurl."
_WHERE = ("curlhttp._libcurl.engines.", "curlhttp._libcurl.driver_pool")


async def _through(request: curlhttp.ClientRequest, send: Send) -> curlhttp.Response:
    return await send(request)


def _get(client: Client, url: str, folder: Path) -> None:
    client.get(url)


def _stream(client: Client, url: str, folder: Path) -> None:
    with client.stream("GET", url) as response:
        response.read()


def _pieces(client: Client, url: str, folder: Path) -> None:
    with client.stream("GET", url) as response:
        for _ in response.iter_bytes(2):
            pass


def _map(client: Client, url: str, folder: Path) -> None:
    with client.map([url] * 3, concurrency=2) as results:
        for _ in results:
            pass


def _download(client: Client, url: str, folder: Path) -> None:
    client.download(url, folder / "downloaded")


def _session(client: Client, url: str, folder: Path) -> None:
    with requests.Session() as session:
        for _ in session.get(url, stream=True).iter_content(2):
            pass
        session.get(url)


_WAYS = (_get, _stream, _pieces, _map, _download, _session)


class _CtrlC:
    """Raises KeyboardInterrupt on entry to the n-th of our functions, where signals come in."""

    def __init__(self, number: int) -> None:
        self.left = number
        # CPython 3.11 borrows the function. If it raises in a finalizer that runs while the
        # interpreter prepares another call of it, the interpreter would call freed memory.
        self._keeps_alive = self._trace

    def __enter__(self) -> Self:
        self._others = sys.gettrace()
        sys.settrace(self._keeps_alive)
        return self

    def __exit__(self, *details: object) -> None:
        sys.settrace(self._others)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> None:
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith("curlhttp.") or (
            module.startswith(_BELOW) and not module.startswith(_WHERE)
        ):
            return
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("has_layers", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("go", slow_but_for([_pieces, _map], _WAYS))
def test_ctrl_c_leaves_no_coroutine_behind(
    app: AppServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    go: Callable[[Client, str, Path], None],
    has_layers: bool,
) -> None:
    settings: dict[str, Any] = {}
    if has_layers:
        caplog.set_level(logging.DEBUG, "curlhttp")
        settings = {
            "retry": 2,
            "rate_limit": RateLimit(1e6),
            "breaker": CircuitBreaker(),
            "hedge": Hedge(30),
            "middleware": [_through],
            "attempt_middleware": [_through],
            "auth": ("user", "password"),
            "hooks": {"before_attempt": [lambda event: None]},
        }
    # Python itself loses exceptions of a finalizer.
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Client() as client:  # lazy imports are done from here on
            go(client, app.url + "/bytes/5", tmp_path)
        for number in range(1, 3000):
            with Client(**settings) as client:
                with suppress(KeyboardInterrupt), _CtrlC(number) as comes:
                    go(client, app.url + "/bytes/5", tmp_path)
            if comes.left > 0:
                break
        gc.collect()
    assert 10 < number < 2999
    assert {each.exc_type for each in lost} <= {KeyboardInterrupt}
    lost.clear()
    left = {str(warning.message) for warning in caught if "never awaited" in str(warning.message)}
    assert not left


# --- a transfer that changes hands ---


_POOL = ("connection_pool.py", "slots.py")
_HANDOVER = (*_POOL, "blocking.py")


class _Interrupt:
    """Raises KeyboardInterrupt at the n-th point of some files where a signal could arrive.

    The interpreter looks for signals when a function begins and when a call has returned.
    """

    def __init__(self, number: int, files: tuple[str, ...] = _HANDOVER) -> None:
        self.left = number
        self._files = files
        self._is_after_call: dict[FrameType, bool] = {}
        self._keeps_alive = self._trace  # see _CtrlC

    def __enter__(self) -> None:
        self._others = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # else Python 3.12 reports none at all
        sys.settrace(self._keeps_alive)

    def __exit__(self, *details: object) -> None:
        sys.settrace(self._others)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call" and frame.f_back is not None:
            self._is_after_call[frame.f_back] = False  # it looks when it begins, no more
        if not frame.f_code.co_filename.endswith(self._files):
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


def _new(url: str) -> curlhttp.Client:
    return curlhttp.Client(max_connections=1, timeout=Timeout(pool=0.1))


def _limited(url: str) -> curlhttp.Client:
    return curlhttp.Client(max_connections=1, max_connections_per_host=1, timeout=Timeout(pool=0.1))


def _ready(url: str) -> curlhttp.Client:
    client = _new(url)
    assert client.get(url).ok
    return client


def _idle(url: str) -> curlhttp.Client:
    client = _ready(url)
    get_slots(client)  # releases those of parked transfers
    return client


_AT_THESE_POINTS = pytest.mark.skipif(
    not (3, 11) <= sys.version_info < (3, 14), reason="signals come in at other places"
)


def _find_lost_slots(
    url: str,
    make: Callable[[str], curlhttp.Client],
    prepare: Callable[[curlhttp.Client], Callable[[], object]],
    files: tuple[str, ...] = _HANDOVER,
) -> tuple[int, list[int]]:
    """Interrupt what `prepare` returns at each point; return their number, and the bad ones."""
    lost = []
    for number in range(1, 1000):
        with make(url) as client:
            run = prepare(client)
            try:
                with _Interrupt(number, files):
                    run()
                break
            except KeyboardInterrupt:
                if get_slots(client).used:
                    lost.append(number)
                    continue
                assert client.get(url).ok  # with the one slot that there is
            assert len(handles_of(client)) == 1
    return number, lost


@_AT_THESE_POINTS
@pytest.mark.parametrize("make", [_ready, _idle, _new, _limited])
def test_ctrl_c_while_a_transfer_changes_hands_loses_no_slot(
    app: AppServer, make: Callable[[str], curlhttp.Client]
) -> None:
    url = app.url + "/bytes/3"
    number, lost = _find_lost_slots(url, make, lambda client: lambda: client.get(url))
    assert number > 11
    assert not lost


@_AT_THESE_POINTS
def test_ctrl_c_while_an_unread_stream_is_closed_loses_no_slot(app: AppServer) -> None:
    url = app.url + "/bytes/3"
    number, lost = _find_lost_slots(
        url, _new, lambda client: client.stream("GET", url).close, _POOL
    )
    assert number > 4
    assert not lost


@_AT_THESE_POINTS
@pytest.mark.parametrize("make", [_ready, _idle, _new, _limited])
def test_ctrl_c_while_a_stream_is_read_to_its_end_loses_no_slot(
    app: AppServer, make: Callable[[str], curlhttp.Client]
) -> None:
    url = app.url + "/bytes/3"
    number, lost = _find_lost_slots(url, make, lambda client: client.stream("GET", url).read, _POOL)
    assert number > 4
    assert not lost


@_AT_THESE_POINTS
# No signal comes in between the call of a coroutine function and `await`, but _Interrupt does.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_ctrl_c_leaves_no_shared_transfer_for_which_others_would_wait(app: AppServer) -> None:
    url, left = app.url + "/bytes/3", []
    with curlhttp.Client(coalesce=True) as client:
        client.get(url)
        (transfers,) = shared_transfers()
        for number in range(1, 1000):
            try:
                with _Interrupt(number, ("coalesce.py",)):
                    client.get(url)
                break
            except KeyboardInterrupt:
                if transfers:
                    left.append(number)
                    transfers.clear()
    assert number > 12
    assert not left
