"""One stream of a download: send requests, and write the bodies of their responses to disk.

resume.py classifies the responses, retry/policy.py decides on another attempt, and partial_file.py
writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from curlhttp._client.chain import DOWNLOAD
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._features.download.file_object import FileObject
from curlhttp._features.download.partial_file import Checksum, PartialFile
from curlhttp._features.download.resume import (
    RangeRequest,
    RangeResult,
    ResumeRecord,
    classify_response,
    content_length,
    plan_foreign_range,
    plan_range,
)
from curlhttp._features.http_date import parse_http_date
from curlhttp._features.progress import ProgressMeter
from curlhttp._http.decoding import parse_codings
from curlhttp._http.redaction import redact_url
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Runtime, Send
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
    from curlhttp._runtime.run import Offload

_RENEWS = 1024 * 1024  # bytes further, after which an attempt counts as the first one again


class Tools(NamedTuple):
    """What a download uses.

    Attributes:
        client: has the layers.
        exchange: passes requests to the engine.
        runtime: of the engine.
        run_blocking: calls functions that may block.
        batch: the number of bytes to collect before they are written to disk.
        meter: reports the progress.
        expected: the checksum of the file, or None.
    """

    client: BaseClient
    exchange: Send
    runtime: Runtime
    run_blocking: Offload
    batch: int
    meter: ProgressMeter
    expected: Checksum | None


class DownloadStream:
    """One stream: add a Range to its requests, and write the responses to the partial file.

    Args:
        tools: see there.
        request: of the whole file.
        part: the partial file.

    Attributes:
        modified: Last-Modified of the file in seconds since the epoch, or None.
    """

    def __init__(
        self, tools: Tools, request: ClientRequest, part: PartialFile | FileObject
    ) -> None:
        self._tools = tools
        self._request = request
        self._part = part
        self._meter = tools.meter
        self._wall = tools.runtime.wall
        self._run_blocking = tools.run_blocking
        self._batch = tools.batch
        self.modified: float | None = None
        self._may_resume = True
        self._received: Response | None = None
        self._receive_hop: Send | None = None
        self._renewed_at = 0  # bytes that had arrived when the retries were renewed

    async def send(self) -> Response:
        """Send the request, and return the response whose body is in the file.

        Raises:
            RequestException: it was not received completely.
        """
        tools = self._tools
        send = tools.client._chain.build(
            tools.exchange, tools.runtime, kind=DOWNLOAD, own=self.wrap, also=("retry",)
        )
        return await self.accept(await send(self._request))

    def wrap(self, send: Send) -> Send:
        """Receive the whole body within each attempt (a layer)."""

        async def receive(request: ClientRequest) -> Response:
            requested = self._plan_range(request)
            response = await send(with_range(request, requested))
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

        self._receive_hop = receive
        return receive

    def _plan_range(self, hop: ClientRequest) -> RangeRequest | None:
        if not self._may_resume:
            return None
        if self._part.foreign is not None:
            return plan_foreign_range(self._part.foreign, self._tools.expected is not None)
        return plan_range(self._part.record, self._part.size, self._request, hop)

    async def accept(self, response: Response) -> Response:
        """Accept the response of the last attempt, and return it, or the one that has the rest.

        Raises:
            HTTPError: the body of the response is not a file.
        """
        request = response.request
        if (
            response is not self._received
            and response.status_code == 200
            and isinstance(response, BaseStreamedResponse)
            and request.method == "GET"
            and self._receive_hop is not None
            and self._plan_range(request) is not None
        ):  # an Auth sent it, which does not know of the part that is there
            response.abort()
            response = await self._receive_hop(request)
        if response is self._received:
            return response
        if response.status_code != 200:
            await self._refuse_other(response)
        await self._receive(response, None)  # an Auth has sent it, or a middleware made it
        return response

    async def _refuse_other(self, response: Response) -> NoReturn:
        """Raise HTTPError for a response whose body is not the file."""
        await _discard(response)
        response.raise_for_status()
        raise HTTPError(
            f"the response is not a file: {response.status_code} {response.reason} for url: "
            f"{redact_url(response.request.url)}",
            response=response,
        )

    async def _receive(self, response: Response, requested: RangeRequest | None) -> None:
        try:
            total = self._begin(response, requested)
            await self._write(_get_reader(response))
            self._check_end(response, total)
        except BaseException as error:
            abandon(response)
            if isinstance(error, RequestException):
                self._note_progress(error)
            raise
        self._received = response

    def _note_progress(self, error: RequestException) -> None:
        """Have the retries renewed if this attempt has got far enough."""
        count = self._count_arrived()
        if count - self._renewed_at >= _RENEWS:
            self._renewed_at, error._has_progressed = count, True

    def _count_arrived(self) -> int:
        """Return how many bytes there are; fewer if the stream starts over."""
        return self._part.size

    def _check_end(self, response: Response, total: int | None) -> None:
        """Raise ChunkedEncodingError if a body that has ended is not the rest of the file."""
        if total is not None and self._part.size != total:
            if self._part.size > total:
                self._part.discard()
            raise ChunkedEncodingError(
                f"{response.request}: the file has {total} bytes, but {self._part.size} arrived",
                response=response,
                request_sent=True,
            )
        self._meter.end(self._part.size)

    def _begin(self, response: Response, requested: RangeRequest | None) -> int | None:
        """Prepare the partial file for a response, and return its final size if it is known."""
        headers, total, start = response.headers, None, 0
        if requested is not None and response.status_code == 206:
            start = requested.start
            total = int(headers["content-range"].rpartition("/")[2])
        elif not parse_codings(headers.get_list("content-encoding")):
            total = content_length(headers)
        self._check_size(response, total)
        wall = self._wall()
        modified = parse_http_date(headers.get("last-modified"), wall)
        if start and requested is not None and requested.stored is not None:
            self._part.resume(start)
            self.modified = modified or self.modified  # a 206 may leave it out
        else:
            self.modified = modified
            record = ResumeRecord.of(self._request, response.request.url, headers, wall)
            if start:
                self._part.adopt(start, record and replace(record, total=total))
            else:
                self._part.restart(record)
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

    async def verify(self, response: Response) -> None:
        """Compare the checksum of the file with the expected one, if there is one.

        Raises:
            ChecksumMismatch: they differ; the file is removed.
        """
        expected = self._tools.expected
        if expected is None:
            return
        hasher, offset = self._part.hasher or expected.make_hasher(), 0
        while read := await self._run_blocking(self._part.hash_into, hasher, offset):
            offset += read
        actual = hasher.hexdigest()
        if actual == expected.digest:
            return
        self._part.discard()
        raise ChecksumMismatch(
            f"{response.request}: the file has the checksum {expected.algorithm}:{actual}, not "
            f"{expected}; {self._part.after_mismatch}",
            response=response,
            request_sent=True,
            expected=str(expected),
            actual=f"{expected.algorithm}:{actual}",
        )


def with_range(request: ClientRequest, requested: RangeRequest | None) -> ClientRequest:
    """Return a copy of a request for a range; the request itself for the whole file."""
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


def abandon(response: Response) -> None:
    """Abandon the rest of a body."""
    if isinstance(response, BaseStreamedResponse):
        response._abort()


async def _discard(response: Response) -> None:
    with suppress(RequestException):  # an unwanted body may break off
        await response.discard()
