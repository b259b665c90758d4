"""elastic-transport: Elasticsearch's client sends through it, on requests if you ask for that."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="elastic-transport==8.17.1",
    requires=(
        "aiohttp",
        "httpx",
        "opentelemetry-api",
        "opentelemetry-sdk",
        "orjson",
        "pytest-asyncio",
        "pytest-cov",
        "pytest-httpserver",
        "pytest-mock",
        "respx",
        "trustme",
    ),
    options=("--no-cov", "-o", "asyncio_default_fixture_loop_scope=function"),
)
