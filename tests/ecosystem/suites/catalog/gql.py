"""gql: GraphQL over several libraries; its transports on httpx2, which is what its extra brings."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="gql==4.4.0",
    requires=(
        "gql[aiohttp,httpx2,websockets]",
        "aiofiles",
        "parse",
        "pytest-asyncio==1.4.0",
        "pytest-console-scripts==1.4.1",
        "pytest-cov",
        "vcrpy",
    ),
    tests=(
        "tests/test_httpx.py",
        "tests/test_httpx_async.py",
        "tests/test_httpx_batch.py",
        "tests/test_async_client_validation.py",
        "tests/test_http_async_sync.py",
    ),
    options=("--no-cov",),
    replaces="httpx",
    differences={
        "tests/test_httpx*.py::test_httpx_query_https[cert_provided]": (
            "The only certificate that its SSLContext trusts is no authority, and Python does not "
            "show such: the transport refuses the context."
        ),
    },
    is_in_ci=True,
)
