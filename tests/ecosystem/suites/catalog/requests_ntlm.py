"""requests-ntlm: an auth whose hook sends the request again, on the same connection."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="requests-ntlm==1.3.0",
    requires=("flask", "pyspnego", "cryptography"),
    tests=("tests/unit",),
    is_in_ci=True,
)
