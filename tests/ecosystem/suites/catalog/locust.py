"""locust: HttpSession measures each request; its programs run on gevent, patched from the start.

2.29.0 is the last version with tests in its sdist.
"""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="locust==2.29.0",
    requires=("cryptography", "mock", "pyquery", "retry", "setuptools<81"),
    tests=("locust/test/test_http.py", "locust/test/test_locust_class.py"),
    differences={
        "*::test_catch_response_timeout": (
            "The first error loads urllib3: on a busy machine that takes longer than its 50 ms."
        ),
    },
)
