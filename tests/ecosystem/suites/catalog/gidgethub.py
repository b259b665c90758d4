"""gidgethub: GitHub's API, with examples/backends/gidgethub_on_curlhttp.py for its two backends."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="gidgethub==6.0.0",
    requires=(
        "gidgethub[aiohttp,httpx]",
        "cryptography",
        "importlib-resources",
        "pytest-asyncio",
        "pytest-tornasync",
        "tornado",
    ),
    asks="api.github.com",
    replaces="gidgethub",
    is_in_ci=True,
)
