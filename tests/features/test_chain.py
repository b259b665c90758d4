"""Retries among the other layers in both clients, and no cost while they are off."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import RetryBudget, RetryPolicy, Timeout
from curlhttp import exceptions as e
from curlhttp.testing import (
    Answer,
    Fault,
    ScriptedEngine,
    refused,
    reset,
    silent,
    stream_refused,
    unreachable,
    untrusted,
)
from curlhttp.types import Attempt
from tests.support.colours import BACKENDS, AnyClient
from tests.support.scripted import URL, Scripted, asks, moved, notes_of, steady

pytestmark = pytest.mark.anyio


# --- redirects, credentials, cookies ---


async def test_a_failed_redirect_is_retried_at_its_own_url(scripted: Scripted) -> None:
    client, engine = scripted([moved("http://b.test/x"), reset(), 503, 200], retry=2)
    found = await client.get("http://a.test/", auth=("u", "p"), headers={"X-Mine": "1"})
    assert [sent.url for sent in engine.sent] == ["http://a.test/"] + ["http://b.test/x"] * 3
    assert ["Authorization" in sent.headers for sent in engine.sent] == [True] + [False] * 3
    assert [past.status_code for past in found.history] == [302]
    assert len(found.attempts) == 3


async def test_redirects_and_retries_are_counted_apart(scripted: Scripted) -> None:
    script = [step for number in range(5) for step in (503, 503, moved(f"/{number}"))]
    client, engine = scripted([*script, 200], retry=2, max_redirects=5)
    found = await client.get(URL)
    assert found.status_code == 200
    assert len(found.history) == 5
    assert len(engine.sent) == 16


async def test_an_authenticated_request_is_no_retry(scripted: Scripted) -> None:
    challenge = Answer(401, headers={"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'})
    client, engine = scripted([503, 503, challenge, 503, 503, 200], retry=2)
    found = await client.get(URL, auth=curlhttp.DigestAuth("u", "p"))
    assert found.status_code == 200
    assert len(engine.sent) == 6
    assert ["Authorization" in sent.headers for sent in engine.sent] == [False] * 3 + [True] * 3


async def test_a_second_challenge_is_final(scripted: Scripted) -> None:
    challenge = Answer(401, headers={"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'})
    client, engine = scripted([challenge] * 3, retry=2)
    found = await client.get(URL, auth=curlhttp.DigestAuth("u", "p"))
    assert found.status_code == 401
    assert len(engine.sent) == 2


async def test_cookies_of_failed_attempts_are_stored(scripted: Scripted) -> None:
    first = Answer(503, headers={"Set-Cookie": "a=1"})
    client, _ = scripted([first, Answer(headers={"Set-Cookie": "b=2"})], retry=1)
    await client.get(URL)
    assert client.real.cookies.get_dict() == {"a": "1", "b": "2"}


async def test_middleware_sees_the_outcome_not_the_attempts(scripted: Scripted) -> None:
    seen: list[int] = []

    async def watch(request: Any, send: Any) -> Any:
        response = await send(request)
        seen.append(response.status_code)
        return response

    client, _ = scripted([503, 503, 200], retry=2, middleware=[watch])
    await client.get(URL)
    assert seen == [200]


# --- the budget ---


async def test_with_an_empty_budget_the_failure_is_returned_at_once(scripted: Scripted) -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.1)
    client, engine = scripted([503, 503, reset(), 503], retry=steady(budget=budget))
    assert (await client.get(URL)).budget_exhausted
    with pytest.raises(e.ConnectionError, match="broke before the response") as caught:
        await client.get(URL)
    assert caught.value.budget_exhausted
    assert "not sent again: the retry budget of this origin is used up" in notes_of(caught.value)
    assert engine.sleeps == [1.0]
    assert not (await client.get("http://other.test/", retry=None)).budget_exhausted


async def test_a_failure_that_is_not_retried_takes_nothing_from_the_budget(
    scripted: Scripted,
) -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.1)
    client, engine = scripted([reset(), 503, 200], retry=steady(budget=budget))
    with pytest.raises(e.ConnectionError) as caught:
        await client.post(URL)
    assert not caught.value.budget_exhausted
    assert budget.balance("http://h.test:80", engine.now()) == 1.0


async def test_the_budget_of_one_origin_does_not_feel_anothers_failures(
    scripted: Scripted,
) -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.1)
    client, engine = scripted([503] * 4, retry=steady(budget=budget))
    await client.get("http://a.test/")
    assert len(engine.sent) == 2
    await client.get("http://b.test/")
    assert len(engine.sent) == 4


# --- the breaker, as far as retries go ---


def opened(seconds: float) -> Fault:
    return Fault(e.CircuitBreakerOpen("open", retry_after=seconds))


async def test_an_open_breaker_ends_the_retries(scripted: Scripted) -> None:
    client, engine = scripted([503, opened(0.5), 200], retry=steady())
    with pytest.raises(e.CircuitBreakerOpen) as caught:
        await client.get(URL)
    assert len(caught.value.attempts) == 2
    assert engine.sleeps == [1.0]


@pytest.mark.parametrize("timeout", [None, Timeout(total=40)], ids=["no total", "time enough"])
async def test_nothing_waits_for_an_open_breaker(scripted: Scripted, timeout: Any) -> None:
    client, engine = scripted([opened(30.0), 200], retry=steady())
    with pytest.raises(e.CircuitBreakerOpen):
        await client.get(URL, timeout=timeout)
    assert engine.sleeps == []


async def test_retries_that_the_breaker_refuses_take_nothing_from_the_budget(
    scripted: Scripted,
) -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.3)
    script = [503] + [opened(0.1)] * 5
    client, engine = scripted(script, retry=steady(5, budget=budget))
    with pytest.raises(e.CircuitBreakerOpen):
        await client.get(URL, timeout=Timeout(total=8))
    assert budget.balance("http://h.test:80", engine.now()) == pytest.approx(3.0)


async def test_a_first_attempt_that_the_breaker_refuses_earns_nothing(scripted: Scripted) -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.1)
    client, engine = scripted([opened(9.0)] * 2, retry=steady(budget=budget))
    for _ in range(2):
        with pytest.raises(e.CircuitBreakerOpen):
            await client.get(URL)
    assert budget.balance("http://h.test:80", engine.now()) == 1.0


async def test_a_real_breaker_stops_the_retries(scripted: Scripted) -> None:
    breaker = curlhttp.CircuitBreaker(failure_threshold=3, recovery_timeout=30.0)
    client, engine = scripted([503] * 9 + [200], retry=steady(5), breaker=breaker)
    with pytest.raises(e.CircuitBreakerOpen) as caught:
        await client.get(URL)
    assert len(engine.sent) == 3
    assert 0 < caught.value.retry_after <= 30.0
    engine.advance(31)
    with pytest.raises(e.CircuitBreakerOpen):
        await client.get(URL)
    assert len(engine.sent) == 4  # the probe


# --- both clients do the same ---

FAULTS: dict[str, list[Any]] = {
    "statuses": [503, asks(7), 502, 429, 200],
    "errors": [refused(), reset(), unreachable(), silent(), 200],
    "a broken body": [Answer(content=b"x", error=e.ChunkedEncodingError("cut")), 503, 200],
    "redirects": [503, moved("/a"), reset(), moved("http://b.test/"), 503, 200],
    "no success": [503, reset(), refused(), stream_refused(), 503, 503],
    "a certificate": [503, untrusted()],
}


def trace_of(colour: str, script: list[Any], method: str) -> list[Any]:
    """Return all that can be seen of one request."""
    seen: list[Any] = []
    engine = ScriptedEngine(script)
    policy = RetryPolicy(5, random=random.Random(11), retry_non_idempotent=method == "POST")
    names = ("before_attempt", "after_attempt", "before_sleep", "on_give_up")
    settings: dict[str, Any] = {
        "transport": engine,
        "retry": policy,
        "hooks": dict.fromkeys(names, seen.append),
        "breaker": curlhttp.CircuitBreaker(9, 30.0),
    }

    async def run() -> None:
        client = AnyClient(colour, **settings)
        try:
            found = await client.request(method, URL, data=b"x" if method == "POST" else None)
            seen.extend(shown(found.attempts))
        except e.RequestException as error:
            seen.extend([type(error), *shown(error.attempts), notes_of(error)])
        await client.aclose()

    anyio.run(run, backend=BACKENDS[colour])
    sent = [(each.at, each.method, each.url, each.body, each.arrived) for each in engine.sent]
    return [*seen, engine.sleeps, engine.now(), sent]


def shown(attempts: tuple[Attempt, ...]) -> list[Any]:
    return [(*attempt[:2], repr(attempt.error), *attempt[3:]) for attempt in attempts]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("name", FAULTS)
def test_both_clients_have_the_same_trace(name: str, method: str) -> None:
    traces = [trace_of(colour, FAULTS[name], method) for colour in ("blocking", "asyncio", "trio")]
    assert traces[0] == traces[1] == traces[2]
    assert len(traces[0]) > 5


@pytest.mark.slow
def test_a_policy_that_is_off_is_not_even_loaded() -> None:
    from tests.test_architecture import loaded_after

    program = (
        "import curlhttp\nfrom curlhttp.testing import ScriptedEngine\n"
        "c = curlhttp.Client(transport=ScriptedEngine([200]))\n"
        "assert c.get('http://h.test/').attempts == ()\n"
    )
    layers = [
        f"curlhttp._features.{name}.layer" for name in ("retry", "breaker", "limits", "hedge")
    ]
    names = " ".join(["logging", "curlhttp._features.retry.policy", *layers])
    assert loaded_after(program, names) == set()
    assert layers[0] in loaded_after(program + "curlhttp.Client(retry=1)", names)


def test_a_request_without_policies_skips_their_layers() -> None:
    layers = {"retry", "limits", "breaker", "hedge"}
    assert layers & called({}) == set()
    asked = {"retry": 1, "breaker": curlhttp.CircuitBreaker()}
    assert layers & called(asked) == {"retry", "breaker"}


def called(settings: dict[str, Any]) -> set[str]:
    """Return the names of the modules that one request runs code of."""
    found: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            found.add(Path(frame.f_code.co_filename).parent.name)

    with curlhttp.Client(transport=ScriptedEngine([200]), **settings) as client:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            client.get(URL)
        finally:
            sys.setprofile(before)
    return found
