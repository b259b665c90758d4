"""The client for plain code: its verbs run the flow by one send(None)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, cast

from curlhttp._client.base import BaseClient, Self
from curlhttp._client.request_builder import (
    MAX_EVENT_SIZE,
    DownloadOptions,
    RequestOptions,
    disable_redirects,
    show_verbs,
)
from curlhttp._client.stream import StreamedResponse
from curlhttp._engine.engine import Clock, Engine, check_transport
from curlhttp._engine.run import run_here, run_sync, send_sync
from curlhttp._flow.exchange import exchange
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._models.url import URL

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._client.event_stream import EventStream
    from curlhttp._client.map.results import Results, SenderPool
    from curlhttp._client.map.scheduler import Item
    from curlhttp._client.websocket.websocket import WebSocket
    from curlhttp._engine.engine import Exchange, MakeGate
    from curlhttp._models.progress import Progress
    from curlhttp.requests import Request as UserRequest

__all__ = ["Client"]


class Client(BaseClient):
    """Send requests from plain code; safe to use from many threads.

    Args:
        base_url: what relative URLs are joined to.
        headers: go with every request, on top of User-Agent, Accept-Encoding and Accept.
        params: go into every query.
        cookies: a CookieJar to use, a mapping or pairs.
        auth: (user, password), an Auth, or a function of the request.
        timeout: the default of all requests: connect 10 s, read 60 s, no total.
        limits: a Limits, or its fields as keywords of their own, which beat it: max_connections,
            max_connections_per_host, max_keepalive_connections, keepalive_expiry,
            max_connection_lifetime, dns_ttl.
        http2: True to offer HTTP/2 on TLS, "prior-knowledge" to speak it at once, also without
            TLS; off by default, since one request at a time is faster on HTTP/1.1.
        http3: True to try HTTP/3 on TLS; "auto" for origins that say that they speak it (RFC 7838).
        verify: see TLS; it beats REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE and SSL_CERT_FILE.
        cert: see TLS.
        proxies: a proxy URL or requests' mapping; it beats the environment. The other settings of
            a route are those of build_request: pins, uds, resolve, connect_to, local_address,
            interface, doh, ip_version, happy_eyeballs_timeout.
        certificates: responses over TLS have the server's certificate; see Response.certificate.
        hsts: the path of a file that keeps which hosts want to be asked by HTTPS alone (RFC 6797).
        trust_env: heed proxy variables, NO_PROXY, CA variables and netrc, as they are when the
            client is made. It has no say in SSLKEYLOGFILE, to which libcurl writes the keys of
            TLS: libcurl reads it itself, once a process, with the first request.
        follow_redirects: the default of all requests.
        max_redirects: how many to follow.
        max_response_size: bytes a body may have, on the wire and decoded.
        sensitive_headers: names that must not follow a redirect to another origin, nor be shown
            or pickled.
        middleware: `async def middleware(request, send)`, outermost first; each hop of a
            redirect goes through them.
        attempt_middleware: as middleware, around each attempt: each retry and hedge, too.
        hooks: functions by event. "request" gets the Request and "response" the Response; what
            they return takes its place. "before_attempt", "after_attempt", "before_sleep" and
            "on_give_up" get an AttemptEvent, "breaker_transition" a Transition; what they return
            or raise changes nothing.
        retry: a RetryPolicy, or a number of retries; None to send each request once.
        rate_limit: how many attempts may begin in a second.
        concurrency_limit: how many attempts may be under way at once.
        breaker: refuses requests to origins that fail; several clients may share one.
        hedge: sends slow idempotent requests a second time.
        guard: a PublicOnly, or a function of (host, address, port) that returns whether an
            address may be dialled.
        cache: a Cache, which keeps responses and answers from them; needs the extra `cache`.
        transport: what takes the place of libcurl, such as curlhttp.testing.ScriptedEngine, or
            stands around it, such as Record.
    """

    _sender_pool: SenderPool | None = None  # of map, once there was one

    def _set_engine(self, transport: Engine | None) -> None:
        self._is_given = transport is not None
        if transport is None:
            from curlhttp._curl.engines.blocking import BlockingEngine

            transport = BlockingEngine(self._limits)
        check_transport(transport, "Client")
        self._engine: Engine = transport
        self.clock: Clock = Clock(transport.now, transport.wall, transport.sleep)
        self.gate: MakeGate = transport.gate
        self.exchange: Exchange = self._last_step()

    def _last_step(self) -> Exchange:
        self._outer_engine: Engine = self.around(self._engine)
        return exchange(self._outer_engine, self._engine.now, StreamedResponse)

    def request(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> Response:
        """Send a request and return the response.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: it could not be sent, or no response came of it.
        """
        built = self._request_by(method, url, options)
        return send_sync(self.flow, built)

    def send(self, request: Request | UserRequest) -> Response:
        """Send a request that build_request made, or a Request with the client's settings.

        Raises:
            RequestException: no response came of it.
        """
        built = self.complete(request)
        return send_sync(self.flow, built)

    def stream(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> StreamedResponse:
        """Send a request and return once the head is in; use the response in `with`.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            options: see build_request.

        Raises:
            RequestException: it could not be sent, or no response came of it.
        """
        options["stream"] = True
        return cast(StreamedResponse, self.request(method, url, **options))

    def get(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send GET; see request."""
        built = self._request("GET", url, options)
        return send_sync(self.flow, built)

    def options(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send OPTIONS; see request."""
        built = self._request("OPTIONS", url, options)
        return send_sync(self.flow, built)

    def head(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send HEAD; see request. Redirects are not followed unless asked to, as in requests."""
        built = self._request("HEAD", url, disable_redirects(options))
        return send_sync(self.flow, built)

    def post(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send POST; see request."""
        built = self._request("POST", url, options)
        return send_sync(self.flow, built)

    def put(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PUT; see request."""
        built = self._request("PUT", url, options)
        return send_sync(self.flow, built)

    def patch(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send PATCH; see request."""
        built = self._request("PATCH", url, options)
        return send_sync(self.flow, built)

    def delete(self, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
        """Send DELETE; see request."""
        built = self._request("DELETE", url, options)
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
        """Download a file to disk, and return the last response, whose body is in the file.

        The body goes to `<path>.part`, which takes the place of the file when it is complete and
        on disk: until then, and after any error, the old file is as it was. An interrupted download
        goes on where it stopped, with Range and If-Range, if the server's validator is strong:
        within this call as often as the retry policy allows, and in a later call or process from
        `<path>.part` and `<path>.part.json`, which are kept for that. Where the rest does not
        surely belong to what is there, it starts over. It asks for no content coding; one that is
        sent all the same is undone, and then there is no going on later.

        Args:
            url: absolute, or relative to base_url.
            path: the file. Its folder must exist; a symbolic link stays, and its target is
                replaced; an existing file keeps its mode.
            resume: go on where an earlier call stopped, and keep what a later one needs.
            checksum: "sha256:<hex>", or any other algorithm of hashlib.
            progress: called with the bytes that are there and those of the whole file, or None: at
                the beginning, at the end, and 20 times a second between. What it raises ends the
                download.
            options: those of build_request, without the body's.

        Raises:
            HTTPError: the status is neither 200 nor 206.
            ChecksumMismatch: the file has another checksum, and was removed.
            RequestException: it could not be sent, or the body broke off.
            OSError: the file cannot be written; that another download to it is under way is a
                BlockingIOError.
            ValueError: the checksum has a form that cannot be read; nothing was sent.
        """
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
        """Open a WebSocket (RFC 6455) and return it, for `with`; needs the extra `ws`.

        Args:
            url: ws, wss, http or https, or relative to base_url.
            subprotocols: names, the best first.
            compression: "deflate" to offer it (RFC 7692), or None.
            max_size: bytes that a message may have, decompressed, or None.
            ping_interval: seconds from a pong to the next ping, or None for none.
            ping_timeout: seconds that the server may be silent after a ping, or None.
            close_timeout: seconds that the server may take to close, or None.
            options: those of build_request, without the body's.

        Raises:
            WebSocketRefused: the server answered with another status than 101.
            RequestException: it could not be sent, or no fit answer came of it.
        """
        from curlhttp._client.websocket.websocket import open_blocking

        wanted = (subprotocols, compression, max_size, ping_interval, ping_timeout, close_timeout)
        return open_blocking(self, self._outer_engine, url, wanted, options)

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
        """Return the server-sent events of a URL, to iterate over, best in `with`.

            with client.sse("https://api.example.org/events") as events:
                for event in events:
                    print(event.id, event.json())

        The request is sent by `with`, or by the first event that is asked for. A connection that
        ends or breaks is made anew: with the id of the last event, after the time that the server
        asks for, or else after 1 to 2 s, and up to 30 s while no event comes; a backoff_strategy
        that was chosen takes the place of that. A status of 204 ends the stream. The hook
        "before_sleep" hears of each wait.

        Only what may be sent twice is sent again: idempotent methods, or a request with an
        Idempotency-Key or a policy with retry_non_idempotent. The events of any other, such as a
        POST, end with its body, and what breaks it is raised. The read timeout is how long the
        server may be silent, the total covers all connections, max_response_size does not count.

        Args:
            url: absolute, or relative to base_url.
            method: a token.
            last_event_id: of the last event that is known, from an earlier stream.
            reconnect: False to raise what breaks the stream, and to end where it ends; a number
                for as many connections in a row without an event.
            max_event_size: bytes that the data of an event, and each line, may have; or None.
            options: see build_request. The policy `retry` is for each connection, too, and the
                statuses that it names do not end a stream that was there.

        Raises:
            HTTPError: the status is not 200, or the content is not text/event-stream; its response
                has the beginning of the body.
            UnrewindableBodyError: the stream could go on, but not the body with which to ask.
            ResponseTooLarge: an event is larger than max_event_size.
            RequestException: it could not be sent, or the stream broke and does not go on.

        Source: "Server-sent events" of the HTML standard.
        """
        from curlhttp._client.event_stream import event_stream

        wanted = (method, last_event_id, reconnect, max_event_size)
        return event_stream(self, url, wanted, options)

    def map(
        self,
        requests: Iterable[Item],
        *,
        concurrency: int = 64,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> Results:
        """Send many requests, so many at a time, and return their results one by one.

        All happens in the calling thread, without others and without an event loop, while the
        next result is waited for. Items are taken when there is room for them, so that there may
        be millions. Leaving the loop early cancels the rest; to be sure when, use the results in
        `with`.

            for result in client.map(urls):
                if isinstance(result, curlhttp.RequestException):
                    print(result.request.url, "failed:", result)

        A map has connections of its own, up to max_connections, which the next map uses again.
        Requests that wait for one, for a limit or for a retry count as under way.

        Args:
            requests: URLs, which are sent by GET, and requests as send takes them; not streamed.
                What it raises is raised again after the results of all items before. A generator
                is closed when the map ends.
            concurrency: how many are under way at once. Results ahead of the consumer and
                requests under way are twice as many at most.
            ordered: give the results in the order of the items, not as they come.
            return_exceptions: a request that fails gives its RequestException, whose `request` is
                the item at least; if False it is raised, and the rest cancelled. Other exceptions,
                such as those of a middleware, are always raised.
            options: those of build_request, for items that are URLs, without the body's.

        Raises:
            TypeError: the requests cannot be iterated over here.
            ValueError: the concurrency is below one.
            RequestException: the options cannot be sent as they are.
        """
        from curlhttp._client.map.results import Results
        from curlhttp._client.map.scheduler import MapScheduler

        if hasattr(requests, "__aiter__") and not hasattr(requests, "__iter__"):
            raise TypeError("an async iterable of requests needs AsyncClient")
        scheduler = MapScheduler(
            self,
            requests,
            concurrency=concurrency,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        return Results(self._open_senders(), scheduler)

    def _open_senders(self) -> SenderPool:
        if self._sender_pool is None:
            from curlhttp._client.map.results import SenderPool

            sender_pool = SenderPool(self, inline=self._is_given)
            # In one step, as another thread may be here too.
            found: SenderPool = self.__dict__.setdefault("_sender_pool", sender_pool)
            return found
        return self._sender_pool

    def close(self) -> None:
        """Close all connections; further requests raise ClientClosed."""
        self.is_closed = True
        self._engine.close()
        if self._sender_pool is not None:
            self._sender_pool.close()
        self._close_rest()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


show_verbs(Client)
