"""The opening handshake of a WebSocket: send the request and check the response.

It passes through all layers of the client, like any request. Each attempt has a new key.

Source: RFC 6455, section 4.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from curlhttp._client.chain import HANDSHAKE
from curlhttp._client.request_builder import check_options, check_raises
from curlhttp._features.upgrade import Upgraded, upgrade
from curlhttp._http.errors import check_number
from curlhttp._http.redaction import display_text, display_url
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.unset import USE_CLIENT_DEFAULT
from curlhttp._http.url import URL, decode_reference
from curlhttp._runtime.engine import Engine, Send
from curlhttp.exceptions import (
    InvalidSchema,
    InvalidURL,
    RemoteProtocolError,
    WebSocketRefused,
)

if TYPE_CHECKING:
    from websockets.client import ClientProtocol

    from curlhttp._client.base import BaseClient
    from curlhttp._client.options import DownloadOptions

_SCHEME = re.compile(r"\s*ws(s?):", re.IGNORECASE).match
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_OWN_HEADERS = ("upgrade", "connection", "sec-websocket-")
_MAX_SHOWN = 200  # characters of the Location of a redirect


class Settings(NamedTuple):
    """The validated settings of a WebSocket.

    Attributes:
        subprotocols: names in order of preference.
        compression: "deflate", or None.
        max_size: the maximum size of a decompressed message in bytes, or None.
        ping_interval: seconds from a pong to the next ping, or None to send none.
        ping_timeout: seconds that the server may be silent after a ping, or None.
        close_timeout: seconds that the server may take to close, or None.
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
        """Validate the arguments of Client.websocket.

        Raises:
            TypeError: the subprotocols are one string, or max_size is not a whole number.
            ValueError: an argument is invalid.
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
        check_number("max_size", max_size, least=1, whole=True, unit="bytes", optional=True)
        limits = (
            ("ping_interval", ping_interval),
            ("ping_timeout", ping_timeout),
            ("close_timeout", close_timeout),
        )
        for limit, seconds in limits:
            check_number(limit, seconds, above=0, unit="seconds", optional=True)
        return cls(names, compression, max_size, ping_interval, ping_timeout, close_timeout)


async def shake_hands(
    client: BaseClient,
    get_engine: Callable[[], Engine],
    url: str | bytes | URL,
    settings: Settings,
    options: DownloadOptions,
) -> tuple[Upgraded, ClientProtocol]:
    """Perform the opening handshake; return the response, and the protocol for the messages.

    Args:
        client: the handshake passes through its layers.
        get_engine: returns the engine.
        url: ws, wss, http or https, or relative to base_url.
        settings: the settings of the WebSocket.
        options: those of build_request, except for the body.

    Raises:
        WebSocketRefused: the server responded with a status other than 101.
        RequestException: no response was received, or the response was invalid.
    """
    make_protocol = _make_protocol_factory(settings)
    request = _build_request(client, url, options)
    handshake = _Handshake(make_protocol)
    send = client._chain.build(
        upgrade(get_engine, client._runtime.now, client._totals.outcomes, client._wrappers),
        client._runtime,
        kind=HANDSHAKE,
        own=handshake.wrap,
        plain=client._exchange,
    )
    response = await send(request)
    if not isinstance(response, Upgraded) or handshake.protocol is None:
        raise _make_refusal(response)
    return response, handshake.protocol


class WebSocketRequest(ClientRequest):
    """A request for a WebSocket. Its str() shows the scheme ws or wss."""

    __slots__ = ()
    _opens_websocket = True

    def __str__(self) -> str:
        return super().__str__().replace(" http", " ws", 1)


def _build_request(
    client: BaseClient, url: str | bytes | URL, options: DownloadOptions
) -> ClientRequest:
    other = "send data over the WebSocket instead"
    check_options(client, "websocket", options, other)
    check_raises("websocket", options)
    follows = [options.get("follow_redirects"), options.get("allow_redirects")]
    if any(each and each is not USE_CLIENT_DEFAULT for each in follows):
        raise ValueError("redirects of a WebSocket's handshake are not followed")
    try:
        request = client.build_request("GET", _to_http_url(url), stream=True, **options)
    except InvalidSchema:
        raise InvalidSchema(
            f"{display_url(str(url))!r} is not the URL of a WebSocket: use ws:// or wss://"
        ) from None
    if request.url.fragment:
        raise InvalidURL(
            f"{request}: the URL of a WebSocket cannot have a fragment (RFC 6455, section 3)"
        )
    for name, _ in request.headers.multi_items():
        if name.lower().startswith(_OWN_HEADERS):
            raise ValueError(f"websocket() sets the header {name}: omit it")
    request.follow_redirects = False  # as in browsers
    return request.as_kind(WebSocketRequest)


def _to_http_url(url: str | bytes | URL) -> str | URL:
    """Return a URL with http instead of ws, and https instead of wss."""
    if isinstance(url, URL):
        return url
    text = url.decode(errors="surrogateescape") if isinstance(url, bytes) else url
    found = _SCHEME(text)
    return text if found is None else f"http{found[1].lower()}:{text[found.end() :]}"


def _make_protocol_factory(settings: Settings) -> Callable[[], ClientProtocol]:
    """Return a function that makes the protocol of one attempt.

    Raises:
        ImportError: the extra ws is missing.
    """
    try:
        from websockets.client import ClientProtocol
        from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
        from websockets.frames import Frame, Opcode
        from websockets.protocol import State
        from websockets.typing import Subprotocol
        from websockets.uri import WebSocketURI
    except ImportError as error:
        raise ImportError("WebSockets need websockets: pip install 'curlhttp[ws]'") from error
    subprotocols = [Subprotocol(name) for name in settings.subprotocols]

    class Protocol(ClientProtocol):
        def recv_frame(self, frame: Frame) -> None:
            if frame.opcode is Opcode.PING:
                # The connection answers it: pongs must not pile up while the server does not read.
                self.events.append(frame)
                return
            if frame.opcode is Opcode.CLOSE:
                # It ends an incomplete message: it may arrive between fragments (section 5.4).
                self.current_size = None
            super().recv_frame(frame)

    def make() -> ClientProtocol:
        return Protocol(
            WebSocketURI(False, "", 80, "/", ""),  # unused: the request has the URL
            subprotocols=subprotocols or None,
            extensions=(
                # memLevel 5 saves 64 KiB of memory per connection and costs little compression.
                [ClientPerMessageDeflateFactory(compress_settings={"memLevel": 5})]
                if settings.compression
                else None
            ),
            state=State.OPEN,
            max_size=settings.max_size,
        )

    return make


class _Handshake:
    """Add the header fields of the handshake to each attempt, and check the response.

    Attributes:
        protocol: the protocol of the successful attempt, or None.
    """

    def __init__(self, make_protocol: Callable[[], ClientProtocol]) -> None:
        self._make_protocol = make_protocol
        self.protocol: ClientProtocol | None = None

    def wrap(self, send: Send) -> Send:
        """Perform a handshake in each attempt (a layer)."""

        async def shake(request: ClientRequest) -> Response:
            protocol = self._make_protocol()
            outgoing = request.copy()
            for name, value in protocol.connect().headers.raw_items():
                if name != "Host":
                    outgoing.headers[name] = value
            response = await send(outgoing)
            if isinstance(response, Upgraded):
                _check_response(protocol, response)
                self.protocol = protocol
            return response

        return shake


def _check_response(protocol: ClientProtocol, response: Upgraded) -> None:
    """Let the protocol check the response.

    Raises:
        RemoteProtocolError: the response does not accept this handshake.
    """
    from websockets.datastructures import Headers
    from websockets.http11 import Response as WebSocketsResponse

    try:
        fields = Headers(response.headers.multi_items())
        protocol.process_response(WebSocketsResponse(response.status_code, response.reason, fields))
    except Exception as error:  # a malformed response may raise anything
        response.end()
        invalid = RemoteProtocolError(
            f"{response.request}: the server's response to the WebSocket handshake is invalid: "
            f"{display_text(str(error))}",
            response=response,
            request_sent=True,
        )
        invalid.is_lasting = True
        raise invalid from None


def _make_refusal(response: Response) -> WebSocketRefused:
    where = ""
    if response.is_redirect:
        shown = display_url(decode_reference(response.headers["location"]))[:_MAX_SHOWN]
        where = f"; it redirects to {shown!r}, and redirects are not followed here"
    return WebSocketRefused(
        f"{response.request}: the server responded with {response.status_code} "
        f"{display_text(response.reason)} to the WebSocket handshake{where}",
        response=response,
        request_sent=True,
        timings=response.timings,
    )
