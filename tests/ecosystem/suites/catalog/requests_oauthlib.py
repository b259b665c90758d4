"""requests-oauthlib: sessions and auths for OAuth 1 and 2, whose tests replace `send`."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-oauthlib==2.0.0",
    requires=("requests-mock", "pyjwt[crypto]"),
    options=(
        "--ignore=tests/examples",  # these drive a browser
        # These compare the time with itself, to 5 ms.
        "--deselect=tests/test_compliance_fixes.py::MailChimpComplianceFixTest",
        "--deselect=tests/test_compliance_fixes.py::PlentymarketsComplianceFixTest",
    ),
    is_in_ci=True,
)
