"""The opening handshake of a WebSocket (RFC 6455, section 4.1): what is asked, and what is good.

It goes through all layers of the client, as any request. Each attempt has a key of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from curlhttp._client.request_builder import DownloadOptions
from curlhttp._engine.engine import Engine, Send
from curlhttp._flow.upgrade import Upgraded, upgrade
from curlhttp._models.redaction import display_text, display_url
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._models.url import URL
from curlhttp.exceptions import (
    InvalidSchema,
    InvalidURL,
    RemoteProtocolError,
    WebSocketRefused,
)

if TYPE_CHECKING:
    from websockets.client import ClientProtocol

    from curlhttp._client.base import BaseClient

_SCHEME = re.compile(r"\s*ws(s?):", re.IGNORECASE).match
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_OWN = ("upgrade", "connection", "sec-websocket-")
_SHOWN = 200  # characters of an address that a server sent


Wanted: TypeAlias = tuple[
    Sequence[str], str | None, int | None, float | None, float | None, float | None
]
"""What Settings are made of, in that order."""


class Settings(NamedTuple):
    """What a caller wants of a WebSocket, checked.

    Attributes:
        subprotocols: names, the best first.
        compression: "deflate", or None for none.
        max_size: bytes that a message may have, decompressed, or None.
        ping_interval: seconds between two pings, or None for none.
        ping_timeout: seconds that a pong may take, or None.
        close_timeout: seconds that the end may take, or None.
    """

    subprotocols: tuple[str, ...]
    compression: str | None
    max_size: int | None
    ping_interval: float | None
    ping_timeout: float | None
    close_timeout: float | None

    @classmethod
    def of(
        cls,
        subprotocols: Sequence[str],
        compression: str | None,
        max_size: int | None,
        ping_interval: float | None,
        ping_timeout: float | None,
        close_timeout: float | None,
    ) -> Settings:
        """Return settings that make sense.

        Raises:
            TypeError: the subprotocols are one string, or max_size is no whole number.
            ValueError: one of them has no sense.
        """
        if isinstance(subprotocols, (str, bytes)):
            raise TypeError("subprotocols must be a list of names, not one string")
        names = tuple(subprotocols)
        for name in names:
            if not isinstance(name, str) or not _TOKEN(name):
                raise ValueError(f"the subprotocol {name!r} is not a token (RFC 6455, 4.1)")
        if len(set(names)) < len(names):
            raise ValueError("subprotocols must not repeat")
        if compression not in ("deflate", None):
            raise ValueError(f"compression must be 'deflate' or None, not {compression!r}")
        if max_size is not None and not isinstance(max_size, int):
            raise TypeError(f"max_size must be a whole number of bytes, or None, not {max_size!r}")
        if max_size is not None and max_size < 1:
            raise ValueError(f"max_size must be at least 1 byte, or None, not {max_size}")
        limits = (
            ("ping_interval", ping_interval),
            ("ping_timeout", ping_timeout),
            ("close_timeout", close_timeout),
        )
        for limit, seconds in limits:
            if seconds is not None and not seconds > 0:
                raise ValueError(f"{limit} must be more than 0 seconds, or None, not {seconds}")
        return cls(names, compression, max_size, ping_interval, ping_timeout, close_timeout)


async def shake_hands(
    client: BaseClient,
    choose: Callable[[], Engine],
    url: str | bytes | URL,
    settings: Settings,
    options: DownloadOptions,
) -> tuple[Upgraded, ClientProtocol]:
    """Shake hands with a server; return its response and what speaks the protocol from there.

    Args:
        client: the client, whose layers the handshake goes through.
        choose: gives the engine.
        url: ws, wss, http or https, or relative to base_url.
        settings: what the caller wants.
        options: those of build_request, without the body's.

    Raises:
        WebSocketRefused: the server answered, and did not open one.
        RequestException: no answer came, or a wrong one.
    """
    make_protocol = _make_protocol_factory(settings)
    request = _request(client, url, options)
    handshake = _Handshake(make_protocol)
    send = client.chain.build(
        upgrade(choose, client.clock.now),
        client.clock,
        client.make_waiter,
        within_retry=handshake.around,
        plain=client.exchange,
    )
    response = await send(request)
    if not isinstance(response, Upgraded) or handshake.protocol is None:
        raise _refusal(response)
    return response, handshake.protocol


class WebSocketRequest(Request):
    """A request for a WebSocket, which messages show with the scheme that users write."""

    __slots__ = ()

    def __str__(self) -> str:
        return super().__str__().replace(" http", " ws", 1)


def _request(client: BaseClient, url: str | bytes | URL, options: DownloadOptions) -> Request:
    for name in options:
        if name not in DownloadOptions.__annotations__:
            from curlhttp._models.suggestions import no_option

            other = "send what you have over the socket"
            raise no_option("websocket()", name, DownloadOptions.__annotations__, other)
    if options.get("follow_redirects") or options.get("allow_redirects"):
        raise ValueError("redirects of a WebSocket's handshake are not followed")
    try:
        request = client.build_request("GET", _as_http(url), stream=True, **options)
    except InvalidSchema:
        raise InvalidSchema(
            f"{display_url(str(url))!r} is no WebSocket's URL: those begin with ws:// or wss://"
        ) from None
    if request.url.fragment:
        raise InvalidURL(f"{request}: a WebSocket's URL has no fragment (RFC 6455, section 3)")
    for name, _ in request.headers.multi_items():
        if name.lower().startswith(_OWN):
            raise ValueError(f"websocket() sets the header {name} by itself: leave it out")
    request.follow_redirects = False  # as in browsers
    return request.as_kind(WebSocketRequest)


def _as_http(url: str | bytes | URL) -> str | URL:
    """Return a URL with the scheme of HTTP that the one of WebSockets stands for."""
    if isinstance(url, URL):
        return url
    text = url.decode("latin-1") if isinstance(url, bytes) else url
    found = _SCHEME(text)
    return text if found is None else f"http{found[1].lower()}:{text[found.end() :]}"


def _make_protocol_factory(settings: Settings) -> Callable[[], ClientProtocol]:
    """Return what makes a protocol for one attempt.

    Raises:
        ImportError: the package for it is not installed.
    """
    try:
        from websockets.client import ClientProtocol
        from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
        from websockets.frames import Frame, Opcode
        from websockets.protocol import State
        from websockets.typing import Subprotocol
        from websockets.uri import WebSocketURI
    except ImportError as error:
        raise ImportError("WebSockets need a package: pip install 'curlhttp[ws]'") from error
    subprotocols = [Subprotocol(name) for name in settings.subprotocols]

    class Protocol(ClientProtocol):
        def recv_frame(self, frame: Frame) -> None:
            if frame.opcode is Opcode.PING:
                # Not answered here: pongs must not pile up while the server takes none.
                self.events.append(frame)
                return
            if frame.opcode is Opcode.CLOSE:
                # It may come between the pieces of a message (RFC 6455, section 5.4), and ends it.
                self.current_size = None
            super().recv_frame(frame)

    def make() -> ClientProtocol:
        return Protocol(
            WebSocketURI(False, "", 80, "/", ""),  # who is asked, the request knows
            subprotocols=subprotocols or None,
            extensions=(
                # memLevel: a connection costs 64 KiB of memory less, and little compression
                [ClientPerMessageDeflateFactory(compress_settings={"memLevel": 5})]
                if settings.compression
                else None
            ),
            state=State.OPEN,
            max_size=settings.max_size,
        )

    return make


class _Handshake:
    """Asks for a WebSocket in each attempt, and looks at the answer.

    Attributes:
        protocol: speaks it, once the server agreed.
    """

    def __init__(self, make_protocol: Callable[[], ClientProtocol]) -> None:
        self._make_protocol = make_protocol
        self.protocol: ClientProtocol | None = None

    def around(self, send: Send) -> Send:
        """Make the handshake a part of each attempt (a layer)."""

        async def shaking(request: Request) -> Response:
            protocol = self._make_protocol()
            outgoing = request.copy()
            for name, value in protocol.connect().headers.raw_items():
                if name != "Host":
                    outgoing.headers[name] = value
            response = await send(outgoing)
            if isinstance(response, Upgraded):
                _check(protocol, response)
                self.protocol = protocol
            return response

        return shaking


def _check(protocol: ClientProtocol, response: Upgraded) -> None:
    """Let the protocol look at the answer.

    Raises:
        RemoteProtocolError: it is no consent to what was asked.
    """
    from websockets.datastructures import Headers
    from websockets.http11 import Response as Answer

    try:
        fields = Headers(response.headers.multi_items())
        protocol.process_response(Answer(response.status_code, response.reason, fields))
    except Exception as error:  # whatever it makes of a server's garbage
        response.end()
        wrong = RemoteProtocolError(
            f"{response.request}: the server's answer to the WebSocket handshake is wrong: "
            f"{display_text(str(error))}",
            response=response,
            request_sent=True,
        )
        wrong.is_lasting = True
        raise wrong from None


def _refusal(response: Response) -> WebSocketRefused:
    where = ""
    if response.is_redirect:
        shown = display_url(response.headers["location"])[:_SHOWN]
        where = f"; it redirects to {shown!r}, and redirects are not followed here"
    return WebSocketRefused(
        f"{response.request}: the server answered {response.status_code} "
        f"{display_text(response.reason)} to the WebSocket handshake{where}",
        response=response,
        request_sent=True,
        timings=response.timings,
    )
