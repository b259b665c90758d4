"""requests-cache: a session that keeps responses. Its integration tests ask an httpbin."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite

_HTTPBIN = """\
import os

from httpbin import app
from pytest_httpbin.serve import Server


def pytest_configure(config):
    server = Server(application=app)
    server.start()
    os.environ["HTTPBIN_URL"] = server.url
    config.add_cleanup(server.stop)
"""


def _prepare(source: Path) -> None:
    (source / "suite_httpbin.py").write_text(_HTTPBIN)


SUITE = Suite(
    sdist="requests-cache==1.3.3",
    requires=(
        "httpbin~=0.10.0",
        "itsdangerous",
        "orjson",
        "psutil",
        "pytest-httpbin==2.1.0",
        "pytest-rerunfailures",
        "pytest-xdist",
        "pyyaml",
        "requests-mock~=1.12",
        "responses>=0.19",
        "rich",
        "tenacity~=8.0",
        "time-machine~=2.9",
        "ujson",
    ),
    options=(
        "-p",
        "suite_httpbin",
        # Those need a database server.
        "--ignore=tests/integration/test_dynamodb.py",
        "--ignore=tests/integration/test_mongodb.py",
        "--ignore=tests/integration/test_redis.py",
    ),
    prepare=_prepare,
)
