"""requests-kerberos: an auth that meets challenges in hooks."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-kerberos==0.15.0",
    # Without pyspnego[kerberos], which needs Kerberos' headers: its tests replace spnego's client.
    installs_requirements=False,
    requires=("cryptography", "pyspnego", "pytest-mock"),
    is_in_ci=True,
)
