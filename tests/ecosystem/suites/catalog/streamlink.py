"""streamlink: a Session with adapters, and streams read from raw bodies."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="streamlink==8.6.3",
    requires=("freezegun>=1.5.0", "pytest-trio", "requests-mock"),
    options=("-p", "timeout"),  # it loads only plugins that are named
)
