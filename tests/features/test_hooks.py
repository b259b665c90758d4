"""What hooks and the log get of attempts; neither changes a request or shows a secret."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import curlhttp
from curlhttp import RateLimit, RetryBudget, Timeout
from curlhttp import exceptions as e
from curlhttp.testing import Answer, Fault, ScriptedEngine, refused, reset, untrusted
from curlhttp.types import AttemptEvent
from tests.support.scripted import URL, Scripted, asks, moved, steady

pytestmark = pytest.mark.anyio

EVENTS = ("before_attempt", "after_attempt", "before_sleep", "on_give_up")


def record_hooks(seen: list[Any]) -> dict[str, Any]:
    return dict.fromkeys(EVENTS, seen.append)


async def test_hooks_are_notified_of_each_attempt_and_each_wait(scripted: Scripted) -> None:
    seen: list[AttemptEvent] = []
    script = [Answer(503, delay=0.5), reset(), Answer(delay=0.25)]
    client, _ = scripted(script, retry=steady(), hooks=record_hooks(seen))
    await client.get(URL)
    assert [event[0] for event in seen] == [
        "before_attempt",
        "after_attempt",
        "before_sleep",
        "before_attempt",
        "after_attempt",
        "before_sleep",
        "before_attempt",
        "after_attempt",
    ]
    assert seen[0] == AttemptEvent("before_attempt", "GET", URL, 1)
    assert seen[1] == AttemptEvent("after_attempt", "GET", URL, 1, 503, None, 0.5)
    assert seen[2] == AttemptEvent("before_sleep", "GET", URL, 1, 503, None, 0.5, delay=1.0)
    assert seen[4] == AttemptEvent("after_attempt", "GET", URL, 2, None, "ConnectionError", 0.0)
    assert seen[7] == AttemptEvent("after_attempt", "GET", URL, 3, 200, None, 0.25)


GIVEN_UP: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "not_retriable": ([untrusted()], {}),
    "not_idempotent": ([reset()], {"method": "POST"}),
    "max_retries": ([503, refused(), 503], {}),
    "retry_after": ([asks(100)], {}),
    "deadline": ([503], {"timeout": Timeout(total=0.5)}),
    "body": ([503], {"method": "PUT", "content": (piece for piece in [b"a"])}),
    "breaker": ([Fault(e.CircuitBreakerOpen("open", retry_after=1.0))], {}),
    "budget": ([503], {"budget": RetryBudget(ratio=0.0, reserve=0.0)}),
}


@pytest.mark.parametrize("reason", GIVEN_UP)
def test_hooks_are_notified_why_retries_stop(reason: str) -> None:
    script, options = GIVEN_UP[reason]
    seen: list[AttemptEvent] = []
    policy = steady(2, **({"budget": options.pop("budget")} if "budget" in options else {}))
    engine = ScriptedEngine(script)
    with curlhttp.Client(transport=engine, retry=policy, hooks={"on_give_up": seen.append}) as made:
        with suppress(e.RequestException):
            made.request(options.pop("method", "GET"), URL, **options)
    assert [event.reason for event in seen] == [reason]
    assert seen[0].number == len(engine.sent)


async def test_a_success_is_no_giving_up(scripted: Scripted) -> None:
    seen: list[AttemptEvent] = []
    client, _ = scripted([404, 503, 200], retry=1, hooks={"on_give_up": seen.append})
    await client.get(URL)
    await client.get(URL)
    assert seen == []


async def test_hooks_are_notified_of_attempts_without_a_policy_too(scripted: Scripted) -> None:
    seen: list[AttemptEvent] = []
    client, _ = scripted([503, moved("/there"), 200, reset()], hooks=record_hooks(seen))
    assert (await client.get(URL)).status_code == 503
    await client.get(URL)
    with pytest.raises(e.ConnectionError):
        await client.get(URL)
    assert {event.event for event in seen} == {"before_attempt", "after_attempt"}
    assert [event.number for event in seen] == [1] * 8
    outcomes = [event[4:6] for event in seen if event.event == "after_attempt"]
    assert outcomes == [(503, None), (302, None), (200, None), (None, "ConnectionError")]


async def test_async_hooks_are_awaited(scripted: Scripted) -> None:
    seen: list[str] = []

    async def note(event: AttemptEvent) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(event.event)

    hooks = dict.fromkeys(EVENTS, note)
    client, _ = scripted([200])
    if client.is_blocking:
        with pytest.raises(TypeError, match="an async hook for 'before_attempt' needs AsyncClient"):
            scripted([200], hooks=hooks)
        return
    client, _ = scripted([503, 503], retry=1, hooks=hooks)
    await client.get(URL)
    assert seen == [
        "before_attempt",
        "after_attempt",
        "before_sleep",
        "before_attempt",
        "after_attempt",
        "on_give_up",
    ]


def test_a_hook_that_turns_out_async_changes_nothing_in_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def wait(event: AttemptEvent) -> None:
        await anyio.sleep(1)

    engine = ScriptedEngine([200])
    with curlhttp.Client(transport=engine, hooks={"before_attempt": lambda e: wait(e)}) as client:
        assert client.get(URL).status_code == 200
    assert "an async hook needs AsyncClient" in caplog.text


async def test_a_hook_that_raises_is_logged_and_changes_nothing(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: AttemptEvent) -> None:
        raise ValueError(f"the hook for {event.event} is broken")

    seen: list[AttemptEvent] = []
    hooks = {event: [fail, seen.append] for event in EVENTS}
    client, engine = scripted([503, refused()], retry=steady(1), hooks=hooks)
    with pytest.raises(e.ConnectionError, match="refused"):
        await client.get(URL)
    assert engine.sleeps == [1.0]
    assert [event.event for event in seen] == [
        "before_attempt",
        "after_attempt",
        "before_sleep",
        "before_attempt",
        "after_attempt",
        "on_give_up",
    ]
    assert {record.name for record in caplog.records} == {"curlhttp"}
    for event in EVENTS:
        assert f"the hook for {event} is broken" in caplog.text


async def test_a_hook_that_cancels_does_so(scripted: Scripted) -> None:
    def stop(event: AttemptEvent) -> None:
        raise KeyboardInterrupt

    client, engine = scripted([503, 200], retry=1, hooks={"before_sleep": stop})
    with pytest.raises(KeyboardInterrupt):
        await client.get(URL)
    assert len(engine.sent) == 1


async def test_return_values_of_hooks_are_ignored(scripted: Scripted) -> None:
    hooks = dict.fromkeys(EVENTS, lambda event: curlhttp.ClientRequest("GET", "http://evil.test/"))
    client, engine = scripted([503, 200], retry=1, hooks=hooks)
    assert (await client.get(URL)).url == URL
    assert [sent.url for sent in engine.sent] == [URL] * 2


# --- secrets ---


async def test_neither_hooks_nor_log_betray_a_secret(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[AttemptEvent] = []
    client, engine = scripted([503, reset(), refused()], retry=steady(), hooks=record_hooks(seen))
    with pytest.raises(e.ConnectionError):
        await client.get(
            "http://user:hush-1@h.test/a?page=2&api_key=hush-2&X-Amz-Signature=hush-3#hush-4",
            headers={"X-Api-Key": "hush-5", "Proxy-Authorization": "hush-6"},
            cookies={"session": "hush-7"},
        )
    assert "Authorization" in engine.sent[0].headers
    assert len(seen) == 9
    assert {event.url for event in seen} == {
        "http://h.test/a?page=2&api_key=***&X-Amz-Signature=***"
    }
    assert "attempt 2: ConnectionError; the next in 2.000 s" in caplog.text
    for text in (repr(seen), caplog.text):
        assert "hush" not in text
        assert "dXNlcj" not in text  # the Basic credentials


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ""),
        ("?a=1&b=2", "?a=1&b=2"),
        ("?token=x", "?token=***"),
        ("?access_token=x&y=1", "?access_token=***&y=1"),
        ("?%74oken=x", "?token=***"),
        ("?sig=x&signature=y", "?sig=***&signature=***"),
        ("?X-Goog-Credential=x", "?X-Goog-Credential=***"),
        ("?password=a=b", "?password=***"),
        ("?client_secret=x&code=y", "?client_secret=***&code=***"),
        ("?keyword=x&design=y&author=z", "?keyword=x&design=y&author=z"),
        ("?token", "?token"),
    ],
)
def test_values_of_secret_parameters_are_masked(query: str, shown: str) -> None:
    events: list[Any] = []
    with curlhttp.Client(
        transport=ScriptedEngine([200]), hooks={"before_attempt": events.append}
    ) as client:
        client.get(f"https://u:p@h.test/path{query}#fragment")
    assert [event.url for event in events] == [f"https://h.test/path{shown}"]


# --- the order of the layers, as attempts go through them ---


class Watched(ScriptedEngine):
    """An engine that notes what reaches it."""

    def __init__(self, script: Any, trace: list[str]) -> None:
        super().__init__(script)
        self.trace = trace

    async def perform(self, request: Any) -> Any:
        self.trace.append("send")
        return await super().perform(request)

    async def sleep(self, seconds: float) -> None:
        self.trace.append("sleep")
        await super().sleep(seconds)


def test_each_attempt_passes_the_limit_then_the_breaker_and_pays_as_a_retry() -> None:
    trace: list[str] = []

    class Budget(RetryBudget):
        def _withdraw(self, origin: str, now: float) -> bool:
            trace.append("pay")
            return super()._withdraw(origin, now)

        def _refund(self, origin: str, now: float) -> None:
            trace.append("refund")
            super()._refund(origin, now)

    class Rate(RateLimit):
        def _try_acquire(self, origin: str, now: float) -> bool:
            trace.append("limit")
            return super()._try_acquire(origin, now)

    class Breaker(curlhttp.CircuitBreaker):
        def _admit(self, origin: str, now: float) -> Any:
            trace.append("breaker")
            return super()._admit(origin, now)

    with curlhttp.Client(
        transport=Watched([503] * 5, trace),
        retry=steady(4, budget=Budget()),
        rate_limit=Rate(100, burst=100),
        breaker=Breaker(failure_threshold=2, recovery_timeout=30.0),
    ) as client:
        with pytest.raises(e.CircuitBreakerOpen):
            client.get(URL)
    assert trace == [
        *("limit", "breaker", "send"),
        *("pay", "sleep", "limit", "breaker", "send"),
        *("pay", "sleep", "limit", "breaker", "refund"),  # refused: nothing was sent
    ]


async def test_hooks_are_notified_of_a_breakers_transitions(scripted: Scripted) -> None:
    seen: list[Any] = []
    breaker = curlhttp.CircuitBreaker(failure_threshold=1, recovery_timeout=30.0)
    client, engine = scripted(
        [503, 200], breaker=breaker, hooks={"breaker_transition": seen.append}
    )
    await client.get(URL)
    engine.advance(31)
    await client.get(URL)
    assert [(change.old, change.new) for change in seen] == [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
    ]
