"""responses: a mock in place of HTTPAdapter.send."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="responses==0.26.3",
    requires=("pytest-asyncio", "pytest-httpserver", "tomli", "tomli-w"),
    tests=("responses",),
    options=("--asyncio-mode=auto",),
)
