"""The fuzzer's command."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.adversary.findings import print_line
from tests.fuzz.case import Case
from tests.fuzz.run import SENDERS, Plan, run


def main() -> int:
    """Run what the arguments say; return 1 if there were findings."""
    for name in list(os.environ):  # the machine's own settings are not under test
        if name.lower().endswith("_proxy"):
            del os.environ[name]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument(
        "--first", type=int, default=0, metavar="N", help="the number of the first case"
    )
    parser.add_argument("--case", type=int, metavar="N", help="this one alone, and what it is")
    parser.add_argument(
        "--sender",
        action="append",
        default=[],
        help=f"or the beginning of some: {', '.join(SENDERS)}",
    )
    asked = parser.parse_args()
    if asked.case is not None:
        asked.first, asked.cases = asked.case, 1
    plan = Plan(asked.seed, asked.cases, asked.first, tuple(asked.sender))
    if not plan.chosen():
        parser.error(f"there is no sender {asked.sender}")
    if asked.case is not None:
        ((sender, _),) = plan.blocks()
        print_line(f"by {sender}:\n{Case(asked.seed, asked.case, SENDERS[sender][0], 0).wire()}")
    print_line(f"seed {plan.seed}, {plan.cases} cases")
    findings = run(plan)
    print_line(findings.summary())
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
