"""requests-unixsocket: an adapter with its own urllib3 pools for Unix sockets."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-unixsocket==0.4.1",
    requires=("waitress",),
    tests=("requests_unixsocket/tests",),
    options=("-o", "addopts="),
    is_in_ci=True,
)
