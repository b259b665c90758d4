"""request.to_curl() and response.to_curl(): curl sends the same request."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import curlhttp
from tests.servers import AppServer, Certs, H2Server, HTTPProxy
from tests.servers.record import Record
from tests.support.colours import AnyClient, needs_pem_certificates

pytestmark = pytest.mark.anyio

_SHELLS = [path for name in ("sh", "bash") if (path := shutil.which(name))]
needs_curl = pytest.mark.skipif(
    not (shutil.which("curl") and _SHELLS), reason="curl or a POSIX shell is missing"
)


def _run(line: str, shell: str = "", stdin: bytes = b"") -> bytes:
    """Run a command line, without what this machine sets for curl."""
    kept = {"PATH": os.environ["PATH"], "CURL_HOME": "/nonexistent", "HOME": "/nonexistent"}
    with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8") as script:
        script.write(line)
        script.flush()
        ended = subprocess.run(
            [shell or _SHELLS[0], script.name],
            input=stdin,
            capture_output=True,
            env=kept,
            check=False,
        )
    assert ended.returncode == 0, (line, ended.stderr)
    return ended.stdout


def _facts(record: Record) -> tuple[str, str, list[tuple[str, str]], bytes]:
    return record.method, record.target, sorted(record.headers), record.body


def _check(app: AppServer, line: str, count: int = 1) -> None:
    """Send a command line, and compare what came with what the client had sent."""
    sent = [_facts(record) for record in app.requests]
    assert len(sent) == count
    for shell in _SHELLS:
        del app.requests[:]
        _run(line, shell)
        assert [_facts(record) for record in app.requests] == sent


@needs_curl
@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "ODD"]
)
async def test_curl_sends_the_same_method_and_headers(
    client: AnyClient, app: AppServer, method: str
) -> None:
    headers = {"X-A": 'it\'s "$HOME" `id` !!', "X-Empty": "", "Cookie": "a=b", "Accept": "x/y"}
    response = await client.request(
        method, f"{app.url}/echo/a'b/..?q=[1-3]{{a,b}}", headers=headers
    )
    _check(app, response.to_curl(secrets=True))


_BODIES: dict[str, dict[str, Any]] = {
    "form": {"data": {"a": "1 & 2", "b": "@file"}},
    "JSON": {"json": {"a": ["ü", "'", "\n"]}},
    "at sign": {"content": b"@/etc/passwd"},
    "lines": {"content": "a\r\n\tb\n\n"},
    "all bytes": {"content": bytes(range(256))},
    "per cent": {"content": b"%s%d\\n\0\\\\%%"},
    "nothing": {"content": b""},
    "large": {"content": b"0123456789abcdef" * 20_000},
    "files": {"files": {"f": ("n.bin", b"\0\xff", "x/y")}, "data": {"a": "1"}},
}


@needs_curl
@pytest.mark.colours("blocking", "asyncio")
@pytest.mark.parametrize("body", _BODIES)
async def test_curl_sends_the_same_body(client: AnyClient, app: AppServer, body: str) -> None:
    response = await client.request("PUT", f"{app.url}/echo", **_BODIES[body])
    _check(app, response.to_curl(secrets=True))
    response = await client.request("POST", f"{app.url}/echo", **_BODIES[body])
    del app.requests[0 : len(app.requests) - 1]
    _check(app, response.to_curl(secrets=True))


@pytest.fixture(scope="module")
def shared(certs: Certs) -> Iterator[tuple[AppServer, curlhttp.Client]]:
    with AppServer() as server, curlhttp.Client() as client:
        yield server, client


_VALUES = st.text(
    st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=40
).map(lambda text: text.strip(" \xa0").strip())


@needs_curl
@given(
    path=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20),
    value=_VALUES.filter(lambda value: not any("\x80" <= char < "\xa0" for char in value)),
    body=st.one_of(st.none(), st.binary(max_size=200), st.text(max_size=100).map(str.encode)),
)
@hypothesis_settings(max_examples=3 * hypothesis_settings().max_examples // 5)
def test_curl_sends_the_same_whatever_it_is(
    shared: tuple[AppServer, curlhttp.Client], path: str, value: str, body: bytes | None
) -> None:
    app, client = shared
    del app.requests[:]
    params = {"q": path}
    response = client.request(
        "POST", f"{app.url}/echo", params=params, headers={"X-V": value}, content=body
    )
    (sent,) = map(_facts, app.requests)
    del app.requests[:]
    _run(response.to_curl(secrets=True))
    assert [_facts(record) for record in app.requests] == [sent]


@needs_curl
async def test_a_streamed_body_is_read_from_standard_input(
    client: AnyClient, app: AppServer
) -> None:
    makers: list[Any] = [lambda: io.BytesIO(b"12345"), lambda: iter([b"123", b"45"])]
    for make in makers:
        del app.requests[:]
        response = await client.post(f"{app.url}/echo", content=make())
        line = response.to_curl()
        assert "standard input" in line
        (sent,) = map(_facts, app.requests)
        del app.requests[:]
        _run(line, stdin=b"12345")
        assert [_facts(record) for record in app.requests] == [sent]


@needs_curl
async def test_curl_gets_the_cookies_of_the_last_redirect(make_client: Any, app: AppServer) -> None:
    client = make_client(cookies={"kept": "1"}, auth=("user", "word"))
    response = await client.get(f"{app.url}/redirect/1")
    last = app.requests[-1]
    assert last.header("cookie") == "kept=1"
    del app.requests[:-1]
    assert "--location" in response.to_curl()
    _check(app, response.to_curl(secrets=True))
    (first,) = response.history
    assert "/redirect/1" in first.to_curl()


@needs_curl
async def test_curl_uses_the_same_authorities(
    make_client: Any, h2_app: H2Server, certs: Certs
) -> None:
    response = await make_client(http2=True).get(f"{h2_app.url}/echo")
    line = response.to_curl()
    assert f"--cacert {certs.ca_path}" in line
    assert b'"method": "GET"' in _run(line)
    assert [record.version for record in h2_app.requests] == ["2", "2"]
    response = await make_client(verify=False, http2=False).get(f"{h2_app.url}/echo")
    assert "--insecure" in response.to_curl()
    assert "--http1.1" in response.to_curl()
    _run(response.to_curl())


@needs_pem_certificates
@needs_curl
def test_curl_shows_a_certificate_from_a_path_with_odd_characters(
    certs: Certs, tmp_path: Path
) -> None:
    path = tmp_path / "a:b\\c'd.pem"
    path.write_bytes(certs.client_cert_path().read_bytes())
    with (
        AppServer(certs.client_auth_context()) as server,
        curlhttp.Client(verify=str(certs.ca_path), cert=str(path)) as client,
    ):
        _run(client.get(f"{server.url}/echo").to_curl())
        assert len(server.requests) == 2


@needs_curl
async def test_curl_uses_the_same_proxy(make_client: Any, app: AppServer) -> None:
    with HTTPProxy(credentials=("us'er", "wo rd")) as proxy:
        there = proxy.url.replace("://", "://us'er:wo%20rd@")
        response = await make_client(proxies=there).get(f"{app.url}/echo")
        assert response.status_code == 200
        assert "wo rd" not in response.to_curl()
        assert "us'er" not in response.to_curl()
        _check(app, response.to_curl(secrets=True))


def test_an_unsent_request_has_a_command_line() -> None:
    with curlhttp.Client(timeout=curlhttp.Timeout(connect=2.5, total=9)) as client:
        request = client.build_request("GET", "http://h.test/a b", headers={"X": "a b"})
        assert request.to_curl() == (
            "curl --globoff --path-as-is --location --http1.1 --connect-timeout 2.5 --max-time 9 "
            "--header 'User-Agent: curlhttp/" + curlhttp.__version__ + "' --header "
            "'Accept-Encoding: " + request.headers["accept-encoding"] + "' --header 'Accept: */*' "
            "--header 'X: a b' --compressed --url http://h.test/a%20b"
        )
        request = client.build_request("GET", "http://h.test/", auth=("u", "p"), cookies={"a": "b"})
        assert "--header 'Authorization: Basic dTpw'" in request.to_curl(secrets=True)
        assert "--header 'Cookie: a=b'" in request.to_curl(secrets=True)
        request = client.build_request("GET", "http://h.test/", auth=curlhttp.DigestAuth("u", "p"))
        assert request.to_curl().endswith("  # authenticated by DigestAuth, which is not shown")


def test_credentials_are_masked_by_default() -> None:
    with curlhttp.Client(sensitive_headers=["X-Mine"]) as client:
        bodies: list[Any] = [
            {"data": {"password": "hidden"}},
            {"json": {"api_key": "hidden"}},
            {"content": b"a=1&password=hidden"},
            {"content": b' {"password": "hidden"}'},
            {"data": {"a": "1", "password": "hidden"}, "files": {"f": ("n", b"x")}},
            {"files": {"user[password]": (None, "hidden")}},
            {"files": {"f": ("n", '{"token": "hidden"}', "application/json")}},
            {"data": {"password": "hidden"}, "files": {"f": ("n", b"x" * 100_000)}},
        ]
        for body in bodies:
            request = client.build_request(
                "POST",
                "http://h.test/?token=hidden&a=1",
                headers={"X-Mine": "hidden", "X-Api-Key": "hidden", "Cookie": "c=hidden"},
                auth=("hidden", "hidden"),
                **body,
            )
            assert "hidden" not in request.to_curl()
            assert "hidden" not in repr(request)
            assert "hidden" in request.to_curl(secrets=True)


@pytest.mark.parametrize(
    "fields",
    [{"content-encoding": "gzip"}, {"content-type": "application/json; charset=utf-16"}],
    ids=repr,
)
def test_a_body_whose_secrets_cannot_be_found_is_not_shown(fields: dict[str, str]) -> None:
    is_coded = "content-encoding" in fields
    text = '{"password": "hidden"}'
    content = zlib.compress(text.encode()) if is_coded else text.encode("utf-16")
    with curlhttp.Client() as client:
        request = client.build_request("POST", "http://h.test/", content=content, headers=fields)
    shown = request.to_curl()
    assert shown.endswith(f"# the body of {len(content)} bytes is coded, and may hold credentials")
    assert "printf" not in shown
    assert "printf" in request.to_curl(secrets=True)


def test_a_minimal_request_has_a_command_line() -> None:
    request = curlhttp.ClientRequest("POST", "http://h.test/")
    assert request.to_curl() == (
        "curl --globoff --path-as-is --location --header User-Agent: --header Accept: "
        "--header Content-Type: --header Expect: --data-raw '' --url http://h.test/"
    )


async def test_a_request_shows_what_was_sent(client: AnyClient, app: AppServer) -> None:
    response = await client.post(
        f"{app.url}/echo", data={"a": "1", "password": "hidden"}, headers={"Cookie": "c=hidden"}
    )
    (record,) = app.requests
    request = response.request
    assert request.sent_headers.multi_items() == record.headers
    assert "hidden" not in repr(request)
    assert f"('Host', '{app.url.partition('//')[2]}')" in repr(request)
    assert "('Cookie', '[secret]')" in repr(request)
    assert "('Content-Length', '19')" in repr(request)
    assert "<BytesBody, 19 bytes: b'a=1&password=***'>" in repr(request)


@pytest.mark.parametrize("content", [b"x", b"", ["x"], None], ids=repr)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_framing_headers_are_shown_as_sent(app: AppServer, content: Any, method: str) -> None:
    content = (piece.encode() for piece in content) if isinstance(content, list) else content
    headers = {"X-A": "1", "Host": "other.test", "Proxy-Authorization": "x"}
    with curlhttp.Client() as client:
        response = client.request(method, f"{app.url}/echo", content=content, headers=headers)
        (record,) = app.requests
        assert sorted(response.request.sent_headers.multi_items()) == sorted(record.headers)
        assert response.request.sent_headers.multi_items()[0] == ("Host", "other.test")


async def test_history_and_streams_show_what_was_sent(client: AnyClient, app: AppServer) -> None:
    async with await client.stream("GET", f"{app.url}/redirect/1") as stream:
        await stream.read()
        response = stream.real
    shown = [r.request.sent_headers.multi_items() for r in (*response.history, response)]
    assert shown == [record.headers for record in app.requests]


def test_a_body_shows_its_kind_its_size_and_its_beginning() -> None:
    def shown(**body: Any) -> str:
        return repr(curlhttp.ClientRequest("POST", "http://h.test/", **body).body)

    assert shown(content=b"hidden") == "<BytesBody, 6 bytes>"
    assert shown(data={"a": "a" * 98}) == f"<BytesBody, 100 bytes: {b'a=' + b'a' * 58!r}...>"
    assert shown(json={"token": "hidden"}) == """<BytesBody, 19 bytes: b'{"token": "***"}'>"""
    assert shown(content=io.BytesIO(b"12")) == "<FileBody, 2 bytes>"
    assert shown(content=iter([b"12"])) == "<IterBody, unknown length>"
    assert "hidden" not in shown(files={"password": ("a", b"hidden")})
    assert shown(data={"token": "hidden", "a": "1"}) == "<BytesBody, 16 bytes: b'token=***&a=1'>"
