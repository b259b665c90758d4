"""requests-cache: a session that keeps responses. Its integration tests ask an httpbin."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-cache==1.3.3",
    requires=(
        "httpbin~=0.10.0",
        "itsdangerous",
        "orjson",
        "psutil",
        "pytest-httpbin==2.1.0",
        "pytest-rerunfailures",
        "pytest-xdist",
        "pyyaml",
        "requests-mock~=1.12",
        "responses>=0.19",
        "rich",
        "tenacity~=8.0",
        "time-machine~=2.9",
        "ujson",
    ),
    options=(
        # Those need a database server.
        "--ignore=tests/integration/test_dynamodb.py",
        "--ignore=tests/integration/test_mongodb.py",
        "--ignore=tests/integration/test_redis.py",
    ),
    environment={"USE_PYTEST_HTTPBIN": "true"},
)
