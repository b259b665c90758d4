"""zeep: SOAP through a Session, with an adapter for files and a cache."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="zeep==4.3.3",
    requires=(
        "freezegun",
        "httpx",
        "packaging",
        "pretend",
        "pytest-asyncio",
        "pytest-cov",
        "pytest-httpx",
        "requests-mock==1.12.1",
        "xmlsec",
    ),
    is_in_ci=True,
)
