"""Several endpoints: which one is chosen, and when one is ejected and comes back."""

from __future__ import annotations

import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import URL, Client, Endpoints
from curlhttp._features.breaker.circuit import Outcome
from curlhttp._features.endpoints.policy import Rotation

A, B, C = (f"http://{name}.test/" for name in "abc")
CHOICES = ["least_pending", "round_robin", "p2c"]


def at(endpoints: Endpoints, now: float = 0.0, outcome: Outcome | None = Outcome.SUCCESS) -> str:
    """Return where an attempt goes that ends at once."""
    turn = endpoints.choose([], now)
    turn.end(outcome, now)
    return str(turn.base)


def fail(endpoints: Endpoints, url: str, times: int, now: float = 0.0) -> None:
    """Let attempts at one endpoint fail."""
    others = [other for other in endpoints.urls if str(other) != url]
    for _ in range(times):
        turn = endpoints.choose(others, now)
        assert str(turn.base) == url
        turn.end(Outcome.FAILURE, now)


def ejected(endpoints: Endpoints, now: float) -> dict[str, float]:
    return {each.url: each.ejected_for for each in endpoints.states(now) if each.ejected_for}


@pytest.mark.parametrize("choose", CHOICES)
def test_all_get_about_the_same(choose: Any) -> None:
    endpoints = Endpoints([A, B, C], choose=choose)
    counts = Counter(at(endpoints) for _ in range(300))
    assert set(counts) == {A, B, C}
    assert choose == "p2c" or set(counts.values()) == {100}


def test_the_least_pending_one_is_chosen() -> None:
    endpoints = Endpoints([A, B], choose="least_pending")
    held = [endpoints.choose([], 0.0) for _ in range(2)]
    assert {str(turn.base) for turn in held} == {A, B}
    held[0].end(None, 0.0)
    again = endpoints.choose([], 0.0)
    assert again.base == held[0].base
    again.end(None, 0.0)
    again.end(None, 0.0)  # does nothing
    assert sorted(state.pending for state in endpoints.states(0.0)) == [0, 1]


def test_a_turn_that_is_dropped_is_not_pending() -> None:
    endpoints = Endpoints([A, B])
    endpoints.choose([], 0.0)
    assert [state.pending for state in endpoints.states(0.0)] == [0, 0]


def test_failures_in_a_row_eject() -> None:
    endpoints = Endpoints([A, B], eject_after=3, eject_for=30)
    fail(endpoints, A, 2)
    turn = endpoints.choose([URL(B)], 0.0)
    turn.end(Outcome.SUCCESS, 0.0)
    fail(endpoints, A, 2)
    assert not ejected(endpoints, 0.0)
    fail(endpoints, A, 1)
    assert ejected(endpoints, 1.0) == {A: 29.0}
    assert {at(endpoints, 1.0) for _ in range(10)} == {B}


def test_cancelled_attempts_say_nothing() -> None:
    endpoints = Endpoints([A, B], eject_after=1)
    for outcome in (None, Outcome.IGNORED, Outcome.PROXY_FAILURE):
        at(endpoints, 0.0, outcome)
    assert not ejected(endpoints, 0.0)


def test_the_time_grows_and_is_forgiven() -> None:
    endpoints = Endpoints([A, B], eject_after=1, eject_for=10)
    now = 0.0
    for growth in (1, 2, 3):
        fail(endpoints, A, 1, now)
        assert ejected(endpoints, now) == {A: 10.0 * growth}
        now += 10.0 * growth + 1
    now += 100.0  # well for ten times eject_for
    fail(endpoints, A, 1, now)
    assert ejected(endpoints, now) == {A: 10.0}
    for _ in range(30):
        now += ejected(endpoints, now)[A]
        fail(endpoints, A, 1, now)
    assert ejected(endpoints, now) == {A: 100.0}


@pytest.mark.parametrize("choose", CHOICES)
def test_it_comes_back_slowly(choose: Any) -> None:
    endpoints = Endpoints([A, B], choose=choose, eject_after=1, eject_for=100)
    fail(endpoints, A, 1)
    shares = []
    for now in (100.0, 150.0, 200.0):
        counts = Counter(at(endpoints, now) for _ in range(4000))
        shares.append(counts[A] / 4000)
    assert shares == pytest.approx([1 / 11, 1 / 3, 1 / 2], abs=0.05)


@pytest.mark.parametrize("choose", ["least_pending", "p2c"])
def test_one_that_came_back_has_few_pending(choose: Any) -> None:
    endpoints = Endpoints([A, B, C], choose=choose, eject_after=1, eject_for=100)
    fail(endpoints, A, 1)
    held = [endpoints.choose([], 120.0) for _ in range(300)]
    counts = Counter(str(turn.base) for turn in held)
    assert 1 <= counts[A] <= 60 < counts[B]


def test_no_more_than_max_ejected() -> None:
    endpoints = Endpoints([A, B, C], eject_after=1, max_ejected=0.67)
    for url in (A, B):
        fail(endpoints, url, 1)
    assert set(ejected(endpoints, 0.0)) == {A, B}
    fail(endpoints, C, 3)
    assert set(ejected(endpoints, 0.0)) == {A, B}
    for share in (0, 0.49):
        endpoints = Endpoints([A, B], eject_after=1, max_ejected=share)
        fail(endpoints, A, 5)
        assert not ejected(endpoints, 0.0)


def test_if_all_are_ejected_all_are_used() -> None:
    endpoints = Endpoints([A, B], eject_after=1, max_ejected=1)
    for url in (A, B):
        fail(endpoints, url, 1)
    assert set(ejected(endpoints, 0.0)) == {A, B}
    assert {at(endpoints) for _ in range(10)} == {A, B}


def test_further_attempts_go_elsewhere() -> None:
    endpoints = Endpoints([A, B, C])
    rotation = Rotation(endpoints, URL(A + "x?y=1"))
    found = [rotation.next(0.0) for _ in range(3)]
    assert {str(url) for _, url in found} == {f"{each}x?y=1" for each in (A, B, C)}
    assert not rotation.has_more(0.0)
    assert str(rotation.next(0.0)[0].base) in (A, B, C)


def test_a_turn_that_is_given_back_was_no_attempt() -> None:
    endpoints = Endpoints([A, B])
    rotation = Rotation(endpoints, URL(A))
    rotation.next(0.0)
    turn, url = rotation.next(0.0)
    assert not rotation.has_more(0.0)
    rotation.give_back(turn)
    assert rotation.has_more(0.0)
    assert rotation.next(0.0)[1] == url


def test_a_list_that_changes_keeps_what_is_known() -> None:
    endpoints = Endpoints([A, B], eject_after=1)
    fail(endpoints, A, 1)
    endpoints._replace([A, C])
    assert ejected(endpoints, 0.0) == {A: 30.0}
    assert {at(endpoints) for _ in range(4)} == {C}
    endpoints._replace([B])
    assert at(endpoints) == B


def test_one_of_several_threads_lists_them_again() -> None:
    endpoints = Endpoints(lambda: [A], refresh=10)
    endpoints._replace([A])
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: endpoints._take_refresh(20.0), range(50)))
    assert taken.count(True) == 1
    assert not endpoints._take_refresh(99.0)  # it is still running
    endpoints._end_refresh(20.0)
    assert not endpoints._take_refresh(29.0)
    assert endpoints._take_refresh(30.0)
    endpoints._end_refresh(None)  # it was cancelled
    assert endpoints._take_refresh(30.0)
    assert not Endpoints([A])._take_refresh(0.0)


def test_urls_below_the_bases() -> None:
    endpoints = Endpoints(["https://a.test/api/", "https://b.test:8443/v1"])
    for text, expected in [
        ("https://b.test:8443/v1/x?y=1", "https://a.test/api/x?y=1"),
        ("https://b.test:8443/v1", "https://a.test/api"),
        ("https://b.test:8443/v1?y", "https://a.test/api?y"),
        ("https://a.test/api/x", "https://a.test/api/x"),
        ("https://b.test:8443/v11", "https://b.test:8443/v11"),
        ("https://b.test/v1/x", "https://b.test/v1/x"),
        ("http://a.test/api/x", "http://a.test/api/x"),
    ]:
        found = endpoints._to_canonical(URL(text))
        assert str(found) == expected
        assert endpoints._covers(found) == expected.startswith("https://a.test/api")
    rotation = Rotation(endpoints, URL("https://a.test/api/x#part"))
    urls = {str(rotation.next(0.0)[1]) for _ in range(2)}
    assert urls == {"https://a.test/api/x#part", "https://b.test:8443/v1/x#part"}


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([*Outcome, None])), max_size=60))
def test_pending_attempts_are_counted_exactly(steps: list[tuple[int, Outcome | None]]) -> None:
    endpoints = Endpoints([A, B, C], eject_after=2, eject_for=3, max_ejected=1)
    held: list[Any] = []
    for now, (which, outcome) in enumerate(steps):
        if which < len(held):
            held.pop(which).end(outcome, float(now))
        else:
            held.append(endpoints.choose([], float(now)))
        states = endpoints.states(float(now))
        assert sum(state.pending for state in states) == len(held)
        assert all(state.failures < 2 for state in states)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ([], {}, "at least one URL"),
        ([A, A], {}, "two of the endpoints are equal"),
        ([A + "api", A + "api/"], {}, "two of the endpoints are equal"),
        ([A, "https://b.test/"], {}, "must all be https or all http"),
        (["http://user:pass@a.test/"], {}, "cannot have credentials"),
        (["http://a.test/?x=1"], {}, "cannot have credentials, a query or a fragment"),
        ([A], {"choose": "random"}, "choose must be one of"),
        ([A], {"eject_after": 0}, "eject_after must be a whole number"),
        ([A], {"eject_after": 1.5}, "eject_after must be a whole number"),
        ([A], {"eject_for": 0}, "eject_for must be a number of seconds"),
        ([A], {"eject_for": float("nan")}, "eject_for must be a number of seconds"),
        ([A], {"max_ejected": 1.5}, "max_ejected must be a number from 0 to 1"),
        ([A], {"refresh": 5}, "refresh needs a function"),
        (lambda: [A], {"refresh": 0}, "refresh must be a number of seconds"),
        ("http://a.test", {}, "a list of URLs, or a function, not str"),
        (["a.test"], {}, "a.test"),
    ],
    ids=lambda value: "function" if callable(value) else str(value),
)
def test_bad_settings_are_refused(arguments: Any, options: Any, error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error) as caught:
        Endpoints(arguments, **options)
    assert "pass@" not in str(caught.value)


def test_it_is_not_pickled() -> None:
    endpoints = Endpoints([A, B])
    with pytest.raises(TypeError, match="Endpoints cannot be pickled"):
        pickle.dumps(endpoints)
    assert repr(endpoints) == f"Endpoints(['{A}', '{B}'], choose='least_pending')"
    assert repr(Client(base_url=endpoints)) == f"<curlhttp.Client {A}>"


# --- cookies ---

LINES = st.lists(
    st.sampled_from(["a=1", "Domain=", "Path=", "=", ";", "test", "/x", "..", "a.test", '"', "\0"])
    | st.text(max_size=9)
).map("".join)


@given(LINES)
def test_any_cookie_of_an_endpoint_is_stored_as_of_the_first_or_ignored(line: str) -> None:
    endpoints = Endpoints(["http://a.test/x/", "http://b.test/y/"])
    url = URL("http://b.test/y/z")
    moved = endpoints._localize_cookie(line, url)
    assert moved.partition(";")[0] == line.partition(";")[0]
    assert endpoints._localize_cookie(line, URL("http://a.test/x/z")) == line
    endpoints._make_jar(None).store(url, [line])
