"""universal_pathlib: paths at HTTP servers, by fsspec with examples/backends/fsspec_on_curlhttp.py.

No sdist of fsspec has its own tests of HTTP.
"""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="universal_pathlib==0.3.10",
    requires=("aiohttp", "fsspec[smb]==2026.9.0", "pytest-mock"),
    tests=("upath/tests/implementations/test_http.py",),
    replaces="fsspec",
    is_in_ci=True,
)
