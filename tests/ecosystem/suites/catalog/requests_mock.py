"""requests-mock: an adapter that answers on its own, with bodies of its own."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-mock==1.12.1",
    requires=("fixtures", "purl", "requests-futures", "testtools"),
    is_in_ci=True,
)
