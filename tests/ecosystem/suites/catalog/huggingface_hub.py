"""huggingface_hub: its HTTP client. What asks the Hub itself cannot run."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite


def _make_a_package(source: Path) -> None:
    """Give its tests the __init__.py that the sdist leaves out."""
    (source / "tests/__init__.py").touch()


SUITE = Suite(
    sdist="huggingface_hub==1.33.0",
    requires=(
        "huggingface_hub[oauth]",
        "Jinja2",
        "Pillow",
        "jedi",
        "numpy",
        "pytest-asyncio",
        "pytest-cov",
        "pytest-env",
        "pytest-mock",
        "pytest-rerunfailures",
        "pytest-vcr",
        "pytest-xdist",
        "soundfile",
    ),
    tests=(
        "tests/test_auth.py",
        "tests/test_inference_async_client.py",
        "tests/test_inference_client.py",
        "tests/test_inference_providers.py",
        "tests/test_oauth.py",
        "tests/test_offline_utils.py",
        "tests/test_sandbox.py",
        "tests/test_utils_errors.py",
        "tests/test_utils_http.py",
        "tests/test_utils_pagination.py",
        "tests/test_webhooks_server.py",
    ),
    options=("-o", "addopts=--strict-markers"),
    replaces="httpx",
    differences={
        "tests/test_utils_http.py::test_proxy_env_is_used": (
            "It looks for the proxy in the httpcore pool of httpx's own transport."
        ),
        "tests/test_utils_http.py::test_raise_on_status_sync_*stream": (
            "They go through the proxy that test_proxy_env_is_used leaves behind where it fails."
        ),
    },
    prepare=_make_a_package,
)
