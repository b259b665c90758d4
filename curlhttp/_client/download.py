"""The method download of both clients: send requests and write their bodies to disk.

Loaded by the first download. _policy/resume.py classifies the responses, _policy/retry.py decides
on another attempt, and partial_file.py writes.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from curlhttp._client.partial_file import Checksum, PartialFile
from curlhttp._client.request_builder import DownloadOptions, check_options
from curlhttp._engine.engine import Send
from curlhttp._flow.chain import DOWNLOAD
from curlhttp._flow.streamed_response import BaseStreamedResponse
from curlhttp._models.decoding import parse_codings
from curlhttp._models.errors import add_note, check_flags
from curlhttp._models.progress import Progress, ProgressMeter
from curlhttp._models.redaction import redact_url
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp._models.url import URL
from curlhttp._policy.resume import (
    RangeRequest,
    RangeResult,
    ResumeRecord,
    classify_response,
    content_length,
    plan_range,
)
from curlhttp.exceptions import (
    ChecksumMismatch,
    ChunkedEncodingError,
    HTTPError,
    RemoteProtocolError,
    RequestException,
    ResponseTooLarge,
)

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._engine.run import Offload

_RANGE_HEADERS = ("Range", "If-Range", "Content-Range")


async def download(
    client: BaseClient,
    url: str | bytes | URL,
    path: str | os.PathLike[str],
    *,
    resume: bool,
    checksum: str | None,
    progress: Progress | None,
    options: DownloadOptions,
    run_blocking: Offload,
    batch: int,
) -> Response:
    """Download a file. The arguments are those of Client.download, and three more.

    `client` builds and sends the request, `run_blocking` calls functions that may block, and
    `batch` is the number of bytes to collect before they are written to disk.
    """
    _check_path(path)
    check_flags(resume=resume)
    expected = None if checksum is None else Checksum.parse(checksum)
    request = _build_request(client, url, options)
    meter = ProgressMeter(progress, client.clock.now)
    part = PartialFile(path, resumes=resume)
    try:
        transfer = _Download(request, part, meter, client.clock.wall, run_blocking, batch)
        send = client.chain.build(
            client.exchange,
            client.clock,
            client.make_waiter,
            client.make_race,
            kind=DOWNLOAD,
            own=transfer.wrap,
            also=("retry",),
        )
        response = await send(request)
        await transfer.accept(response)
        if expected is not None:
            await transfer.verify(expected, response)
        await run_blocking(part.commit)
    except Exception as error:
        if part.is_kept:
            add_note(error, f"{part.size} bytes are kept: the same download continues from there")
        raise
    finally:
        part.close()
    return response


def _check_path(path: object) -> None:
    """Raise TypeError if the path is not one, or is the URL."""
    if isinstance(path, URL) or "://" in str(path)[:8]:
        raise TypeError("the URL comes first, then the path: download(url, path)")
    if not isinstance(path, (str, os.PathLike)):
        kind = type(path).__name__
        raise TypeError(f"download() needs the path of the file, such as 'file.zip', not {kind}")


def _build_request(
    client: BaseClient, url: str | bytes | URL, options: DownloadOptions
) -> ClientRequest:
    other = "use stream() for other requests"
    check_options(client, "download", options, DownloadOptions, other)
    request = client.build_request("GET", url, stream=True, **options)
    for name in _RANGE_HEADERS:
        if request.get_header(name) is not None:
            raise ValueError(f"download() sets the header {name}: omit it")
    request.headers["Accept-Encoding"] = "identity"  # each coding has its own ranges
    return request


class _Download:
    """One download: add a Range to its requests, and write the responses to the partial file."""

    def __init__(
        self,
        request: ClientRequest,
        part: PartialFile,
        meter: ProgressMeter,
        wall: Callable[[], float],
        run_blocking: Offload,
        batch: int,
    ) -> None:
        self._request = request
        self._part = part
        self._meter = meter
        self._wall = wall
        self._run_blocking = run_blocking
        self._batch = batch
        self._may_resume = True
        self._received: Response | None = None

    def wrap(self, send: Send) -> Send:
        """Receive the whole body within each attempt (a layer)."""

        async def receive(request: ClientRequest) -> Response:
            requested = self._plan_range(request)
            response = await send(_with_range(request, requested))
            result = classify_response(response.status_code, response.headers, requested)
            if result is RangeResult.MISMATCH and requested is not None:
                self._may_resume, requested = False, None
                await _discard(response)
                response = await send(request)
                result = classify_response(response.status_code, response.headers, None)
            if result is RangeResult.MISMATCH:
                await _discard(response)
                raise RemoteProtocolError(
                    f"{request}: the server sent only a part of the file, although the request was "
                    "for all of it",
                    response=response,
                    request_sent=True,
                )
            if result is not RangeResult.OTHER:
                await self._receive(response, requested)
            return response

        return receive

    def _plan_range(self, hop: ClientRequest) -> RangeRequest | None:
        if not self._may_resume:
            return None
        return plan_range(self._part.record, self._part.size, self._request, hop)

    async def accept(self, response: Response) -> None:
        """Accept the response of the last attempt.

        Raises:
            HTTPError: the body of the response is not a file.
        """
        if response is self._received:
            return
        if response.status_code != 200:
            await _discard(response)
            response.raise_for_status()
            raise HTTPError(
                f"the response is not a file: {response.status_code} {response.reason} for url: "
                f"{redact_url(response.request.url)}",
                response=response,
            )
        await self._receive(response, None)  # a middleware made it

    async def _receive(self, response: Response, requested: RangeRequest | None) -> None:
        try:
            total = self._begin(response, requested)
            await self._write(_get_reader(response))
        except BaseException:
            if isinstance(response, BaseStreamedResponse):
                response._abort()
            raise
        if total is not None and self._part.size != total:
            if self._part.size > total:
                self._part.discard()
            raise ChunkedEncodingError(
                f"{response.request}: the file has {total} bytes, but {self._part.size} arrived",
                response=response,
                request_sent=True,
            )
        self._meter.end(self._part.size)
        self._received = response

    def _begin(self, response: Response, requested: RangeRequest | None) -> int | None:
        """Prepare the partial file for a response, and return its final size if it is known."""
        headers, total, start = response.headers, None, 0
        if requested is not None and response.status_code == 206:
            start = requested.start
            total = int(headers["content-range"].rpartition("/")[2])
        elif not parse_codings(headers.get_list("content-encoding")):
            total = content_length(headers)
        self._check_size(response, total)
        if start:
            self._part.resume(start)
        else:
            source = response.request.url
            self._part.restart(ResumeRecord.of(self._request, source, headers, self._wall()))
        self._meter.begin(start, total)
        return total

    def _check_size(self, response: Response, total: int | None) -> None:
        limit = self._request.max_response_size  # the engine checks single responses only
        if limit is not None and total is not None and total > limit:
            raise ResponseTooLarge(
                f"{response.request}: the file has {total} bytes, which is more than "
                f"max_response_size={limit} bytes",
                response=response,
                request_sent=True,
            )

    async def _write(self, read: Callable[[], Awaitable[list[bytes]]]) -> None:
        part, collected, size = self._part, [], 0
        try:
            while pieces := await read():
                collected += pieces
                size += sum(map(len, pieces))
                self._meter.move(part.size + size)
                if size >= self._batch:
                    pieces, collected, size = collected, [], 0
                    await self._run_blocking(part.write, pieces)
        finally:
            if collected:  # also after an error, so that the download can resume after them
                part.write(collected)

    async def verify(self, expected: Checksum, response: Response) -> None:
        """Compare the checksum of the file with the expected one.

        Raises:
            ChecksumMismatch: they differ; the file is removed.
        """
        hasher, offset = expected.make_hasher(), 0
        while read := await self._run_blocking(self._part.hash_into, hasher, offset):
            offset += read
        actual = hasher.hexdigest()
        if actual == expected.digest:
            return
        self._part.discard()
        raise ChecksumMismatch(
            f"{response.request}: the file has the checksum {expected.algorithm}:{actual}, not "
            f"{expected}; it was removed, and {self._part.path} is unchanged",
            response=response,
            request_sent=True,
            expected=str(expected),
            actual=f"{expected.algorithm}:{actual}",
        )


def _with_range(request: ClientRequest, requested: RangeRequest | None) -> ClientRequest:
    if requested is None:
        return request
    ranged = request.copy()
    ranged.headers = ranged.headers.merged(requested.headers())
    return ranged


def _get_reader(response: Response) -> Callable[[], Awaitable[list[bytes]]]:
    if isinstance(response, BaseStreamedResponse):
        return response._decoding_pieces()
    pieces = [[], [response.content]]

    async def read() -> list[bytes]:
        return pieces.pop()

    return read


async def _discard(response: Response) -> None:
    with suppress(RequestException):  # an unwanted body may break off
        await response.discard()
