"""huggingface_hub before 1: files, the API and inference, by sessions that programs may set."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite


def _prepare(source: Path) -> None:
    """Make its tests the package that they are in its repository."""
    (source / "tests/__init__.py").touch()


SUITE = Suite(
    sdist="huggingface_hub==0.36.2",
    requires=(
        "aiohttp",
        "fastapi",
        "fsspec",
        "httpx",
        "InquirerPy",
        "itsdangerous",
        "jedi",
        "Jinja2",
        "numpy",
        "Pillow",
        "pytest-asyncio",
        "pytest-env",
        "pytest-mock",
        "pytest-rerunfailures<16",
        "pytest-vcr",
        "safetensors",
    ),
    # With PyTorch and Keras.
    options=(
        "--ignore=tests/test_hub_mixin.py",
        "--ignore=tests/test_hub_mixin_pytorch.py",
        "--ignore=tests/test_keras_integration.py",
        "-o",
        "log_cli=false",
    ),
    prepare=_prepare,
)
