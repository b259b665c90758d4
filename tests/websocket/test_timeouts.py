"""Every wait of a WebSocket ends on time, on every route, whatever its client did before."""

from __future__ import annotations

import select
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pycurl
import pytest

from curlhttp import Timeout
from curlhttp.exceptions import (
    ConnectTimeout,
    DeadlineExceeded,
    PoolTimeout,
    ReadTimeout,
    WebSocketRefused,
    WriteTimeout,
)
from tests.servers import HTTP1, HTTP2, AppConnection, Certs, H2Server, HTTPProxy, RawServer, Record
from tests.servers.routes import Out
from tests.servers.websocket import accept, echo
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.downloads import download
from tests.support.internals import wrap_stream_handles
from tests.support.pace import assert_in_time, paced

pytest.importorskip("websockets", reason="the extra ws is not installed")
pytestmark = pytest.mark.anyio

Make = Callable[..., AnyClient]

NEVER = 30.0
Route = tuple[str, str | None]
TLS: Route = ("https", None)
ROUTES: list[Route] = [("http", None), TLS, ("http/2", None)]
ROUTES += [(scheme, proxy) for proxy in ("http", "https") for scheme in ("http", "https")]


class Origin(H2Server):
    """The application, with WebSockets.

    Args:
        certs: of the server.
        scheme: "http", "https", or "http/2" for HTTP/2 on TLS where the client asks for it.
    """

    def __init__(self, certs: Certs, scheme: str) -> None:
        self.offers_http2 = scheme == "http/2"
        alpn = HTTP2 if self.offers_http2 else HTTP1
        super().__init__(None if scheme == "http" else certs.server_context(alpn=alpn))
        self.route("/ws", talk)
        self.route("/events", one_event)
        self.stream_route("/events", one_event)


def one_event(record: Record, out: Out) -> None:
    out.reply(200, b"data: 1\n\n", [("Content-Type", "text/event-stream")])


def talk(record: Record, conn: AppConnection) -> None:
    """Agree to the handshake and echo, or go silent at the step that the path names."""
    conn.closing = True
    match record.path:
        case "/ws/echo":
            conn.send(accept(record.raw))
            echo(conn)
        case "/ws/silent":
            conn.stall()
        case "/ws/refusal":
            conn.send(b"HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\nno")
            conn.stall()
        case "/ws/endless-refusal":
            conn.send(b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:  # line ends ahead of a chunk that never comes
                conn.send(b"\r\n" * 1000)
        case "/ws/mute":
            conn.send(accept(record.raw))
            conn.stall()
        case "/ws/deaf":
            conn.send(accept(record.raw))
            conn.listener.stopping.wait()


class Link:
    """A client and its connection to a server.

    Args:
        client: of any colour.
        origin: the server.
        proxy: in between, or None.
        folder: for a download.
    """

    def __init__(
        self, client: AnyClient, origin: Origin, proxy: HTTPProxy | None, folder: Path
    ) -> None:
        self.client = client
        self.origin = origin
        self.proxy = proxy
        self.folder = folder

    async def open(self, path: str, timeout: Timeout | None = None, **options: Any) -> Any:
        """Open a WebSocket; its waits are bounded in case that they should not end."""
        url = self.origin.url.replace("http", "ws", 1) + path
        limits = timeout or Timeout(total=NEVER)
        return await self.client.websocket(url, timeout=limits, **options)


# --- what a client may do before ---


async def get(link: Link) -> None:
    response = await link.client.get(link.origin.url + "/")
    assert response.http_version == ("HTTP/2" if link.origin.offers_http2 else "HTTP/1.1")


async def post(link: Link) -> None:
    response = await link.client.post(link.origin.url + "/echo", data=b"x")
    assert response.status_code == 200


async def stream_read(link: Link) -> None:
    url = link.origin.url + "/bytes/100000"
    async with await link.client.stream("GET", url) as stream:
        assert len(await stream.read()) == 100_000


async def stream_left(link: Link) -> None:
    url = link.origin.url + "/bytes/9000000"
    async with await link.client.stream("GET", url) as stream:
        async for piece in stream.iterate("bytes"):
            assert piece
            break


async def mapped(link: Link) -> None:
    urls = [link.origin.url + "/"] * 3
    async with link.client.map(urls) as results:
        assert [found.status_code async for found in results] == [200] * 3


async def downloaded(link: Link) -> None:
    await download(link.client, link.origin.url + "/bytes/1000", link.folder / "file")


async def events(link: Link) -> None:
    async with link.client.sse(link.origin.url + "/events", reconnect=False) as stream:
        assert [event.data async for event in stream] == ["1"]


async def websocket(link: Link) -> None:
    async with await link.open("/ws/echo") as ws:
        await ws.send("x")
        assert await ws.recv() == "x"


async def failed(link: Link) -> None:
    with pytest.raises(ReadTimeout):
        await link.open("/ws/silent", Timeout(read=paced(0.02), total=NEVER))


BEFORE = [
    get,
    post,
    stream_read,
    stream_left,
    mapped,
    downloaded,
    events,
    websocket,
    failed,
]


# --- what a WebSocket waits for ---


async def connecting(link: Link) -> None:
    short = Timeout(connect=paced(0.02), total=NEVER)
    if link.proxy is not None:
        link.proxy.stall_on_connect = True
        with pytest.raises(ConnectTimeout):
            await link.open("/ws/echo", short)
        with pytest.raises(DeadlineExceeded):
            await link.open("/ws/echo", Timeout(total=paced(0.02)))
        link.proxy.stall_on_connect = False
    with RawServer(lambda conn: conn.stall()) as silent:  # it makes no TLS handshake
        url = silent.url.replace("http", "wss", 1)
        with pytest.raises(ConnectTimeout):
            await link.client.websocket(url, timeout=short)
        with pytest.raises(DeadlineExceeded):
            await link.client.websocket(url, timeout=Timeout(total=paced(0.02)))


async def answering(link: Link) -> None:
    with pytest.raises(ReadTimeout):
        await link.open("/ws/silent", Timeout(read=paced(0.02), total=NEVER))
    with pytest.raises(DeadlineExceeded):
        await link.open("/ws/silent", Timeout(total=paced(0.02), read=NEVER))


async def being_refused(link: Link) -> None:
    silent = Timeout(read=paced(0.02), total=NEVER)
    for path, limits in (
        ("/ws/refusal", silent),
        ("/ws/refusal", Timeout(total=paced(0.05))),
        ("/ws/endless-refusal", Timeout(total=paced(0.05))),
    ):
        await refused(link, path, limits)


async def refused(link: Link, path: str, limits: Timeout) -> None:
    """Be refused by a server whose body continues after the limits, which its head may not do."""
    for factor in (1, 4, 16):  # a machine that stands still makes the head late, too
        longer = limits if factor == 1 else scaled(limits, factor)
        started = monotonic()
        try:
            with pytest.raises(WebSocketRefused):
                await link.open(path, longer)
        except (DeadlineExceeded, ReadTimeout):
            if factor == 16:
                raise
        else:
            assert_in_time(monotonic() - started, factor * paced(0.05), 1.0)
            return


def scaled(limits: Timeout, factor: float) -> Timeout:
    if limits.total == NEVER:
        assert limits.read is not None
        return Timeout(read=factor * limits.read, total=NEVER)
    assert limits.total is not None
    return Timeout(total=factor * limits.total)


async def waiting_for_a_place(link: Link) -> None:
    async with await link.open("/ws/echo"), await link.open("/ws/echo"):
        with pytest.raises(PoolTimeout):
            await link.open("/ws/echo", Timeout(pool=paced(0.02), total=NEVER))
        with pytest.raises(DeadlineExceeded):
            await link.open("/ws/echo", Timeout(total=paced(0.02)))


async def receiving(link: Link) -> None:
    async with await link.open("/ws/mute", close_timeout=paced(0.02)) as ws:
        with pytest.raises(ReadTimeout):
            await ws.recv(paced(0.02))


async def sending(link: Link) -> None:
    limits = Timeout(write=paced(0.05), total=NEVER)
    ws = await link.open("/ws/deaf", limits, close_timeout=paced(0.02), compression=None)
    for _ in range(2):
        with pytest.raises(WriteTimeout):
            for _ in range(100):
                await ws.send(bytes(2 << 20))
    await ws.close()


async def closing(link: Link) -> None:
    for path in ("/ws/mute", "/ws/deaf"):
        ws = await link.open(path, close_timeout=paced(0.02))
        await ws.close(1001)
        assert ws.real.close_code == 1001


WAITS = [
    connecting,
    answering,
    being_refused,
    waiting_for_a_place,
    receiving,
    sending,
    closing,
]


async def talk_once(link: Link) -> None:
    """Open, send, receive and close, on a single connection."""
    before = link.origin.connections
    async with await link.open("/ws/echo") as ws:
        await ws.send("hello")
        await ws.ping()
        assert await ws.recv() == "hello"
    assert ws.real.close_code == 1000
    # One that a connect timeout gave up may be accepted late.
    assert 1 <= link.origin.connections - before <= 2


@pytest.fixture
def link(
    make_client: Make, certs: Certs, tmp_path: Path, scheme: str, through: str | None
) -> Iterator[Link]:
    with ExitStack() as stack:
        origin = stack.enter_context(Origin(certs, scheme))
        proxy = None
        if through is not None:
            context = certs.server_context() if through == "https" else None
            proxy = stack.enter_context(HTTPProxy(context=context))
        yield Link(
            make_client(
                http2=True,
                max_connections=2,
                timeout=Timeout(total=NEVER),
                proxies=None if proxy is None else proxy.url,
            ),
            origin,
            proxy,
            tmp_path,
        )


@pytest.mark.parametrize("before", BEFORE, ids=lambda step: step.__name__)
@pytest.mark.parametrize(
    ("scheme", "through"),
    [link if link == TLS else pytest.param(*link, marks=pytest.mark.slow) for link in ROUTES],
)
async def test_it_is_opened_once_whatever_happened_before(
    link: Link, before: Callable[[Link], Awaitable[None]]
) -> None:
    with anyio.fail_after(NEVER):
        for _ in range(2):
            await before(link)
            await talk_once(link)


@pytest.mark.parametrize("before", BEFORE, ids=lambda step: step.__name__)
@pytest.mark.parametrize(("scheme", "through"), [TLS])
@WITHOUT_UVLOOP
async def test_each_wait_ends_whatever_happened_before(
    link: Link, before: Callable[[Link], Awaitable[None]]
) -> None:
    for wait in WAITS:
        await before(link)
        with anyio.fail_after(NEVER):
            await wait(link)
    await talk_once(link)


@pytest.mark.parametrize(("scheme", "through"), [TLS])
async def test_libcurl_gets_one_record_at_a_time_where_it_would_wait_for_the_rest(
    link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Schannel, its send returns when all is sent, however long the server reads nothing."""
    sizes: list[int] = []

    class Watched:
        def __init__(self, easy: Any) -> None:
            self._easy = easy

        def send(self, data: Any) -> int:
            sizes.append(len(data))
            assert select.select([], [self._easy.getinfo(pycurl.ACTIVESOCKET)], [], 0)[1]
            sent: int = self._easy.send(data)
            return sent

        def __getattr__(self, name: str) -> Any:
            return getattr(self._easy, name)

    wrap_stream_handles(monkeypatch, Watched)
    await sending(link)
    async with await link.open("/ws/echo", compression=None) as ws:
        await ws.send(bytes(1 << 20))
        assert await ws.recv() == bytes(1 << 20)
    assert max(sizes) == 16 * 1024


@pytest.mark.slow
@pytest.mark.parametrize("wait", WAITS, ids=lambda step: step.__name__)
@pytest.mark.parametrize(("scheme", "through"), [link for link in ROUTES if link != TLS])
async def test_each_wait_ends_on_every_route(
    link: Link, wait: Callable[[Link], Awaitable[None]]
) -> None:
    await get(link)
    with anyio.fail_after(NEVER):
        await wait(link)
    await talk_once(link)
