"""The core of the blocking client. Its methods run the flow with a single send(None)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast, overload

from curlhttp._client.base import BaseClient
from curlhttp._client.exchange import exchange
from curlhttp._client.request_builder import (
    disable_redirects,
    refuse_options,
    set_signatures,
)
from curlhttp._client.straight import go_on, is_final
from curlhttp._client.stream import StreamedResponse
from curlhttp._http.request import ClientRequest, StreamedRequest
from curlhttp._http.response import Response
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Engine, Runtime
from curlhttp._runtime.run import run_sync, send_sync

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._client.base import Self
    from curlhttp._client.options import RequestOptions
    from curlhttp._client.transport import WrapsTransport
    from curlhttp._http.inputs import UserRequest
    from curlhttp._libcurl.engines.blocking import BlockingEngine
    from curlhttp._runtime.engine import Send


class BlockingClient(BaseClient):
    """Send requests and block until they are done; `Client` adds the methods of features."""

    _streamed = StreamedResponse

    def _set_engine(self, transport: object) -> None:
        self._inner: BlockingEngine | None = None
        self._uses_libcurl = transport is None or hasattr(transport, "wrap")
        if self._uses_libcurl:
            from curlhttp._libcurl.engines.blocking import BlockingEngine

            self._inner = BlockingEngine(self._limits)
            self._add_engine(self._inner)
        if transport is not None:
            engine = self._to_engine(transport)
        else:
            assert self._inner is not None
            engine = self._inner
        self._engine: Engine = engine
        self._given_transport = None if transport is None else engine
        self._runtime: Runtime = (self._inner or engine).runtime
        self._exchange: Send = self._make_exchange()

    def _to_engine(self, transport: object) -> Engine:
        """Return the engine that uses a transport."""
        from curlhttp._client.transport import EngineTransport, to_engine

        if self._inner is None:
            return to_engine(transport, "Client")
        inner = EngineTransport(self._inner, self._routing.check)
        return to_engine(cast("WrapsTransport", transport).wrap(inner), "Client")

    def _make_bare_exchange(self) -> Send:
        return exchange(self._engine, self._runtime.now, StreamedResponse)

    def _choose_engine(self) -> Engine:
        return self._engine

    def request(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> Response:
        """Send a request and return the response.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: the request could not be sent, or no response was received.
        """
        built = self._build_any_request(method, url, options)
        return send_sync(self._flow, built)

    @overload
    def send(self, request: StreamedRequest, **options: NoReturn) -> StreamedResponse: ...
    @overload
    def send(self, request: ClientRequest | UserRequest, **options: NoReturn) -> Response: ...
    def send(self, request: ClientRequest | UserRequest, **options: NoReturn) -> Response:
        """Send a request from build_request, or another one with the client's settings added.

        Args:
            request: has all settings.
            options: none; build_request takes them.

        Raises:
            RequestException: the request could not be sent, or no response was received.
        """
        if options:
            refuse_options(options)
        built = self._complete(request)
        return send_sync(self._flow, built)

    def stream(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> StreamedResponse:
        """Send a request and return when the response head arrives; use the response in `with`.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: the request could not be sent, or no response was received.
        """
        options["stream"] = True
        return cast(StreamedResponse, self.request(method, url, **options))

    def get(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send GET; see request."""
        straight = self._build_straight(url, options)
        if straight is not None:
            flow = self._flow  # another thread may replace it
            response = send_sync(self._engine.perform, straight)
            if is_final(response):
                return response
            return run_sync(partial(go_on, flow, straight, response))
        built = self._build_verb_request("GET", url, options)
        return send_sync(self._flow, built)

    def options(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send OPTIONS; see request."""
        built = self._build_verb_request("OPTIONS", url, options)
        return send_sync(self._flow, built)

    def head(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send HEAD; see request. As in requests, redirects are not followed by default."""
        built = self._build_verb_request("HEAD", url, disable_redirects(options))
        return send_sync(self._flow, built)

    def post(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send POST; see request."""
        built = self._build_verb_request("POST", url, options)
        return send_sync(self._flow, built)

    def put(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PUT; see request."""
        built = self._build_verb_request("PUT", url, options)
        return send_sync(self._flow, built)

    def patch(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PATCH; see request."""
        built = self._build_verb_request("PATCH", url, options)
        return send_sync(self._flow, built)

    def delete(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send DELETE; see request."""
        built = self._build_verb_request("DELETE", url, options)
        return send_sync(self._flow, built)

    def close(self) -> None:
        """Close all connections. Later requests raise ClientClosed."""
        self.is_closed = True
        self._engine.close()
        if self._inner is not None:
            self._inner.close()
        self._close_wrappers()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


set_signatures(BlockingClient)
