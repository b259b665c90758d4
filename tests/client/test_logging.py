"""The logger "curlhttp": a line for each request at INFO, and libcurl's steps at DEBUG."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import curlhttp
from curlhttp import requests
from tests.servers import AppServer, H2Server, HTTPProxy, RawServer
from tests.servers.websocket import echo, speaking
from tests.support.colours import AnyClient

pytestmark = pytest.mark.anyio


class _Lines(logging.Handler):
    """Keeps log records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, level: int) -> list[str]:
        return [r.getMessage() for r in self.records if r.levelno == level]

    @property
    def text(self) -> str:
        return "\n".join(record.getMessage() for record in self.records)

    def wire(self, mark: str) -> list[str]:
        """Return the lines with a mark, without their number and time."""
        found = [re.match(rf"#\d+ \+[\d.]+ {mark} (.*)", line) for line in self.of(logging.DEBUG)]
        return [match[1] for match in found if match]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("curlhttp")
    yield found
    found.setLevel(logging.NOTSET)
    for handler in list(found.handlers):
        found.removeHandler(handler)


@pytest.fixture
def lines(logger: logging.Logger) -> _Lines:
    handler = _Lines()
    logger.addHandler(handler)
    return handler


async def test_each_redirect_logs_a_line_at_info(
    client: AnyClient, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    await client.get(f"{app.url}/redirect/1")
    assert lines.records == []
    logger.setLevel(logging.INFO)
    await client.get(f"{app.url}/redirect/1?token=abc")
    assert lines.of(logging.INFO) == [
        f'HTTP Request: GET {app.url}/redirect/1?token=*** "HTTP/1.1 302 Found"',
        f'HTTP Request: GET {app.url}/ "HTTP/1.1 200 OK"',
    ]
    assert lines.of(logging.DEBUG) == []
    logger.setLevel(logging.NOTSET)
    await client.get(app.url)
    assert len(lines.records) == 2


async def test_each_attempt_logs_a_line_at_info(
    make_client: Any, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.INFO)
    client = make_client(retry=2)
    await client.get(f"{app.url}/status/503")
    sent = [line for line in lines.of(logging.INFO) if line.startswith("HTTP Request")]
    assert (
        sent == [f'HTTP Request: GET {app.url}/status/503 "HTTP/1.1 503 Service Unavailable"'] * 3
    )


async def test_the_heads_are_logged_as_they_were_on_the_wire(
    client: AnyClient, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    await client.post(f"{app.url}/echo", content=b"12345", headers={"X-Odd": "a  b:c"})
    (record,) = app.requests
    sent = record.raw.decode().split("\r\n")
    assert lines.wire(">") == sent[:-1]  # a head ends with an empty line
    assert "X-Odd: a  b:c" in sent
    received = lines.wire("<")
    assert received[0] == "HTTP/1.1 200 OK"
    assert "Content-Type: application/json" in received
    assert received[-1] == ""
    assert "* 5 bytes of body sent" in lines.text


async def test_the_connection_is_logged_and_its_reuse(
    client: AnyClient, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    url = app.url.replace("127.0.0.1", "localhost")
    await client.get(url)
    notes = lines.wire(r"\*")
    assert any(re.match(r"Host localhost:\d+ was resolved", note) for note in notes)
    assert "IPv4: 127.0.0.1" in notes
    assert any("Established connection to localhost (127.0.0.1 port" in note for note in notes)
    assert re.search(r"times: .*dns [\d.]+ s, .*; new connection", lines.text)
    lines.records.clear()
    await client.get(url)
    assert "Reusing existing http: connection with host localhost" in lines.wire(r"\*")
    assert lines.text.count("; reused connection") == 1


async def test_a_closed_idle_connection_is_logged_as_the_reason_for_a_new_one(
    client: AnyClient, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    def end(record: Any, conn: Any) -> None:
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        conn.closing = True  # without a word

    app.route("/end", end)
    await client.get(f"{app.url}/end")
    logger.setLevel(logging.DEBUG)
    await client.get(app.url)
    notes = "\n".join(lines.wire(r"\*"))
    assert re.search("seems to be dead|another connection: |Connection died", notes)
    assert "Established connection" in notes


@pytest.mark.parametrize("http2", [True, False])
async def test_tls_is_logged_with_version_authority_and_alpn(
    make_client: Any, h2_app: H2Server, logger: logging.Logger, lines: _Lines, http2: bool
) -> None:
    logger.setLevel(logging.DEBUG)
    await make_client(http2=http2).get(f"{h2_app.url}/echo", headers={"Cookie": "a=hidden"})
    notes = "\n".join(lines.wire(r"\*"))
    assert re.search(r"SSL connection using TLSv1.3 / TLS_\w+", notes)
    assert re.search(r"subject: .*trustme", notes)
    assert re.search(r"issuer: .*Testing CA", notes)
    assert f"ALPN: server accepted {'h2' if http2 else 'http/1.1'}" in notes
    assert lines.wire(">")[0] == f"GET /echo HTTP/{'2' if http2 else '1.1'}"
    assert "Cookie: [secret]" in lines.wire(">")
    assert "hidden" not in lines.text


async def test_no_credential_is_logged(
    make_client: Any, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    with HTTPProxy(credentials=("hidden-user", "hidden-word")) as server:
        proxy = server.url.replace("://", "://hidden-user:hidden-word@")
        client = make_client(
            auth=("hidden", "hidden"), proxies=proxy, sensitive_headers=["X-Mine"], verify=False
        )
        await client.get(
            f"{app.url}/echo?password=hidden",
            headers={
                "X-Mine": "hidden",
                "X-Api-Key": "hidden",
                "Referer": "http://a/?token=hidden",
                "Cookie": "a=hidden",
            },
        )
    assert "X-Mine: [secret]" in lines.wire(">")
    assert "Proxy-Authorization: [secret]" in lines.wire(">")
    assert "Authorization: [secret]" in lines.wire(">")
    assert "password=***" in lines.text
    assert "hidden" not in lines.text


async def test_a_server_cannot_inject_log_lines(
    client: AnyClient, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    raw = b"HTTP/1.1 200 O\x1b[2J\xe9\r\nX: \x1b[31m\xff\r\nContent-Length: 0\r\n\r\n"
    app.route("/odd", lambda record, conn: conn.send(raw))
    await client.get(f"{app.url}/odd")
    assert r"X: \x1b[31m\xff" in lines.wire("<")
    assert lines.text.replace("\n", "").isprintable()
    assert lines.text.isascii()


async def test_the_log_of_an_attempt_is_bounded(
    client: AnyClient, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    field = b"X-Long: " + b"x" * 1000 + b"\r\n"
    raw = b"HTTP/1.1 200 OK\r\n" + field * 200 + b"Content-Length: 0\r\n\r\n"
    app.route("/long", lambda record, conn: conn.send(raw))
    await client.get(f"{app.url}/long")
    assert len(lines.text) < 90_000
    assert "the rest is left out" in lines.text
    assert lines.of(logging.INFO)


async def test_a_failed_request_is_logged_with_its_earlier_events(
    client: AnyClient, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    app.route("/cut", _cut)
    with pytest.raises(curlhttp.RequestException):
        await client.get(f"{app.url}/cut?key=hidden")
    assert lines.wire("<")[0] == "HTTP/1.1 200 OK"
    assert re.search(r"#\d+ failed: \w+: ", lines.text)
    assert "hidden" not in lines.text
    assert lines.of(logging.INFO) == []


def _cut(record: Any, conn: Any) -> None:
    conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123")
    conn.closing = True


async def test_a_streamed_response_is_logged_when_its_head_is_there(
    client: AnyClient, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    async with await client.stream("GET", f"{app.url}/bytes/100") as response:
        assert lines.wire("<")[0] == "HTTP/1.1 200 OK"
        assert len(lines.of(logging.INFO)) == 1
        assert len(await response.read()) == 100


async def test_a_handler_that_raises_breaks_no_request(
    client: AnyClient,
    app: AppServer,
    logger: logging.Logger,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise ZeroDivisionError("of the handler")

    logger.addHandler(Broken())
    logger.setLevel(logging.DEBUG)
    for _ in range(2):
        assert (await client.get(app.url)).content == b"hello"
    assert capsys.readouterr().err.count("ZeroDivisionError: of the handler") == 2


async def test_a_handler_that_raises_breaks_no_retry_and_no_hook(
    make_client: Any, logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise ZeroDivisionError("of the handler")

    def fail(event: object) -> None:
        raise ValueError("of the hook")

    logger.addHandler(Broken())
    logger.setLevel(logging.INFO)
    with pytest.raises(curlhttp.ConnectionError) as raised:
        await make_client(retry=1, hooks={"before_attempt": fail}).get("http://127.0.0.1:1/")
    assert len(raised.value.attempts) == 2
    assert "ZeroDivisionError: of the handler" in capsys.readouterr().err


async def test_a_handler_that_keeps_records_keeps_nothing_of_a_request(
    make_client: Any, logger: logging.Logger
) -> None:
    """An error would keep its traceback, and so frames, the engine and its handles."""
    kept: list[logging.LogRecord] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record)

    logger.addHandler(Keeps())
    logger.setLevel(logging.DEBUG)
    with pytest.raises(curlhttp.ConnectionError):
        await make_client(retry=1).get("http://127.0.0.1:1/")
    arguments = [each for record in kept for each in record.args or ()]
    assert arguments
    assert {type(each) for each in arguments} <= {str, int, float}


async def test_a_handler_may_send_requests_with_the_same_client(
    make_client: Any, app: AppServer, logger: logging.Logger
) -> None:
    client = make_client()
    seen: list[int] = []

    class Sends(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(sender.get(app.url).status_code)

    with curlhttp.Client() as other:
        sender = client.real if client.is_blocking else other
        logger.addHandler(Sends())
        logger.setLevel(logging.DEBUG)
        assert (await client.get(app.url)).content == b"hello"
        assert len(seen) > 5  # a line each, and none for those that were sent meanwhile
        assert set(seen) == {200}
        assert len(app.requests) == len(seen) + 1


async def test_requests_of_many_threads_keep_their_lines_together(
    app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    with curlhttp.Client() as client:
        threads = [
            threading.Thread(target=client.get, args=(f"{app.url}/echo?n={n}",)) for n in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    by_number: dict[str, set[str]] = {}
    for line in lines.of(logging.DEBUG):
        number = line.split()[0]
        by_number.setdefault(number, set()).update(re.findall(r"n=(\d+)", line))
    assert sorted(by_number.values(), key=min) == sorted(({str(n)} for n in range(20)), key=min)


async def test_a_hedged_request_has_the_lines_of_both_attempts(
    make_client: Any, app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    come = threading.Event()

    def slow_once(record: Any, conn: Any) -> None:
        if not come.is_set():
            come.set()
            threading.Event().wait(0.5)
        conn.reply(200, b"x")

    app.route("/slow", slow_once)
    client = make_client(hedge=curlhttp.Hedge(after=0.05))
    response = await client.get(f"{app.url}/slow")
    assert lines.wire(">").count("GET /slow HTTP/1.1") == 2
    assert not response.request.extensions


async def test_extensions_are_as_they_were_after_the_request(
    client: AnyClient, app: AppServer, logger: logging.Logger
) -> None:
    logger.setLevel(logging.DEBUG)
    response = await client.get(app.url)
    assert response.request.extensions is None


def test_a_map_is_logged(app: AppServer, logger: logging.Logger, lines: _Lines) -> None:
    logger.setLevel(logging.DEBUG)
    with curlhttp.Client() as client:
        assert len(list(client.map([f"{app.url}/echo"] * 3))) == 3
    assert len(lines.of(logging.INFO)) == 3
    assert lines.wire(">").count("GET /echo HTTP/1.1") == 3


def test_a_session_of_the_drop_in_is_logged(
    app: AppServer, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.DEBUG)
    with requests.Session() as session:
        session.get(f"{app.url}/echo", auth=("hidden", "hidden"))
        with session.get(f"{app.url}/bytes/9", stream=True) as response:
            assert len(response.content) == 9
    assert len(lines.of(logging.INFO)) == 2
    assert "Authorization: [secret]" in lines.wire(">")
    assert "GET /bytes/9 HTTP/1.1" in lines.wire(">")
    assert "hidden" not in lines.text


async def test_a_mock_is_logged_too(
    make_client: Any, scripted: Any, logger: logging.Logger, lines: _Lines
) -> None:
    logger.setLevel(logging.INFO)
    client, _ = scripted([200])
    await client.get("http://example.test/?api_key=hidden")
    assert lines.of(logging.INFO) == [
        'HTTP Request: GET http://example.test/?api_key=*** "HTTP/1.1 200 OK"'
    ]


async def test_the_heads_of_a_websocket_are_logged(
    client: AnyClient, logger: logging.Logger, lines: _Lines
) -> None:
    pytest.importorskip("websockets", reason="the extra ws is not installed")
    logger.setLevel(logging.DEBUG)
    with RawServer(speaking(echo)) as server:
        url = server.url.replace("http", "ws") + "/echo?token=hidden"
        async with await client.websocket(url, headers={"Cookie": "a=hidden"}):
            pass
    text = lines.text
    assert re.search(r"^#\d+ > GET /echo\?token=\*\*\* HTTP/1.1$", text, re.MULTILINE)
    assert re.search(r"^#\d+ > Cookie: \[secret\]$", text, re.MULTILINE)
    assert re.search(r"^#\d+ < HTTP/1.1 101 ", text, re.MULTILINE)
    assert "Established connection" in text
    assert "hidden" not in text
    assert len(lines.of(logging.INFO)) == 1


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_transport_of_httpx_is_logged_at_debug_alone(
    app: AppServer, logger: logging.Logger, lines: _Lines, is_async: bool
) -> None:
    httpx = pytest.importorskip("httpx")
    import curlhttp.httpx

    logger.setLevel(logging.DEBUG)
    url = f"{app.url}/echo?token=hidden"
    if is_async:
        async with httpx.AsyncClient(transport=curlhttp.httpx.AsyncTransport()) as client:
            await client.get(url)
    else:
        with httpx.Client(transport=curlhttp.httpx.Transport()) as client:
            client.get(url)
    assert "GET /echo?token=*** HTTP/1.1" in lines.wire(">")
    assert "HTTP/1.1 200 OK" in lines.wire("<")
    assert lines.of(logging.INFO) == []
    assert "hidden" not in lines.text
