"""requests-oauthlib: sessions and auths for OAuth 1 and 2, whose tests replace `send`."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-oauthlib==2.0.0",
    requires=("requests-mock", "pyjwt[crypto]"),
    is_in_ci=True,
)
