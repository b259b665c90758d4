"""aiobotocore: AWS, with examples/backends/aiobotocore_on_curlhttp.py for its AIOHTTPSession."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite


def _prepare(source: Path) -> None:
    """Remove a setting of pytest's cache, which does not run here."""
    settings = source / "pyproject.toml"
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(line for line in lines if not line.startswith("cache_dir")))


_INSIDE = "It looks into AIOHTTPSession, or puts a mock in place of aiohttp's session."

SUITE = Suite(
    sdist="aiobotocore==3.10.0",
    requires=(
        "aiobotocore[httpx2]",
        "dill",
        "docker",
        "moto[server,s3,sqs,awslambda,dynamodb,cloudformation,sns,batch,ec2,rds]>=5.1.8,<6",
        "packaging",
        "pytest-mock",
        "time-machine>=2.15.0,<4",
        "tiny-proxy>=0.3.0,<0.4",
        "trio",
        "trustme",
    ),
    prepare=_prepare,
    replaces="aiobotocore",
    differences={
        "*::test_cannot_create_client_sessions_outside_context[*": (
            "It compares the words of an AttributeError."
        ),
        "*::test_ssl_context_built_*": _INSIDE,
        "*::test_read_timeout_override_from_request_*": _INSIDE,
        "*::test_read_timeout_falls_back_to_client_config[*": _INSIDE,
        "*::test_aiohttp_session_close_is_idempotent[*": _INSIDE,
    },
)
