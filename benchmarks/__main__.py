"""Run a benchmark by its name; results go to files in --output and to the terminal."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks import async_, cpu, import_time, million, sync
from benchmarks.crew import Options
from benchmarks.results import render, save
from benchmarks.server import KINDS

_OUTPUT = Path(__file__).parent / "results"
_COMMANDS = {  # rounds, and seconds for each client in each of them
    "async": (7, 0.4, async_.__doc__),
    "sync": (5, 0.3, sync.__doc__),
    "million": (1, 0.5, million.__doc__),
    "import": (15, 0.0, import_time.__doc__),
    "cpu": (15, 0.0, cpu.__doc__),
}


def main(arguments: list[str] | None = None) -> None:
    """Do what the command line says."""
    chosen = _parser().parse_args(arguments)
    if chosen.command == "report":
        for path in sorted(chosen.output.glob("*.json")):
            render(path)
        return
    options = Options(
        output=chosen.output,
        rounds=chosen.rounds,
        seconds=chosen.seconds,
        clients=tuple(name for name in chosen.clients.split(",") if name),
        server=chosen.server,
        niquests=chosen.python_niquests,
    )
    if chosen.command == "cpu":
        cpu.run(options)
    else:
        save(_measure(chosen, options), chosen.output)


def _measure(chosen: argparse.Namespace, options: Options) -> dict[str, Any]:
    if chosen.command == "async":
        return async_.measure(options)
    if chosen.command == "sync":
        return sync.measure(options)
    if chosen.command == "import":
        return import_time.measure(options)
    if chosen.tasks:
        return async_.measure_tasks(chosen.tasks, options)
    return million.measure(chosen.requests, chosen.concurrency, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (rounds, seconds, about) in _COMMANDS.items():
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument("--rounds", type=_positive, default=rounds, help="interleaved rounds")
        command.add_argument(
            "--seconds", type=float, default=seconds, help="of a client in a round, about"
        )
        command.add_argument("--clients", default="", help="names with commas; default: all")
        command.add_argument("--server", choices=KINDS, default="auto")
        command.add_argument(
            "--python-niquests", default="", help="an interpreter of a venv that has niquests"
        )
        _add_output(command)
        if name == "million":
            command.add_argument("--requests", type=_positive, default=1_000_000)
            command.add_argument("--concurrency", type=_positive, default=1000)
            command.add_argument(
                "--tasks", type=_positive, help="instead: so many tasks at once, next to 64"
            )
    about = "Make tables and plots anew of the JSON files in --output."
    _add_output(commands.add_parser("report", help=about, description=about))
    return parser


def _add_output(command: argparse.ArgumentParser) -> None:
    command.add_argument("--output", type=Path, default=_OUTPUT, help="folder for results")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


if __name__ == "__main__":
    main()
