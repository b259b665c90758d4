"""locust: users in greenlets measure a service by HttpSession, which derives from Session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.ecosystem.fakes import ON_CURLHTTP
from tests.servers import AppServer

_START = """
if {on_curlhttp}:
    import curlhttp

    curlhttp.alias_requests()
from locust.main import main

main()
"""
_USERS = """
import gevent
from locust import HttpUser, constant, task


class Visitor(HttpUser):
    wait_time = constant(0)

    @task
    def visit(self):
        assert type(self.client).__mro__[1].__module__ == "{session}"
        with self.client.get("/json", catch_response=True) as response:
            if response.json()["hello"] != "world":
                response.failure("another world")
        with self.client.get("/404", catch_response=True, name="found out") as response:
            if response.status_code == 404:
                response.success()
        self.client.post("/404", json={{"a": 1}}, name="absent")
        self.client.get("/stall", timeout=0.01, name="slow")
        if self.environment.stats.total.num_requests >= 100:
            gevent.spawn(self.environment.runner.quit)  # it ends this greenlet
"""


def measures_a_service(app: AppServer) -> None:
    session = "curlhttp.requests.sessions" if ON_CURLHTTP else "requests.sessions"
    Path("locustfile.py").write_text(_USERS.format(session=session))
    start = _START.format(on_curlhttp=ON_CURLHTTP)
    load = ("--headless", "--users", "5", "--spawn-rate", "5", "--host", app.url, "-t", "30s")
    shown = ("--json", "--skip-log-setup", "--exit-code-on-error", "0")
    command = [sys.executable, "-c", start, *load, *shown]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stdout + result.stderr
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert set(rows) == {"/json", "found out", "absent", "slow"}, result.stderr
    assert rows["/json"]["num_failures"] == rows["found out"]["num_failures"] == 0
    for name in ("absent", "slow"):
        assert rows[name]["num_failures"] == rows[name]["num_requests"] > 0
    assert sum(row["num_requests"] for row in rows.values()) >= 100
