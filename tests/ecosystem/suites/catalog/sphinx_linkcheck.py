"""sphinx: its builder `linkcheck`, which asks every link of a documentation, and intersphinx."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="sphinx==9.0.4",
    requires=("defusedxml", "psutil", "typing_extensions"),
    tests=(
        "tests/test_builders/test_build_linkcheck.py",
        "tests/test_ext_intersphinx/test_ext_intersphinx.py",
    ),
)
