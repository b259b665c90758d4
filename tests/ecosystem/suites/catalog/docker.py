"""docker: the SDK of Docker's daemon; on a Unix socket it brings urllib3 pools of its own."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="docker==7.0.0",
    requires=("paramiko", "websocket-client"),
    tests=("tests/unit",),
)
