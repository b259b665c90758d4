"""Catch exceptions that are only printed: those of callbacks, finalizers and threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.adversary.findings import Findings, find_place


@contextmanager
def catch_unraisable(findings: Findings) -> Iterator[None]:
    """Make findings of exceptions that would only be printed."""

    def add_finding(kind: str, error: BaseException | None) -> None:
        if error is not None:
            findings.add(
                f"{kind}: {type(error).__name__} in {find_place(error)}", f"{error!r:.500}"
            )

    kept = sys.excepthook, sys.unraisablehook, threading.excepthook
    sys.excepthook = lambda _, error, trace: add_finding(
        "printed by a callback", error
    )  # PyErr_Print

    def on_unraisable(unraisable: Any) -> None:
        add_finding(f"unraisable ({unraisable.err_msg or 'in a finalizer'})", unraisable.exc_value)

    def on_thread(ended: Any) -> None:
        add_finding("in a thread", ended.exc_value)

    sys.unraisablehook, threading.excepthook = on_unraisable, on_thread
    try:
        yield
    finally:
        sys.excepthook, sys.unraisablehook, threading.excepthook = kept
