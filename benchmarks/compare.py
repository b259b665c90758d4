"""Interleaved rounds: all clients of a case take turns, so that a slow minute hits all of them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.clients import find
from benchmarks.clients.base import Settings
from benchmarks.crew import Contender, Crew, Options, contenders
from benchmarks.machine import cores, describe
from benchmarks.server import Server, serve

__all__ = ["Case", "Group", "compare", "frame"]

_WARM = 20  # requests before anything is timed
_GUESSES = (0.1, 0.3, 1.0)  # of the time of a round: what is cold at first does not decide


@dataclass(frozen=True)
class Case:
    """GETs of bodies of a size, so many at once."""

    name: str
    size: int
    concurrency: int = 1


@dataclass(frozen=True)
class Group:
    """Cases that the same workers run, one after another.

    Args:
        scheme: "http", "https" or "h2".
        reuse: whether connections are kept.
    """

    name: str
    cases: tuple[Case, ...]
    scheme: str = "http"
    reuse: bool = True

    def settings(self, server: Server) -> Settings:
        """Return what the clients must be set to."""
        return Settings(
            ca=server.ca if self.scheme != "http" else "",
            http2=self.scheme == "h2",
            reuse=self.reuse,
        )


class _Row:
    """What a client has done in a case."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.count = 0
        self.samples: list[dict[str, Any]] = []
        self._latencies = array("d")
        self._peak_rss = 0

    def add(self, figures: dict[str, Any], server_cpu: float) -> None:
        """Take in a round."""
        self._latencies.extend(figures.pop("latencies"))
        self._peak_rss = figures.pop("peak_rss")
        self.samples.append({**figures, "server_cpu": server_cpu})

    def result(self) -> dict[str, Any]:
        """Return it for JSON: microseconds, bytes, and the samples as they are."""
        ordered = sorted(self._latencies)
        shares = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
        return {
            "client": self.contender.name,
            "loop": self.contender.loop,
            "samples": self.samples,
            "peak_rss": self._peak_rss,
            **{
                name: ordered[int(share * (len(ordered) - 1))] if ordered else None
                for name, share in shares.items()
            },
        }


def compare(
    name: str, groups: Iterable[Group], registry: dict[str, str], options: Options
) -> dict[str, Any]:
    """Run all rounds of all cases; return the results, for JSON.

    Args:
        name: of the benchmark.
        groups: what to run.
        registry: the clients, one of those in benchmarks.clients.
        options: from the command line.
    """
    groups, skipped = list(groups), dict[str, str]()
    chosen = contenders(registry, options, skipped)
    sizes = {case.size for group in groups for case in group.cases}
    with serve(sizes, core=cores()[0], kind=options.server) as server:
        results = frame(name, server, options, chosen)
        results |= {"skipped": skipped, "versions": {}, "cases": []}
        for group in groups:
            if group.scheme in server.urls:
                _run_group(group, chosen, server, options, results)
            else:
                results["skipped"][group.name] = f"{server.name} cannot do that"
    return results


def _run_group(
    group: Group,
    chosen: list[Contender],
    server: Server,
    options: Options,
    results: dict[str, Any],
) -> None:
    with Crew.of(chosen, group.settings(server)) as crew:
        results["versions"].update(crew.versions)
        for case in group.cases:
            rows = _run(case, group, crew, server, options)
            results["cases"].append(
                {
                    "group": group.name,
                    "name": case.name,
                    "size": case.size,
                    "concurrency": case.concurrency,
                    "rows": [row.result() for row in rows if row.samples],
                    "missing": {one.title: why for one, why in crew.failed.items()},
                }
            )


def _run(case: Case, group: Group, crew: Crew, server: Server, options: Options) -> list[_Row]:
    print(f"{group.name}, {case.name}: {len(crew.living())} workers", file=sys.stderr)
    command = {
        "url": f"{server.urls[group.scheme]}/{case.size}",
        "size": case.size,
        "concurrency": case.concurrency,
    }
    rows = [_Row(one) for one in crew.living()]
    for row in rows:
        _calibrate(row, crew, command, options.seconds)
    for number in range(options.rounds):
        turn = number % len(rows) if rows else 0
        for row in rows[turn:] + rows[:turn]:
            _measure(row, crew, command, server)
    return rows


def _calibrate(row: _Row, crew: Crew, command: dict[str, Any], seconds: float) -> None:
    """Warm the worker up, and find how many requests take it so long."""
    row.count = least = int(command["concurrency"])
    # Untimed: the first requests import modules and connect, and are no measure of the others.
    if crew.ask(row.contender, **command, count=max(least, _WARM)) is None:
        return
    for share in _GUESSES:
        figures = crew.ask(row.contender, **command, count=row.count)
        if figures is None:
            return
        rate = figures["requests"] / figures["wall"]
        row.count = max(least, round(rate * seconds * share))


def _measure(row: _Row, crew: Crew, command: dict[str, Any], server: Server) -> None:
    # Idle connections may have been closed since the last round: have them again before.
    if crew.ask(row.contender, **command, count=command["concurrency"]) is None:
        return
    before = server.cpu()
    figures = crew.ask(row.contender, **command, count=row.count)
    if figures is not None:
        row.add(figures, server.cpu() - before)


def frame(
    name: str, server: Server, options: Options, contenders: list[Contender]
) -> dict[str, Any]:
    """Return what every file of results begins with."""
    server_core, client_core = cores()
    return {
        "benchmark": name,
        "machine": describe(),
        "server": server.name,
        "settings": {
            "rounds": options.rounds,
            "seconds_per_round": options.seconds,
            "server_core": server_core,
            "client_core": client_core,
        },
        "configurations": {one.name: find(one.place).configuration for one in contenders},
    }
