"""msal: Microsoft's tokens, by a session that it makes or is given."""

from pathlib import Path

from tests.ecosystem.suites.suite import Suite

# What the tests in the sdist import and the sdist does not have.
_TESTS = """
import unittest


class Oauth2TestCase(unittest.TestCase):
    pass
"""
_HTTP_CLIENT = """
import requests


class MinimalHttpClient:
    def __init__(self, timeout=None):
        self._session, self._timeout = requests.Session(), timeout

    def get(self, url, params=None, headers=None, **kwargs):
        return self._send("GET", url, params=params, headers=headers)

    def post(self, url, params=None, data=None, headers=None, **kwargs):
        return self._send("POST", url, params=params, data=data, headers=headers)

    def _send(self, method, url, **kwargs):
        answer = self._session.request(method, url, timeout=self._timeout, **kwargs)
        return MinimalResponse(answer)

    def close(self):
        self._session.close()


class MinimalResponse:
    def __init__(self, requests_resp=None, status_code=None, text=None, headers=None):
        self.answer = requests_resp
        if requests_resp is not None:
            status_code, text, headers = (
                requests_resp.status_code, requests_resp.text, requests_resp.headers
            )
        self.status_code, self.text = status_code, text
        if headers is not None:
            self.headers = headers

    def raise_for_status(self):
        if self.answer is not None:
            self.answer.raise_for_status()
"""


def _prepare(source: Path) -> None:
    (source / "tests/__init__.py").write_text(_TESTS)
    (source / "tests/http_client.py").write_text(_HTTP_CLIENT)
    (source / "tests/broker_util.py").write_text("is_pymsalruntime_installed = bool\n")


SUITE = Suite(
    sdist="msal==1.39.0",
    requires=("python-dotenv",),
    # Against Microsoft's servers and PyPI; with a simulator and a client that the sdist lacks.
    options=(
        "--ignore-glob=*e2e*",
        "--ignore=tests/test_cryptography.py",
        "--ignore=tests/test_benchmark.py",
        "--ignore=tests/test_recording_http_client.py",
    ),
    prepare=_prepare,
)
