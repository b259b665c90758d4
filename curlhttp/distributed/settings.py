"""The arguments of Client: pickled for workers, and described for the manifest."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import sha256
from inspect import signature
from types import FunctionType
from typing import Any

from curlhttp._models.redaction import is_secret_header, redact_text, strip_userinfo

__all__ = ["describe_settings", "pickle_settings"]

# Credentials may be renewed between two calls, and must not be written to a file.
_CREDENTIALS = {"auth", "cookies", "cert"}


def pickle_settings(settings: Mapping[str, object]) -> bytes:
    """Pickle the arguments of Client.

    Policies are pickled as the arguments they were created with: each worker counts separately.

    Raises:
        TypeError: an argument cannot be sent to another process.
    """
    try:
        return _dump(dict(settings))
    except Exception:
        for name, value in settings.items():
            try:
                _dump(value)
            except Exception as error:
                raise TypeError(
                    f"{name} cannot be sent to workers ({error}): functions must be defined at the "
                    "top level of a module, and objects must be picklable"
                ) from None
        raise


def _dump(value: object) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:  # Any: as in the base class
        """Pickle policies that have a lock as a call of their class."""
        from curlhttp._policy.breaker.breaker import CircuitBreaker
        from curlhttp._policy.retry import RetryBudget

        if isinstance(value, (CircuitBreaker, RetryBudget)):
            create: Callable[..., object] = type(value)
            return partial(create, **_get_arguments(value)), ()
        return NotImplemented


def _get_arguments(policy: object) -> dict[str, object]:
    """Return the arguments that a policy was created with."""
    from curlhttp._policy.breaker.breaker import MemoryStore

    rules, store = getattr(policy, "_rules", None), getattr(policy, "_store", None)
    arguments = {
        name: getattr(holder, name)
        for name in signature(type(policy)).parameters
        for holder in (policy, rules)
        if hasattr(holder, name)
    }
    if isinstance(store, MemoryStore):
        arguments["max_origins"] = store.max_origins
    elif store is not None:
        arguments["store"] = store
    return arguments


def describe_settings(settings: Mapping[str, object]) -> dict[str, str]:
    """Return descriptions of the arguments without credentials, so that changes are noticed."""
    return {
        name: _describe(value, name)
        for name, value in sorted(settings.items())
        if name not in _CREDENTIALS
    }


def _describe(value: object, name: str = "") -> str:
    if name and is_secret_header(name):
        return "[secret]"
    if isinstance(value, str):
        return repr(redact_text(strip_userinfo(value)))
    if isinstance(value, bytes):
        return f"bytes {sha256(value).hexdigest()[:16]}"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = [f"{key}: {_describe(item, str(key))}" for key, item in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_describe, value))) + "}"
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and isinstance(value[0], str):  # this may be a header
            return f"({value[0]!r}, {_describe(value[1], value[0])})"
        return "[" + ", ".join(map(_describe, value)) + "]"
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    return _describe_object(value)


def _describe_object(value: object) -> str:
    kind = type(value).__qualname__
    if is_dataclass(value):
        pairs = [
            f"{item.name}={_describe(getattr(value, item.name), item.name)}"
            for item in fields(value)
        ]
        return f"{kind}({', '.join(pairs)})"
    text = repr(value)
    return kind if " at 0x" in text else text
