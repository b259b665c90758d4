"""Shared by tests on a script: policies without randomness, and responses that require a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from curlhttp import ExponentialBackoff, RetryPolicy
from curlhttp.testing import Answer, ScriptedEngine
from tests.support.colours import AnyClient

URL = "http://h.test/"

Scripted = Callable[..., tuple[AnyClient, ScriptedEngine]]


def steady(max_retries: int = 2, **settings: Any) -> RetryPolicy:
    """Return a policy whose delays are 1 s, 2 s, 4 s, ..."""
    backoff = ExponentialBackoff(base=1.0, factor=2.0, max_backoff=60.0)
    return RetryPolicy(max_retries, backoff_strategy=backoff, **settings)


def asks(seconds: Any, status: int = 503) -> Answer:
    """Return a response with Retry-After."""
    return Answer(status, headers={"Retry-After": str(seconds)})


def moved(to: str) -> Answer:
    """Return a redirect."""
    return Answer(302, headers={"Location": to})


def notes_of(error: BaseException) -> list[str]:
    """Return what was added to an error (add_note of Python 3.11)."""
    return list(getattr(error, "__notes__", []))
