"""The storm's command."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.adversary.findings import print_line
from tests.storm.run import COLOURS, Plan, run


def main() -> int:
    """Run what the arguments say; return 1 if there were findings."""
    for name in list(os.environ):  # the machine's own settings are not under test
        if name.lower().endswith("_proxy"):
            del os.environ[name]
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--colour", action="append", default=[], choices=COLOURS)
    asked = parser.parse_args()
    print_line(f"seed {asked.seed}, {asked.requests} requests")
    findings = run(Plan(asked.seed, asked.requests, tuple(asked.colour)))
    print_line(findings.summary())
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
