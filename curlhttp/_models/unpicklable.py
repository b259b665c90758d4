"""Objects that live in one process: connections, and what their requests share."""

from __future__ import annotations

from typing import ClassVar, NoReturn

__all__ = ["Unpicklable"]


class Unpicklable:
    """Refuse to be pickled or copied, in words that say why and what to do."""

    __slots__ = ()

    _why_not: ClassVar[str] = "it holds connections; make a new one where it is needed"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied: {self._why_not}")
