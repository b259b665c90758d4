"""The blocking client. Its methods run the flow with a single send(None)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn, cast, overload

from curlhttp._client.base import BaseClient, Self
from curlhttp._client.request_builder import (
    MAX_EVENT_SIZE,
    DownloadOptions,
    RequestOptions,
    disable_redirects,
    refuse_options,
    set_verb_signatures,
)
from curlhttp._client.stream import StreamedResponse
from curlhttp._engine.engine import Clock, Engine
from curlhttp._engine.run import run_here, run_sync, send_sync
from curlhttp._flow.exchange import count_attempts, exchange
from curlhttp._flow.straight import go_on, is_final
from curlhttp._models.exiting import check_running
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp._models.url import URL

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._client.event_stream import EventStream
    from curlhttp._client.map.results import Results, SenderPool
    from curlhttp._client.map.scheduler import Item
    from curlhttp._client.transport import WrapsTransport
    from curlhttp._client.websocket.websocket import WebSocket
    from curlhttp._curl.engines.blocking import BlockingEngine
    from curlhttp._engine.engine import MakeRace, MakeWaiter, Send
    from curlhttp._models.inputs import UserRequest
    from curlhttp._models.progress import Progress


class Client(BaseClient):
    """Send requests and block until they are done; safe to use from many threads.

    Args:
        base_url: joined with relative URLs; an Endpoints spreads them over several servers.
        headers: added to every request, on top of User-Agent, Accept-Encoding and Accept.
        params: added to every query.
        cookies: a CookieJar to use, a mapping or pairs.
        auth: (user, password), an Auth, or a function of the request.
        timeout: the default timeout: connect 10 s, read 60 s, no total.
        limits: a Limits. Its fields are also keywords, which override it: max_connections,
            max_connections_per_host, max_keepalive_connections, keepalive_expiry,
            max_connection_lifetime, dns_ttl.
        http2: True to offer HTTP/2 over TLS; "prior-knowledge" to use it at once, also without
            TLS. Off by default, because one request at a time is faster over HTTP/1.1.
        http3: True to try HTTP/3 over TLS; "auto" for origins that advertise it (RFC 7838).
        verify: True for certifi's CA certificates, the path of a PEM file or of a directory of
            hashed certificates, several such directories separated by os.pathsep, PEM bytes,
            "system" for the CA certificates that the machine trusts, or an ssl.SSLContext; False
            verifies nothing. It overrides REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE and
            SSL_CERT_DIR.
        cert: a client certificate: the path of a PEM file with its key, PEM bytes, or a tuple
            (certificate, key) or (certificate, key, password).
        proxies: a proxy URL, a Proxy, or a mapping as in requests; overrides the environment.
        proxy: a proxy URL or a Proxy; use it instead of proxies.
        max_send_rate: the maximum bytes per second that each request sends; max_receive_rate is
            for what it receives. The other route settings are those of build_request: pins, uds,
            resolve, connect_to, local_address, interface, doh, ip_version, happy_eyeballs_timeout.
        certificates: record the server's certificate; see Response.certificate.
        hsts: the path of a file that stores the hosts that require HTTPS (RFC 6797).
        trust_env: use proxy variables, NO_PROXY, CA variables and netrc, as they are when you
            create the client. It does not affect SSLKEYLOGFILE, to which libcurl writes TLS keys:
            libcurl reads that variable once per process, with the first request.
        follow_redirects: the default for all requests.
        max_redirects: the maximum number of redirects to follow.
        max_response_size: the maximum size of a body in bytes, on the wire and decoded.
        sensitive_headers: names that are removed on a redirect to another origin, and that are
            not shown or pickled.
        middleware: `async def middleware(request, send)`, outermost first. Each redirect hop
            passes through them.
        attempt_middleware: like middleware, but around each attempt, including retries and hedges.
        hooks: functions by event. "request" gets the ClientRequest and "response" the Response, and
            what they return replaces it. "before_attempt", "after_attempt", "before_sleep",
            "on_give_up" and "on_fallback" get an AttemptEvent, "breaker_transition" a Transition.
            What these return or raise is ignored.
        retry: a RetryPolicy, or a number of retries; None to send each request once.
        rate_limit: limits how many attempts begin per second.
        concurrency_limit: limits how many attempts run at once: a ConcurrencyLimit, or an
            AdaptiveLimit, which adjusts itself.
        breaker: rejects requests to failing origins; several clients may share one.
        hedge: sends slow idempotent requests a second time.
        fallback: `def fallback(request, outcome)`, which is called when a request has failed: with
            its exception, or its response if the retry policy names the status. It returns a
            response, such as request.respond(200, json=[]), or None to leave the failure as it is.
        coalesce: let equal GET requests that run at the same time share one transfer.
        default_encoding: the charset of a response whose Content-Type names none, or a function
            that gets the body and returns a charset (with a function, streams are UTF-8). The
            default is UTF-8.
        raise_for_status: raise HTTPError for a status of 4xx or 5xx, after all retries.
        json: a curlhttp.JSON with the functions that write and read JSON, such as those of orjson.
        guard: a PublicOnly, or a function of (host, address, port) that returns whether the client
            may connect to this address.
        cache: a Cache for responses; needs the extra `cache`.
        transport: replaces libcurl, such as a WSGITransport or your own Transport; or wraps it,
            such as a Record, or an object whose `wrap(inner)` returns a Transport.

    Raises:
        ValueError: a setting is invalid, or this libcurl does not support it.
        TypeError: a setting has the wrong type.
        OSError: a file is missing.
    """

    _streamed = StreamedResponse
    _sender_pool: SenderPool | None = None  # made by the first map

    def _set_engine(self, transport: object) -> None:
        self._inner: BlockingEngine | None = None
        if transport is None or hasattr(transport, "wrap"):
            from curlhttp._curl.engines.blocking import BlockingEngine

            self._inner = BlockingEngine(self._limits)
            self.add_engine(self._inner)
        if transport is not None:
            engine = self._to_engine(transport)
        else:
            assert self._inner is not None
            engine = self._inner
        self._engine: Engine = engine
        self._given_transport = None if transport is None else engine
        runtime = (self._inner or engine).runtime
        self.clock: Clock = Clock(runtime.now, runtime.wall, runtime.sleep)
        self.make_waiter: MakeWaiter = runtime.make_waiter
        self.make_race: MakeRace = runtime.make_race
        self.exchange: Send = self._make_exchange()

    def _to_engine(self, transport: object) -> Engine:
        """Return the engine that uses a transport."""
        from curlhttp._client.transport import EngineTransport, to_engine

        if self._inner is None:
            return to_engine(transport, "Client")
        inner = EngineTransport(self.wrap(self._inner))
        self._wrappers, self._inner_wrappers = (), self._wrappers
        return to_engine(cast("WrapsTransport", transport).wrap(inner), "Client")

    def _make_exchange(self) -> Send:
        self._wrapped_engine: Engine = self.wrap(self._engine)
        last = exchange(self._wrapped_engine, self.clock.now, StreamedResponse)
        # The engines of libcurl count what they send.
        return count_attempts(last, self.totals) if self._inner is None else last

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
        return send_sync(self.flow, built)

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
        built = self.complete(request)
        return send_sync(self.flow, built)

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
            flow = self.flow  # another thread may replace it
            response = send_sync(self._engine.perform, straight)
            if is_final(response):
                return response
            return run_sync(partial(go_on, flow, straight, response))
        built = self._build_verb_request("GET", url, options)
        return send_sync(self.flow, built)

    def options(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send OPTIONS; see request."""
        built = self._build_verb_request("OPTIONS", url, options)
        return send_sync(self.flow, built)

    def head(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send HEAD; see request. As in requests, redirects are not followed by default."""
        built = self._build_verb_request("HEAD", url, disable_redirects(options))
        return send_sync(self.flow, built)

    def post(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send POST; see request."""
        built = self._build_verb_request("POST", url, options)
        return send_sync(self.flow, built)

    def put(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PUT; see request."""
        built = self._build_verb_request("PUT", url, options)
        return send_sync(self.flow, built)

    def patch(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PATCH; see request."""
        built = self._build_verb_request("PATCH", url, options)
        return send_sync(self.flow, built)

    def delete(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send DELETE; see request."""
        built = self._build_verb_request("DELETE", url, options)
        return send_sync(self.flow, built)

    def download(
        self,
        url: str | bytes | URL,
        path: str | os.PathLike[str],
        *,
        resume: bool = True,
        checksum: str | None = None,
        progress: Progress | None = None,
        **options: Unpack[DownloadOptions],
    ) -> Response:
        """Download a file to disk and return the last response, whose body is in the file.

        The body is written to `<path>.part`, which replaces the file when it is complete and
        synced to disk. Until then, and after any error, the old file is unchanged. If the server's
        validator is strong, an interrupted download resumes with Range and If-Range: within this
        call as often as the retry policy allows, and in a later call or process from `<path>.part`
        and `<path>.part.json`, which are kept for this purpose. If the rest may belong to another
        version of the file, the download starts over. It requests no content coding. If the server
        uses one anyway, it is decoded, and the download cannot resume later.

        Args:
            url: absolute, or relative to base_url.
            path: the file. Its folder must exist. The target of a symbolic link is replaced, and
                an existing file keeps its mode.
            resume: resume an earlier call, and keep what a later one needs.
            checksum: "sha256:<hex>", or any other algorithm of hashlib.
            progress: called with the bytes on disk and the total bytes, or None if unknown: at the
                beginning, at the end, and 20 times a second in between. An exception from it ends
                the download.
            options: those of build_request, except for the body.

        Raises:
            HTTPError: the status is neither 200 nor 206.
            ChecksumMismatch: the file has another checksum; it was removed.
            RequestException: the request could not be sent, or the body was incomplete.
            OSError: the file cannot be written. It is a BlockingIOError if another download to
                the file is running.
            ValueError: the checksum is malformed; nothing was sent.
        """
        check_running()
        from curlhttp._client.download import download

        return run_sync(
            lambda: download(
                self,
                url,
                path,
                resume=resume,
                checksum=checksum,
                progress=progress,
                options=options,
                run_blocking=run_here,
                batch=1,
            )
        )

    def websocket(
        self,
        url: str | bytes | URL,
        *,
        subprotocols: Sequence[str] = (),
        compression: Literal["deflate"] | None = "deflate",
        max_size: int | None = 2**20,
        ping_interval: float | None = 20,
        ping_timeout: float | None = 20,
        close_timeout: float | None = 10,
        **options: Unpack[DownloadOptions],
    ) -> WebSocket:
        """Open a WebSocket (RFC 6455) and return it, for use in `with`; needs the extra `ws`.

        Args:
            url: ws, wss, http or https, or relative to base_url.
            subprotocols: names in order of preference.
            compression: "deflate" to offer it (RFC 7692), or None.
            max_size: the maximum size of a decompressed message in bytes, or None.
            ping_interval: seconds from a pong to the next ping, or None to send none.
            ping_timeout: seconds that the server may be silent after a ping, or None.
            close_timeout: seconds that the server may take to close, or None.
            options: those of build_request, except for the body.

        Raises:
            WebSocketRefused: the server responded with a status other than 101.
            RequestException: the request could not be sent, or the response was invalid.
            ImportError: the extra `ws` is missing.
        """
        check_running()
        from curlhttp._client.websocket.handshake import Settings
        from curlhttp._client.websocket.websocket import open_blocking

        settings = Settings.of(
            subprotocols, compression, max_size, ping_interval, ping_timeout, close_timeout
        )
        return open_blocking(self, self._wrapped_engine, url, settings, options)

    def sse(
        self,
        url: str | bytes | URL,
        *,
        method: str = "GET",
        last_event_id: str | None = None,
        reconnect: bool | int = True,
        max_event_size: int | None = MAX_EVENT_SIZE,
        **options: Unpack[RequestOptions],
    ) -> EventStream:
        """Return an iterator of the server-sent events of a URL; use it in `with`.

            with client.sse("https://api.example.org/events") as events:
                for event in events:
                    print(event.id, event.json())

        The request is sent when you enter `with`, or with the first iteration if you do not use
        `with`. If the connection ends or breaks, the stream reconnects with the id of the last
        event. It waits as long as the server asks for, otherwise 1 to 2 s, and up to 30 s while no
        event arrives; a backoff_strategy of your own replaces these waits. Status 204 ends the
        stream. The hook "before_sleep" is called for each wait.

        The stream reconnects only if the request is safe to repeat: an idempotent method, an
        Idempotency-Key, or a policy with retry_non_idempotent. Other requests, such as a POST, end
        with the body of the response, and errors are raised. The read timeout limits how long the
        server may be silent, the total covers all connections, and max_response_size is ignored
        unless you pass it here.

        Args:
            url: absolute, or relative to base_url.
            method: a token.
            last_event_id: the id of the last event of an earlier stream.
            reconnect: False to end with the connection, and to raise errors; or the maximum number
                of consecutive connections that bring no event.
            max_event_size: the maximum size of an event's data, and of each line, in bytes; or
                None.
            options: see build_request. The policy `retry` also applies to each connection, and the
                statuses it names do not end a stream that has begun.

        Raises:
            HTTPError: the status is not 200, or the content is not text/event-stream. Its response
                has the beginning of the body.
            UnrewindableBodyError: the stream could reconnect, but the body cannot be replayed.
            ResponseTooLarge: an event is larger than max_event_size.
            RequestException: the request could not be sent, or the stream broke and cannot
                reconnect.

        Source: "Server-sent events" of the HTML standard.
        """
        check_running()
        from curlhttp._client.event_stream import EventStream, open_event_stream

        return open_event_stream(
            EventStream,
            self,
            method,
            url,
            options,
            last_event_id=last_event_id,
            reconnect=reconnect,
            max_event_size=max_event_size,
        )

    @overload
    def map(
        self,
        requests: Iterable[Item],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        return_exceptions: Literal[False],
        **options: Unpack[DownloadOptions],
    ) -> Results[Response]: ...
    @overload
    def map(
        self,
        requests: Iterable[Item],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> Results: ...
    def map(
        self,
        requests: Iterable[Item],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> Results:
        """Send many requests concurrently and return an iterator of their results.

        Everything runs in the calling thread, without an event loop, while you wait for the next
        result. Items are consumed only when there is room for them, so there may be millions.
        Leaving the loop early cancels the other requests. Use the results in `with` to control when
        this happens.

            for result in client.map(urls):
                if isinstance(result, curlhttp.RequestException):
                    print(result.request.url, "failed:", result)

        A map uses separate connections, up to max_connections, and the next map reuses them.
        Requests that wait for a connection, a limit or a retry count as running.

        Args:
            requests: URLs, which are sent with GET, and requests that send accepts, except streamed
                ones. If the iterable raises, the error is raised after the results of all earlier
                items. A generator is closed when the map ends.
            concurrency: the maximum number of running requests. There are at most twice as many
                running requests and unconsumed results together.
            ordered: return the results in the order of the items, not as they complete.
            return_exceptions: return the RequestException of a failed request as its result, with
                at least the item as its `request`. If False, it is raised, and all other requests
                are cancelled. Other exceptions, such as those of a middleware, are always raised.
            options: those of build_request for items that are URLs, except for the body. They do
                not change requests from build_request, which have their own.

        Raises:
            TypeError: `requests` is not a suitable iterable, or the concurrency is not a number.
            ValueError: the concurrency is below one.
            RequestException: the options cannot be sent.
        """
        check_running()
        from curlhttp._client.map.results import Results
        from curlhttp._client.map.scheduler import MapScheduler

        if hasattr(requests, "__aiter__") and not hasattr(requests, "__iter__"):
            raise TypeError("an async iterable of requests needs AsyncClient")
        scheduler = MapScheduler(
            self,
            self._build_verb_request,
            requests,
            concurrency=concurrency,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        return Results(self._get_sender_pool(), scheduler)

    def _get_sender_pool(self) -> SenderPool:
        if self._sender_pool is None:
            from curlhttp._client.map.results import SenderPool

            sender_pool = SenderPool(self, inline=self._given_transport is not None)
            # setdefault is atomic: another thread may make a pool at the same time.
            found: SenderPool = self.__dict__.setdefault("_sender_pool", sender_pool)
            return found
        return self._sender_pool

    def close(self) -> None:
        """Close all connections. Later requests raise ClientClosed."""
        self.is_closed = True
        self._engine.close()
        if self._inner is not None:
            self._inner.close()
        if self._sender_pool is not None:
            self._sender_pool.close()
        self._close_wrappers()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


set_verb_signatures(Client)
