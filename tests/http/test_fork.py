"""The registry of callbacks after a fork."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from curlhttp._http import fork
from curlhttp._http.fork import register

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


class Child:
    """Knows what happened to it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def _after_fork_in_child(self) -> None:
        self.seen.append("child")


class Both(Child):
    def after_fork_in_parent(self) -> None:
        self.seen.append("parent")


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")  # of pytest
def test_each_process_calls_its_own_callbacks() -> None:
    child, both = Child(), Both()
    register(child)
    register(both)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if child.seen == both.seen == ["child"] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert (child.seen, both.seen) == ([], ["parent"])


def test_a_registered_object_is_not_kept_alive() -> None:
    child = Child()
    register(child)
    gone = weakref.ref(child)
    del child
    gc.collect()
    assert gone() is None


class _Growing(weakref.WeakSet[Any]):
    """A set to which another thread adds an object while it is first read."""

    is_read = False

    def __iter__(self) -> Iterator[Any]:
        if not self.is_read:
            self.is_read = True
            raise RuntimeError("Set changed size during iteration")
        return super().__iter__()


class _Parent:
    forks = 0

    def after_fork_in_parent(self) -> None:
        self.forks += 1


def test_a_parent_is_told_of_a_fork_while_other_threads_make_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects = _Growing([parent := _Parent()])
    monkeypatch.setattr(fork, "_in_parents", objects)
    fork._notify_in_parent()
    assert parent.forks == 1
