"""What no server, setting or script can force: shorter waits, another system, another libcurl.

Private constants and functions of curlhttp that tests replace are named here alone.
"""

from __future__ import annotations

import pytest

_PLACES = {
    "bytes of a HAR file": "curlhttp.cli.har._MAX_FILE",
    "bytes of a line of a fetch": "curlhttp.cli.fetch.input._MAX_LINE",
    "bytes of URLs that a driver groups by host": "curlhttp.distributed.partition._WINDOW",
    "requests of a fetch that may wait for their hosts": "curlhttp.cli.fetch.run._BACKLOG",
    "requests whose attempts a Chaos counts": "curlhttp.testing._chaos._MAX_KNOWN",
    "seconds after which a cancelled request was long": "curlhttp._libcurl.driver._LONG",
    "seconds before a loop logs its wait for a connection": (
        "curlhttp._libcurl.engines.multi.WARN_AFTER"
    ),
    "seconds before a loop logs that wait again": "curlhttp._libcurl.engines.multi.WARN_AGAIN",
    "seconds before a thread logs its wait for a connection": (
        "curlhttp._libcurl.connection_pool.WARN_AFTER"
    ),
    "seconds before a thread logs that wait again": "curlhttp._libcurl.connection_pool.WARN_AGAIN",
    "seconds before a wait for a slot is logged": "curlhttp._features.limits.layer.WARN_AFTER",
    "seconds in which no slot moves before a wait is logged": "curlhttp._libcurl.slots.WARN_AFTER",
    "seconds before a wait is looked at": "curlhttp._runtime.running_maps._PATIENCE",
    "seconds between renewals of a lease": "curlhttp._features.limits.policy._RENEWAL_SECONDS",
    "seconds of a lease in Redis": "curlhttp._features.limits.policy._LEASE_SECONDS",
    "seconds of a place in a queue in Redis": "curlhttp._features.limits.policy._QUEUE_SECONDS",
    "seconds of a slice of a wait": "curlhttp._runtime.run._SLICE",
    "seconds of a tick of a connection to Redis": "curlhttp.redis._connection._TICK",
    "seconds of a turn of recv": "curlhttp._features.websocket.connection._TURN",
    "seconds without a cache after it failed": "curlhttp._features.cache.storage._PAUSE",
    "seconds without bytes that make a connection unproven": (
        "curlhttp._libcurl.connection_state._UNPROVEN"
    ),
    "sockets that select takes": "curlhttp._libcurl.poller._SELECTED",
    "the addresses that the system knows": "curlhttp._libcurl.resolver._addresses",
    "the authorities of the system": "curlhttp._http.ssl_context.find_system_authorities",
    "the events of a socket that can be read": "curlhttp._libcurl.connection_state._READABLE",
    "the flag of Unix sockets": "curlhttp._libcurl._UNIX_SOCKETS",
    "the time of day": "curlhttp._runtime.network.time",
    "the version of libcurl": "curlhttp._libcurl.libcurl_version",
    "the wait between two renames": "curlhttp._features.rename._wait",
    "threads that ask the system for names": "curlhttp._libcurl.resolver._THREADS",
    "what the machine trusts, for httpx": "curlhttp._httpx.settings._find_system_trust",
    "whether libcurl has GSSAPI": "curlhttp._features.auth.negotiate.has_negotiate",
    "whether libcurl has HTTP/3": "curlhttp._libcurl.has_http3",
    "whether renames are those of Windows": "curlhttp._features.rename._IS_WINDOWS",
    "whether the system hides paths of Unix sockets": (
        "curlhttp._features.guard.checker._SEES_NO_UNIX_SOCKETS"
    ),
}


def force(patch: pytest.MonkeyPatch, what: str, value: object) -> None:
    """Replace what _PLACES names, until the end of the test."""
    patch.setattr(_PLACES[what], value)
