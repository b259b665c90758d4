"""dask: blocks of files at HTTP servers, by fsspec with examples/backends/fsspec_on_curlhttp.py."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="dask==2026.8.0",
    requires=("aiohttp", "fsspec==2026.9.0", "pytest-rerunfailures", "pytest-xdist"),
    tests=("dask/bytes/tests/test_http.py",),
    options=("-o", "addopts="),
    replaces="fsspec",
)
