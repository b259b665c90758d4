"""hvac: HashiCorp Vault's client. Its integration tests need Vault, so the unit tests run."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="hvac==2.4.0",
    requires=(
        "authlib",
        "flask",
        "flask-sqlalchemy",
        "jwcrypto",
        "packaging<24",
        "parameterized",
        "pyhcl",
        "pytest<8",
        "pytest-mock",
        "requests-mock",
        "semantic-version",
        "werkzeug",
    ),
    tests=("tests/unit_tests",),
    options=("-o", "addopts="),
)
