"""PyGithub: adapters and retries; its tests play back what GitHub once answered."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="PyGithub==2.10.0",
    requires=("more-itertools", "parameterized", "pytest-subtests", "responses"),
)
