"""huggingface_hub before 1: files, the API and inference, by sessions that programs may set."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite

# They ask the hub, again and again with pauses, need PyTorch, or have nothing to do with requests.
_LEFT_OUT = (
    "cache_layout",
    "cache_no_symlinks",
    "command_delete_cache",
    "commit_scheduler",
    "fastai_integration",
    "file_download",
    "hf_api",
    "hf_file_system",
    "hub_mixin",
    "hub_mixin_pytorch",
    "inference_api",
    "inference_client",
    "keras_integration",
    "oauth",
    "repocard",
    "repository",
    "serialization",
    "snapshot_download",
    "tf_import",
    "upload_large_folder",
    "utils_assets",
    "utils_cache",
    "utils_git_credentials",
    "utils_strict_dataclass",
    "webhooks_server",
    "xet_download",
    "xet_upload",
)


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
        "pytest-vcr",
        "safetensors",
    ),
    options=("-p", "no:rerunfailures", *(f"--ignore=tests/test_{name}.py" for name in _LEFT_OUT)),
    prepare=_prepare,
)
