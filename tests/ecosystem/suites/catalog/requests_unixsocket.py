"""requests-unixsocket: an adapter that gives urllib3 pools of its own for Unix sockets."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-unixsocket==0.4.1",
    requires=("waitress",),
    tests=("requests_unixsocket/tests",),
    options=("-o", "addopts="),
    is_in_ci=True,
)
