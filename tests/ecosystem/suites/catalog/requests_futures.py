"""requests-futures: a session whose requests run in threads."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-futures==1.1.0",
    requires=("pytest-httpbin", "pytest-network"),
    options=("-o", "addopts="),
    is_in_ci=True,
)
