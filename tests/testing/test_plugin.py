"""The pytest plugin, in separate runs of pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

_CODE = """
    import curlhttp

    client = curlhttp.Client(base_url="https://api.test")

    def name_of(number):
        return client.get(f"/users/{number}").json()["name"]
"""
_TESTS = """
    import curlhttp, code_under_test, pytest

    @pytest.mark.parametrize("number", range(8))
    def test_names(curlhttp_mock, number):
        route = curlhttp_mock.get("https://api.test/users/*").respond(json={"name": "Ada"})
        assert code_under_test.name_of(number) == "Ada"
        assert route.calls[0].url == f"https://api.test/users/{number}"

    @pytest.mark.curlhttp_mock(base_url="https://api.test", assert_all_called=False)
    def test_settings(curlhttp_mock):
        curlhttp_mock.get("/never")
        curlhttp_mock.get("/users/*").respond(json={"name": "Bob"})
        assert code_under_test.name_of(1) == "Bob"

    def test_async(curlhttp_mock):
        import asyncio

        async def ask():
            async with curlhttp.AsyncClient() as client:
                return (await client.get("https://api.test/")).status_code

        curlhttp_mock.get("https://api.test/").respond(204)
        assert asyncio.run(ask()) == 204

    def test_threads(curlhttp_mock):
        from concurrent.futures import ThreadPoolExecutor

        route = curlhttp_mock.get("https://api.test/users/*").respond(json={"name": "Ada"})
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(code_under_test.name_of, range(40))) == {"Ada"}
        assert route.call_count == 40
"""


def _run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(code_under_test=_CODE, test_it=tests)
    return pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider", *options)


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_the_fixture_needs_no_import(pytester: pytest.Pytester, options: list[str]) -> None:
    _run(pytester, _TESTS, *options).assert_outcomes(passed=11)


def test_unmatched_and_unused_routes_fail_the_test(pytester: pytest.Pytester) -> None:
    tests = """
        import curlhttp, code_under_test

        def test_unmatched(curlhttp_mock):
            curlhttp_mock.get("https://api.test/user/*")
            code_under_test.name_of(7)

        def test_swallowed(curlhttp_mock):
            try:
                code_under_test.name_of(7)
            except Exception:
                pass

        def test_unused(curlhttp_mock):
            curlhttp_mock.get("https://api.test/unused")

        def test_wrong_anyway(curlhttp_mock):
            curlhttp_mock.get("https://api.test/unused-but-never-mind")
            assert False

        def test_the_next_one(curlhttp_mock):
            assert curlhttp_mock.requests == []
    """
    result = _run(pytester, tests)
    result.assert_outcomes(passed=3, failed=2, errors=2)
    result.stdout.fnmatch_lines(
        [
            "*the mock has no route for GET https://api.test/users/7*",
            "*nearest: GET https://api.test/user/[*]*",
        ]
    )
    result.stdout.fnmatch_lines(["*not called: GET https://api.test/unused*"])
    result.stdout.no_fnmatch_line("*unused-but-never-mind*were not called*")
    result.stdout.no_fnmatch_line("*not called*never-mind*")


def test_the_marker_is_known(pytester: pytest.Pytester) -> None:
    pytester.runpytest_subprocess("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.curlhttp_mock(*): settings of the fixture curlhttp_mock"]
    )


def test_projects_that_do_not_use_it_do_not_load_the_package(tmp_path: Path) -> None:
    code = (
        "import sys, pytest; pytest.main(['--version', '--version']); "
        "assert 'pytest_curlhttp' in sys.modules; "
        "print([name for name in sys.modules if name.partition('.')[0] in ('curlhttp', 'pycurl')])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
