"""httpie: a command line for HTTP, built on requests, with adapters, sessions and downloads."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="httpie==3.2.4",
    requires=("httpbin~=0.10.0", "pytest-httpbin==2.1.0", "pytest-mock", "responses"),
    options=("--ignore=tests/test_plugins_cli.py",),  # pip fetches from PyPI there
    differences={
        "*::test_max_headers_limit[*": "the limit is http.client's, which --max-headers patches",
        "*::test_double_quiet_on_error": "a host with a $ is an InvalidURL: no name is looked up",
    },
)
