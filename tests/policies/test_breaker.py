"""The circuit breaker alone: states, windows, permits. Times are numbers; nothing sleeps."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from curlhttp import CircuitBreaker, CircuitBreakerOpen
from curlhttp.types import Transition

A = TypeVar("A")
T = TypeVar("T")

ORIGIN = "http://a.test:80"
OTHER = "http://b.test:80"


MakeBreaker = Callable[..., CircuitBreaker]


@pytest.fixture
def make_breaker() -> MakeBreaker:
    """Return what makes breakers."""
    return CircuitBreaker


def run(breaker: CircuitBreaker, results: str, now: float = 0.0, origin: str = ORIGIN) -> None:
    """Hand in results one by one: F failed, s succeeded, S succeeded slowly, X failed slowly."""
    for result in results:
        permit = breaker._admit(origin, now)
        finish = permit.fail if result in "FX" else permit.succeed
        finish(now, 10.0 if result in "SX" else 0.1)


def is_refused(breaker: CircuitBreaker, now: float, origin: str = ORIGIN) -> float | None:
    """Return the seconds to wait if a call is refused now, else None."""
    try:
        breaker._admit(origin, now)
    except CircuitBreakerOpen as error:
        return error.retry_after
    return None


# --- failures in a row ---


def test_five_failures_in_a_row_open_by_default(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker()
    run(breaker, "FFFF")
    assert breaker.state(ORIGIN) == "closed"
    run(breaker, "F")
    assert breaker.state(ORIGIN) == "open"
    assert is_refused(breaker, 0.9) == pytest.approx(0.1)


def open_seconds(breaker: CircuitBreaker, failed_probes: int) -> list[float]:
    """Return how long the circuit stays open each time."""
    run(breaker, "F" * 5)
    now, found = 0.0, []
    for _ in range(failed_probes + 1):
        seconds = is_refused(breaker, now)
        assert seconds is not None
        found.append(seconds)
        now += seconds
        run(breaker, "F", now=now)
    return found


def test_a_circuit_is_open_for_a_second_by_default_and_for_five_at_most(
    make_breaker: MakeBreaker,
) -> None:
    """A server that works again is found out soon, however long it did not."""
    assert open_seconds(make_breaker(), 5) == pytest.approx([1, 2, 4, 5, 5, 5])


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({"recovery_timeout": 30.0}, [30, 30, 30]),
        ({"recovery_timeout": 0.5}, [0.5, 0.5, 0.5]),
        ({"recovery_timeout": 30.0, "growth": 2.0}, [30, 60, 120]),
        ({"recovery_timeout": 10.0, "growth": 2.0, "recovery_timeout_max": 15.0}, [10, 15, 15]),
        ({"growth": 1.0}, [1, 1, 1]),
        ({"growth": 3.0}, [1, 3, 5]),
        ({"recovery_timeout_max": 60.0}, [1, 2, 4, 8, 16, 32, 60, 60]),
    ],
)
def test_each_setting_of_the_open_time_counts_on_its_own(
    make_breaker: MakeBreaker, settings: dict[str, float], seconds: list[float]
) -> None:
    assert open_seconds(make_breaker(**settings), len(seconds) - 1) == pytest.approx(seconds)


def test_a_probe_that_succeeds_makes_the_open_time_short_again(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker()
    assert open_seconds(breaker, 2) == pytest.approx([1, 2, 4])
    run(breaker, "s", now=60.0)
    run(breaker, "F" * 5, now=60.0)
    assert is_refused(breaker, 60.0) == pytest.approx(1)


def test_a_success_ends_a_row(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(failure_threshold=3)
    run(breaker, "FFsFFsFF")
    assert breaker.state(ORIGIN) == "closed"
    run(breaker, "F")
    assert breaker.state(ORIGIN) == "open"


def test_origins_have_their_own_circuits(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(2)
    run(breaker, "FF")
    assert breaker.state(ORIGIN) == "open"
    assert breaker.state(OTHER) == "closed"
    assert is_refused(breaker, 0, OTHER) is None


def test_the_key_is_scheme_host_and_port(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1)
    run(breaker, "F", origin="https://xn--bcher-kva.test:443")
    assert breaker.state("https://BÜCHER.test/path?query") == "open"
    assert breaker.state("https://bücher.test:8443/") == "closed"
    assert breaker.state("http://bücher.test:443/") == "closed"


def test_a_proxy_is_not_the_site_on_its_host_and_port(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1)
    run(breaker, "F", origin="proxy http://a.test:80")
    assert breaker.state("proxy http://a.test:80") == "open"
    assert breaker.state("http://a.test:80") == "closed"


# --- rates ---


def test_a_window_of_calls_opens_at_the_rate_and_not_before(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(failure_rate=0.5, window=10, minimum_calls=10)
    run(breaker, "FFFFsssss")
    assert breaker.state(ORIGIN) == "closed"  # nine calls
    run(breaker, "s")
    assert breaker.state(ORIGIN) == "closed"  # four of ten
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 10, 4)
    run(breaker, "s")
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 10, 3)  # the first is forgotten
    run(breaker, "FFFF")
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 10, 4)
    run(breaker, "F")
    assert breaker.state(ORIGIN) == "open"


@pytest.mark.parametrize(
    ("failures", "calls"), [(7, 100), (29, 100), (1, 3), (57, 100), (3, 10), (1, 1)]
)
def test_a_rate_is_exact_at_the_border(
    make_breaker: MakeBreaker, failures: int, calls: int
) -> None:
    breaker = make_breaker(failure_rate=failures / calls, window=calls, minimum_calls=calls)
    run(breaker, "F" * (failures - 1) + "s" * (calls - failures))
    assert breaker.state(ORIGIN) == "closed"
    run(breaker, "F")
    assert breaker.state(ORIGIN) == "open"


def test_below_the_minimum_of_calls_no_rate_opens(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(failure_rate=0.1, window=100, minimum_calls=20)
    run(breaker, "F" * 19)
    assert breaker.state(ORIGIN) == "closed"
    run(breaker, "s")  # the result that makes it enough may be a success
    assert breaker.state(ORIGIN) == "open"


def test_the_minimum_is_no_more_than_the_window_holds(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(failure_rate=1.0, window=3, minimum_calls=50)
    run(breaker, "FFF")
    assert breaker.state(ORIGIN) == "open"


def test_a_call_counts_in_its_window_of_seconds_and_no_longer(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(failure_rate=1.0, window_seconds=10, minimum_calls=4)
    run(breaker, "FFs", now=100.0)
    run(breaker, "F", now=109.9)
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 4, 3)
    run(breaker, "F", now=110.0)
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 2, 2)
    run(breaker, "F", now=500.0)
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 1, 1)
    run(breaker, "FFF", now=503.0)
    assert breaker.state(ORIGIN) == "open"


def test_slow_calls_expire_from_the_window_too(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(
        slow_call_rate=0.9, slow_call_seconds=10.0, window_seconds=10, minimum_calls=9
    )
    run(breaker, "SSs", now=100.0)
    assert breaker.metrics(ORIGIN).slow_calls == 2
    run(breaker, "Ss", now=111.0)
    assert breaker.metrics(ORIGIN)[:4] == ("closed", 2, 0, 1)


def test_threads_may_report_times_out_of_order(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(failure_rate=1.0, window_seconds=10, minimum_calls=3)
    run(breaker, "F", now=100.0)
    run(breaker, "s", now=97.0)
    run(breaker, "F", now=108.0)
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 3, 2)


def test_slow_calls_open_whether_they_fail_or_not(make_breaker: MakeBreaker) -> None:
    for results in ("SSSSs", "XXsss"):
        breaker = make_breaker(
            None,
            failure_rate=1.0,
            slow_call_rate=0.4,
            slow_call_seconds=10.0,
            window=10,
            minimum_calls=5,
        )
        run(breaker, results[:-1])
        assert breaker.state(ORIGIN) == "closed"
        run(breaker, results[-1])
        assert breaker.state(ORIGIN) == "open"


def test_a_call_is_slow_from_the_limit_on(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(slow_call_rate=1.0, slow_call_seconds=2.0, window=2)
    for elapsed in (1.999, 2.0):
        breaker._admit(ORIGIN, 0).succeed(0, elapsed)
    assert breaker.metrics(ORIGIN).slow_calls == 1


def test_consecutive_failures_count_with_a_slow_call_rate_too(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(slow_call_rate=1.0, slow_call_seconds=2.0)
    run(breaker, "FFFFF")
    assert breaker.state(ORIGIN) == "open"


def test_a_failure_rate_replaces_the_default_threshold(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(failure_rate=0.9, minimum_calls=20)
    run(breaker, "FFFFFFFFFF")
    assert breaker.state(ORIGIN) == "closed"
    both = make_breaker(3, failure_rate=0.9, minimum_calls=20)
    run(both, "FFF")
    assert both.state(ORIGIN) == "open"


# --- open and half-open ---


def test_an_open_circuit_says_how_long_it_stays_open(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1, recovery_timeout=30)
    run(breaker, "F", now=1000.0)
    with pytest.raises(CircuitBreakerOpen, match=r"a\.test:80 is open for 20 s") as caught:
        breaker._admit(ORIGIN, 1010.0)
    assert caught.value.retry_after == 20.0
    assert not caught.value.request_sent


def test_the_first_call_at_the_open_time_makes_it_half_open(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1, recovery_timeout=30)
    run(breaker, "F", now=1000.0)
    assert is_refused(breaker, 1029.999)
    assert breaker.state(ORIGIN) == "open"
    probe = breaker._admit(ORIGIN, 1030.0)
    assert probe.transition == Transition(ORIGIN, "open", "half_open")
    assert breaker.state(ORIGIN) == "half_open"


def test_half_open_admits_its_permits_and_no_more(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1, recovery_timeout=30, half_open_permits=3)
    run(breaker, "F")
    probes = [breaker._admit(ORIGIN, 30.0) for _ in range(3)]
    assert is_refused(breaker, 30.0)
    probes[0].succeed(31.0)
    assert is_refused(breaker, 31.0)  # three in all, not three at a time
    probes[1].succeed(31.0)
    change = probes[2].succeed(31.0)
    assert change == Transition(ORIGIN, "half_open", "closed")
    assert is_refused(breaker, 31.0) is None


def test_a_failed_probe_opens_again(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(5, recovery_timeout=30, half_open_permits=3)
    run(breaker, "FFFFF")
    probes = [breaker._admit(ORIGIN, 30.0) for _ in range(3)]
    assert probes[1].fail(40.0) == Transition(ORIGIN, "half_open", "open")
    assert is_refused(breaker, 40.0) == 30.0
    assert probes[0].succeed(41.0) is None
    assert breaker.state(ORIGIN) == "open"


@pytest.mark.parametrize(
    ("results", "state"),
    [("FFsss", "closed"), ("FFF", "open"), ("sSSS", "open"), ("SSsFF", "closed")],
)
def test_probes_are_measured_by_the_rates(
    make_breaker: MakeBreaker, results: str, state: str
) -> None:
    breaker = make_breaker(
        failure_rate=0.6,
        slow_call_rate=0.6,
        slow_call_seconds=10.0,
        window=5,
        half_open_permits=5,
    )
    run(breaker, "FFFFF")
    for result in results:
        assert breaker.state(ORIGIN) in ("open", "half_open")
        run(breaker, result, now=30.0)
    assert breaker.state(ORIGIN) == state


def test_closing_resets_the_counts(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(failure_rate=0.5, window=4, minimum_calls=2)
    run(breaker, "ssFF")
    assert breaker.state(ORIGIN) == "open"
    run(breaker, "s", now=30.0)
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 0, 0)
    run(breaker, "F", now=30.0)
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 1, 1)


def test_the_open_time_may_grow_up_to_a_maximum(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1, recovery_timeout=10, growth=2.0, recovery_timeout_max=60)
    now, times = 0.0, []
    for _ in range(2000):
        run(breaker, "F", now=now)
        wait = is_refused(breaker, now)
        assert wait is not None
        times.append(wait)
        now += wait
    assert times[:5] == [10, 20, 40, 60, 60]
    assert set(times[5:]) == {60}
    run(breaker, "sF", now=now)
    assert is_refused(breaker, now) == 10  # it was closed in between


def test_the_open_time_stays_the_same_by_default(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1, recovery_timeout=1000)  # beyond the maximum of growing
    run(breaker, "F", now=0.0)
    run(breaker, "F", now=1000.0)
    assert is_refused(breaker, 1000.0) == 1000.0


def test_results_of_calls_from_before_count_no_more(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(2, recovery_timeout=30)
    late = [breaker._admit(ORIGIN, 0.0) for _ in range(6)]
    run(breaker, "FF")
    late.pop().fail(10.0)
    assert is_refused(breaker, 10.0) == 20.0  # not prolonged
    probe = breaker._admit(ORIGIN, 30.0)
    late.pop().fail(31.0)
    late.pop().succeed(31.0)
    assert breaker.state(ORIGIN) == "half_open"
    probe.succeed(32.0)
    late.pop().fail(33.0)
    late.pop().fail(33.0)
    assert breaker.state(ORIGIN) == "closed"
    assert breaker.metrics(ORIGIN).failures_in_a_row == 0


def test_a_permit_counts_once(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(2)
    permit = breaker._admit(ORIGIN, 0.0)
    for _ in range(5):
        permit.fail(0.0)
    permit.release()
    assert breaker.metrics(ORIGIN).failures_in_a_row == 1


# --- permits come back ---


def _half_open(make_breaker: MakeBreaker, **settings: Any) -> tuple[CircuitBreaker, Any]:
    breaker = make_breaker(1, recovery_timeout=30, **settings)
    run(breaker, "F")
    return breaker, breaker._admit(ORIGIN, 30.0)


def test_a_released_probe_frees_its_permit(make_breaker: MakeBreaker) -> None:
    breaker, probe = _half_open(make_breaker)
    assert is_refused(breaker, 30.0)
    probe.release()
    second = breaker._admit(ORIGIN, 30.0)
    assert is_refused(breaker, 30.0)
    probe.succeed(31.0)  # it has no say any more
    assert breaker.state(ORIGIN) == "half_open"
    second.succeed(31.0)
    assert breaker.state(ORIGIN) == "closed"


def test_a_lost_probe_frees_its_permit(make_breaker: MakeBreaker) -> None:
    breaker, probe = _half_open(make_breaker)
    assert breaker.metrics(ORIGIN).probes == 1
    del probe
    gc.collect()
    assert breaker.metrics(ORIGIN).probes == 0
    assert is_refused(breaker, 30.0) is None


def test_a_probe_that_never_ends_loses_its_permit(make_breaker: MakeBreaker) -> None:
    breaker, probe = _half_open(make_breaker, half_open_timeout=20)
    assert is_refused(breaker, 49.9) == pytest.approx(0.1)
    second = breaker._admit(ORIGIN, 50.0)
    assert probe.fail(51.0) is None  # too late
    assert breaker.state(ORIGIN) == "half_open"
    assert second.succeed(52.0) == Transition(ORIGIN, "half_open", "closed")


def test_a_full_half_open_circuit_says_when_to_retry(make_breaker: MakeBreaker) -> None:
    breaker, probe = _half_open(make_breaker, half_open_timeout=500)
    assert is_refused(breaker, 35.0) == 30.0  # no later than the open time, though it may be
    assert probe.transition is not None


def test_a_result_may_be_reported_by_a_finalizer(make_breaker: MakeBreaker) -> None:
    breaker, probe = _half_open(make_breaker)
    probe.defer_result(31.0, failed=False)
    probe.defer_result(31.0, failed=True)  # once is enough
    assert breaker.state(ORIGIN) == "closed"
    breaker._admit(ORIGIN, 32.0).defer_result(32.0, failed=True)
    assert is_refused(breaker, 32.0) == 30.0


# --- from outside ---


def test_force_open_refuses_until_reset(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker()
    under_way = breaker._admit(ORIGIN, 0.0)
    breaker.force_open("http://a.test/any/path")
    assert breaker.state(ORIGIN) == "forced_open"
    assert is_refused(breaker, 1e9) == math.inf
    assert is_refused(breaker, 0.0, OTHER) is None
    under_way.succeed(1.0)
    assert breaker.state(ORIGIN) == "forced_open"
    breaker.reset(ORIGIN)
    assert breaker.state(ORIGIN) == "closed"
    assert is_refused(breaker, 0.0) is None


def test_force_close_admits_all_and_counts_nothing(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1)
    run(breaker, "F")
    breaker.force_close(ORIGIN)
    run(breaker, "FFFF")
    assert breaker.state(ORIGIN) == "forced_closed"
    breaker.reset(ORIGIN)
    assert breaker.metrics(ORIGIN).failures_in_a_row == 0
    run(breaker, "F")
    assert breaker.state(ORIGIN) == "open"


def test_the_breaker_can_be_switched_off_and_on(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1)
    breaker.force_close()
    run(breaker, "FFF")
    disabled = [breaker.disabled]
    assert breaker.state(OTHER) == "forced_closed"
    breaker.force_open()
    assert [*disabled, breaker.disabled] == [True, False]
    assert is_refused(breaker, 0.0, OTHER) == math.inf
    breaker.reset()
    assert is_refused(breaker, 0.0, OTHER) is None
    assert breaker.state(ORIGIN) == "closed"


def test_reset_forgets_every_origin(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(1)
    run(breaker, "F")
    run(breaker, "F", origin=OTHER)
    late = [breaker._admit("http://c.test:80", 0.0)]
    breaker.reset()
    late.pop().fail(0.0)
    for origin in (ORIGIN, OTHER, "http://c.test:80"):
        assert breaker.state(origin) == "closed"


def test_metrics_have_the_counts(make_breaker: MakeBreaker) -> None:
    breaker = make_breaker(
        recovery_timeout=30.0,
        failure_rate=0.75,
        slow_call_rate=1.0,
        slow_call_seconds=10,
        minimum_calls=4,
    )
    run(breaker, "sFX")
    assert breaker.metrics(ORIGIN) == ("closed", 3, 2, 1, 2, 0, 0)
    run(breaker, "F")
    assert is_refused(breaker, 0.0)
    probe = breaker._admit(ORIGIN, 30.0)
    metrics = breaker.metrics(ORIGIN)
    assert (metrics.state, metrics.probes, metrics.refused) == ("half_open", 1, 1)
    probe.release()
    assert breaker.metrics(OTHER) == ("closed", 0, 0, 0, 0, 0, 0)
    assert repr(breaker) == "<CircuitBreaker failure_rate=0.75 recovery_timeout=30.0>"


def test_metrics_are_read_only() -> None:
    metrics = CircuitBreaker().metrics(ORIGIN)
    with pytest.raises(AttributeError):
        metrics.state = "open"  # type: ignore[misc]  # that is what is tested


# --- hooks ---


def test_a_hook_is_notified_of_each_transition_once(make_breaker: MakeBreaker) -> None:
    transitions: list[Transition] = []
    breaker = make_breaker(1, 30.0, on_transition=transitions.append)
    run(breaker, "ss")
    run(breaker, "F")
    assert is_refused(breaker, 1.0)
    run(breaker, "F", now=30.0)
    run(breaker, "s", now=60.0)
    breaker.force_open(ORIGIN)
    breaker.force_open(ORIGIN)
    breaker.reset()
    assert [(change.old, change.new) for change in transitions] == [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
        ("closed", "forced_open"),
        ("forced_open", "closed"),
    ]
    assert {change.origin for change in transitions} == {ORIGIN}


def test_a_hook_may_use_the_breaker(make_breaker: MakeBreaker) -> None:
    seen: list[Any] = []

    def look(change: Transition) -> None:
        seen.append((breaker.state(change.origin), is_refused(breaker, 0.0)))

    breaker = make_breaker(1, 30.0, on_transition=look)
    run(breaker, "F")
    assert seen == [("open", 30.0)]


def test_a_hook_that_raises_is_logged_and_changes_nothing(
    make_breaker: MakeBreaker, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(change: Transition) -> None:
        raise RuntimeError("no")

    breaker = make_breaker(1, on_transition=fail)
    run(breaker, "F")
    assert breaker.state(ORIGIN) == "open"
    assert [record.name for record in caplog.records] == ["curlhttp"]


# --- how many origins ---


def test_the_circuits_used_last_are_kept() -> None:
    breaker = CircuitBreaker(2, max_origins=3)
    origins = [f"http://{name}.test:80" for name in "abcd"]
    for origin in origins[:3]:
        run(breaker, "F", origin=origin)
    run(breaker, "s", origin=origins[0])
    run(breaker, "F", origin=origins[0])
    run(breaker, "F", origin=origins[3])
    rows = [breaker.metrics(origin).failures_in_a_row for origin in origins]
    assert rows == [1, 0, 1, 1]  # b went


def test_an_open_circuit_stays_open_for_its_open_time() -> None:
    breaker = CircuitBreaker(1, recovery_timeout=30, max_origins=2)
    run(breaker, "F", origin="http://a.test:80")
    run(breaker, "F", origin="http://b.test:80", now=10.0)
    run(breaker, "F", origin="http://c.test:80", now=20.0)  # no room: not counted
    assert breaker.state("http://c.test") == "closed"
    assert [breaker.state(f"http://{name}.test") for name in "ab"] == ["open", "open"]
    run(breaker, "F", origin="http://d.test:80", now=30.0)
    assert [breaker.state(f"http://{name}.test") for name in "abd"] == ["closed", "open", "open"]


def test_a_forced_circuit_is_never_forgotten() -> None:
    breaker = CircuitBreaker(1, max_origins=1)
    run(breaker, "F")
    breaker.force_open("http://b.test")
    breaker.force_close("http://c.test")
    for number in range(10):
        run(breaker, "s", origin=f"http://h{number}.test:80", now=1e6)
    assert breaker.state("http://b.test") == "forced_open"
    assert breaker.state("http://c.test") == "forced_closed"
    assert breaker.state(ORIGIN) == "closed"  # it went, after its time


def test_ten_thousand_origins_take_the_memory_of_a_thousand() -> None:
    """Of circuits."""
    breaker = CircuitBreaker(1)
    for number in range(10_000):
        run(breaker, "F", origin=f"http://h{number}.test:80", now=number * 31.0)
    assert len(breaker._states()) == 1000


def test_a_late_result_is_ignored_by_a_newer_circuit() -> None:
    breaker = CircuitBreaker(1, max_origins=1)
    late = breaker._admit(ORIGIN, 0.0)
    run(breaker, "s", origin=OTHER)
    run(breaker, "s")
    late.fail(1.0)
    assert breaker.state(ORIGIN) == "closed"


# --- settings ---


@pytest.mark.parametrize(
    "settings",
    [
        {"failure_threshold": 0},
        {"recovery_timeout": 0},
        {"recovery_timeout": math.inf},
        {"failure_rate": 0},
        {"failure_rate": 1.1},
        {"slow_call_rate": 0.5},
        {"slow_call_seconds": 1},
        {"slow_call_rate": -1, "slow_call_seconds": 1},
        {"window": 0},
        {"window_seconds": -1},
        {"minimum_calls": 0},
        {"half_open_permits": 0},
        {"half_open_timeout": math.nan},
        {"growth": 0.5},
        {"max_origins": 0},
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        CircuitBreaker(**settings)


def test_the_snippet_of_other_clients_works() -> None:
    breaker = CircuitBreaker(failure_threshold=5, recovery_timeout=30.0)
    run(breaker, "FFFFF")
    assert is_refused(breaker, 0.0) == 30.0
