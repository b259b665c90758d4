"""Limits that scale with the pace of the machine are still limits."""

from __future__ import annotations

import pytest

from tests.support import pace


def test_a_result_far_too_slow_for_any_machine_fails() -> None:
    pace.assert_in_time(0.1, 0.1, 0.01)
    pace.assert_cheap(0.1, 0.1)
    with pytest.raises(AssertionError, match=r"20\.1000 s, but 0\.1 s and lateness make"):
        pace.assert_in_time(20.1, 0.1, 0.01)
    with pytest.raises(AssertionError, match=r"20\.0000 s of CPU"):
        pace.assert_cheap(20.0, 0.01)


def test_times_of_a_test_are_in_proportion() -> None:
    assert pace.PACE >= 1
    assert pace.paced(0.2) == pytest.approx(2 * pace.paced(0.1))
    assert pace.paced(0.1) == pytest.approx(0.1 * pace.PACE, abs=1e-4)
