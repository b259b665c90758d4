"""docker: the SDK of Docker's daemon; on a Unix socket it brings urllib3 pools of its own."""

from tests.ecosystem.suites.suite import Suite

_UNASKED = (
    "its server answers 101 to requests without Upgrade, which the daemon never does: what nobody "
    "asked for is an error here (RFC 9110, section 7.8)"
)

SUITE = Suite(
    sdist="docker==7.0.0",  # 7.1.0 comes without tests
    requires=("paramiko", "websocket-client"),
    tests=("tests/unit",),
    differences={"tests/unit/api_test.py::TCPSocketStreamTest::*": _UNASKED},
)
