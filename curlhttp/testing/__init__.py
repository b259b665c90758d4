"""Script what servers answer, for tests that need no network and take no time.

    from curlhttp import Client, RetryPolicy
    from curlhttp.testing import Answer, ScriptedEngine, refused

    def test_we_survive_a_restart():
        engine = ScriptedEngine([refused(), 503, Answer(content=b"ok", delay=0.3)])
        with Client(transport=engine, retry=RetryPolicy(max_retries=2)) as client:
            assert client.get("http://shop.test/").content == b"ok"
        assert len(engine.sent) == 3        # what was asked for, with times and bodies
        assert len(engine.sleeps) == 2      # the waits of the retry policy, in seconds
        assert engine.now() < 10            # on a clock that only the script moves

The same engine serves `AsyncClient(transport=engine)`. Only the network is scripted: redirects,
cookies, credentials, retries, breakers and your middleware work as ever, on the engine's clock.
"""

from __future__ import annotations

from curlhttp.testing._mock import Mock, Route, mock
from curlhttp.testing._scripted import (
    Answer,
    Fault,
    ScriptedEngine,
    Sent,
    refused,
    reset,
    silent,
    stream_refused,
    unreachable,
    unread,
    unresolved,
    untrusted,
)

__all__ = [
    "Answer",
    "Fault",
    "Mock",
    "Route",
    "ScriptedEngine",
    "Sent",
    "mock",
    "refused",
    "reset",
    "silent",
    "stream_refused",
    "unreachable",
    "unread",
    "unresolved",
    "untrusted",
]
