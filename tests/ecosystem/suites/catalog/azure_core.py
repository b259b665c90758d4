"""azure-core: the pipelines of Azure's clients, which send through RequestsTransport."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite


def _prepare(source: Path) -> None:
    """Let what its tests import be found, without installing it."""
    (source / "coretestserver").symlink_to("tests/testserver_tests/coretestserver/coretestserver")
    (source / "modeltypes").symlink_to("tests/specs_sdk/modeltypes/modeltypes")


SUITE = Suite(
    sdist="azure-core==1.41.0",
    requires=(
        "aiohttp",
        "azure-storage-blob",
        "flask",
        "opentelemetry-instrumentation-requests",
        "opentelemetry-sdk",
        "pytest-asyncio",
        "pytest-trio",
        "trio",
        "werkzeug",
    ),
    # Against Azure, with what is not on PyPI.
    options=(
        "--ignore=tests/test_tracing_live.py",
        "--ignore=tests/async_tests/test_tracing_live_async.py",
    ),
    prepare=_prepare,
    differences={
        "tests/test_basic_transport.py::test_requests_timeout_*": (
            "It replaces methods of http.client and urllib3, which curlhttp does not call."
        ),
        "tests/test_streaming.py::test_decompress_compressed_header_offline*": (
            "Its server cuts a body of gzip short, which is an error here."
        ),
    },
)
