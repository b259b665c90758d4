"""pip-audit asks OSV or PyPI about each package, through CacheControl's cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ecosystem.programs.compare import Both, Finished, needs
from tests.servers import AppConnection, AppServer, Certs, HTTPProxy, Record, refused_port

pytestmark = [pytest.mark.slow, needs("pip_audit", "requests")]

OPTIONS = ("--no-deps", "--disable-pip", "--progress-spinner=off", "--format=json", "-r", "r.txt")
KNOWN = {
    "id": "PYSEC-1", "aliases": ["CVE-1"], "summary": "It breaks", "fixed_in": ["1.1"],
    "affected": [
        {
            "package": {"name": "parcel", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}],
        }
    ],
}  # fmt: skip


@pytest.fixture
def pypi(certs: Certs) -> Iterator[AppServer]:
    """Return what stands in for pypi.org, which knows of one package."""
    with AppServer(certs.server_context("pypi.org")) as server:
        server.route("/pypi/parcel/1.0/json", _about_parcel)
        yield server


def _about_parcel(record: Record, conn: AppConnection) -> None:
    if record.header("if-none-match") == '"1"':
        return conn.reply(304, b"", [("ETag", '"1"')])
    found = json.dumps({"vulnerabilities": [KNOWN]}).encode()
    return conn.reply(200, found, [("Content-Type", "application/json"), ("ETag", '"1"')])


@pytest.fixture
def audit(tmp_path: Path, app: AppServer, pypi: AppServer) -> Both:
    made = Both("pip-audit", tmp_path, [app, pypi])
    made.write("r.txt", b"parcel==1.0\nsound==2.0\n")
    return made


def _found(done: Finished) -> dict[str, Any]:
    return {found["name"]: found for found in json.loads(done.output)["dependencies"]}


def test_queries_osv(audit: Both, app: AppServer) -> None:
    def query(record: Record, conn: AppConnection) -> None:
        asked = json.loads(record.body)
        known = asked["package"]["name"] == "parcel"
        conn.reply(200, json.dumps({"vulns": [KNOWN]} if known else {}).encode())

    app.route("/v1/query", query)
    done = audit(*OPTIONS, "-s", "osv", "--osv-url", f"{app.url}/v1/query")
    assert done.status == 1
    assert "Found 1 known vulnerability in 1 package" in done.errors
    assert _found(done)["parcel"]["vulns"][0]["fix_versions"] == ["1.1"]
    assert _found(done)["sound"]["vulns"] == []
    assert [sent.method for sent in done.sent] == ["POST", "POST"]


def test_queries_pypi_through_a_proxy_and_caches_responses(
    audit: Both, pypi: AppServer, certs: Certs
) -> None:
    with HTTPProxy(hosts={"pypi.org": ("127.0.0.1", pypi.port)}) as proxy:
        variables = {"HTTPS_PROXY": proxy.url, "REQUESTS_CA_BUNDLE": str(certs.ca_path)}
        first = audit(*OPTIONS, "--cache-dir=cache", variables=variables)
        again = audit(*OPTIONS, "--cache-dir=cache", variables=variables)
    for done in (first, again):
        assert done.status == 1
        assert _found(done)["parcel"]["vulns"][0]["id"] == "PYSEC-1"
        assert "not found on PyPI" in _found(done)["sound"]["skip_reason"]
        assert done.sent[0].target == "/pypi/parcel/1.0/json"
    assert first.sent[0].header("if-none-match") is None
    assert again.sent[0].header("if-none-match") == '"1"'


def test_a_service_that_is_not_there(audit: Both) -> None:
    with refused_port() as port:
        url = f"http://127.0.0.1:{port}/"
        for done in audit.each(*OPTIONS, "-s", "osv", "--osv-url", url):
            assert done.status == 1
            assert done.says("Failed to establish a new connection")
