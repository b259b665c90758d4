"""AsyncClient: the core's async client, with the methods of features."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, cast, overload

from curlhttp._api.shared import SharedMethods
from curlhttp._client.async_client import LoopClient
from curlhttp._client.request_builder import set_signatures
from curlhttp._http.exiting import check_running
from curlhttp._http.response import MAX_EVENT_SIZE, Response
from curlhttp._http.url import URL

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._client.options import DownloadOptions, RequestOptions
    from curlhttp._features.download.file_object import WritableFile
    from curlhttp._features.download.many import DownloadPair, DownloadResult, FilesProgress
    from curlhttp._features.map.async_results import AsyncResults
    from curlhttp._features.map.scheduler import Item
    from curlhttp._features.sse.event_stream import AsyncEventStream
    from curlhttp._features.websocket.websocket import OpeningWebSocket
    from curlhttp._http.inputs import Progress
    from curlhttp.exceptions import RequestException

_BATCH = 1024 * 1024  # bytes of a download to collect before a thread writes them to disk


class AsyncClient(SharedMethods, LoopClient):
    """Send requests from tasks on asyncio, uvloop or trio.

    One client may serve several event loops, one after another or in threads. Each loop has its
    own connections. The arguments are those of Client, but http2 is on by default: over TLS,
    concurrent requests share one connection if the server supports HTTP/2.

    Attributes:
        is_closed: whether the client was closed, so that requests raise ClientClosed.
    """

    async def download(
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

        Arguments and exceptions are those of Client.download. Files are written in threads.
        `progress` is called in the event loop and must not be a coroutine function.
        """
        check_running()
        from curlhttp._features.download.download import download

        downloading = download(
            self,
            url,
            path,
            resume=resume,
            checksum=checksum,
            mtime=mtime,
            progress=progress,
            segments=segments,
            options=options,
            run_blocking=self._loop_functions.in_thread,
            batch=_BATCH,
            exchange=self._exchange,
            runtime=self._runtime,
        )
        return await downloading

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
    ) -> OpeningWebSocket:
        """Open a WebSocket (RFC 6455) with `async with` or `await`; needs the extra `ws`.

            async with client.websocket("wss://api.example.org/feed") as ws:
                await ws.send("hello")
                async for message in ws:
                    print(message)

        Arguments and exceptions are those of Client.websocket, with tasks instead of threads.
        """
        check_running()
        from curlhttp._features.websocket.handshake import Settings
        from curlhttp._features.websocket.websocket import OpeningWebSocket, open_async

        settings = Settings.of(
            subprotocols, compression, max_size, ping_interval, ping_timeout, close_timeout
        )
        return OpeningWebSocket(open_async(self, self._choose_engine, url, settings, options))

    def sse(
        self,
        url: str | bytes | URL,
        *,
        method: str = "GET",
        last_event_id: str | None = None,
        reconnect: bool | int = True,
        max_event_size: int | None = MAX_EVENT_SIZE,
        **options: Unpack[RequestOptions],
    ) -> AsyncEventStream:
        """Return the server-sent events of a URL for `async for`; use them in `async with`.

        Arguments and exceptions are those of Client.sse. Cancelling a task while it waits for an
        event ends the stream. To continue, open another one with its last_event_id.
        """
        check_running()
        from curlhttp._features.sse.event_stream import AsyncEventStream, open_event_stream

        return open_event_stream(
            AsyncEventStream,
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
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: Literal[False],
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults[Response]: ...
    @overload
    def map(
        self,
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults: ...
    def map(
        self,
        requests: Iterable[Item] | AsyncIterable[Item],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: bool = True,
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults:
        """Send many requests concurrently and return their results for `async for`.

        Arguments and exceptions are those of Client.map, but `requests` may also be an async
        iterable, and a plain iterable must not block. Requests run in separate tasks while you
        process results, as long as there is room for more results. They use the connections of this
        client, and see the context variables of this call. Leaving the loop early cancels the other
        requests. Use the results in `async with` to control when this happens.

            async for result in client.map(urls):
                if isinstance(result, curlhttp.RequestException):
                    print(result.request.url, "failed:", result)
        """
        check_running()
        from curlhttp._features.map.async_results import AsyncResults
        from curlhttp._features.map.scheduler import MapScheduler

        source = aiter(requests) if isinstance(requests, AsyncIterable) else None
        scheduler = MapScheduler(
            self,
            cast("Iterable[Item]", requests),
            queued=source is not None,
            concurrency=concurrency,
            backlog=backlog,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        return AsyncResults(self, scheduler, source)

    @overload
    def download_many(
        self,
        pairs: Iterable[DownloadPair] | AsyncIterable[DownloadPair],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: Literal[False],
        resume: bool | Literal["any"] = True,
        mtime: bool = False,
        progress: FilesProgress | None = None,
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults[DownloadResult]: ...
    @overload
    def download_many(
        self,
        pairs: Iterable[DownloadPair] | AsyncIterable[DownloadPair],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: bool = True,
        resume: bool | Literal["any"] = True,
        mtime: bool = False,
        progress: FilesProgress | None = None,
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults[DownloadResult | RequestException]: ...
    def download_many(
        self,
        pairs: Iterable[DownloadPair] | AsyncIterable[DownloadPair],
        *,
        concurrency: int = 64,
        backlog: int = 10_000,
        ordered: bool = False,
        return_exceptions: bool = True,
        resume: bool | Literal["any"] = True,
        mtime: bool = False,
        progress: FilesProgress | None = None,
        **options: Unpack[DownloadOptions],
    ) -> AsyncResults[DownloadResult | RequestException]:
        """Download many files concurrently, and return their results for `async for`.

        Arguments and exceptions are those of Client.download_many, but `pairs` may also be an async
        iterable, and a plain iterable must not block. Downloads run in separate tasks while you
        process results, and files are written in threads. Each running download may have 1 MiB in
        memory.

            async for result in client.download_many((url, "files/") for url in urls):
                if isinstance(result, curlhttp.RequestException):
                    print(result.request.url, "failed:", result)
        """
        check_running()
        from curlhttp._features.download.many import (
            DownloadScheduler,
            FileSettings,
            make_downloading,
        )
        from curlhttp._features.map.async_results import AsyncResults

        source = aiter(pairs) if isinstance(pairs, AsyncIterable) else None
        scheduler = DownloadScheduler(
            self,
            cast("Iterable[DownloadPair]", pairs),
            FileSettings(resume, mtime, progress),
            queued=source is not None,
            concurrency=concurrency,
            backlog=backlog,
            ordered=ordered,
            return_exceptions=return_exceptions,
            options=options,
        )
        make = make_downloading(self, self._loop_functions.in_thread, _BATCH)
        return AsyncResults(
            self,
            scheduler,
            cast("AsyncIterator[Item] | None", source),
            make(self._exchange, self._runtime),
        )


set_signatures(AsyncClient)
