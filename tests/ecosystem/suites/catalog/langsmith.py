"""langsmith: its async client and its sandboxes on httpx. From 0.11 on it is built on httpx2."""

from tests.ecosystem.suites.suite import Suite

SUITE = Suite(
    sdist="langsmith==0.10.18",
    requires=(
        "cachetools",
        "dataclasses-json",
        "fastapi",
        "freezegun",
        "multipart",
        "openai",
        "opentelemetry-api",
        "opentelemetry-exporter-otlp-proto-http",
        "opentelemetry-sdk",
        "psutil",
        "pytest-asyncio",
        "pytest-httpx",
        "pytest-socket",
        "pytest-subtests",
        "rich",
        "uvicorn",
        "vcrpy",
    ),
    tests=(
        "tests/unit_tests/sandbox",
        "tests/unit_tests/test_async_client.py",
        "tests/unit_tests/test_multiple_endpoints.py",
        "tests/unit_tests/test_run_tree_gc_leak.py",
    ),
    replaces="httpx",
)
