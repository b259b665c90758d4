"""From the settings of a client to values; those that say how requests travel: routing.py."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from curlhttp._client.building import UNSET
from curlhttp._flow.hooks import EVENTS
from curlhttp._models.config import Limits
from curlhttp._models.decoding import ACCEPT_ENCODING
from curlhttp._models.headers import Headers
from curlhttp._policy.environment import netrc_credentials, netrc_path
from curlhttp._version import __version__
from curlhttp.exceptions import InvalidHeader

if TYPE_CHECKING:
    from curlhttp._flow.hsts import HSTS
    from curlhttp._models.inputs import HeaderChanges, Hook, HooksInput
    from curlhttp._policy.breaker.shared import SharedCircuits
    from curlhttp._policy.limits import ConcurrencyLimit, RateLimit
    from curlhttp._policy.retry import RetryBudget, RetryInput, RetryPolicy

__all__ = [
    *("checked_hooks", "client_headers", "connect_stores", "hsts_in", "limits_of", "netrc_of"),
    "retry_policy",
]

_DEFAULT_HEADERS = (
    ("User-Agent", f"curlhttp/{__version__}"),
    ("Accept-Encoding", ACCEPT_ENCODING),
    ("Accept", "*/*"),
)


def client_headers(headers: HeaderChanges | None, sensitive: frozenset[str]) -> Headers:
    """Return the headers that go with every request.

    Args:
        headers: they replace the defaults of the same name; None takes one away.
        sensitive: names, in lower case, that are not shown.

    Raises:
        InvalidHeader: one of them belongs to a single request.
    """
    merged = Headers(_DEFAULT_HEADERS, sensitive=sensitive).merged(headers)
    for name in ("Content-Length", "Transfer-Encoding"):
        if name in merged:
            raise InvalidHeader(f"{name} belongs to one request: it cannot go with every one")
    return merged


# Any: each field has a type of its own, which Limits checks.
def limits_of(limits: Limits | None, **fields: Any) -> Limits:
    """Return limits with the fields that are given in place of theirs."""
    given = {name: value for name, value in fields.items() if value is not UNSET}
    if limits is not None and not hasattr(limits, "max_connections_per_host"):
        shown = f"{type(limits).__module__}.{type(limits).__name__}"
        raise TypeError(
            f"limits is a curlhttp.Limits, such as Limits(max_connections=10), not {shown}"
        )
    if limits is not None:
        given = {name: getattr(limits, name) for name in Limits.__slots__} | given
    return Limits(**given)


def checked_hooks(hooks: HooksInput | None, awaits: bool) -> dict[str, list[Hook]]:
    """Return the functions by event.

    Args:
        hooks: a function or several for each event.
        awaits: they may be coroutines.

    Raises:
        ValueError: there is no such event.
        TypeError: a coroutine where none can be awaited.
    """
    if hooks and not hasattr(hooks, "items"):
        shown = type(hooks).__name__
        raise TypeError(f'hooks must be a mapping by event, not {shown}: {{"response": function}}')
    found: dict[str, list[Hook]] = {event: [] for event in ("request", "response", *EVENTS)}
    for event, functions in cast("Mapping[str, Hook | Sequence[Hook]]", hooks or {}).items():
        if event not in found:
            raise ValueError(f"unknown hook {event!r}: there are {', '.join(map(repr, found))}")
        found[event] = [functions] if callable(functions) else list(functions)
        if event in EVENTS and not awaits and any(map(inspect.iscoroutinefunction, found[event])):
            raise TypeError(f"an async hook for {event!r} needs AsyncClient")
    return found


def hsts_in(path: str | os.PathLike[str], wall: Callable[[], float]) -> HSTS:
    """Return what keeps in a file which hosts want HTTPS.

    Args:
        path: of the file.
        wall: gives seconds since the epoch.

    Raises:
        OSError: it cannot be read, or there is no such folder.
    """
    from curlhttp._flow.hsts import HSTS

    return HSTS(path, wall)


def retry_policy(retry: RetryInput) -> RetryPolicy | None:
    """Return the policy that a client's retry= stands for, None for no retries."""
    if not retry:
        return None
    from curlhttp._policy.retry import RetryPolicy

    return RetryPolicy.of(retry)


def connect_stores(
    *limits: RateLimit | ConcurrencyLimit | RetryBudget | SharedCircuits | None,
) -> None:
    """Let the stores of a client's policies begin to connect, before its first request waits."""
    stores = [each.store for each in limits if each is not None and each.store is not None]
    if stores:
        from curlhttp._policy.store import Connects

        for store in stores:
            if isinstance(store, Connects):
                store.connect()


def netrc_of(environ: Mapping[str, str]) -> Callable[[str], tuple[str, str] | None] | None:
    """Return what gives the credentials of a host, None where there is no netrc file."""
    path = netrc_path(environ)
    if path is None or not os.path.exists(path):
        return None
    return partial(netrc_credentials, environ=environ)
