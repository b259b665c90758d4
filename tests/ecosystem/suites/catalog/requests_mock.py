"""requests-mock: an adapter that responds without a network, with its own bodies."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-mock==1.12.1",
    requires=("fixtures", "purl", "requests-futures", "testtools"),
    is_in_ci=True,
)
