"""httpx itself: what its clients do, with its own transports and with ours by default."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="httpx==0.28.1",
    requires=(
        "httpx[brotli,cli,http2,socks,zstd]",
        "chardet==5.2.0",
        "click<8.2",
        "pytest<8.4",
        "trio",
        "trustme==1.2.0",
        "uvicorn==0.32.1",
    ),
    replaces="httpx",
    differences={
        "tests/client/test_proxies.py::test_transport_for_request[*": (
            "It looks at the httpcore pool in httpx's own transport."
        ),
        "tests/client/test_proxies.py::test_proxies_environ[*": (
            "It looks at the httpcore pool in httpx's own transport."
        ),
        "tests/client/test_proxies.py::test_socks_proxy": (
            "It looks at the httpcore pool in httpx's own transport."
        ),
        "tests/test_api.py::test_httpcore_lazy_loading": (
            "It asks which of httpcore's modules httpx's own transport loads, and when."
        ),
        "tests/test_timeouts.py::test_connect_timeout[*": (
            "Without a network connecting fails at once, which is before libcurl's least timeout, "
            "a millisecond."
        ),
    },
)
