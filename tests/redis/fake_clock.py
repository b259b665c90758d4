"""A store that runs the scripts on a simulated clock."""

from __future__ import annotations

from typing import Any

from curlhttp.redis import _scripts as scripts
from tests.servers.redis_server import RedisServer


class FakeClockStore:
    """A store that runs the scripts on the test's clock, without a thread."""

    def __init__(self, redis: RedisServer) -> None:
        self.client = redis.client()
        self.now = 1_790_000_000 * 10**6

    def ask_here(self, question: Any) -> Any:
        text = scripts.load_script(question.kind).text.removeprefix(scripts._CLOCK)
        keys = scripts.make_keys(question, "paper")
        text = f"local now = {self.now}\n{text}"
        reply = self.client.eval(text, len(keys), *keys, *question.arguments, "mark")
        response = scripts.parse_answer(reply, question, "mark")
        assert response is not None, reply
        return response

    def tell(self, question: Any) -> None:
        self.ask_here(question)
