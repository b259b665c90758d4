"""A pytest plugin: write each test's id and outcome, in a line of JSON, to $SUITE_OUTCOMES."""

from __future__ import annotations

import json
import os

import pytest


class _Outcomes:
    def __init__(self, path: str) -> None:
        self._file = open(path, "w", buffering=1)  # noqa: SIM115
        self._bad: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._bad.add(report.nodeid)
        if report.when == "call" and report.skipped:
            self._write(report.nodeid, "skipped")
        elif report.when == "teardown" and report.nodeid in self._bad:
            self._write(report.nodeid, "failed")
        elif report.when == "call" and report.passed:
            self._write(report.nodeid, "passed")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid, "failed")

    def _write(self, test: str, outcome: str) -> None:
        self._file.write(json.dumps([test, outcome]) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(
        config, "workerinput"
    ):  # with pytest-xdist: in the process that gets all outcomes
        config.pluginmanager.register(_Outcomes(os.environ["SUITE_OUTCOMES"]))
