"""Run a benchmark by its name."""

from __future__ import annotations

import argparse

from benchmarks import cpu, import_time


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in (("cpu", cpu), ("import", import_time)):
        command = commands.add_parser(name, help=module.__doc__)
        command.add_argument("--rounds", type=int, default=15, help="interleaved rounds")
        command.set_defaults(run=module.run)
    arguments = parser.parse_args()
    arguments.run(arguments.rounds)


main()
