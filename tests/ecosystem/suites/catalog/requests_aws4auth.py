"""requests-aws4auth: signatures of AWS. 1.0 is the last version with tests in its sdist."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-aws4auth==1.0",
    requires=("six",),
    tests=("requests_aws4auth/test/requests_aws4auth_test.py",),
    is_in_ci=True,
)
