"""MechanicalSoup: a browser without JavaScript, a Session with forms."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="mechanicalsoup==1.4.0",
    requires=("httpbin~=0.10.0", "pytest-httpbin", "pytest-mock", "requests-mock", "werkzeug"),
    options=("-o", "addopts="),
    is_in_ci=True,
)
