"""google-resumable-media: downloads and uploads in chunks, which Google's storage client sends."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="google-resumable-media==2.11.0",
    requires=("brotli", "google-auth", "mock"),
    tests=("tests/unit",),
    is_in_ci=True,
)
