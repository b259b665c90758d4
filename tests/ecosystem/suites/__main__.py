"""Run the test suites of packages on curlhttp: `python -m tests.ecosystem.suites docker`.

A suite comes from the package's sdist and runs twice, with the library that the package is made for
and with curlhttp in its place. Ends with 1 if a test is lost for which its suite gives no reason,
and with 77 where no suite can run.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.ecosystem.suites.runner import Comparison, Outcomes, SuiteRunner, can_isolate
from tests.ecosystem.suites.suite import load, names

_FOLDER = Path("~/.cache/curlhttp-suites").expanduser()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", nargs="*", help="of a module in tests/ecosystem/suites/catalog")
    parser.add_argument("--ci", action="store_true", help="those that .ci/run runs")
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="for environments and sources")
    parser.add_argument(
        "--keep-original", action="store_true", help="do not run on the original library again"
    )
    options = parser.parse_args()
    if not can_isolate():
        _say("suites need Linux, and leave to make a network namespace with unshare")
        return 77
    wanted = options.name or [name for name in names() if load(name).is_in_ci or not options.ci]
    has_failed = False
    for name in wanted:
        runner = SuiteRunner(name, load(name), options.folder, keeps_original=options.keep_original)
        comparison = runner.compare()
        _report(name, comparison)
        has_failed = has_failed or bool(comparison.unexplained) or not comparison.original
    return 1 if has_failed else 0


def _report(name: str, comparison: Comparison) -> None:
    original, ours = _counts(comparison.original), _counts(comparison.ours)
    _say(f"{name} ({comparison.suite.sdist}): {original} -> {ours}")
    for test in comparison.lost:
        _say(f"  lost: {test}: {comparison.reason(test) or 'NO REASON GIVEN'}")
    for test in comparison.gained:
        _say(f"  gained: {test}")


def _counts(outcomes: Outcomes) -> str:
    counts = Counter(outcomes.values())
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


sys.exit(main())
