"""pip-audit: asks OSV or PyPI about each package; 18 tests ask them on the internet.

It is the last version whose sdist has tests.
"""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="pip-audit==2.2.1",
    requires=("pretend",),
    tests=("test",),
    environment={"PIP_RETRIES": "0"},  # nor does it wait for them
)
