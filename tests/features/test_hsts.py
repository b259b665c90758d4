"""A client with an HSTS file contacts known hosts over HTTPS only (RFC 6797)."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp.testing import Answer
from tests.servers import AppServer, Certs
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.downloads import download
from tests.support.scripted import Scripted

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]
FIELD = "Strict-Transport-Security"


@pytest.fixture
def strict(tls_app: AppServer) -> AppServer:
    """Return a TLS server that sends Strict-Transport-Security on /sts."""
    says(tls_app, "max-age=1000")
    return tls_app


def says(server: AppServer, value: str) -> None:
    server.route("/sts", lambda record, out: out.reply(200, b"strict", [(FIELD, value)]))


def plain(server: AppServer, path: str = "/") -> str:
    """Return the URL of a TLS server as somebody types it who does not know that."""
    return f"http://localhost:{server.port}{path}"


async def test_a_host_with_hsts_is_requested_over_https(
    make_client: MakeClient, strict: AppServer, tmp_path: Path
) -> None:
    client = make_client(hsts=tmp_path / "hsts.txt")
    with pytest.raises(curlhttp.RequestException):
        await client.get(plain(strict))
    await client.get(strict.at("localhost") + "/sts")
    response = await client.get(plain(strict, "/?a=b"))
    assert response.content == b"hello"
    assert str(response.request.url) == f"https://localhost:{strict.port}/?a=b"
    assert strict.requests[-1].target == "/?a=b"
    assert not response.history


async def test_the_file_is_read_by_the_next_client(
    make_client: MakeClient, strict: AppServer, tmp_path: Path
) -> None:
    path = tmp_path / "hsts.txt"
    await make_client(hsts=str(path)).get(strict.at("localhost") + "/sts")
    assert (await make_client(hsts=path).get(plain(strict))).ok
    assert path.stat().st_mode & 0o077 == 0
    assert [each.name for each in tmp_path.iterdir()] == ["hsts.txt"]
    says(strict, "max-age=0")
    await make_client(hsts=path).get(strict.at("localhost") + "/sts")
    with pytest.raises(curlhttp.RequestException):
        await make_client(hsts=path).get(plain(strict))


def names_in(path: Path) -> set[str]:
    lines = path.read_text().splitlines()
    return {line.split(" ")[0] for line in lines if not line.startswith("#")}


def telling(scripted: Scripted, path: Path) -> AnyClient:
    """Return a client that gets the header in the path from every host."""

    def respond(request: Any) -> Answer:
        return Answer(headers={FIELD: "max-age=" + request.url.path.strip("/")})

    client, _ = scripted(respond, hsts=path)
    return client


async def test_entries_of_one_client_are_kept_when_another_writes(
    scripted: Scripted, tmp_path: Path
) -> None:
    path = tmp_path / "hsts.txt"
    first, second = telling(scripted, path), telling(scripted, path)
    await first.get("https://one.test/1000")
    await second.get("https://two.test/1000")
    assert names_in(path) == {"one.test", "two.test"}
    await first.get("https://one.test/0")
    await second.get("https://three.test/1000")  # what was removed does not come back
    assert names_in(path) == {"two.test", "three.test"}
    await first.get("https://four.test/1000")
    assert names_in(path) == {"two.test", "three.test", "four.test"}
    path.unlink()
    await first.get("https://five.test/1000")  # who removes the file removes no knowledge
    assert names_in(path) == {"two.test", "three.test", "four.test", "five.test"}


async def test_an_entry_that_could_not_be_written_is_written_with_the_next(
    scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "hsts.txt"
    client = telling(scripted, path)
    await client.get("https://one.test/1000")

    def full(*arguments: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        await client.get("https://two.test/1000")
    assert names_in(path) == {"one.test"}
    await client.get("https://three.test/1000")
    assert names_in(path) == {"one.test", "two.test", "three.test"}


_WRITER = """
import sys, threading
from curlhttp import Client
from curlhttp._features.hsts import layer as hsts
from curlhttp.testing import Answer, ScriptedEngine
hsts._LOCK_SECONDS = 60  # a machine with other work may let a writer wait for more than a second
path, whose = sys.argv[1:]
answer = Answer(headers={"Strict-Transport-Security": "max-age=1000"})
begin = threading.Barrier(4)
def write(number):
    with Client(hsts=path, transport=ScriptedEngine(lambda request: answer)) as client:
        begin.wait()
        for each in range(20):
            client.get(f"https://h{each}.t{number}.p{whose}.test/")
sys.stdin.readline()
threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.slow
def test_many_clients_of_many_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "hsts.txt"
    command = [sys.executable, "-W", "error", "-c", _WRITER, str(path)]
    running = [
        subprocess.Popen(
            [*command, str(number)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(3)
    ]
    ended = [process.communicate("\n") for process in running]
    assert [error for _, error in ended] == [""] * 3
    assert names_in(path) == {
        f"h{each}.t{number}.p{whose}.test"
        for each in range(20)
        for number in range(4)
        for whose in range(3)
    }
    assert [each.name for each in tmp_path.iterdir()] == ["hsts.txt"]


async def test_every_api_follows_it(
    make_client: MakeClient, strict: AppServer, tmp_path: Path
) -> None:
    client = make_client(hsts=tmp_path / "hsts.txt")
    async with await client.stream("GET", strict.at("localhost") + "/sts") as stream:
        await stream.read()
    async with await client.stream("GET", plain(strict)) as stream:
        assert await stream.read() == b"hello"
    (result,) = [result async for result in client.map([plain(strict)])]
    assert result.content == b"hello"
    await download(client, plain(strict), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"hello"
    assert (await client.post(plain(strict, "/echo"), content=b"body")).ok


async def test_a_redirect_to_http_uses_https_with_the_cookies_of_https(
    make_client: MakeClient, app: AppServer, strict: AppServer, tmp_path: Path
) -> None:
    client = make_client(hsts=tmp_path / "hsts.txt", cookies=None)
    cookie = ("Set-Cookie", "session=1; Secure; Domain=localhost")
    strict.route("/sts", lambda record, out: out.reply(200, b"", [(FIELD, "max-age=9"), cookie]))
    await client.get(strict.at("localhost") + "/sts")
    moved = [("Location", plain(strict, "/end"))]
    app.route("/hop", lambda record, out: out.reply(302, b"", moved))
    strict.route("/end", lambda record, out: out.reply(200, b"end"))
    response = await client.get(app.url + "/hop")
    assert response.content == b"end"
    assert len(response.history) == 1
    assert strict.requests[-1].header("cookie") == "session=1"


async def test_what_http_says_counts_for_nothing(
    make_client: MakeClient, app: AppServer, tmp_path: Path
) -> None:
    says(app, "max-age=1000")
    client = make_client(hsts=tmp_path / "hsts.txt")
    for _ in range(2):
        assert (await client.get(app.at("localhost") + "/sts")).ok
    assert not (tmp_path / "hsts.txt").exists()


async def test_hsts_without_a_verified_certificate_is_ignored(
    make_client: MakeClient, strict: AppServer, tmp_path: Path
) -> None:
    client = make_client(hsts=tmp_path / "hsts.txt", verify=False)
    await client.get(strict.at("localhost") + "/sts")
    with pytest.raises(curlhttp.RequestException):
        await client.get(plain(strict))


async def test_hsts_without_host_name_checks_is_ignored(
    make_client: MakeClient, strict: AppServer, tmp_path: Path, certs: Certs
) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca_path))
    context.check_hostname = False
    client = make_client(hsts=tmp_path / "hsts.txt", verify=context)
    await client.get(strict.at("localhost") + "/sts")
    with pytest.raises(curlhttp.RequestException):
        await client.get(plain(strict))


async def test_token_requests_use_https_too(
    make_client: MakeClient, strict: AppServer, app: AppServer, tmp_path: Path
) -> None:
    strict.route("/token", lambda record, out: out.reply(200, b'{"access_token": "t"}'))
    client = make_client(hsts=tmp_path / "hsts.txt")
    await client.get(strict.at("localhost") + "/sts")
    auth = curlhttp.OAuth2ClientCredentials(plain(strict, "/token"), "me", "s3cret")
    assert (await client.get(app.url, auth=auth)).ok
    assert strict.requests[-1].target == "/token"
    other = curlhttp.OAuth2RefreshToken(plain(strict, "/token"), "r")
    await download(client, app.url, tmp_path / "file", auth=other)
    assert strict.requests[-1].target == "/token"


async def test_without_the_setting_the_scheme_is_the_callers(
    make_client: MakeClient, strict: AppServer
) -> None:
    client = make_client()
    await client.get(strict.at("localhost") + "/sts")
    with pytest.raises(curlhttp.RequestException):
        await client.get(plain(strict))


async def test_the_file_is_curls(
    make_client: MakeClient, strict: AppServer, tmp_path: Path
) -> None:
    path = tmp_path / "hsts.txt"
    path.write_text(
        "# Your HSTS cache. https://curl.se/docs/hsts.html\n"
        '.example.org "20991231 23:59:59"\nlocalhost "unlimited"\ngone.test "20010101 00:00:00"\n'
        '127.0.0.1 "unlimited"\nrubbish\n\x00\xff "99999999 99:99:99"\n'
        'odd.test "20991399 00:00:00"\n',
        encoding="latin-1",
    )
    client = make_client(hsts=path)
    assert (await client.get(plain(strict))).ok
    says(strict, "max-age=1000; includeSubDomains")
    await client.get(strict.at("localhost") + "/sts")
    lines = path.read_text().splitlines()[1:]
    assert lines[0] == '.example.org "20991231 23:59:59"'
    assert lines[1].startswith('.localhost "20')
    assert len(lines) == 2


async def test_two_clients_on_one_file_keep_what_the_other_found(
    make_client: MakeClient, strict: AppServer, certs: Certs, tmp_path: Path
) -> None:
    path = tmp_path / "hsts.txt"
    first, second = make_client(hsts=path), make_client(hsts=path)
    with AppServer(certs.server_context("made.up")) as other:
        says(other, "max-age=1000")
        await first.get(other.at("made.up") + "/sts", resolve={"made.up": "127.0.0.1"})
    await second.get(strict.at("localhost") + "/sts")
    assert {line.split()[0] for line in path.read_text().splitlines()[1:]} == {
        "made.up",
        "localhost",
    }


@ONE_OF_EACH
async def test_a_file_that_cannot_be_kept_is_an_error_at_once(
    make_client: MakeClient, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match=r"folder of .* does not exist"):
        make_client(hsts=tmp_path / "none" / "hsts.txt")
    with pytest.raises(OSError, match="directory"):
        make_client(hsts=tmp_path)


async def test_a_disk_that_is_full_fails_no_request(
    make_client: MakeClient, strict: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    def full(**arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    client = make_client(hsts=tmp_path / "hsts.txt")
    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert (await client.get(strict.at("localhost") + "/sts")).ok
    assert (await client.get(plain(strict))).ok


def test_clients_without_the_setting_do_not_load_it() -> None:
    hsts = "curlhttp._features.hsts.layer"
    code = f"import sys, curlhttp; curlhttp.Client(); print({hsts!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"
