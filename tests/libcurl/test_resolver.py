"""The resolver: each address family of a name has a thread of its own, and nobody waits for it."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

import curlhttp
from curlhttp._http.exiting import start_native_thread
from curlhttp._libcurl import resolver
from curlhttp._libcurl.resolver import Lookup
from curlhttp.exceptions import ConnectionError
from tests.servers import AppServer
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.forced import force
from tests.support.internals import start_new_lookups
from tests.support.names import Names

_V4, _V6 = socket.AF_INET, socket.AF_INET6


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    found = Names({_V4: ["127.0.0.1"], _V6: ["::1"]}, seconds=30)
    force(monkeypatch, "the addresses that the system knows", found)
    yield found
    found.release()


def _find(host: str, version: int | None = None) -> Lookup:
    """Return a lookup at its end."""
    woken = threading.Semaphore(0)
    lookup = Lookup(host, version, woken.release)
    while (due := lookup.check()) is not None:
        assert woken.acquire(timeout=30 if due == math.inf else 1) or due != math.inf
    return lookup


def test_both_families_are_returned_and_that_of_ipv6_is_first(names: Names) -> None:
    lookup = _find("both.test")
    assert lookup.addresses == ["::1", "127.0.0.1"]
    assert lookup.is_complete
    assert lookup.error is None


@pytest.mark.parametrize(("version", "address"), [(4, "127.0.0.1"), (6, "::1")])
def test_one_family_is_asked_for_alone(names: Names, version: int, address: str) -> None:
    assert _find("one.test", version).addresses == [address]
    assert names.asked == [("one.test", _V4 if version == 4 else _V6)]


@pytest.mark.parametrize(("hanging", "address"), [(_V6, "127.0.0.1"), (_V4, "::1")])
def test_a_family_that_hangs_does_not_hold_up_the_other(
    names: Names, hanging: int, address: str
) -> None:
    names.hangs = lambda host, family: family == hanging
    lookup = _find("half.test")
    assert lookup.addresses == [address]
    assert not lookup.is_complete


def test_addresses_that_come_later_are_added(names: Names) -> None:
    names.hangs = lambda host, family: family == _V6
    woken = threading.Semaphore(0)
    lookup = Lookup("late.test", None, woken.release)
    while lookup.check() is not None:
        woken.acquire(timeout=0.1)
    assert lookup.addresses == ["127.0.0.1"]
    names.release()
    while not lookup.is_complete:
        assert woken.acquire(timeout=30)
        lookup.check()
    assert lookup.addresses == ["::1", "127.0.0.1"]


def test_a_name_that_does_not_exist_has_the_error_of_the_system(names: Names) -> None:
    lookup = _find("unknown.test")
    assert lookup.addresses == []
    assert lookup.error is not None
    assert lookup.error.strerror == "Name or service not known"


def test_names_that_hang_do_not_hold_up_others(names: Names) -> None:
    names.hangs = lambda host, family: host.startswith("hangs")
    hanging = [Lookup(f"hangs{n}.test", None, lambda: None) for n in range(100)]
    for n in range(100):
        assert _find(f"fine{n}.test").is_complete
    assert [lookup.check() for lookup in hanging] == [math.inf] * 100
    for lookup in hanging:
        lookup.stop()


def test_any_number_of_names_whose_ipv6_hangs_have_their_ipv4(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_new_lookups(monkeypatch)
    force(monkeypatch, "threads that ask the system for names", 3)
    names.hangs = lambda host, family: family == _V6
    for n in range(20):
        lookup = _find(f"half{n}.test")
        assert lookup.addresses == ["127.0.0.1"]
        lookup.stop()
    assert len([1 for _, family in names.asked if family == _V6]) <= 3


def test_a_name_that_nobody_waits_for_is_not_asked_for(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_new_lookups(monkeypatch)
    force(monkeypatch, "threads that ask the system for names", 1)
    names.hangs = lambda host, family: host == "hangs.test"
    first = Lookup("hangs.test", 4, lambda: None)
    Lookup("given-up.test", 4, lambda: None).stop()
    woken = threading.Semaphore(0)
    wanted = Lookup("wanted.test", 4, woken.release)
    names.release()
    assert woken.acquire(timeout=30)
    assert wanted.check() is None
    assert wanted.addresses == ["127.0.0.1"]
    assert names.asked == [("hangs.test", _V4), ("wanted.test", _V4)]
    first.stop()


def test_concurrent_callers_share_a_lookup(names: Names) -> None:
    names.hangs = lambda host, family: True
    woken = threading.Semaphore(0)
    lookups = [Lookup("shared.test", None, woken.release) for _ in range(50)]
    names.release()
    while any(lookup.check() is not None for lookup in lookups):
        assert woken.acquire(timeout=30)
    assert {len(lookup.addresses) for lookup in lookups} == {2}
    assert len(names.asked) == 2


def test_a_thread_that_cannot_start_is_an_error_of_that_lookup_alone(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(work: object) -> None:
        raise ConnectionError("a thread that is needed could not start")

    start_new_lookups(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(resolver, "start_native_thread", refuse)
        with pytest.raises(ConnectionError, match="could not start"):
            Lookup("no-thread.test", None, lambda: None)
    assert _find("no-thread.test").is_complete


def test_under_gevent_the_threads_are_real_and_the_resolver_is_that_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import _thread
    import sys
    from types import SimpleNamespace

    originals = {
        ("_thread", "start_new_thread"): _thread.start_new_thread,
        ("socket", "getaddrinfo"): socket.getaddrinfo,
    }
    used: list[tuple[str, str]] = []

    def get_original(*name: str) -> object:
        used.append(name)  # type: ignore[arg-type]
        return originals[name]  # type: ignore[index]

    start_new_lookups(monkeypatch)
    gevent = SimpleNamespace(get_original=get_original)
    monkeypatch.setitem(sys.modules, "gevent.monkey", gevent)
    assert _find("127.0.0.1", 4).addresses == ["127.0.0.1"]
    assert used == [("_thread", "start_new_thread"), ("socket", "getaddrinfo")]


def test_threads_answer_one_query_after_the_other_and_end(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_new_lookups(monkeypatch)
    started = []
    start = start_native_thread
    ended = threading.Semaphore(0)

    def count(work: Callable[[], object]) -> None:
        started.append(work)

        def run() -> None:
            work()
            ended.release()

        start(run)

    monkeypatch.setattr(resolver, "start_native_thread", count)
    for n in range(50):
        _find(f"one{n}.test")
    for _ in started:
        assert ended.acquire(timeout=30)
    assert len(started) < 50
    assert _find("later.test").is_complete


@pytest.mark.anyio
@WITHOUT_UVLOOP
async def test_a_thread_that_cannot_start_leaves_the_lookup_to_libcurl(
    client: AnyClient, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(work: object) -> None:
        raise curlhttp.ConnectionError("a thread that is needed could not start")

    start_new_lookups(monkeypatch)
    monkeypatch.setattr(resolver, "start_native_thread", refuse)
    with pytest.raises(curlhttp.ConnectionError, match="could not be resolved"):
        await client.get("http://no-thread.invalid/", timeout=30)
    assert (await client.get(app.url)).content == b"hello"
