"""The README and the examples: what their commands do and print, and what CI runs."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.pace import assert_in_time

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


def fenced(language: str) -> list[str]:
    """Return the README's code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def without_figures(text: str) -> list[str]:
    # libcurl's own words belong to libcurl's version.
    text = re.sub(r"\(curl error \d+: .*\)", "(curl error)", text)
    return re.sub(r"\d+(?:\.\d+)?", "0", text).splitlines()


def test_the_quickstart_prints_what_the_readme_shows() -> None:
    finished = run("examples/quickstart.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert without_figures(finished.stdout) == without_figures(fenced("text")[0])


def test_the_list_of_examples_has_all_of_them() -> None:
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    programs = (path for path in (ROOT / "examples").iterdir() if path.suffix != ".md")
    there = {path.name for path in programs if path.is_file()}
    assert set(re.findall(r"\]\(([\w.]+)\)", listed)) == there


def test_the_quickstart_leaves_no_thread() -> None:
    finished = run(
        "-c",
        "import runpy, threading; runpy.run_path('examples/quickstart.py', run_name='__main__');"
        "print(threading.active_count(), 'thread')",
    )
    assert finished.stdout.splitlines()[-1:] == ["1 thread"], finished.stderr


def test_the_drop_in_for_requests_does_what_requests_does() -> None:
    finished = run("examples/requests_drop_in.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "import     requests is curlhttp.requests",
        "hook       GET /hello?page=1 <Response [200]>",
        "upload     {'type': 'multipart/form-data', 'named': True}",
        "retries    200 after [503, 503]",
        "streaming  8 MiB in a file",
        "timeout    ReadTimeout, request_sent=True",
    ]


def test_the_sdk_on_httpx2_is_carried_by_libcurl() -> None:
    pytest.importorskip("httpx2", reason="httpx2 is not installed (extra 'httpx2')")
    finished = run("examples/httpx_sdk.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "streaming   libcurl carries each word",
        "connection  new",
        "connection  kept from before",
        "error       ConnectError, request_sent=False",
        "async       100 answers",
    ]


def test_the_resilience_example_prints_the_same_with_both_clients() -> None:
    begun = time.monotonic()
    finished = run("examples/resilience.py")
    seconds = time.monotonic() - begun
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    lines = finished.stdout.splitlines()
    assert lines[-1] == "the same, word for word"
    changes = [line.strip() for line in lines if "->" in line]
    assert changes == ["closed -> open", "open -> half_open", "half_open -> closed"]
    assert any(line.startswith("attempt 3: 200") for line in lines)
    assert [line.split()[-1] for line in lines if line.endswith("x")] == [
        "1.00x",
        "4.00x",
        "1.25x",  # a fifth of the requests, and the reserve
        "0.05x",
    ]
    assert_in_time(seconds, 0, 5)


def test_the_example_of_testing_passes() -> None:
    finished = run("examples/testing.py")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert [line.split()[0] for line in finished.stdout.splitlines()] == ["passed"] * 3


def test_ci_runs_the_two_commands_of_the_readme() -> None:
    commands = [block.strip() for block in fenced("sh") if "-m venv" in block]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert len(commands) == 2
    for command in commands:
        assert f'="{command}"\n' in script


def test_the_tree_of_errors_names_each_of_them() -> None:
    from curlhttp import exceptions

    for name in exceptions.__all__:
        assert re.search(rf"\b{name}\b", exceptions.__doc__ or ""), name


def test_every_public_name_can_be_loaded() -> None:
    import curlhttp

    for name in curlhttp.__all__:
        assert getattr(curlhttp, name) is not None


def test_the_example_of_events_follows_them_through_cuts() -> None:
    finished = run("examples/events.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        *(f"blocking  {number} tick: {{'n': {number}}}" for number in range(1, 5)),
        "asyncio   80 events to 20 followers at once",
    ]


def test_the_example_of_websockets_talks_on_many_at_once() -> None:
    finished = run("examples/websocket_echo.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "blocking  hello",
        "blocking  [] 1001 as you wish",
        "asyncio   50 answers on as many WebSockets at once",
    ]


def test_the_example_of_routes_reaches_both_servers() -> None:
    finished = run("examples/routing.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "the daemon  docker/version",
        "the machine www.example.org/",
    ]


def test_the_example_of_debugging_shows_what_was_sent_and_no_credentials() -> None:
    finished = run("examples/debugging.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    lines = finished.stdout.splitlines()
    assert lines[0] == 'INFO   HTTP Request: GET http://HOST/name?token=*** "HTTP/1.1 200 OK"'
    assert "DEBUG  > POST /login HTTP/1.1" in lines
    assert "DEBUG  < Set-Cookie: [secret]" in lines
    assert lines[-2] == "sent   26 <BytesBody, 26 bytes: b'user=ada&password=***'>"
    assert lines[-1].startswith("curl   curl --globoff ")
    assert "lovelace" not in finished.stdout
    assert "abc" not in finished.stdout


def test_the_example_of_caching_contacts_the_server_for_new_data() -> None:
    finished = run("examples/caching.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    lines = re.sub(r"ttl=\d+", "ttl=0", finished.stdout).splitlines()
    assert [line.partition(": curlhttp; ")[::2] for line in lines] == [
        ("first      version 1", "fwd=uri-miss; stored"),
        ("again      version 1", "hit; ttl=0"),
        ("confirmed  version 1", "fwd=stale; fwd-status=304"),
        ("streamed   version 1, from the cache: True", ""),
        ("changed    version 2", "fwd=uri-miss; stored"),
        ("without    version 2", "hit; ttl=0"),
        ("in need    version 2", "fwd=stale; detail=stale-if-error"),
    ]


def test_the_example_of_shared_limits_keeps_one_rate_over_four_processes() -> None:
    finished = run("examples/shared_limits.py")
    assert finished.returncode == 0, finished.stderr
    assert "60 requests of 4 processes in" in finished.stdout
    assert ("no redis-server" in finished.stdout) != ("sent: True" in finished.stdout)


def test_the_example_of_a_guard_does_not_reach_this_machine() -> None:
    finished = run("examples/guard.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    shown = dict(line.split(maxsplit=1) for line in finished.stdout.splitlines()[:5])
    assert len(shown) == 5
    assert all(text.endswith("is not public: loopback") for text in shown.values())
    assert finished.stdout.splitlines()[5:] == [
        "localhost, allowed   the secret",
        "and where it leads   refused: 127.0.0.1 is not public: loopback",
    ]


def test_the_example_of_recordings_plays_back_without_its_server() -> None:
    finished = run("examples/recording.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "recorded   Ada Lovelace",
        "played     Ada Lovelace",
        "secrets    False",
        "har        POST login: opened",
        "har        GET name: reused",
        "unmatched  nearest: log.entries[1]",
    ]


def test_the_example_of_tracing_has_a_span_for_each_attempt() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel and opentelemetry-sdk")
    finished = run("examples/tracing.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "span       GET /moved?token=REDACTED: 503, resent 0, opened",
        "span       GET /moved?token=REDACTED: 302, resent 1, reused",
        "span       GET /here: 200, resent 2, reused",
        "attempts   ['1', '2', '3']",
        "parents    True",
    ]


def test_the_signing_in_example_shares_a_token() -> None:
    finished = run("examples/signing_in.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "20 at once     20 answers, 1 token",
        "a 401 between  200 after [<Response [401]>]",
        "blocking       200, with the same token",
    ]


def test_the_example_of_a_distributed_fetch_survives_a_kill() -> None:
    finished = run("examples/distributed_fetch.py")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.splitlines() == [
        "rows       400, each once: True",
        "statuses   {'200': 400}",
        "again      400 rows, 0 requests",
    ]


PRINTED = {
    "pagination": [
        "by link     [1, 2, 3, 4, 5, 6, 7]",
        "by cursor   [1, 2, 3, 4, 5, 6, 7]",
        "stop early  {'id': 2}",
    ],
    "upload": [
        "progress  0 %",
        "progress  100 %",
        "answer    201 8 MiB, multipart/form-data",
        "progress  0 %",
        "progress  100 %",
        "answer    201 8 MiB, no type",
    ],
    "scraping": [
        "results       {'status 200': 60}",
        "at once       kept",
        "rate          kept",
    ],
    "oauth_refresh": [
        "first run  welcome welcome",
        "first run  welcome with a new token; the file has r2",
        "second run welcome welcome",
        "second run welcome with a new token; the file has r4",
    ],
    "ndjson": [
        "blocking  499500",
        "early end {'n': 5}",
        "upload    {'lines': 1000}",
        "async     499500",
    ],
    "object_store": [
        "keys      ['/50%25', '/a/./b', '/a/b', '/team/../admin']",
        "canonical https://store.example.org/admin",
        "raw       https://store.example.org/team/../admin",
        "live      ['one', 'two', 'six']",
        "csv       [['id', 'name'], ['1', 'Ada']]",
        "tar       ['first', 'second']",
        "download  b'a/./b'",
        "async     b'id,n' b'ame\\n'",
    ],
    "client_certificate": [
        "known      hello, Ada",
        "unknown    True",
        "untrusted  SSLError request_sent=False",
    ],
    "cookies_on_disk": [
        "first run   who are you?",
        "signed in   hello, Ada",
        "second run  hello, Ada",
        "the file    1 cookie",
    ],
    "fastapi_service": [
        "200 {'hello': 'Ada'}",
        "404 {'detail': 'there is nobody with this number'}",
        "502 {'detail': 'the name service is unavailable'}",
    ],
}
NEEDS = {"client_certificate": "trustme", "fastapi_service": "fastapi"}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_shows_and_cleans_up(name: str, tmp_path: Path) -> None:
    if package := NEEDS.get(name):
        pytest.importorskip(package, reason="the extra test")
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / f"{name}.py"],
        cwd=tmp_path,
        env={**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == PRINTED[name]
    assert list(tmp_path.iterdir()) == [], "an example cleans up"


def test_the_notebook_prints_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell is run as IPython does it: in a running loop, where `await` may stand anywhere."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")  # which the notebook sets
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    shown = ["".join("".join(output["text"]) for output in cell["outputs"]) for cell in cells]
    assert len(cells) > 4
    assert asyncio.run(_run([("".join(cell["source"])) for cell in cells])) == shown


async def _run(sources: list[str]) -> list[str]:
    """Run cells in one namespace; return what each prints."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for source in sources:
        code = compile(source, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            waiting = eval(code, namespace)
            if waiting is not None:
                await waiting
        printed.append(out.getvalue())
    return printed


def test_the_bulk_fetch_example_gets_the_same_results_three_times() -> None:
    done = run("examples/bulk_fetch.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "plain code  1599 x 200, 400 x 404, 1 x ChunkedEncodingError",
        "async code  1599 x 200, 400 x 404, 1 x ChunkedEncodingError",
        "in order    200 200 200 200 404 200 ChunkedEncodingError 200, and the rest is not fetched",
        "the shell   2,000 fetched, none recorded before",
        "the shell   0 fetched, 2,000 recorded before",
    ]


def test_the_example_of_downloads_survives_what_its_server_does() -> None:
    finished = run("examples/download.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "first      ChunkedEncodingError after 3 MiB",
        "second     from 3 MiB of 8 MiB to 8 MiB of 8 MiB",
        "second     206 bytes 3145728-8388607/8388608",
        "retried    from 0 MiB of 8 MiB to 8 MiB of 8 MiB",
        "retried    ['ChunkedEncodingError', 206]",
        "checksum   it is another file; here is still 'what was there before'",
        "upload     from 0 MiB of 8 MiB to 8 MiB of 8 MiB",
        "upload     200 it is the same",
    ]


def test_the_service_example_responds_while_its_upstream_fails() -> None:
    pytest.importorskip("starlette")
    finished = run("examples/service.py")
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert finished.stdout.splitlines() == [
        "healthy           200 {'hello': 'Ada', 'attempts': 1}",
        "20 at once        20 answers",
        "fails twice       200 {'hello': 'Ada', 'attempts': 3}",
        "too slow          504 {'error': 'the upstream is too slow'}",
        "down              502 {'error': 'the upstream failed'}",
        "still down        503 {'error': 'the upstream is down'}, come back in 1 s",
        "breaker is open   503 {'error': 'the upstream is down'}, come back in 1 s",
        "                  0 requests reached the upstream",
        "healthy again     200 {'hello': 'Ada', 'attempts': 1}",
    ]
