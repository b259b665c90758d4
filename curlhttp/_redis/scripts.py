"""The scripts that Redis runs, one for each kind of question."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from curlhttp._policy.store import Question

__all__ = ["VERSION", "Script", "fits", "keys_of", "script"]

VERSION = 1  # of what is kept: another one uses other keys
# Which keys a kind has, each with what its name ends in.
_KEYS = {
    "rate": ("rate", ("", ":freed")),
    "rate_back": ("rate", ("", ":freed")),
    "budget": ("budget", ("",)),
    "lease": ("lease", ("", ":line", ":waiting")),
    "breaker": ("breaker", ("", ":probes", ":window")),
}
# What the parts of an answer are: whole numbers, or text.
_ANSWERS = {
    "rate": ("ii", "iitt"),
    "rate_back": ("i",),
    "budget": ("it",),
    "lease": ("ii",),
    "breaker": ("tiitttt" + 7 * "i",),
}
_MOST = 1 << 53  # of a number in Lua
# The clock is the server's: those of its clients differ.
_CLOCK = "local time = redis.call('TIME')\nlocal now = time[1] * 1000000 + time[2]\n"


class Script(NamedTuple):
    """What Redis runs.

    Attributes:
        text: in Lua.
        sha: by which Redis knows it.
    """

    text: str
    sha: str


@cache
def script(kind: str) -> Script:
    """Return the script for a kind of question."""
    body = Path(__file__).with_name(f"{kind}.lua").read_text("utf-8")
    text = _CLOCK + body
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def keys_of(question: Question, prefix: str) -> list[str]:
    """Return the names of the keys that a question is about.

    Args:
        question: what is asked.
        prefix: what all names begin with.
    """
    room, ends = _KEYS[question.kind]
    return [f"{prefix}:{VERSION}:{room}:{question.key}{end}" for end in ends]


def fits(reply: object, kind: str) -> bool:
    """Return whether a reply is an answer to a kind of question: not all that speaks is Redis.

    Args:
        reply: as redis-py has it.
        kind: of the question.
    """
    return isinstance(reply, list) and "".join(map(_letter, reply)) in _ANSWERS[kind]


def _letter(part: object) -> str:
    if isinstance(part, bytes):
        return "t" if part.isascii() else "?"
    return "i" if isinstance(part, int) and -_MOST < part < _MOST else "?"
