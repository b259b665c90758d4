"""The scripts that Redis runs, one for each kind of question, and what is an answer to each."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias, cast

from curlhttp._policy.store import Answer, StoreCommand

__all__ = ["answer_in", "keys_of", "script"]

VERSION = 1  # of what is kept: another one uses other keys
# Which keys a kind has, each with what its name ends in.
_KEYS = {
    "rate": ("rate", ("", ":freed")),
    "rate_back": ("rate", ("", ":freed")),
    "budget": ("budget", ("",)),
    "lease": ("lease", ("", ":line", ":waiting")),
    "breaker": ("breaker", ("", ":probes", ":window")),
}
# The clock is the server's: those of its clients differ.
_CLOCK = "local time = redis.call('TIME')\nlocal now = time[1] * 1000000 + time[2]\n"
# The last argument comes back at the end of the answer: what says the same to everything, or has
# mixed up whom it answers, is found out whatever it says.
_STEP, _MARK = (
    "local function step()\n",
    """
end
local found = step()
if not found.err then found[#found + 1] = ARGV[#ARGV] end
return found
""",
)


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
    text = _CLOCK + _STEP + body + _MARK
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def keys_of(question: StoreCommand, prefix: str) -> list[str]:
    """Return the names of the keys that a question is about.

    Args:
        question: what is asked.
        prefix: what all names begin with.
    """
    room, ends = _KEYS[question.kind]
    return [f"{prefix}:{VERSION}:{room}:{question.key}{end}" for end in ends]


def answer_in(reply: object, question: StoreCommand, mark: str) -> Answer | None:
    """Return the answer to a question, None for a reply that is none: not all that speaks is Redis.

    Args:
        reply: as redis-py has it.
        question: what was asked.
        mark: what was given as the last argument.
    """
    if not (isinstance(reply, list) and reply and reply[-1] == mark.encode()):
        return None
    parts = reply[:-1]
    letters, says = _ANSWERS[question.kind]
    if "".join(map(_letter, parts)) not in letters or not says(parts, question.arguments):
        return None
    return parts


_MOST = 1 << 53  # of a number in Lua
_DAY = 86_400 * 10**6  # microseconds
_LINE = 10**6  # requests: no line for a rate is longer
_GOES, _FOREVER = -2, -1  # in place of the time for which a circuit refuses a call
_STATES = (b"closed", b"open", b"half_open", b"forced_open", b"forced_closed")

_Parts: TypeAlias = "list[int | bytes]"
_Arguments: TypeAlias = "Sequence[int | float | str]"


def _letter(part: object) -> str:
    if isinstance(part, bytes):
        return "t" if part.isascii() else "?"
    return "i" if isinstance(part, int) and -_MOST < part < _MOST else "?"


def _is_turn(parts: _Parts, arguments: _Arguments) -> bool:
    interval, _, patience, _ = cast("tuple[float, float, int, int]", arguments)
    is_granted, wait = cast("list[int]", parts[:2])
    if not 0 <= wait <= max(_DAY, _LINE * interval):
        return False
    if len(parts) == 2:
        return is_granted == 0 and wait > patience >= 0
    return is_granted == 1 and not wait - 1 > patience >= 0 and all(map(_is_number, parts[2:]))


def _is_done(parts: _Parts, arguments: _Arguments) -> bool:
    return parts[0] == 1


def _is_account(parts: _Parts, arguments: _Arguments) -> bool:
    return parts[0] in (0, 1) and _is_number(parts[1])


def _is_place(parts: _Parts, arguments: _Arguments) -> bool:
    is_granted, before = cast("list[int]", parts)
    return before == 0 if is_granted == 1 else is_granted == 0 <= before


def _is_circuit(parts: _Parts, arguments: _Arguments) -> bool:
    number, refused_for, is_probe, old, new, state, standing, *counts = parts
    recovery, recovery_max, half_open_time = (cast(int, arguments[i]) for i in (7, 8, 11))
    longest = max(recovery, recovery_max, half_open_time) + 1
    reopens_in = cast(int, counts.pop())
    return (
        all(map(_is_number, (number, standing)))
        and state in _STATES
        and (old == new == b"" or (old in _STATES and new in _STATES))
        and _GOES <= cast(int, refused_for) <= longest
        and (is_probe == 0 or (is_probe == 1 and refused_for == _GOES))
        and (refused_for != _FOREVER or state == b"forced_open")
        and (state != b"open" or reopens_in <= longest)
        and min(cast("list[int]", counts)) >= 0
    )


def _is_number(part: int | bytes) -> bool:
    try:
        return math.isfinite(float(part))
    except ValueError:
        return False


# What the parts of an answer are, whole numbers or text, and what tells whether they make sense.
_ANSWERS: dict[str, tuple[tuple[str, ...], Callable[[_Parts, _Arguments], bool]]] = {
    "rate": (("ii", "iitt"), _is_turn),
    "rate_back": (("i",), _is_done),
    "budget": (("it",), _is_account),
    "lease": (("ii",), _is_place),
    "breaker": (("tiitttt" + 7 * "i",), _is_circuit),
}
