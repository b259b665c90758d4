"""yt-dlp: its handler for requests has an adapter with its own pools, contexts and SOCKS."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="yt-dlp==2026.10.26",
    requires=("yt-dlp[default]", "pytest~=9.0.0", "pytest-rerunfailures", "websockets"),
    tests=(
        "test/test_http_proxy.py",
        "test/test_networking.py",
        "test/test_networking_utils.py",
        "test/test_socks.py",
    ),
    differences={
        "*::test_percent_encode_keep_existing[Requests]": (
            "It puts a pattern of its own in place of a private one of urllib3.util.url."
        ),
    },
)
