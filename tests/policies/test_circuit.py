"""The circuit breaker against a model that keeps every result and takes no shortcuts."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from curlhttp import CircuitBreaker, CircuitBreakerOpen

ORIGIN = "http://a.test:80"
SLOW = 5.0  # seconds

SETTINGS = st.fixed_dictionaries(
    {
        "failure_threshold": st.integers(1, 4) | st.none(),
        "failure_rate": st.sampled_from([None, 0.25, 0.5, 1.0]),
        "slow_call_rate": st.sampled_from([None, 0.5, 1.0]),
        "window": st.integers(1, 6),
        "window_seconds": st.sampled_from([None, 10.0, 40.0]),
        "minimum_calls": st.integers(1, 4),
        "recovery_timeout": st.sampled_from([10.0, 30.0]),
        "growth": st.sampled_from([1.0, 2.0]),
        "half_open_permits": st.integers(1, 3),
        "half_open_timeout": st.sampled_from([5.0, 50.0]),
    }
)


class Model:
    """What the breaker says of itself, written down without regard for speed."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        if options["failure_threshold"] is None and options["failure_rate"] is None:
            self.options = {**options, "failure_threshold": 5}
        self.state = "closed"
        self.entered: list[str] = []
        self.epoch = 0
        self.results: list[tuple[float, bool, bool]] = []  # time, failed, slow
        self.probes: dict[int, float] = {}  # id of the permit: since when
        self.probed: list[tuple[bool, bool]] = []  # failed, slow
        self.until = 0.0
        self.open_for: float | None = None

    def enter(self, state: str) -> None:
        if state != self.state:
            self.entered.append(state)
        self.state = state
        self.epoch += 1
        self.results, self.probes, self.probed = [], {}, []
        if state not in ("open", "half_open"):
            self.open_for = None

    def open(self, now: float) -> None:
        options = self.options
        if self.open_for is None:
            self.open_for = options["recovery_timeout"]
        else:
            self.open_for = min(600.0, self.open_for * options["growth"])
        self.until = now + self.open_for
        self.enter("open")

    def admits(self, now: float) -> bool:
        if self.state == "open" and now >= self.until:
            self.enter("half_open")
        if self.state == "half_open":
            limit = self.options["half_open_timeout"]
            self.probes = {key: at for key, at in self.probes.items() if now < at + limit}
            permits: int = self.options["half_open_permits"]
            return len(self.probes) + len(self.probed) < permits
        return self.state in ("closed", "forced_closed")

    def window(self, now: float) -> list[tuple[float, bool, bool]]:
        seconds = self.options["window_seconds"]
        if seconds is None:
            return self.results[-self.options["window"] :]
        width = seconds / 10
        return [row for row in self.results if row[0] // width > now // width - 10]

    def breaks(self, rows: list[tuple[bool, bool]], number: int) -> bool:
        failure_rate, slow_rate = self.options["failure_rate"], self.options["slow_call_rate"]
        failures, slow = (sum(row[at] for row in rows) for at in (0, 1))
        fails: bool = failure_rate is not None and failures / number >= failure_rate
        crawls: bool = slow_rate is not None and slow / number >= slow_rate
        return fails or crawls

    def finish(self, epoch: int, permit: int, now: float, failed: bool, slow: bool) -> None:
        if epoch != self.epoch:
            return
        if self.state == "closed":
            self.results.append((now, failed, slow))
            rows = [(failed, slow) for _, failed, slow in self.window(now)]
            least = self.options["minimum_calls"]
            if self.options["window_seconds"] is None:
                least = min(least, self.options["window"])
            if (len(rows) >= least and self.breaks(rows, len(rows))) or self.is_long_row():
                self.open(now)
        elif self.state == "half_open" and self.probes.pop(permit, None) is not None:
            self.probed.append((failed, slow))
            permits = self.options["half_open_permits"]
            if self.breaks(self.probed, permits) or (
                self.options["failure_rate"] is None and failed
            ):
                self.open(now)
            elif len(self.probed) == permits:
                self.enter("closed")

    def is_long_row(self) -> bool:
        threshold = self.options["failure_threshold"]
        last = self.results[-threshold:] if threshold else []
        return len(last) == threshold and all(failed for _, failed, _ in last)


class BreakerMachine(RuleBasedStateMachine):
    """Calls that begin and end in any order, at any time, with interference."""

    @initialize(options=SETTINGS)
    def begin(self, options: dict[str, Any]) -> None:
        slow = None if options["slow_call_rate"] is None else SLOW
        self.transitions: list[str] = []
        self.breaker = CircuitBreaker(
            **options,
            slow_call_seconds=slow,
            on_transition=lambda change: self.transitions.append(change.new),
        )
        self.model = Model(options)
        self.now = 1000.0
        self.waits: list[float] = []
        self.calls: list[tuple[int, Any]] = []

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.0, 5.0, 10.0, 30.0, 100.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def call(self) -> None:
        self.begin_call()

    def begin_call(self) -> bool:
        expected = self.model.admits(self.now)
        permit: Any = None
        try:
            permit = self.breaker._admit(ORIGIN, self.now)
        except CircuitBreakerOpen as error:
            self.waits.append(error.retry_after)
        assert expected == (permit is not None)
        assert min(self.waits, default=1.0) > 0
        if permit is None:
            return False
        self.calls.append((self.model.epoch, permit))
        if self.model.state == "half_open":
            self.model.probes[id(permit)] = self.now
        return True

    @rule(failed=st.booleans(), slow=st.booleans(), times=st.integers(1, 6))
    def call_and_finish(self, failed: bool, slow: bool, times: int) -> None:
        for _ in range(times):
            if self.begin_call():
                self.end(len(self.calls) - 1, failed, slow)

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), failed=st.booleans(), slow=st.booleans())
    def finish(self, data: st.DataObject, failed: bool, slow: bool) -> None:
        self.end(data.draw(st.integers(0, len(self.calls) - 1)), failed, slow)

    def end(self, index: int, failed: bool, slow: bool) -> None:
        epoch, permit = self.calls.pop(index)
        elapsed = SLOW if slow else 0.0
        slow = slow and self.model.options["slow_call_rate"] is not None
        self.model.finish(epoch, id(permit), self.now, failed, slow)
        (permit.fail if failed else permit.succeed)(self.now, elapsed)
        (permit.succeed if failed else permit.fail)(self.now, elapsed)  # once is enough

    @precondition(lambda self: self.calls)
    @rule(data=st.data(), is_lost=st.booleans())
    def cancel(self, data: st.DataObject, is_lost: bool) -> None:
        _, permit = self.calls.pop(data.draw(st.integers(0, len(self.calls) - 1)))
        self.model.probes.pop(id(permit), None)
        if not is_lost:
            permit.release()

    @rule(how=st.sampled_from(["force_open", "force_close", "reset", "reset"]))
    def interfere(self, how: str) -> None:
        getattr(self.breaker, how)(ORIGIN)
        self.model.enter(
            {"force_open": "forced_open", "force_close": "forced_closed", "reset": "closed"}[how]
        )

    @invariant()
    def says_what_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        metrics = self.breaker.metrics(ORIGIN)
        assert metrics.state == self.model.state
        assert metrics.probes == len(self.model.probes)
        assert metrics.probes <= self.model.options["half_open_permits"]
        assert self.transitions == self.model.entered
        if metrics.calls:
            rows = self.model.window(self.model.results[-1][0])
            assert metrics.calls == len(rows)
            assert metrics.failures == sum(failed for _, failed, _ in rows)
            assert metrics.slow_calls == sum(slow for _, _, slow in rows)


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = settings(
    max_examples=3 * settings().max_examples // 2, stateful_step_count=40, deadline=None
)
