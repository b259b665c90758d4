"""The registry of callbacks after a fork."""

from __future__ import annotations

import gc
import os
import weakref

import pytest

from curlhttp._models.fork import register

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


class Child:
    """Knows what happened to it."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def after_fork_in_child(self) -> None:
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
