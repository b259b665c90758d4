"""requests: its own tests."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests==2.34.2",
    requires=("httpbin~=0.10.0", "pysocks", "pytest-httpbin==2.1.0", "pytest-mock", "trustme"),
    differences={
        "*::test_proxy_authorization_preserved_on_request": (
            "Proxy-Authorization is for proxies alone, no origin gets it"
        ),
    },
)
