"""Replace the network in tests with a script of responses or with a mock with routes.

    from curlhttp import Client, RetryPolicy
    from curlhttp.testing import Answer, ScriptedEngine, refused

    def test_we_survive_a_restart():
        engine = ScriptedEngine([refused(), 503, Answer(content=b"ok", delay=0.3)])
        with Client(transport=engine, retry=RetryPolicy(max_retries=2)) as client:
            assert client.get("http://shop.test/").content == b"ok"
        assert len(engine.sent) == 3        # each attempt, with its time and body
        assert len(engine.sleeps) == 2      # the waits of the retry policy, in seconds
        assert engine.now() < 10            # on the clock of the script: the test takes no time

The same engine works with `AsyncClient(transport=engine)`. Only the network is scripted: redirects,
cookies, credentials, retries, breakers and your middleware work as usual, on the engine's clock.
"""

from __future__ import annotations

from curlhttp.testing._chaos import Chaos, Injected
from curlhttp.testing._mock import Mock, Route, mock
from curlhttp.testing._scripted import (
    Answer,
    Fault,
    ScriptedEngine,
    Sent,
    Step,
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
    "Chaos",
    "Fault",
    "Injected",
    "Mock",
    "Route",
    "ScriptedEngine",
    "Sent",
    "Step",
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
