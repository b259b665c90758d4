"""The guard of a session and of its adapters: which addresses they may dial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curlhttp._curl.address_guard import AddressChecker
    from curlhttp._policy.guard import GuardInput

__all__ = ["GuardedAdapter", "GuardedSession"]

_TTL = 60.0  # seconds that an address is good for, as Limits has it


class GuardedAdapter:
    """An adapter whose connections are judged, if it is given a guard."""

    if TYPE_CHECKING:

        def _tell_pools_of_guard(self) -> None: ...  # see Pooling

    _checkpoint: AddressChecker | None = None
    _guard: GuardInput = None

    @property
    def guard(self) -> GuardInput:
        """Return what says which addresses may be dialled, or None; see PublicOnly."""
        return self._guard

    @guard.setter
    def guard(self, guard: GuardInput) -> None:
        checkpoint = None
        if guard is not None:
            from curlhttp._curl.address_guard import AddressChecker
            from curlhttp._policy.guard import guard_of

            checkpoint = AddressChecker(guard_of(guard), _TTL)
        self._checkpoint, self._guard = checkpoint, guard
        self._tell_pools_of_guard()


class GuardedSession:
    """A session that gives its guard to each HTTPAdapter; other adapters dial for themselves."""

    if TYPE_CHECKING:
        adapters: Mapping[str, object]

    _guard: Any = None  # a GuardInput, of which programs that evaluate types know nothing

    @property
    def guard(self) -> GuardInput:
        """Return what says which addresses may be dialled, or None; see PublicOnly."""
        guard: GuardInput = self._guard
        return guard

    @guard.setter
    def guard(self, guard: GuardInput) -> None:
        for adapter in self.adapters.values():
            if isinstance(adapter, GuardedAdapter):
                adapter.guard = guard
        self._guard = guard

    def _put_on_guard(self, adapter: object) -> None:
        guard = self._guard
        if guard is not None and isinstance(adapter, GuardedAdapter) and adapter.guard is not guard:
            adapter.guard = guard
