"""Which lines have a record from earlier runs, and which failures among them are fetched again."""

from __future__ import annotations

import re
from array import array
from typing import Literal, TypeAlias, get_args

from curlhttp._features.failure_reasons import FailureReason

_TIMEOUT = "timeout"  # also stands for the timeouts of all phases
_is_status = re.compile(r"[1-9](?:\d\d|xx)").fullmatch


class RetriedFailures:
    """Which failures of earlier runs are fetched again.

    Args:
        names: reasons of failure_reason(), statuses such as "429", or classes of them such as
            "5xx"; None for all failures.
    """

    def __init__(self, names: frozenset[str] | None) -> None:
        self._names = names

    @classmethod
    def parse(cls, text: str) -> RetriedFailures:
        """Parse the argument of --retry-failed: names with commas between them, or "all".

        Raises:
            ValueError: it has an unknown name.
        """
        names = frozenset(name.strip().lower().replace("-", "_") for name in text.split(","))
        if names == {"all"}:
            return cls(None)
        unknown = {name for name in names if not _is_status(name)} - {*get_args(FailureReason)}
        if unknown:
            raise ValueError(
                f"{min(unknown)!r} is neither a status, such as 503 or 5xx, nor a reason: "
                f"{', '.join(get_args(FailureReason))}"
            )
        return cls(names)

    @property
    def are_all(self) -> bool:
        """Return whether all failures are fetched again."""
        return self._names is None

    def include(self, reason: str | None, status: int | None) -> bool:
        """Return whether a failure is fetched again.

        Args:
            reason: its reason, or None for a response.
            status: of the response, or None.
        """
        names = self._names
        if names is None:
            return True
        if reason is None:
            return str(status) in names or f"{str(status)[:1]}xx" in names
        return reason in names or (reason.endswith(_TIMEOUT) and _TIMEOUT in names)


_State: TypeAlias = Literal["new", "done", "failed", "changed"]
_DONE, _RETRIED, _FAILED = 1, 2, 3
_GROWTH = 1 << 16  # entries
_MAX_GAP = 1 << 26  # lines between two recorded lines: 256 MiB


class RecordedLines:
    """Lines that have a record, in four bytes each: the fingerprint, and what became of it.

    Attributes:
        done: the number of lines that succeeded.
        failed: the number of lines that failed.
    """

    def __init__(self) -> None:
        # Each entry has 30 bits of fingerprint and 2 bits for what became of the line.
        self._lines = array("I")
        self.done: int = 0
        self.failed: int = 0

    def add(self, number: int, fingerprint: int, ok: bool, is_retried: bool = False) -> None:
        """Add a line, or replace it.

        Args:
            number: the number of the line, starting at 1.
            fingerprint: see InputLine.
            ok: it succeeded.
            is_retried: it failed, and is fetched again.

        Raises:
            ValueError: the number or fingerprint is invalid.
        """
        lines = self._lines
        if not (0 < number < len(lines) + _MAX_GAP and 0 <= fingerprint < 1 << 30):
            raise ValueError("the number or fingerprint is invalid")
        if number >= len(lines):
            lines.frombytes(bytes(lines.itemsize * (number + _GROWTH - len(lines))))
        self.remove(number)
        lines[number] = fingerprint << 2 | (_DONE if ok else _RETRIED if is_retried else _FAILED)
        self._count(lines[number], 1)

    def remove(self, number: int) -> None:
        """Remove a line that is fetched again."""
        if number < len(self._lines):
            self._count(self._lines[number], -1)
            self._lines[number] = 0

    def has(self, number: int) -> bool:
        """Return whether a line has a record."""
        return number < len(self._lines) and self._lines[number] != 0

    def _count(self, entry: int, change: int) -> None:
        if entry & _RETRIED:
            self.failed += change
        elif entry:
            self.done += change

    def state(self, number: int, fingerprint: int) -> _State:
        """Return the state of a line. A failed line that is retried, or was edited, is new.

        Args:
            number: the number of the line.
            fingerprint: the current fingerprint of the line.
        """
        entry = self._lines[number] if number < len(self._lines) else 0
        became, same = entry & 3, entry >> 2 == fingerprint
        if not entry or became == _RETRIED or (became == _FAILED and not same):
            return "new"
        if became == _FAILED:
            return "failed"
        return "done" if same else "changed"
