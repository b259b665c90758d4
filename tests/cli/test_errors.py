"""Exit statuses."""

from __future__ import annotations

from curlhttp import exceptions
from curlhttp.cli.errors import _get_exit_status


def test_every_error_has_a_status() -> None:
    for name in exceptions.__all__:
        kind = getattr(exceptions, name)
        if not issubclass(kind, exceptions.RequestException):
            continue
        arguments = ("no", "", 0) if kind is exceptions.JSONDecodeError else ("no",)
        assert 1 <= _get_exit_status(kind(*arguments)) <= 97


def test_the_code_of_libcurl_comes_first() -> None:
    assert _get_exit_status(exceptions.SSLError("no", curl_code=60)) == 60
    assert _get_exit_status(exceptions.SSLError("no")) == 35
    assert _get_exit_status(exceptions.ReadTimeout("no", curl_code=42)) == 28
