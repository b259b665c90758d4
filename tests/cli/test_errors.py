"""Exit statuses."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import curlhttp
from curlhttp import exceptions
from curlhttp.cli.errors import HINTS, to_failure, translate
from tests.support.cli import run


def get_status(error: exceptions.RequestException) -> int:
    failure = to_failure(error)
    assert failure is not None
    return failure.status


def test_every_error_has_a_status() -> None:
    for name in exceptions.__all__:
        kind = getattr(exceptions, name)
        if not issubclass(kind, exceptions.RequestException):
            continue
        arguments = ("no", "", 0) if kind is exceptions.JSONDecodeError else ("no",)
        assert 1 <= get_status(kind(*arguments)) <= 97


def test_the_code_of_libcurl_comes_first() -> None:
    assert get_status(exceptions.SSLError("no", curl_code=60)) == 60
    assert get_status(exceptions.SSLError("no")) == 35
    assert get_status(exceptions.ReadTimeout("no", curl_code=42)) == 28


def _get_texts() -> set[str]:
    """Return the texts in the library's code, those of f-strings in parts."""
    package = Path(curlhttp.__file__).parent
    return {
        node.value
        for folder in ("_client", "_features", "_http", "_libcurl", "_runtime")
        for file in (package / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_each_translated_hint_is_in_a_message_of_the_library() -> None:
    texts = _get_texts()
    assert [hint for hint in HINTS if not any(hint in text for text in texts)] == []


def test_no_hint_of_the_library_names_an_argument_after_translation() -> None:
    for hint in HINTS:
        assert "=" not in translate(f"GET http://a/: {hint}").replace("://", "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["get", ""], "write a whole URL"),
        (["--doh-url", "http://127.0.0.1/", "http://127.0.0.1:9/"], "--doh-url must be"),
    ],
)
def test_messages_name_options(arguments: list[str], expected: str) -> None:
    ended = run(*arguments)
    assert ended.status
    assert expected in ended.err
    assert "base_url" not in ended.err
