"""CacheControl: an adapter that keeps responses, and wraps the body in its own file."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="cachecontrol==0.14.3",
    requires=("cherrypy", "filelock", "msgpack", "redis"),
    differences={
        "*::test_not_modified_releases_connection": (
            "it puts a mock in place of urllib3's HTTPConnectionPool.urlopen; libcurl sends here"
        ),
    },
    is_in_ci=True,
)
