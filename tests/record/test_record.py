"""Recording in both clients: whatever is recorded plays back without a network."""

from __future__ import annotations

import gc
import gzip
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import brotli
import pytest

import curlhttp
from curlhttp import Record
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ClientClosed,
    ConnectionError,
    ResponseTooLarge,
)
from curlhttp.testing import Answer, Chaos, ScriptedEngine, refused
from tests.servers import HTTP2, AppServer, Certs, H2Server, RawConnection, RawServer
from tests.servers.record import Record as Asked
from tests.servers.routes import Out
from tests.servers.websocket import echo, speaking
from tests.support.colours import AnyClient
from tests.support.scripted import URL, steady

pytestmark = pytest.mark.anyio

Make = Callable[..., AnyClient]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassette.har"


@pytest.fixture
def server() -> Iterator[AppServer]:
    """Return a server of the test's own, which it may stop."""
    with AppServer() as found:
        yield found


def entries(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["log"]["entries"]
    return found


# --- one exchange ---


async def test_a_recording_plays_back_without_a_server(make_client: Make, path: Path) -> None:
    with AppServer() as server:
        async with make_client(transport=Record(path)) as client:
            first = await client.post(server.url + "/echo", json={"a": "é"})
    async with make_client(transport=Record(path)) as client:
        again = await client.post(first.url, json={"a": "é"})
    assert again.status_code == first.status_code
    assert again.content == first.content
    assert again.headers == first.headers
    assert again.http_version == first.http_version
    assert again.reason == first.reason
    assert again.timings.total == 0


@pytest.mark.parametrize("name", ["/bytes/100000", "/text?charset=latin-1", "/json", "/status/204"])
async def test_bodies_of_all_kinds_are_recorded(
    make_client: Make, server: AppServer, path: Path, name: str
) -> None:
    for _ in range(2):
        async with make_client(transport=Record(path)) as client:
            found = [(await client.get(server.url + name)).content for _ in range(2)]
    assert found[0] == found[1]


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate"])
@pytest.mark.parametrize("streams", [False, True])
async def test_coded_bodies_are_recorded_decoded(
    make_client: Make, server: AppServer, path: Path, coding: str, streams: bool
) -> None:
    url = server.url + "/coded"
    body = b"hello " * 1000

    def coded(record: Asked, out: Out) -> None:
        code = {"gzip": gzip.compress, "br": brotli.compress, "deflate": zlib.compress}[coding]
        out.reply(200, code(body), [("Content-Encoding", coding), ("Content-Type", "text/plain")])

    server.route("/coded", coded)
    async with make_client(transport=Record(path)) as client:
        if streams:
            async with await client.stream("GET", url) as stream:
                assert await stream.read() == body
        else:
            assert (await client.get(url)).content == body
    (entry,) = entries(path)
    assert entry["response"]["content"]["text"] == body.decode()
    async with make_client(transport=Record(path)) as client:
        response = await client.get(url)
        assert response.content == body
        assert response.headers["content-length"] == str(len(body))
    async with make_client(transport=Record(path)) as client:
        async with await client.stream("GET", url) as stream:
            assert await stream.read() == body


async def test_a_body_with_a_corrupt_coding_is_not_recorded(make_client: Make, path: Path) -> None:
    def corrupt(record: Asked, out: Out) -> None:
        out.reply(200, b"no gzip \xff", [("Content-Encoding", "gzip")])

    with AppServer() as server:
        server.route("/corrupt", corrupt)
        for expected in (b"no gzip \xff", b"***"):
            async with make_client(transport=Record(path)) as client:
                async with await client.stream("GET", server.url + "/corrupt") as stream:
                    raw = [piece async for piece in stream.iterate("raw")]
                assert b"".join(raw) == expected
    async with make_client(transport=Record(path)) as client:
        assert (await client.get(server.url + "/corrupt")).content == b"***"


async def test_streams_play_back_in_their_pieces(make_client: Make, path: Path) -> None:
    goes_on = threading.Semaphore(1)
    pieces = [b"data: %d\n\n" % number for number in range(4)]

    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for piece in pieces:
            goes_on.acquire(timeout=30)
            conn.send(piece)

    with RawServer(handler) as raw:
        async with make_client(transport=Record(path)) as client:
            async with await client.stream("GET", raw.url) as stream:
                async for piece in stream.iterate("bytes"):
                    assert piece in pieces
                    goes_on.release()
    async with make_client(transport=Record(path)) as client:
        async with await client.stream("GET", raw.url) as stream:
            assert [piece async for piece in stream.iterate("bytes")] == pieces
    async with make_client(transport=Record(path)) as client:
        events = client.sse(raw.url, reconnect=False)
        assert [event.data async for event in events] == ["0", "1", "2", "3"]


async def test_a_stream_left_early_plays_back_as_far_as_it_was_read(
    make_client: Make, path: Path
) -> None:
    def handler(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        conn.stall()

    with RawServer(handler) as raw:
        async with make_client(transport=Record(path)) as client:
            async with client.sse(raw.url) as events:
                async for event in events:
                    assert event.data == "1"
                    break
    (entry,) = entries(path)
    assert entry["response"]["content"]["_cut"] is True
    async with make_client(transport=Record(path)) as client:
        found = client.sse(raw.url, reconnect=False)
        assert [event.data async for event in found] == ["1"]


async def test_redirects_and_cookies_are_entries_each(
    make_client: Make, server: AppServer, path: Path
) -> None:
    url = server.url + "/cookies/set?a=secret-b&redirect=/cookies"
    for _ in range(2):
        async with make_client(transport=Record(path)) as client:
            response = await client.get(url)
            assert response.history[0].status_code == 302
            assert list(response.json()["cookies"]) == ["a"]
    assert [entry["response"]["status"] for entry in entries(path)] == [302, 200]
    assert entries(path)[0]["response"]["redirectURL"] == "/cookies"


async def test_challenges_and_retries_play_back_in_their_order(
    make_client: Make, path: Path
) -> None:
    script = ScriptedEngine([503, 503, Answer(content=b"well")])
    async with make_client(transport=script, retry=steady(2)) as client:
        with client.real.har(path):
            assert (await client.get(URL)).content == b"well"
    assert [entry["response"]["status"] for entry in entries(path)] == [503, 503, 200]
    policy = curlhttp.RetryPolicy(2, backoff_strategy=curlhttp.ExponentialBackoff(base=0))
    async with make_client(transport=Record(path), retry=policy) as client:
        response = await client.get(URL)
        assert [attempt.status_code for attempt in response.attempts] == [503, 503, 200]


async def test_http2_is_recorded(make_client: Make, certs: Certs, path: Path) -> None:
    with H2Server(certs.server_context(alpn=HTTP2)) as server:
        async with make_client(http2=True, transport=Record(path)) as client:
            first = await client.get(server.url + "/json")
    async with make_client(http2=True, transport=Record(path)) as client:
        again = await client.get(server.url + "/json")
    assert (again.http_version, again.json()) == ("HTTP/2", first.json())
    (entry,) = entries(path)
    assert entry["timings"]["ssl"] > 0
    assert entry["serverIPAddress"] == "127.0.0.1"


async def test_maps_and_downloads_are_recorded(
    make_client: Make, server: AppServer, path: Path, tmp_path: Path
) -> None:
    urls = [f"{server.url}/bytes/{size}" for size in range(1, 9)]
    for _ in range(2):
        async with make_client(transport=Record(path)) as client:
            async with client.map(urls, ordered=True) as results:
                assert [len(result.content) async for result in results] == [*range(1, 9)]
            target = tmp_path / "file"
            downloading = client.real.download(server.url + "/bytes/5000", target)
            if not client.is_blocking:
                await downloading
            assert target.stat().st_size == 5000
    assert len(entries(path)) == 9


async def test_streamed_request_bodies_are_recorded_and_compared(
    make_client: Make, server: AppServer, path: Path
) -> None:
    for _ in range(2):
        async with make_client(transport=Record(path)) as client:
            response = await client.post(server.url + "/echo", content=iter([b"one ", b"two"]))
            assert "one two" in response.text
    async with make_client(transport=Record(path)) as client:
        with pytest.raises(AssertionError, match="body: b'one two' in the file, b'one' here"):
            await client.post(server.url + "/echo", content=iter([b"one"]))


async def test_async_bodies_are_recorded(make_client: Make, server: AppServer, path: Path) -> None:
    async def pieces() -> Any:
        yield b"one "
        yield b"two"

    for _ in range(2):
        async with make_client(transport=Record(path)) as client:
            if client.is_blocking:
                with pytest.raises(TypeError, match="AsyncClient"):
                    await client.post(server.url + "/echo", content=pieces())
                return
            response = await client.post(server.url + "/echo", content=pieces())
            assert "one two" in response.text


async def test_a_form_with_files_matches_though_its_boundary_is_another(
    make_client: Make, server: AppServer, path: Path
) -> None:
    for _ in range(2):
        async with make_client(transport=Record(path)) as client:
            files = {"file": ("a.bin", b"\xff\x00", "application/octet-stream")}
            assert (await client.post(server.url + "/echo", files=files)).ok
    assert entries(path)[0]["request"]["postData"]["_encoding"] == "base64"


async def test_the_order_of_parameters_does_not_count(
    make_client: Make, server: AppServer, path: Path
) -> None:
    async with make_client(transport=Record(path)) as client:
        await client.get(server.url + "/echo?a=1&b=2")
    async with make_client(transport=Record(path, "none")) as client:
        assert (await client.get(server.url + "/echo?b=2&a=1")).ok
        with pytest.raises(AssertionError):
            await client.get(server.url + "/echo?b=1&a=2")


# --- modes ---


RAW = ["/a/../b", "/b", "/a/./b%7e%2f%?%7e&b=2", "/a%zz?token=s%7e&x=%7e", "/?", "/x?b&&a"]


async def test_raw_urls_play_back_as_they_were_sent(
    make_client: Make, server: AppServer, path: Path
) -> None:
    for _ in range(2):
        async with make_client(transport=Record(path)) as client:
            for target in RAW:
                url = curlhttp.URL(server.url + target, raw=True)
                assert (await client.get(url)).url == str(url)
    assert [each.target for each in server.requests] == RAW
    async with make_client(transport=Record(path)) as client:
        with pytest.raises(AssertionError, match="nearest"):  # it is another URL
            await client.get(curlhttp.URL(server.url + "/a/%2e%2e/b", raw=True))


async def test_urls_that_other_programs_spell_otherwise_play_back(
    make_client: Make, server: AppServer, path: Path
) -> None:
    async with make_client(transport=Record(path)) as client:
        await client.get(curlhttp.URL(server.url + "/a/../%7e?b=[1]&a=|", raw=True))
    async with make_client(transport=Record(path)) as client:
        response = await client.get(server.url + "/~?a=|&b=[1]")
        assert response.url == server.url + "/~?a=%7C&b=%5B1%5D"
        with pytest.raises(AssertionError, match="nearest"):  # each entry plays back once
            await client.get(server.url + "/~?a=|&b=[1]")
    assert len(server.requests) == 1


async def test_once_records_only_if_there_is_no_file(
    make_client: Make, server: AppServer, path: Path
) -> None:
    async with make_client(transport=Record(path)) as client:
        await client.get(server.url + "/json")
    async with make_client(transport=Record(path)) as client:
        assert (await client.get(server.url + "/json")).ok
        with pytest.raises(AssertionError, match="already played back"):
            await client.get(server.url + "/json")
        with pytest.raises(AssertionError, match="records nothing new"):
            await client.get(server.url + "/other")
    assert len(entries(path)) == 1


async def test_new_records_missing_requests(
    make_client: Make, server: AppServer, path: Path
) -> None:
    for number in range(3):
        async with make_client(transport=Record(path, "new")) as client:
            for size in range(number + 1):
                assert len((await client.get(f"{server.url}/bytes/{size}")).content) == size
    assert [entry["response"]["content"]["size"] for entry in entries(path)] == [0, 1, 2]


async def test_all_records_again(make_client: Make, server: AppServer, path: Path) -> None:
    for size in (1, 2):
        async with make_client(transport=Record(path, "all")) as client:
            await client.get(f"{server.url}/bytes/{size}")
    assert [entry["response"]["content"]["size"] for entry in entries(path)] == [2]


async def test_all_without_a_request_keeps_the_file(
    make_client: Make, server: AppServer, path: Path
) -> None:
    async with make_client(transport=Record(path)) as client:
        await client.get(server.url)
    async with make_client(transport=Record(path, "all")) as client:
        pass
    assert len(entries(path)) == 1


async def test_none_records_nothing(make_client: Make, server: AppServer, path: Path) -> None:
    async with make_client(transport=Record(path, "none")) as client:
        with pytest.raises(AssertionError, match="the file does not exist"):
            await client.get(server.url)
    assert not path.exists()


async def test_an_unmatched_request_names_the_nearest_recording(
    make_client: Make, server: AppServer, path: Path
) -> None:
    async with make_client(transport=Record(path)) as client:
        for name in ("/bytes/1", "/json", "/text"):
            await client.get(server.url + name)
    async with make_client(transport=Record(path, "none")) as client:
        with pytest.raises(AssertionError) as caught:
            await client.get(server.url + "/jso?token=very-secret")
    said = str(caught.value)
    assert f"nearest: log.entries[1], GET {server.url}/json" in said
    assert "cassette.har" in said
    assert "very-secret" not in said


def test_a_wrong_mode_or_part_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="mode must be one of 'once', 'all', 'none', 'new'"):
        Record(path, "often")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="match takes some of"):
        Record(path, match=("headers",))  # type: ignore[arg-type]


async def test_one_string_for_names_of_secrets_is_refused(make_client: Make, path: Path) -> None:
    with pytest.raises(TypeError, match="secrets must be a list of names"):
        Record(path, secrets="iban")
    async with make_client() as client:
        with pytest.raises(TypeError, match="secrets must be a list of names"):
            client.real.har(path, secrets="iban")


async def test_the_matching_criteria_can_be_configured(
    make_client: Make, server: AppServer, path: Path
) -> None:
    for body in (b"first", b"second"):
        async with make_client(transport=Record(path, match=("method", "url"))) as client:
            assert "first" in (await client.post(server.url + "/echo", content=body)).text


# --- secrets ---


async def test_secrets_are_masked_and_match_all_the_same(
    make_client: Make, server: AppServer, path: Path
) -> None:
    for secret in ("first-secret", "other-secret", 'third-"secret'):
        async with make_client(transport=Record(path, secrets=["tenant"])) as client:
            response = await client.post(
                server.url + "/json?page=2",
                params={"api_key": secret, "tenant": secret},
                headers={"X-Api-Key": secret, "Cookie": "a=some-secret", "Tenant": secret},
                auth=("me", secret),
                json={"password": secret, "nested": [{"tenant": secret}], "max_tokens": 5},
            )
            assert response.ok
    text = path.read_text()
    assert "first-secret" not in text
    assert "some-secret" not in text
    (entry,) = entries(path)
    assert '"max_tokens": 5' in entry["request"]["postData"]["text"]
    assert entry["request"]["url"].endswith("?page=2&api_key=***&tenant=***")
    sent = {field["name"].lower(): field["value"] for field in entry["request"]["headers"]}
    assert sent["authorization"] == "Basic ***"
    assert sent["cookie"] == "a=***"


async def test_what_is_no_secret_plays_back_as_it_came(
    make_client: Make, path: Path, server: AppServer
) -> None:
    body = {
        "token_type": "Bearer",
        "expires_in": 3600,
        "nextPageToken": "",
        "usage": {"completion_tokens_details": {"kind": "x", "reasoning_tokens": 3}},
        "authorization_endpoint": "https://a.test/authorize",
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        "secretary": "Ada",
        "password_required": "true",
    }
    fields = [
        ("Content-Type", "application/json"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Surrogate-Key", "a b"),
        ("X-Cache-Key", "c"),
        ("X-RateLimit-Remaining-Tokens", "149984"),
        ("Location", "/next?api-version=2&sort_key=name"),
    ]
    server.route("/json", lambda record, conn: conn.reply(200, json.dumps(body).encode(), fields))
    for _ in range(2):
        async with make_client(transport=Record(path)) as client:
            response = await client.get(server.url + "/json")
            assert response.json() == body
            for name, value in fields:
                assert response.headers[name] == value
    assert len(server.requests) == 1
    assert "***" not in path.read_text()


async def test_a_secret_is_replaced_by_a_value_of_its_kind(
    make_client: Make, path: Path, server: AppServer
) -> None:
    secrets = {
        "access_token": "eyJhbGciOiJub25lIn0.e30.c2VjcmV0",
        "pin": 987654,
        "otp": "987654",
        "secret": True,
        "credentials": {"type": "basic", "value": "s3same", "count": 2, "is_old": False},
        "tenant": {"type": "s3same"},
    }
    cookies = [("Set-Cookie", f"a={value}; Path=/") for value in ("987654", "s3same", "")]
    server.route("/", lambda record, conn: conn.reply(200, json.dumps(secrets).encode(), cookies))
    for key, code in (("987654", "9876"), ("s3same", "")):  # any value matches
        async with make_client(transport=Record(path, secrets=["tenant"])) as client:
            response = await client.post(server.url, json={"api_key": key, "otp": code})
    assert response.json() == {
        "access_token": "***",
        "pin": 0,
        "otp": "0",
        "secret": True,
        "credentials": {"type": "basic", "value": "***", "count": 2, "is_old": False},
        "tenant": {"type": "***"},  # the caller's own name
    }
    assert [value for name, value in response.headers.multi_items() if name == "Set-Cookie"] == [
        "a=0; Path=/",
        "a=***; Path=/",
        "a=; Path=/",
    ]
    assert len(server.requests) == 1
    text = path.read_text()
    assert not any(secret in text for secret in ("9876", "s3same", "eyJ"))


async def test_secrets_of_forms_and_responses_are_masked(
    make_client: Make, server: AppServer, path: Path
) -> None:
    def token(record: Asked, out: Out) -> None:
        body = b'{"access_token": "a-\\"secret", "expires_in": 3600, "token_type": "bearer"}'
        cookie = ("Set-Cookie", "sid=a-secret; Path=/")
        out.reply(200, body, [("Content-Type", "application/json"), cookie])

    server.route("/token", token)
    for secret in ("a-secret", "b-secret"):
        async with make_client(transport=Record(path)) as client:
            data = {"client_secret": secret, "grant_type": "password"}
            response = await client.post(server.url + "/token", data=data)
            assert response.json()["expires_in"] == 3600
    assert "a-secret" not in path.read_text()
    assert 'a-\\"secret' not in path.read_text()
    assert response.json()["access_token"] == "***"
    assert response.headers["set-cookie"] == "sid=***; Path=/"


async def test_the_clients_own_sensitive_headers_are_masked(
    make_client: Make, server: AppServer, path: Path
) -> None:
    headers = {"X-Tenant": "acme-secret"}
    made = make_client(transport=Record(path), headers=headers, sensitive_headers=["X-Tenant"])
    async with made as client:
        await client.get(server.url)
    assert "acme-secret" not in path.read_text()


# --- ends ---


async def test_requests_that_failed_are_not_recorded(make_client: Make, path: Path) -> None:
    def cut(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    with RawServer(cut) as raw:
        async with make_client(transport=Record(path)) as client:
            with pytest.raises(ChunkedEncodingError):
                await client.get(raw.url)
            with pytest.raises(ChunkedEncodingError):
                async with await client.stream("GET", raw.url) as stream:
                    await stream.read()
        async with make_client(transport=Record(path)) as client:
            with pytest.raises(ConnectionError):
                await client.get("http://127.0.0.1:1/")
    assert not path.exists()


async def test_a_closed_client_does_not_play_back(
    make_client: Make, server: AppServer, path: Path
) -> None:
    async with make_client(transport=Record(path)) as client:
        await client.get(server.url)
    client = make_client(transport=Record(path))
    await client.aclose()
    with pytest.raises(ClientClosed):
        await client.get(server.url)


async def test_a_bound_on_bodies_holds_for_those_that_are_played_back(
    make_client: Make, server: AppServer, path: Path
) -> None:
    async with make_client(transport=Record(path)) as client:
        await client.get(server.url + "/bytes/1000")
    async with make_client(transport=Record(path)) as client:
        with pytest.raises(ResponseTooLarge):
            await client.get(server.url + "/bytes/1000", max_response_size=999)


async def test_many_at_once_are_recorded_and_played_back_once_each(
    make_client: Make, server: AppServer, path: Path
) -> None:
    for _ in range(2):
        async with make_client(transport=Record(path)) as client:
            responses = await client.gather(50, "GET", server.url + "/json")
            assert all(response.ok for response in responses)
    assert len(entries(path)) == 50
    async with make_client(transport=Record(path)) as client:
        await client.gather(50, "GET", server.url + "/json")
        with pytest.raises(AssertionError, match="already played back"):
            await client.get(server.url + "/json")


async def test_one_record_serves_both_clients(server: AppServer, path: Path) -> None:
    record = Record(path)
    with curlhttp.Client(transport=record) as client:
        client.get(server.url + "/json")
    async with curlhttp.AsyncClient(transport=record) as other:
        await other.get(server.url + "/bytes/3")
    assert len(entries(path)) == 2


async def test_saving_keeps_earlier_recordings(server: AppServer, path: Path) -> None:
    record = Record(path)
    with curlhttp.Client(transport=record) as client:
        client.get(server.url)
        record.save()
        assert len(entries(path)) == 1
        client.get(server.url)
    assert len(entries(path)) == 2


async def test_a_record_that_is_dropped_is_saved(server: AppServer, path: Path) -> None:
    client = curlhttp.Client(transport=Record(path))
    client.get(server.url)
    del client
    gc.collect()
    assert len(entries(path)) == 1


async def test_a_file_that_cannot_be_written_keeps_the_old_one(
    server: AppServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with curlhttp.Client(transport=Record(path)) as client:
        client.get(server.url)
    before = path.read_bytes()
    client = curlhttp.Client(transport=Record(path, "new"))
    client.get(server.url + "/json")

    def fail(*arguments: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", fail)
        with pytest.raises(OSError, match="full"):
            client.close()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    client.close()
    assert len(entries(path)) == 2


async def test_a_recording_wraps_a_script_and_faults_wrap_a_recording(
    make_client: Make, path: Path
) -> None:
    engine = ScriptedEngine([Answer(content=[b"one ", b"two"]), Answer(503), 200])
    async with make_client(transport=Record(path).wrap(engine), retry=1) as client:
        async with await client.stream("GET", URL) as stream:
            assert await stream.read() == b"one two"
        assert (await client.get(URL)).status_code == 200
    assert [entry["response"]["status"] for entry in entries(path)] == [200, 503, 200]
    faulty = Chaos(1, cut=1).wrap(Record(path, "none"))
    async with make_client(transport=faulty) as client:
        async with await client.stream("GET", URL) as stream:
            with pytest.raises(ChunkedEncodingError, match="chaos"):
                await stream.read()


async def test_a_websocket_while_recording_is_opened_and_leaves_no_entry(
    make_client: Make, path: Path
) -> None:
    pytest.importorskip("websockets")
    with RawServer(speaking(echo)) as server:
        async with make_client(transport=Record(path, "all")) as client:
            async with await client.websocket(server.url.replace("http", "ws")) as socket:
                await socket.send("hello")
                assert await socket.recv() == "hello"
    assert not path.exists()


async def test_a_websocket_does_not_get_past_a_recording(make_client: Make, path: Path) -> None:
    pytest.importorskip("websockets")
    async with make_client(transport=Record(path, "none")) as client:
        with pytest.raises(AssertionError, match="only HTTP can be played back"):
            if client.is_blocking:
                with client.real.websocket("ws://127.0.0.1:1/"):
                    pass
            else:
                async with client.real.websocket("ws://127.0.0.1:1/"):
                    pass


# --- client.har ---


async def test_har_records_the_requests_within_it(
    make_client: Make, server: AppServer, path: Path
) -> None:
    async with make_client() as client:
        await client.get(server.url)
        async with client.real.har(path):
            await client.get(server.url + "/redirect/1")
            async with await client.stream("GET", server.url + "/bytes/10") as stream:
                await stream.read()
        await client.get(server.url)
    found = entries(path)
    assert [entry["response"]["status"] for entry in found] == [302, 200, 200]
    assert found[0]["timings"]["connect"] == -1  # the connection was there
    assert all(entry["time"] > 0 for entry in found)


async def test_har_has_errors_too(make_client: Make, path: Path) -> None:
    engine = ScriptedEngine([refused(), Answer(content=b"half", error=ChunkedEncodingError("cut"))])
    async with make_client(transport=engine) as client:
        with client.real.har(path):
            with pytest.raises(ConnectionError):
                await client.get(URL)
            with pytest.raises(ChunkedEncodingError):
                async with await client.stream("GET", URL) as stream:
                    await stream.read()
    first, second = entries(path)
    assert (first["response"]["status"], first["_error"][:15]) == (0, "ConnectionError")
    assert (second["response"]["status"], second["response"]["content"]["text"]) == (200, "half")
    assert second["_error"].startswith("ChunkedEncodingError")


async def test_har_sees_maps_and_those_within_it(
    make_client: Make, server: AppServer, path: Path, tmp_path: Path
) -> None:
    async with make_client() as client:
        async with client.map([server.url] * 2) as results:
            assert len([each async for each in results]) == 2
        with client.real.har(path), client.real.har(tmp_path / "inner.har"):
            async with client.map([server.url] * 3) as results:
                assert len([each async for each in results]) == 3
        async with client.map([server.url] * 2) as results:
            assert len([each async for each in results]) == 2
    assert len(entries(path)) == len(entries(tmp_path / "inner.har")) == 3


async def test_har_masks_the_given_names(make_client: Make, server: AppServer, path: Path) -> None:
    async with make_client() as client:
        with client.real.har(path, secrets=["iban"]):
            await client.get(server.url + "?iban=DE02")
    assert "DE02" not in path.read_text()


async def test_har_without_a_request_is_a_log_without_entries(
    make_client: Make, path: Path
) -> None:
    async with make_client() as client:
        with client.real.har(path):
            pass
    assert entries(path) == []


async def test_a_har_of_an_error_in_the_block_is_written(
    make_client: Make, server: AppServer, path: Path
) -> None:
    async with make_client() as client:
        with pytest.raises(ZeroDivisionError), client.real.har(path):
            await client.get(server.url)
            raise ZeroDivisionError
    assert len(entries(path)) == 1


async def test_a_cancelled_request_leaves_no_entry(
    make_client: Make, colour: str, path: Path
) -> None:
    if colour == "blocking":
        pytest.skip("nothing cancels a blocking call")

    def stall(conn: RawConnection) -> None:
        conn.read_request()
        conn.stall()

    with RawServer(stall) as raw:
        async with make_client() as client:
            with client.real.har(path):
                with anyio.move_on_after(0.05):
                    await client.get(raw.url)
    assert entries(path) == []


# --- what a log of client.har says besides the exchanges ---


def marks(path: Path) -> list[tuple[Any, ...]]:
    """Return what of each entry is ours, with its start in seconds and its status."""
    found = []
    for entry in entries(path):
        seconds = entry["startedDateTime"].rpartition(":")[2]
        names = ("_request", "_hedge", "_fromCache")
        values = (entry.get(name) for name in names)
        found.append((float(seconds[:-1]), entry["response"]["status"], *values))
    return found


async def test_the_attempts_of_a_request_have_its_number(make_client: Make, path: Path) -> None:
    moved = Answer(302, {"Location": "/there"})
    client = make_client(
        transport=ScriptedEngine([moved, 503, refused(), 200, 404]), retry=steady()
    )
    with client.real.har(path):
        await client.get(URL)
        await client.get(URL)
    assert [mark[1:3] for mark in marks(path)] == [(302, 1), (503, 1), (0, 1), (200, 1), (404, 2)]
    await client.aclose()


@pytest.mark.parametrize("stream", [False, True])
async def test_each_attempt_of_a_hedge_is_an_entry(
    make_client: Make, path: Path, stream: bool
) -> None:
    steps = [Answer(delay=9), Answer(503, delay=1), Answer(content=b"x", delay=1)]
    client = make_client(transport=ScriptedEngine(steps), hedge=curlhttp.Hedge(after=2, max=2))
    with client.real.har(path):
        response = await client.get(URL, stream=stream)
        if stream:
            assert (response.read() if client.is_blocking else await response.aread()) == b"x"
    assert marks(path) == [
        (40, 0, 1, "lost", None),
        (42, 0, 1, "lost", None),
        (44, 200, 1, "won", None),
    ]
    errors = [entry.get("_error") for entry in entries(path)]
    assert errors == [
        "cancelled, because another attempt won",
        "503, and another attempt continued",
        None,
    ]


async def test_the_first_attempt_of_a_hedge_may_win(make_client: Make, path: Path) -> None:
    steps = [Answer(content=b"x", delay=3), Answer(delay=9)]
    client = make_client(transport=ScriptedEngine(steps), hedge=curlhttp.Hedge(after=2))
    with client.real.har(path):
        await client.get(URL)
    assert marks(path) == [(40, 200, 1, "won", None), (42, 0, 1, "lost", None)]


async def test_a_request_that_needed_no_hedge_is_one_entry(make_client: Make, path: Path) -> None:
    client = make_client(transport=ScriptedEngine([200]), hedge=curlhttp.Hedge(after=2))
    with client.real.har(path):
        await client.get(URL)
    assert marks(path) == [(40, 200, 1, None, None)]


async def test_a_response_that_the_server_confirmed_is_one_entry(
    make_client: Make, path: Path
) -> None:
    fields = {"Cache-Control": "max-age=1", "ETag": '"1"'}
    engine = ScriptedEngine([Answer(content=b"kept", headers=fields), Answer(304, fields)])
    client = make_client(transport=engine, cache=curlhttp.Cache(":memory:"))
    with client.real.har(path):
        await client.get(URL)
        engine.advance(10)
        assert (await client.get(URL)).from_cache
    assert [mark[1:] for mark in marks(path)] == [(200, 1, None, None), (304, 2, None, None)]


async def test_a_response_from_the_cache_is_an_entry(make_client: Make, path: Path) -> None:
    answer = Answer(content=b"kept", headers={"Cache-Control": "max-age=60"})
    client = make_client(transport=ScriptedEngine([answer]), cache=curlhttp.Cache(":memory:"))
    with client.real.har(path):
        await client.get(URL)
        await client.get(URL)
    await client.get(URL)
    assert [mark[1:] for mark in marks(path)] == [(200, 1, None, None), (200, 2, None, "disk")]
    assert entries(path)[1]["response"]["content"]["text"] == "kept"
