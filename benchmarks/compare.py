"""Interleaved rounds: all clients of a case take turns, so that a slow minute affects all."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.clients import find
from benchmarks.clients.base import Settings
from benchmarks.crew import Contender, Crew, Failed, Options, Worker, contenders, pairs
from benchmarks.machine import cores, describe
from benchmarks.progress import Progress
from benchmarks.server import Server, serve

__all__ = ["Case", "Group", "compare", "frame"]

_WARM = 20  # requests before anything is timed
_GUESSES = (0.1, 0.3, 1.0)  # of the time of a round, so that a cold start does not decide
_MOST_CONNECTIONS = 100  # of a client, with the settings of a case
_HANDSHAKES = 10  # of a client that opens a connection for each request, to count resumed sessions


@dataclass(frozen=True)
class Case:
    """GETs with a body size and a concurrency."""

    name: str
    size: int
    concurrency: int = 1


@dataclass(frozen=True)
class Group:
    """Cases that the same workers run, one after another.

    Args:
        name: start of the title of its cases.
        cases: what to run.
        scheme: "http", "http, 5 ms", "https", "https, full handshakes" or "h2".
        reuse: whether connections are kept.
        clients: "client/loop/concurrency", for cases that not all clients run.
        origins: instead, measure the first request to each of this many origins on TLS, in a
            process that has sent none before; each round has a new process.
    """

    name: str
    cases: tuple[Case, ...]
    scheme: str = "http"
    reuse: bool = True
    clients: tuple[str, ...] = ()
    origins: int = 0

    def settings(self, server: Server) -> Settings:
        """Return the settings for the clients."""
        return Settings(
            ca="" if self.scheme in ("http", "http, 5 ms") else server.ca,
            http2=self.scheme == "h2",
            reuse=self.reuse,
        )

    def is_possible(self, server: Server) -> bool:
        """Return whether the server supports what the group needs."""
        return self.scheme in server.urls and self.origins <= len(server.origins)


class _Row:
    """The results of a client in a case."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.count = 0
        self.samples: list[dict[str, Any]] = []
        self.handshakes: dict[str, Any] = {}
        self._latencies = array("d")

    def add(self, figures: dict[str, Any], server_cpu: float) -> None:
        """Add the result of a round."""
        self._latencies.extend(figures.pop("latencies"))
        self.samples.append({**figures, "server_cpu": server_cpu})

    def result(self) -> dict[str, Any]:
        """Return the row for JSON: microseconds, bytes, and the unchanged samples."""
        ordered = sorted(self._latencies)
        shares = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
        own = {"concurrency": self.contender.concurrency} if self.contender.concurrency else {}
        return {
            "client": self.contender.name,
            "loop": self.contender.loop,
            **own,
            **self.handshakes,
            "samples": self.samples,
            "peak_rss": max(sample["peak_rss"] for sample in self.samples),
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
    chosen = [
        pairs(group.clients, registry, options, skipped)
        if group.clients
        else contenders(registry, options, skipped)
        for group in groups
    ]
    sizes = {case.size for group in groups for case in group.cases}
    origins = max((group.origins for group in groups), default=0)
    rows = sum(len(group.cases) * len(some) for group, some in zip(groups, chosen, strict=True))
    kind, core = options.server, cores()[0]
    with serve(sizes, core=core, kind=kind, origins=origins) as server, Progress(name) as progress:
        results = frame(name, server, options, [one for some in chosen for one in some])
        results |= {"skipped": skipped, "versions": {}, "cases": []}
        comparison = _Comparison(server, options, results, progress, rows * options.rounds)
        for group, some in zip(groups, chosen, strict=True):
            if group.is_possible(server):
                comparison.run(group, some)
            else:
                results["skipped"][group.name] = f"{server.name} cannot do that"
    return results


class _Comparison:
    """All cases on one server.

    Args:
        server: already running.
        options: from the command line.
        results: where to store them.
        progress: notified of each round of each client.
        steps: how many notifications there will be.
    """

    def __init__(
        self,
        server: Server,
        options: Options,
        results: dict[str, Any],
        progress: Progress,
        steps: int,
    ) -> None:
        self._server, self._options, self._results = server, options, results
        self._progress, self._steps, self._step = progress, steps, 0

    def run(self, group: Group, chosen: list[Contender]) -> None:
        """Run the cases of a group."""
        if group.origins:
            (case,) = group.cases
            rows, failed = self._run_fresh(group, case, chosen)
            self._keep(group, case, rows, failed)
            return
        with Crew.of(chosen, group.settings(self._server)) as crew:
            self._results["versions"].update(crew.versions)
            for case in group.cases:
                rows = self._run(case, group, crew)
                self._keep(group, case, rows, crew.failed)

    def _keep(
        self, group: Group, case: Case, rows: list[_Row], failed: dict[Contender, str]
    ) -> None:
        self._results["cases"].append(
            {
                "group": group.name,
                "name": case.name,
                "size": case.size,
                "concurrency": case.concurrency,
                "rows": [row.result() for row in rows if row.samples],
                "missing": {one.title: why for one, why in failed.items()},
            }
        )

    def _run(self, case: Case, group: Group, crew: Crew) -> list[_Row]:
        base = self._server.urls[group.scheme]
        rows = [_Row(one) for one in crew.living()]
        commands = {row.contender: _command(case, row.contender, base) for row in rows}
        for row in rows:
            _calibrate(row, crew, commands[row.contender], self._options.seconds)
            if base.startswith("https") and not group.reuse and self._server.tells_handshakes:
                row.handshakes = _handshakes(row, crew, base)
        for number in range(self._options.rounds):
            turn = number % len(rows) if rows else 0
            for row in rows[turn:] + rows[:turn]:
                self._show(group, case)
                _measure(row, crew, commands[row.contender], self._server)
        return rows

    def _run_fresh(
        self, group: Group, case: Case, chosen: list[Contender]
    ) -> tuple[list[_Row], dict[Contender, str]]:
        """Start a new worker for each client in each round, which has not sent any request yet."""
        rows, failed = [_Row(one) for one in chosen], dict[Contender, str]()
        urls = [f"{base}/{case.size}" for base in self._server.origins[: group.origins]]
        for number in range(self._options.rounds):
            turn = number % len(rows) if rows else 0
            for row in rows[turn:] + rows[:turn]:
                self._show(group, case)
                command = _command(case, row.contender, self._server.urls[group.scheme])
                if row.contender in failed:
                    continue
                try:
                    with Worker(row.contender, group.settings(self._server), cores()[1]) as worker:
                        self._results["versions"].update(worker.answer()["versions"])
                        before = self._server.cpu()
                        figures = worker.ask(**command, urls=urls, count=len(urls))
                        row.add(figures, self._server.cpu() - before)
                except Failed as error:
                    failed[row.contender] = str(error)
        return rows, failed

    def _show(self, group: Group, case: Case) -> None:
        self._step += 1
        self._progress.show(f"{group.name}, {case.name}", self._step, self._steps)


def _command(case: Case, contender: Contender, base: str) -> dict[str, Any]:
    concurrency = contender.concurrency or case.concurrency
    return {"url": f"{base}/{case.size}", "size": case.size, "concurrency": concurrency}


def _calibrate(row: _Row, crew: Crew, command: dict[str, Any], seconds: float) -> None:
    """Warm up the worker, and find out how many requests it sends in this time."""
    row.count = least = int(command["concurrency"])
    # Not timed, because the first requests import modules and connect.
    warm = max(_WARM, min(least, _MOST_CONNECTIONS))
    if crew.ask(row.contender, **command, count=warm) is None:
        return
    for share in _GUESSES:
        figures = crew.ask(row.contender, **command, count=row.count)
        if figures is None:
            return
        rate = figures["requests"] / figures["wall"]
        row.count = max(least, round(rate * seconds * share))
        if row.count == least > warm and figures["wall"] > seconds:
            return  # the fewest possible, and slow: another try would give the same


def _handshakes(row: _Row, crew: Crew, base: str) -> dict[str, Any]:
    """Return how many of a client's new connections resume a TLS session, for its row."""
    resumed = len("resumed")
    command = {"url": f"{base}/handshake", "size": resumed, "concurrency": 1}
    figures = crew.ask(row.contender, **command, count=_HANDSHAKES)
    return {} if figures is None else {"resumed": 1 - figures["errors"] / figures["requests"]}


def _measure(row: _Row, crew: Crew, command: dict[str, Any], server: Server) -> None:
    # Reconnect first: idle connections may have been closed since the last round.
    count = min(command["concurrency"], _MOST_CONNECTIONS)
    if crew.ask(row.contender, **command, count=count) is None:
        return
    before = server.cpu()
    figures = crew.ask(row.contender, **command, count=row.count)
    if figures is not None:
        row.add(figures, server.cpu() - before)


def frame(
    name: str, server: Server, options: Options, contenders: list[Contender]
) -> dict[str, Any]:
    """Return the common first part of every results file."""
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
