"""Notes on errors, which their tracebacks show."""

from __future__ import annotations

__all__ = ["add_note"]


def add_note(error: BaseException, note: str) -> None:
    """Do what BaseException.add_note does, on Python 3.10 as well.

    Args:
        error: its traceback will show the note.
        note: the text.
    """
    error.__dict__.setdefault("__notes__", []).append(note)
