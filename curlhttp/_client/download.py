"""client.download, for both clients: from requests to bytes on disk. Loaded with the first.

What answers mean is decided in _policy/resume.py, whether there is another attempt in
_policy/retry.py; partial_file.py writes.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from curlhttp._client.partial_file import Checksum, PartialFile
from curlhttp._engine.engine import Send
from curlhttp._flow.streamed_response import BaseStreamedResponse, BufferedBody
from curlhttp._models.decoding import parse_codings
from curlhttp._models.errors import add_note
from curlhttp._models.progress import Progress, ProgressMeter
from curlhttp._models.redaction import redact_url
from curlhttp._models.request import Request
from curlhttp._models.response import Response
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
    from curlhttp._client.request_builder import DownloadOptions
    from curlhttp._engine.run import Offload
    from curlhttp._models.url import URL

_OWN = ("Range", "If-Range", "Content-Range")


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
    """Download a file; the arguments are those of Client.download, and three more.

    `client` builds the request and has the flow that it goes through, `run_blocking` calls what may
    block, and `batch` bytes are gathered before they are written.
    """
    expected = None if checksum is None else Checksum.parse(checksum)
    request = _request(client, url, options)
    meter = ProgressMeter(progress, client.clock.now)
    part = PartialFile(path, resumes=resume)
    try:
        task = _Download(request, part, meter, client.clock.wall, run_blocking, batch)
        send = client.chain.build(
            client.exchange,
            client.clock,
            client.make_waiter,
            retries=True,
            within_retry=task.around,
        )
        response = await send(request)
        await task.accept(response)
        if expected is not None:
            await task.verify(expected, response)
        await run_blocking(part.commit)
    except Exception as error:
        if part.is_kept:
            add_note(error, f"{part.size} bytes are kept: the same download goes on from there")
        raise
    finally:
        part.close()
    return response


def _request(client: BaseClient, url: str | bytes | URL, options: DownloadOptions) -> Request:
    from curlhttp._client.request_builder import DownloadOptions

    for name in options:
        if name not in DownloadOptions.__annotations__:
            from curlhttp._models.suggestions import no_option

            other = "for other requests there is stream()"
            raise no_option("download()", name, DownloadOptions.__annotations__, other)
    request = client.build_request("GET", url, stream=True, **options)
    for name in _OWN:
        if request.get_header(name) is not None:
            raise ValueError(f"download() asks for ranges by itself: leave the header {name} out")
    request.headers["Accept-Encoding"] = "identity"  # a coding has ranges, and validators, too
    return request


class _Download:
    """One download: what each of its requests asks for, and what becomes of the answers."""

    def __init__(
        self,
        request: Request,
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
        self._asks_for_rest = True
        self._received: Response | None = None

    def around(self, send: Send) -> Send:
        """Make a body that is received, to its end, a part of each attempt (a layer)."""

        async def receiving(request: Request) -> Response:
            asked = self._range_to_ask(request)
            response = await send(_with_range(request, asked))
            answer = classify_response(response.status_code, response.headers, asked)
            if answer is RangeResult.MISMATCH and asked is not None:
                self._asks_for_rest, asked = False, None
                await _discard(response)
                response = await send(request)
                answer = classify_response(response.status_code, response.headers, None)
            if answer is RangeResult.MISMATCH:
                await _discard(response)
                raise RemoteProtocolError(
                    f"{request}: the server sent a part of the file unasked",
                    response=response,
                    request_sent=True,
                )
            if answer is not RangeResult.OTHER:
                await self._receive(response, asked)
            return response

        return receiving

    def _range_to_ask(self, hop: Request) -> RangeRequest | None:
        if not self._asks_for_rest:
            return None
        return plan_range(self._part.stored, self._part.size, self._request, hop)

    async def accept(self, response: Response) -> None:
        """Take what came of all attempts.

        Raises:
            HTTPError: there is no file in it.
        """
        if response is self._received:
            return
        if response.status_code != 200:
            await _discard(response)
            response.raise_for_status()
            raise HTTPError(
                f"{response.status_code} {response.reason} is no file, for url: "
                f"{redact_url(response.request.url)}",
                response=response,
            )
        await self._receive(response, None)  # a middleware's own

    async def _receive(self, response: Response, asked: RangeRequest | None) -> None:
        try:
            total = self._begin(response, asked)
            await self._write(_reader(response))
        except BaseException:
            if isinstance(response, BaseStreamedResponse):
                response._abort()
            raise
        if total is not None and self._part.size != total:
            if self._part.size > total:
                self._part.forget()
            raise ChunkedEncodingError(
                f"{response.request}: the file has {total} bytes, but {self._part.size} came",
                response=response,
                request_sent=True,
            )
        self._meter.end(self._part.size)
        self._received = response

    def _begin(self, response: Response, asked: RangeRequest | None) -> int | None:
        """Make the partial file ready for a response, and return the bytes that it will have."""
        headers, total, start = response.headers, None, 0
        if asked is not None and response.status_code == 206:
            start = asked.start
            total = int(headers["content-range"].rpartition("/")[2])
        elif not parse_codings(headers.get_list("content-encoding")):
            total = content_length(headers)
        self._check_size(response, total)
        if start:
            self._part.go_on(start)
        else:
            source = response.request.url
            self._part.restart(ResumeRecord.of(self._request, source, headers, self._wall()))
        self._meter.begin(start, total)
        return total

    def _check_size(self, response: Response, total: int | None) -> None:
        limit = self._request.max_response_size  # the engine sees no more than one response
        if limit is not None and total is not None and total > limit:
            raise ResponseTooLarge(
                f"{response.request}: the file has {total} bytes, which is more than "
                f"max_response_size={limit} bytes",
                response=response,
                request_sent=True,
            )

    async def _write(self, read: Callable[[], Awaitable[bytes]]) -> None:
        part, pieces, gathered = self._part, [], 0
        try:
            while piece := await read():
                pieces.append(piece)
                gathered += len(piece)
                self._meter.move(part.size + gathered)
                if gathered >= self._batch:
                    data, pieces, gathered = b"".join(pieces), [], 0
                    await self._run_blocking(part.write, data)
        finally:
            if pieces:  # whatever ended it: what came is worth keeping
                part.write(b"".join(pieces))

    async def verify(self, expected: Checksum, response: Response) -> None:
        """Compare the file with its checksum.

        Raises:
            ChecksumMismatch: it is another one.
        """
        hasher, offset = expected.hasher(), 0
        while read := await self._run_blocking(self._part.hash_into, hasher, offset):
            offset += read
        actual = hasher.hexdigest()
        if actual == expected.digest:
            return
        self._part.forget()
        raise ChecksumMismatch(
            f"{response.request}: the file has the checksum {expected.algorithm}:{actual}, not "
            f"{expected}; it was removed, and {self._part.path} is as it was",
            response=response,
            request_sent=True,
            expected=str(expected),
            actual=f"{expected.algorithm}:{actual}",
        )


def _with_range(request: Request, asked: RangeRequest | None) -> Request:
    if asked is None:
        return request
    ranged = request.copy()
    ranged.headers = ranged.headers.merged(asked.headers())
    return ranged


def _reader(response: Response) -> Callable[[], Awaitable[bytes]]:
    if isinstance(response, BaseStreamedResponse):
        return response._decoding()
    return BufferedBody(response.content).read


async def _discard(response: Response) -> None:
    with suppress(RequestException):  # an unwanted body may break off
        await response.discard()
