"""docker: the SDK of Docker's daemon; on a Unix socket it brings its own urllib3 pools."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite

_UNASKED = (
    "its server answers 101 to requests without Upgrade, which the daemon never does: what nobody "
    "asked for is an error here (RFC 9110, section 7.8)"
)

_HOOK = """
    def get_connection_with_tls_context(self, request, verify, proxies=None, cert=None):
        return self.get_connection(request.url, proxies)
"""


def _know_requests(source: Path) -> None:
    """Let its adapters have the hook that requests 2.32 asks, as those of 7.1.0 do."""
    with (source / "docker/transport/basehttpadapter.py").open("a") as file:
        file.write(_HOOK)


SUITE = Suite(
    sdist="docker==7.0.0",  # 7.1.0 comes without tests
    requires=("paramiko", "websocket-client"),
    tests=("tests/unit",),
    prepare=_know_requests,
    differences={"tests/unit/api_test.py::TCPSocketStreamTest::*": _UNASKED},
    is_in_ci=True,
)
