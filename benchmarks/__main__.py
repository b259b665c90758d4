"""Run a benchmark by its name; write the results to files in --output and to the terminal."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import (
    async_,
    cold,
    cpu,
    crawl,
    features,
    goals,
    import_time,
    instructions,
    million,
    pairs,
    readme,
    redis_load,
    simulation,
    sync,
)
from benchmarks.crew import Options
from benchmarks.results import FOLDER, report, save
from benchmarks.server import KINDS

_TASKS = (10_000, 100_000)
_REQUESTS = 1_000_000
_CHOSEN = "async,pairs"  # what check measures: most goals, in a few minutes


@dataclass(frozen=True)
class _Command:
    """A benchmark, with its number of rounds and the seconds per client and round.

    `in_all` are the clients that `all` measures, those of the pages; () means all clients.
    """

    measure: Callable[[argparse.Namespace, Options], dict[str, Any]]
    rounds: int
    seconds: float
    about: str | None
    in_all: tuple[str, ...] = ()


_COMMANDS = {
    "async": _Command(
        lambda chosen, options: async_.measure(options), 7, 0.4, async_.__doc__, readme.ASYNC
    ),
    "pairs": _Command(lambda chosen, options: pairs.measure(options), 9, 0.3, pairs.__doc__),
    "tasks": _Command(
        lambda chosen, options: async_.measure_tasks(chosen.tasks, options),
        3,
        0.4,
        "10,000 tasks at once on one client, and 100,000, next to 64.",
    ),
    "features": _Command(
        lambda chosen, options: features.measure(options), 7, 0.0, features.__doc__
    ),
    "cold": _Command(lambda chosen, options: cold.measure(options), 15, 0.0, cold.__doc__),
    "import": _Command(
        lambda chosen, options: import_time.measure(options), 15, 0.0, import_time.__doc__
    ),
    "sync": _Command(
        lambda chosen, options: sync.measure(options), 5, 0.2, sync.__doc__, readme.SYNC
    ),
    "million": _Command(
        lambda chosen, options: million.measure(chosen.requests, chosen.concurrency, options),
        4,
        0.0,
        million.__doc__,
        readme.MILLION,
    ),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    chosen = _parser().parse_args(arguments)
    if chosen.command == "cpu":
        cpu.run(_options(chosen, 15, 0.0))
    elif chosen.command == "instructions":
        instructions.run(_options(chosen, 1, 0.0))
    elif chosen.command == "simulate":
        print(save(simulation.measure(chosen.seed, chosen.share), chosen.output))
    elif chosen.command == "redis":
        print(save(redis_load.measure(chosen.requests, _options(chosen, 1, 0.0)), chosen.output))
    elif chosen.command == "crawl":
        options = _options(chosen, 3, 0.0)
        found = crawl.measure(chosen.origins, chosen.urls, chosen.python_scrapy, options)
        print(save(found, chosen.output))
    elif chosen.command == "report":
        print(report(chosen.output))
    elif chosen.command == "all":
        _measure_all(chosen)
        print(report(chosen.output))
    elif chosen.command == "check":
        _check(chosen)
    else:
        print(_measure(chosen.command, chosen))
        if chosen.output.resolve() == FOLDER.resolve():
            report(chosen.output)


def _options(chosen: argparse.Namespace, rounds: int, seconds: float) -> Options:
    return Options(
        output=chosen.output,
        rounds=chosen.rounds or rounds,
        seconds=seconds if chosen.seconds is None else chosen.seconds,
        clients=tuple(name for name in chosen.clients.split(",") if name),
        server=chosen.server,
        niquests=chosen.python_niquests,
    )


def _measure(name: str, chosen: argparse.Namespace, clients: tuple[str, ...] = ()) -> str:
    command = _COMMANDS[name]
    options = _options(chosen, command.rounds, command.seconds)
    options = replace(options, clients=options.clients or clients)
    return save(command.measure(chosen, options), chosen.output)


def _measure_all(chosen: argparse.Namespace) -> None:
    """Measure everything that the pages and the goals need; print and skip what fails."""
    for name in chosen.only or _COMMANDS:
        try:
            _measure(name, chosen, _COMMANDS[name].in_all)
        except Exception as error:
            print(f"{name}: left out, {type(error).__name__}: {error}", file=sys.stderr)


def _check(chosen: argparse.Namespace) -> None:
    """Compare with the last results; exit with status 1 if a ratio got worse."""
    if chosen.folder is not None:
        _compare(chosen.against, chosen.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        chosen.output = Path(name)
        _measure_all(chosen)
        _compare(chosen.against, chosen.output)


def _compare(before: Path, now: Path) -> None:
    worse, compared = goals.compare_results(before, now)
    if not compared:
        raise SystemExit(f"nothing to compare: {before} and {now} have no ratio in common")
    for line in worse:
        print(f"worse: {line}")
    print(f"{compared} ratios compared, {len(worse)} worse by more than the spread")
    if worse:
        raise SystemExit(1)


# --- the command line ---


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in {
        **{name: command.about for name, command in _COMMANDS.items()},
        "cpu": cpu.__doc__,
        "instructions": instructions.__doc__,
    }.items():
        command = commands.add_parser(name, help=about, description=about)
        _add_measuring(command)
        _add_output(command)
    command = commands.add_parser(
        "simulate", help=simulation.__doc__, description=simulation.__doc__
    )
    command.add_argument("--seed", type=int, default=1, help="of everything that is random")
    command.add_argument("--share", type=float, default=1.0, help="of the size of all scenarios")
    _add_output(command)
    command = commands.add_parser("redis", help=redis_load.__doc__, description=redis_load.__doc__)
    _add_measuring(command)
    _add_output(command)
    command.set_defaults(requests=10_000)
    command = commands.add_parser("crawl", help=crawl.__doc__, description=crawl.__doc__)
    _add_measuring(command)
    command.add_argument("--origins", type=_positive, default=2_000, help="of the mix")
    command.add_argument("--urls", type=_positive, default=20_000, help="after the slow host's")
    command.add_argument("--python-scrapy", default="", help="an interpreter of a venv with Scrapy")
    _add_output(command)
    about = "Measure everything for README, docs/speed.md and the goals, in about 20 minutes."
    command = commands.add_parser("all", help=about, description=about)
    _add_measuring(command)
    _add_only(command, "")
    _add_output(command)
    about = "Generate tables, plots, goals and the pages' tables from the JSON files in --output."
    _add_output(commands.add_parser("report", help=about, description=about))
    about = "List the goals' ratios that got worse by more than their spread; status 1 if any did."
    command = commands.add_parser("check", help=about, description=about)
    command.add_argument("folder", type=Path, nargs="?", help="of results; default: measure now")
    command.add_argument("--against", type=Path, default=FOLDER, help="folder of older results")
    _add_measuring(command)
    _add_only(command, _CHOSEN)
    command.set_defaults(output=None)
    return parser


def _add_measuring(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--rounds", type=_positive, help="interleaved; fewer than 5 give hardly any spread"
    )
    command.add_argument("--seconds", type=float, help="per client and round, about")
    command.add_argument(
        "--clients", default="", help="names, or name/loop, comma-separated; default: all"
    )
    command.add_argument("--server", choices=KINDS, default="auto")
    command.add_argument(
        "--python-niquests", default="", help="an interpreter of a venv with niquests"
    )
    command.add_argument("--requests", type=_positive, default=_REQUESTS, help="of million")
    command.add_argument("--concurrency", type=_positive, default=1000, help="of million")
    command.add_argument("--tasks", type=_numbers, default=_TASKS, help="numbers, comma-separated")


def _add_only(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument("--only", type=_names, default=_names(default), help="comma-separated")


def _add_output(command: argparse.ArgumentParser) -> None:
    command.add_argument("--output", type=Path, default=FOLDER, help="folder for results")


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = sorted(set(names) - set(_COMMANDS))
    if unknown:
        raise argparse.ArgumentTypeError(
            f"no such command: {', '.join(unknown)}; there are: {', '.join(_COMMANDS)}"
        )
    return names


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_positive(number) for number in text.split(","))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


if __name__ == "__main__":
    main()
