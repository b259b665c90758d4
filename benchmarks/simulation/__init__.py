"""Thousands of clients and a server in trouble, on a clock that takes no time."""

from __future__ import annotations

from typing import Any

from benchmarks.machine import describe
from benchmarks.progress import Progress
from benchmarks.simulation.scenarios import SCENARIOS, Scenario
from benchmarks.simulation.world import Tally

__all__ = ["measure"]

_SERIES = ("attempts", "good")


def measure(seed: int, share: float = 1.0) -> dict[str, Any]:
    """Return the results of all scenarios; they depend only on seed and share.

    Args:
        seed: of everything random.
        share: of the clients, their calls and the server's capacity.
    """
    scenarios = [scenario.of_size(share) for scenario in SCENARIOS]
    steps = [(scenario, variant) for scenario in scenarios for variant in scenario.variants]
    rows: dict[str, list[dict[str, Any]]] = {scenario.name: [] for scenario in scenarios}
    machine = describe()
    with Progress("simulate") as progress:
        for number, (scenario, variant) in enumerate(steps):
            progress.show(f"{scenario.name}: {variant.name}", number, len(steps))
            seen = scenario.play(variant, seed)
            rows[scenario.name].append(
                {
                    "name": variant.name,
                    "figures": scenario.figures(scenario, seen),
                    "series": {name: _per_second(scenario, seen, name) for name in _SERIES},
                }
            )
    return {
        "benchmark": "simulate",
        "machine": machine,
        "settings": {"seed": seed, "share": share},
        "scenarios": [_result(scenario, rows[scenario.name]) for scenario in scenarios],
    }


def _result(scenario: Scenario, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "about": scenario.about,
        "clients": scenario.clients,
        "calls_per_second": scenario.rate,
        "capacity": [(phase.since, phase.capacity) for phase in scenario.phases],
        "seconds": scenario.seconds,
        "rows": rows,
    }


def _per_second(scenario: Scenario, seen: Tally, name: str) -> list[int]:
    slices = seen.series(name, scenario.seconds)
    width = round(1 / scenario.slice)
    return [sum(slices[start : start + width]) for start in range(0, len(slices), width)]
