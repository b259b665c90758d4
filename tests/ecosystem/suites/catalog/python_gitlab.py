"""python-gitlab: a client of GitLab's API, tested through responses."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="python-gitlab==8.6.0",
    requires=(
        "PyYaml",
        "gql[httpx]<5",
        "pytest-console-scripts",
        "responses",
        "respx",
        "trio",
        "wheel",
    ),
    tests=("tests/unit",),
)
