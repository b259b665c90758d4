"""httpx-sse: server-sent events from the responses of httpx."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="httpx-sse==0.4.3",
    requires=("httpx", "pytest-asyncio", "pytest-cov", "sse-starlette", "starlette"),
    options=("--no-cov", "-o", "asyncio_mode=auto"),
    replaces="httpx",
    is_in_ci=True,
)
