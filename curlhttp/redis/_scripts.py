"""The Lua scripts that Redis runs, one for each kind of command, and the check of their replies."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypeAlias, cast

from curlhttp._features.shared_store import Answer, StoreCommand

VERSION = 1  # of the stored data: another version uses other keys
# The keys of each kind: a name, and a suffix for each key.
_KEYS = {
    "rate": ("rate", ("", ":freed")),
    "rate_back": ("rate", ("", ":freed")),
    "budget": ("budget", ("",)),
    "lease": ("lease", ("", ":line", ":waiting")),
    "breaker": ("breaker", ("", ":probes", ":window")),
}
# The clock is the server's: those of its clients differ.
_CLOCK = "local time = redis.call('TIME')\nlocal now = time[1] * 1000000 + time[2]\n"
# The script returns its last argument at the end of the answer, to detect a server that always
# replies the same, or confuses its clients.
_HEADER, _FOOTER = (
    "local function step()\n",
    """
end
local found = step()
if not found.err then found[#found + 1] = ARGV[#ARGV] end
return found
""",
)


class Script(NamedTuple):
    """A script for Redis.

    Attributes:
        text: in Lua.
        sha: its SHA-1, by which Redis runs it.
    """

    text: str
    sha: str


@cache
def load_script(kind: str) -> Script:
    """Return the script for a kind of command.

    Raises:
        FileNotFoundError: the program was packaged without it.
    """
    try:
        body = files(__package__).joinpath(f"{kind}.lua").read_text("utf-8")
    except (OSError, KeyError) as error:  # a KeyError is of a zip file
        raise FileNotFoundError(
            f"curlhttp/redis/{kind}.lua is missing: package the program with curlhttp's data "
            "files, such as PyInstaller's --collect-data curlhttp"
        ) from error
    text = _CLOCK + _HEADER + body + _FOOTER
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def load_scripts() -> None:
    """Load all scripts.

    Raises:
        FileNotFoundError: the program was packaged without one.
    """
    for kind in _KEYS:
        load_script(kind)


def make_keys(command: StoreCommand, prefix: str) -> list[str]:
    """Return the names of a command's keys.

    Args:
        command: the command.
        prefix: start of all names.
    """
    name, suffixes = _KEYS[command.kind]
    return [f"{prefix}:{VERSION}:{name}:{command.key}{suffix}" for suffix in suffixes]


def parse_answer(reply: object, command: StoreCommand, correlation_id: str) -> Answer | None:
    """Return the answer to a command, None for an invalid reply: the server may not be Redis.

    Args:
        reply: from redis-py.
        command: the command.
        correlation_id: the last argument of the script.
    """
    if not (isinstance(reply, list) and reply and reply[-1] == correlation_id.encode()):
        return None
    parts = reply[:-1]
    types, is_valid = _ANSWERS[command.kind]
    if "".join(map(_type_letter, parts)) not in types or not is_valid(parts, command.arguments):
        return None
    return parts


_MAX_INTEGER = 1 << 53  # in Lua
_DAY = 86_400 * 10**6  # microseconds
_LONGEST_QUEUE = 10**6  # requests that wait for a rate
_PERMITTED, _FOREVER = -2, -1  # in place of the time for which a circuit refuses a request
_STATES = (b"closed", b"open", b"half_open", b"forced_open", b"forced_closed")

_Parts: TypeAlias = "list[int | bytes]"
_Arguments: TypeAlias = "Sequence[int | float | str]"


def _type_letter(part: object) -> str:
    if isinstance(part, bytes):
        return "t" if part.isascii() else "?"
    return "i" if isinstance(part, int) and -_MAX_INTEGER < part < _MAX_INTEGER else "?"


def _is_rate_answer(parts: _Parts, arguments: _Arguments) -> bool:
    interval, _, patience, _ = cast("tuple[float, float, int, int]", arguments)
    is_granted, wait = cast("list[int]", parts[:2])
    if not 0 <= wait <= max(_DAY, _LONGEST_QUEUE * interval):
        return False
    if len(parts) == 2:
        return is_granted == 0 and wait > patience >= 0
    return is_granted == 1 and not wait - 1 > patience >= 0 and all(map(_is_number, parts[2:]))


def _is_refund_answer(parts: _Parts, arguments: _Arguments) -> bool:
    return parts[0] == 1


def _is_budget_answer(parts: _Parts, arguments: _Arguments) -> bool:
    return parts[0] in (0, 1) and _is_number(parts[1])


def _is_lease_answer(parts: _Parts, arguments: _Arguments) -> bool:
    is_granted, before = cast("list[int]", parts)
    return before == 0 if is_granted == 1 else is_granted == 0 <= before


def _is_breaker_answer(parts: _Parts, arguments: _Arguments) -> bool:
    number, refused_for, is_probe, old, new, state, standing, *counts = parts
    recovery, recovery_max, half_open_time = (cast(int, arguments[i]) for i in (7, 8, 11))
    longest = max(recovery, recovery_max, half_open_time) + 1
    reopens_in = cast(int, counts.pop())
    return (
        all(map(_is_number, (number, standing)))
        and state in _STATES
        and (old == new == b"" or (old in _STATES and new in _STATES))
        and _PERMITTED <= cast(int, refused_for) <= longest
        and (is_probe == 0 or (is_probe == 1 and refused_for == _PERMITTED))
        and (refused_for != _FOREVER or state == b"forced_open")
        and (state != b"open" or reopens_in <= longest)
        and min(cast("list[int]", counts)) >= 0
    )


def _is_number(part: int | bytes) -> bool:
    try:
        return math.isfinite(float(part))
    except ValueError:
        return False


# The types of the parts of an answer, whole numbers (i) or text (t), and a check of their values.
_ANSWERS: dict[str, tuple[tuple[str, ...], Callable[[_Parts, _Arguments], bool]]] = {
    "rate": (("ii", "iitt"), _is_rate_answer),
    "rate_back": (("i",), _is_refund_answer),
    "budget": (("it",), _is_budget_answer),
    "lease": (("ii",), _is_lease_answer),
    "breaker": (("tiitttt" + 7 * "i",), _is_breaker_answer),
}
