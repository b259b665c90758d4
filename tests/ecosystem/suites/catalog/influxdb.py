"""influxdb: the client of InfluxDB 1, whose adapter sets options of sockets."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="influxdb==5.3.2",
    requires=("mock", "nose", "numpy<2", "pandas<2", "requests-mock"),
    tests=("influxdb/tests",),
    options=("-o", "python_files=*_test.py test_*.py", "--ignore=influxdb/tests/server_tests"),
)
