"""twine: uploads to an index, with bodies of requests-toolbelt and a `Retry` of urllib3."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="twine==7.0.0",
    requires=("pretend", "pytest-socket"),
    is_in_ci=True,
)
