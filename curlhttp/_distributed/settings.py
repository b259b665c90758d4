"""The arguments of Client as they travel to workers, and as the manifest has them."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import sha256
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any

from curlhttp._models.redaction import is_secret_header, redact_text, strip_userinfo

if TYPE_CHECKING:
    from curlhttp._client import Client
    from curlhttp._distributed.work import PartWork

__all__ = ["client_of", "described", "pickled"]

# What says who we are may be renewed between two calls, and has no folder in a file.
_CREDENTIALS = {"auth", "cookies", "cert"}


_LARGEST = 100 * 1024 * 1024  # bytes of a body, where max_response_size is not given


@contextmanager
def client_of(work: PartWork) -> Iterator[Client]:
    """Open a client with the settings of a fetch, and limits of its own or in the store.

    Args:
        work: see PartWork.
    """
    from curlhttp._client import Client
    from curlhttp._policy.concurrency import ConcurrencyLimit
    from curlhttp._policy.rate import RateLimit

    settings = {
        "max_connections": work.concurrency,
        "max_response_size": _LARGEST,
        **pickle.loads(work.settings),
    }
    store = settings.pop("store", None)
    shared = {} if store is None else {"store": store}
    if work.per_host is not None:
        settings["concurrency_limit"] = ConcurrencyLimit(work.per_host, **shared)
    if work.rate is not None:
        settings["rate_limit"] = RateLimit(work.rate, **shared)
    try:
        with Client(**settings) as client:
            yield client
    finally:
        if store is not None:
            store.close()


def pickled(settings: Mapping[str, object]) -> bytes:
    """Return the arguments of Client as bytes.

    Policies travel as what they were made of: each worker counts by itself.

    Raises:
        TypeError: one of them cannot travel to another process.
    """
    try:
        return _dumped(dict(settings))
    except Exception:
        for name, value in settings.items():
            try:
                _dumped(value)
            except Exception as error:
                raise TypeError(
                    f"{name} cannot travel to workers ({error}): a function must be one of a "
                    "module, and what it belongs to must be picklable"
                ) from None
        raise


def _dumped(value: object) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:  # Any: as its base has it
        """Return how a policy with a lock is made anew."""
        from curlhttp._policy.breaker.breaker import CircuitBreaker
        from curlhttp._policy.budget import RetryBudget

        if isinstance(value, (CircuitBreaker, RetryBudget)):
            make: Callable[..., object] = type(value)
            return partial(make, **_made_of(value)), ()
        return NotImplemented


def _made_of(policy: object) -> dict[str, object]:
    """Return the arguments that a policy was made with."""
    from curlhttp._policy.breaker.store import MemoryStore

    rules, store = getattr(policy, "_rules", None), getattr(policy, "_store", None)
    found = {
        name: getattr(holder, name)
        for name in signature(type(policy)).parameters
        for holder in (policy, rules)
        if hasattr(holder, name)
    }
    if isinstance(store, MemoryStore):
        found["max_origins"] = store.max_origins
    elif store is not None:
        found["store"] = store
    return found


def described(settings: Mapping[str, object]) -> dict[str, str]:
    """Return what the arguments are, without credentials, so that a change can be seen."""
    return {
        name: _shown(value, name)
        for name, value in sorted(settings.items())
        if name not in _CREDENTIALS
    }


def _shown(value: object, name: str = "") -> str:
    if name and is_secret_header(name):
        return "[secret]"
    if isinstance(value, str):
        return repr(redact_text(strip_userinfo(value)))
    if isinstance(value, bytes):
        return f"bytes {sha256(value).hexdigest()[:16]}"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = [f"{key}: {_shown(item, str(key))}" for key, item in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_shown, value))) + "}"
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and isinstance(value[0], str):  # a header, maybe
            return f"({value[0]!r}, {_shown(value[1], value[0])})"
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return _object(value)


def _object(value: object) -> str:
    kind = type(value).__qualname__
    if is_dataclass(value):
        pairs = [
            f"{item.name}={_shown(getattr(value, item.name), item.name)}" for item in fields(value)
        ]
        return f"{kind}({', '.join(pairs)})"
    shown = repr(value)
    return kind if " at 0x" in shown else shown
