"""Client: the core's blocking client, with the methods of features."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, overload

from curlhttp._api.shared import SharedMethods
from curlhttp._client.client import BlockingClient
from curlhttp._client.request_builder import set_signatures
from curlhttp._http.exiting import check_running
from curlhttp._http.response import MAX_EVENT_SIZE, Response
from curlhttp._http.url import URL
from curlhttp._runtime.run import run_here, run_sync

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._client.base import BaseClient
    from curlhttp._client.options import DownloadOptions, RequestOptions
    from curlhttp._features.download.file_object import WritableFile
    from curlhttp._features.download.many import DownloadPair, DownloadResult, FilesProgress
    from curlhttp._features.map.results import Results, Sender, SenderPool
    from curlhttp._features.map.scheduler import Item
    from curlhttp._features.sse.event_stream import EventStream
    from curlhttp._features.websocket.websocket import WebSocket
    from curlhttp._http.inputs import Progress
    from curlhttp._runtime.engine import Runtime, Send
    from curlhttp.exceptions import RequestException


class Client(SharedMethods, BlockingClient):
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
            max_connection_lifetime, dns_ttl, keepalive.
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
        retry_after: "origin" to let all requests to an origin wait as long as a response with the
            status 413, 429 or 503 has asked for (Retry-After), 60 s at most; "request" to let only
            the retry of that request wait.
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
            that gets the body and returns a charset (with a function, streams are UTF-8). "html"
            does what browsers do, for streams too: a byte order mark, Content-Type, then an XML
            declaration or a <meta> in the first 1,024 bytes. The default is UTF-8.
        raise_for_status: raise HTTPError for a status of 4xx or 5xx, after all retries.
        json: a curlhttp.JSON with the functions that write and read JSON, such as those of orjson.
        guard: a PublicOnly, or a function of (host, address, port) that returns whether the client
            may connect to this address.
        robots: the product token of your crawler, or a Robots: URLs that the robots.txt of their
            server disallows raise RobotsDisallowed, and its Crawl-delay is kept; needs the extra
            `robots`.
        cache: a Cache for responses; needs the extra `cache`.
        transport: replaces libcurl, such as a WSGITransport or your own Transport; or wraps it,
            such as a Record, your own AttemptWrapper, or an object whose `wrap(inner)` returns a
            Transport.

    Raises:
        ValueError: a setting is invalid, or this libcurl does not support it.
        TypeError: a setting has the wrong type.
        OSError: a file is missing.

    Attributes:
        is_closed: whether the client was closed, so that requests raise ClientClosed.
    """

    _sender_pool: SenderPool | None = None  # made by the first map
    _download_sender_pool: SenderPool | None = None  # made by the first download_many

    def download(
        self,
        url: str | bytes | URL,
        path: str | os.PathLike[str] | WritableFile,
        *,
        resume: bool | Literal["any"] = True,
        checksum: str | None = None,
        mtime: bool = False,
        progress: Progress | None = None,
        segments: int = 1,
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
                an existing file keeps its mode. Or an open binary file, which is written from its
                position on and stays open. After an error, it has what was received so far, and if
                a download has to start over, it must be able to seek.
            resume: resume an earlier call, and keep what a later one needs. "any" to also continue
                a file that another program wrote to `<path>.part` or `<path>`: if its time is not
                before Last-Modified, or if there is a checksum, which shows whether the rest fits.
            checksum: "sha256:<hex>", or any other algorithm of hashlib.
            mtime: give the file the time of Last-Modified, if the server sends it.
            progress: called with the bytes on disk and the total bytes, or None if unknown: at the
                beginning, at the end, and 20 times a second in between. An exception from it ends
                the download.
            segments: receive up to so many ranges of the file at once, over separate connections
                of HTTP/1.1, if the server's validator is strong and it sends ranges. Each is at
                least 1 MiB. A blocking client uses connections apart from its others, as for map.
                No setting changes with it: timeouts and rates are those of each response, limits
                count each of them, and the total timeout is that of the download.
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
        from curlhttp._features.download.download import download

        def run(exchange: Send, runtime: Runtime) -> Coroutine[object, None, Response]:
            return download(
                self,
                url,
                path,
                resume=resume,
                checksum=checksum,
                mtime=mtime,
                progress=progress,
                segments=segments,
                options=options,
                run_blocking=run_here,
                batch=1,
                exchange=exchange,
                runtime=runtime,
            )

        if segments == 1 or self._given_transport is not None:
            return run_sync(lambda: run(self._exchange, self._runtime))
        from curlhttp._features.download.segments import run_in_thread

        return run_in_thread(self, run)

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
        from curlhttp._features.websocket.handshake import Settings
        from curlhttp._features.websocket.websocket import open_blocking

        settings = Settings.of(
            subprotocols, compression, max_size, ping_interval, ping_timeout, close_timeout
        )
        return open_blocking(self, self._engine, url, settings, options)

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
                has the body, up to 1 MiB. A body that may never end is left out: that of a 200
                without Content-Length, unless it is JSON.
            UnrewindableBodyError: the stream could reconnect, but the body cannot be replayed.
            ResponseTooLarge: an event is larger than max_event_size.
            RequestException: the request could not be sent, or the stream broke and cannot
                reconnect.

        Source: "Server-sent events" of the HTML standard.
        """
        check_running()
        from curlhttp._features.sse.event_stream import EventStream, open_event_stream

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
        backlog: int = 10_000,
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
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> Results: ...
    def map(
        self,
        requests: Iterable[Item],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
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
        Requests that wait for a limit, a rate or a retry do not count as running: meanwhile the map
        sends others, and further items of a host that is waited for wait in its backlog. Only what
        would hold up all hosts counts as running: a limit with per=None, and max_connections.

        Args:
            requests: URLs, which are sent with GET, and requests that send accepts, except streamed
                ones. If the iterable raises, the error is raised after the results of all earlier
                items. A generator is closed when the map ends.
            concurrency: the maximum number of running requests. There are at most twice as many
                running requests and unconsumed results together.
            backlog: the number of items that may wait for their hosts, or for a retry, while others
                are sent. Beyond it, no further items are consumed, which is logged at INFO. 0 to
                let what waits count as running.
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
        from curlhttp._features.map.results import Results, choose_sender
        from curlhttp._features.map.scheduler import MapScheduler

        if hasattr(requests, "__aiter__") and not hasattr(requests, "__iter__"):
            raise TypeError("an async iterable of requests needs AsyncClient")
        scheduler = MapScheduler(
            self,
            requests,
            concurrency=concurrency,
            backlog=backlog,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        pool = self._sender_pool or self._add_sender_pool("_sender_pool", choose_sender(self))
        return Results(pool, scheduler)

    def _add_sender_pool(self, name: str, make: Callable[[BaseClient], Sender]) -> SenderPool:
        """Return a new pool, which becomes an attribute, or that of a thread that was faster."""
        from curlhttp._features.map.results import SenderPool

        made = SenderPool(self, make)
        pool: SenderPool = self.__dict__.setdefault(name, made)  # atomic
        if pool is made:
            self._attach(pool)
        return pool

    @overload
    def download_many(
        self,
        pairs: Iterable[DownloadPair],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: Literal[False],
        resume: bool | Literal["any"] = True,
        mtime: bool = False,
        progress: FilesProgress | None = None,
        **options: Unpack[DownloadOptions],
    ) -> Results[DownloadResult]: ...
    @overload
    def download_many(
        self,
        pairs: Iterable[DownloadPair],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: bool = True,
        resume: bool | Literal["any"] = True,
        mtime: bool = False,
        progress: FilesProgress | None = None,
        **options: Unpack[DownloadOptions],
    ) -> Results[DownloadResult | RequestException]: ...
    def download_many(
        self,
        pairs: Iterable[DownloadPair],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: bool = True,
        resume: bool | Literal["any"] = True,
        mtime: bool = False,
        progress: FilesProgress | None = None,
        **options: Unpack[DownloadOptions],
    ) -> Results[DownloadResult | RequestException]:
        """Download many files concurrently, and return an iterator of their results.

            for result in client.download_many((url, "files/") for url in urls):
                if isinstance(result, curlhttp.RequestException):
                    print(result.request.url, "failed:", result)
                else:
                    print(result.path, result.size)

        Each file is downloaded as `download` does it, with its own `<path>.part`: it is complete,
        or the old file is unchanged, and the next call resumes it. All of them are sent as `map`
        does it, in the thread that waits for the next result, and pairs are consumed only when
        there is room for them. A file that was downloaded before is downloaded again. Leaving the
        loop early cancels the downloads that are running, which a later call resumes.

        In a folder, a file is named like the last segment of the URL's path, or "index" without
        one, in a form that is safe on each system: no folders, no control characters, no names of
        devices, no dot at the beginning, 200 bytes at most. If an earlier pair has the name, a hash
        of the URL is added: `report.pdf`, then `report-5f1c08d2.pdf`. So the same pairs in the same
        order have the same names in each run.

        Args:
            pairs: of a URL, or a request from build_request with GET, and the path of a file or
                folder. A folder that ends with a slash is created. A pair may have a checksum as
                its third item, see `download`. If the iterable raises, the error is raised after
                the results of all earlier pairs.
            concurrency: the maximum number of downloads at the same time.
            backlog: see map.
            ordered: return the results in the order of the pairs, not as they complete.
            return_exceptions: return the RequestException of a failed download as its result. If
                False, it is raised, and all other downloads are cancelled. Other exceptions, such
                as those of writing a file, are always raised.
            resume: see download.
            mtime: see download.
            progress: called like that of download, but with the path of the file first.
            options: those of build_request for pairs with a URL, except for the body.

        Raises:
            TypeError: `pairs` is not a suitable iterable, or has something else than pairs.
            ValueError: two pairs have the same file; or a checksum is malformed. Of a list with the
                same path twice, nothing is sent. In other cases, the pairs before that are done.
            OSError: a file cannot be written. It is a BlockingIOError if another download to the
                file is running.
            RequestException: the options cannot be sent.
        """
        check_running()
        from curlhttp._features.download.many import (
            DownloadScheduler,
            FileSettings,
            make_downloading,
        )
        from curlhttp._features.map.receiving import choose_receiving_sender
        from curlhttp._features.map.results import Results

        if hasattr(pairs, "__aiter__") and not hasattr(pairs, "__iter__"):
            raise TypeError("an async iterable of pairs needs AsyncClient")
        scheduler = DownloadScheduler(
            self,
            pairs,
            FileSettings(resume, mtime, progress),
            concurrency=concurrency,
            backlog=backlog,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        pool = self._download_sender_pool or self._add_sender_pool(
            "_download_sender_pool",
            choose_receiving_sender(self, make_downloading(self, run_here, 1)),
        )
        return Results(pool, scheduler)


set_signatures(Client)
