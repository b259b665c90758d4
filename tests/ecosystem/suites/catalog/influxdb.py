"""influxdb: the client of InfluxDB 1, whose adapter sets options of sockets."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="influxdb==5.3.2",
    # Its tests of data frames need pandas 1, which CPython 3.12 and later have no wheels of.
    requires=("mock", "nose", "numpy<2", "pandas<2", "requests-mock"),
    tests=("influxdb/tests",),
    options=("-o", "python_files=*_test.py test_*.py", "--ignore=influxdb/tests/server_tests"),
)
