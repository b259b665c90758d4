"""pytest-httpx: mocks the transports of httpx."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="pytest-httpx==0.36.2",
    requires=("pytest-asyncio==1.*",),
    replaces="httpx",
    differences={
        f"*::test_{name}": "It asks the httpcore pool of httpx's own transport which proxy it has."
        for name in (
            "proxy_matching",
            "proxy_not_matching",
            "proxy_not_existing",
            "request*_retrieval_proxy_matching",
        )
    },
    is_in_ci=True,
)
