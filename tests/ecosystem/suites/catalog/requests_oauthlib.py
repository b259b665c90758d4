"""requests-oauthlib: sessions and auth classes for OAuth, derived from those of requests.

Five of its tests ask servers on the internet.
"""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-oauthlib==2.0.0",
    requires=("requests-mock",),
    options=("--ignore=tests/examples",),  # in a browser, on the internet
    is_in_ci=True,
)
