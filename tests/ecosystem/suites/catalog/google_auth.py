"""google-auth: AuthorizedSession, and tokens that a plain session fetches."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="google-auth==2.63.0",
    requires=(
        "aiohttp",
        "aioresponses",
        "flask",
        "freezegun",
        "grpcio",
        "pyjwt",
        "pyopenssl",
        "pytest-asyncio",
        "pytest-localserver",
        "pyu2f",
        "responses",
        "urllib3",
    ),
    # Of 2052 tests, in minutes, those that are about requests.
    tests=(
        "tests/compute_engine",
        "tests/oauth2/test_gdch_credentials.py",
        "tests/oauth2/test_id_token.py",
        "tests/test__default.py",
        "tests/test_identity_pool.py",
        "tests/transport/test_requests.py",
    ),
)
