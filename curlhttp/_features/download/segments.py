"""Download a file in several ranges at once, each written at its place.

A download begins as one stream, which asks for the whole file. If the head of its response shows
that the rest can be requested in ranges, the file is divided into segments, and other streams begin
at theirs. A stream goes on until it reaches bytes that another one has received. So if the others
have to wait, or are refused, the first one brings the whole file: nothing waits for them.

Loaded by the first download with segments, or the first that continues one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from curlhttp._client.base_layer import with_deadline
from curlhttp._client.exchange import exchange
from curlhttp._features.download.partial_file import PartialFile
from curlhttp._features.download.resume import (
    RangeRequest,
    RangeResult,
    can_resume,
    classify_response,
    is_of_other_version,
    plan_segment,
)
from curlhttp._features.download.spans import MIN_SEGMENT, Span, divide
from curlhttp._features.download.stream import DownloadStream, Tools, abandon, with_range
from curlhttp._features.http_date import parse_http_date
from curlhttp._http.errors import client_closed
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Runtime, Send
from curlhttp._runtime.race import Race
from curlhttp.exceptions import ChunkedEncodingError, RequestException

if TYPE_CHECKING:
    from curlhttp._client.client import BlockingClient
    from curlhttp._http.config import NetworkRoute

T = TypeVar("T")

_UNWRITTEN = 0.5  # seconds after which further bytes are not collected; a kill would lose them
_ROUNDS = 3  # versions of the file that are begun in segments, before the rest comes as one stream


async def download_segments(
    tools: Tools, request: ClientRequest, part: PartialFile, count: int
) -> tuple[DownloadStream, Response]:
    """Download a file in segments if possible, and as one stream otherwise.

    Args:
        tools: see there.
        request: of the whole file.
        part: the partial file, perhaps of an earlier download in any number of segments.
        count: how many segments to receive at once.

    Returns:
        The stream that began, and its response.
    """
    if count > 1:
        request = _over_separate_connections(request)
    if request.timeout.total is not None:  # one deadline for all streams
        request = with_deadline(request, tools.runtime.now)
    for _ in range(_ROUNDS):
        streams = _Streams(tools, request, part, count)
        try:
            return await streams.run()
        except _Changed:
            part.restart(None)
        except _NoRanges:
            part.join()
            break
    return await _Streams(tools, request, part, 1).run()


def _over_separate_connections(request: ClientRequest) -> ClientRequest:
    """Return a copy that shares no connection with others: several streams would gain nothing."""
    request = request.copy()
    choose, made = request.choose_route, {id(None): request.route}

    def separate(route: NetworkRoute) -> NetworkRoute:
        if route.http2 == "prior-knowledge" or not (route.http2 or route.http3):
            return route
        if id(route) not in made:
            made[id(route)] = replace(route, http2=False, http3=False)
        return made[id(route)]

    def choose_separate(url: URL) -> NetworkRoute:
        assert choose is not None
        return separate(choose(url))

    if choose is None:
        request.route = separate(request.route)
    else:
        request.choose_route = choose_separate
    return request


def run_in_thread(client: BlockingClient, download: Callable[[Send, Runtime], Awaitable[T]]) -> T:
    """Run a download of a blocking client, with its streams at once in the calling thread.

    Args:
        client: has no transport of its own.
        download: gets what sends a request, and the runtime.
    """
    from curlhttp._features.map.engine import SteppedEngine

    engine = SteppedEngine(client.limits, multiplexes=client._multiplexes)
    client._add_engine(engine)
    runtime, kind = engine.runtime, client._streamed
    send = exchange(engine, runtime.now, kind)
    if client._wrappers:
        from curlhttp._client.around import exchange_wrapped

        send = exchange_wrapped(client._wrappers, lambda: engine, runtime.now, kind)
    outcomes: list[T | Exception] = []
    try:
        engine.take_turn()
        try:
            engine.start(lambda send: download(send, runtime), send, outcomes.append)
            while not outcomes:
                engine.run_once()
        finally:
            engine.end_turn()
    finally:
        engine.cancel()
        engine.close()
    outcome = outcomes.pop()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


class _Changed(Exception):
    """The server has another version of the file now."""


class _NoRanges(Exception):
    """The server does not send the ranges that are missing."""


class _Lost(RequestException):
    """Raised in an attempt when another stream has received the segment meanwhile."""


class _Gap:
    """A segment of which bytes are missing.

    Args:
        start: the position of the first byte that is missing.
        end: the position after the last one.

    Attributes:
        written: up to where its bytes are in the file.
        received: up to where they are here; the rest was not written yet.
        end: as given, unless another stream takes over the end, or this one goes on beyond it.
        until: up to where the response goes that is being received; 0 if there is none.
        is_taken: a stream fetches it, or waits until it can.
        is_lost: the stream of the segment before has gone on here.
    """

    __slots__ = ("end", "is_lost", "is_taken", "received", "until", "written")

    def __init__(self, start: int, end: int) -> None:
        self.written = self.received = start
        self.end = end
        self.until = 0
        self.is_taken = self.is_lost = False


class _Streams:
    """The streams of one version of a file.

    Args:
        tools: see there.
        request: of the whole file.
        part: the partial file.
        count: the maximum number of streams at once.

    Attributes:
        arrived: bytes of the file, of which the last ones were not written yet.
    """

    _race: Race | None = None
    _error: RequestException | None = None  # of the last stream that failed
    _fatal: BaseException | None = None  # ends the download
    _finished: tuple[_SegmentStream, Response] | None = None
    _has_ranges = True
    _is_split = False
    _running = _failed = 0
    arrived = 0

    def __init__(self, tools: Tools, request: ClientRequest, part: PartialFile, count: int) -> None:
        self._tools = tools
        self._request = request
        self._part = part
        self._count = count
        self._gaps: list[_Gap] = []  # by position

    async def run(self) -> tuple[DownloadStream, Response]:
        """Receive the file, and return the stream that began, and its response.

        Raises:
            _Changed: the server has another version.
            _NoRanges: what is missing cannot be requested in ranges.
            RequestException: no stream is left that could fetch what is missing.
        """
        self._divide_rest()
        if self._count == 1:
            await self._run_stream(self._make_stream(self._take()))
        else:
            self._race = self._tools.runtime.make_race()
            async with self._race:
                self._race.start(self._run_stream, self._make_stream(self._take()))
                await self._run_others(self._race)
        failure = self._take_failure()
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # otherwise it and this frame would hold each other
        if self._is_split:
            self._tools.meter.end(self._part.size)
        assert self._finished is not None
        return self._finished

    def _take_failure(self) -> BaseException | None:
        """Return why the file is not there, None if it is; and forget it."""
        fatal, error, self._fatal, self._error = self._fatal, self._error, None, None
        if fatal is not None:
            return fatal
        if self._finished is not None and not self._gaps:
            return None
        return error if self._has_ranges and error is not None else _NoRanges()

    async def _run_others(self, race: Race) -> None:
        """Start streams for all segments, and wait until there is nothing left to fetch."""
        while self._fatal is None:
            # One stream less for each failure, so they end if the server refuses them.
            while self._running < self._count - self._failed and (gap := self._take()) is not None:
                race.start(self._run_stream, self._make_stream(gap))
            if not self._running or (self._is_split and not self._gaps):
                break  # streams that still wait came too late
            await race.wait(None)

    def wake(self) -> None:
        """Have it looked whether there is something to start, or nothing left."""
        if self._race is not None:
            self._race.wake()

    # segments

    def _divide_rest(self) -> None:
        """Divide what an earlier download has left, if its version is known."""
        part, record = self._part, self._part.record
        if not can_resume(record, self._request) or record.total is None or not part.size:
            return
        total, spans = record.total, part.spans
        missing: list[Span] = [(part.size, total)] if spans is None else spans.missing(total)
        if spans is None and len(divide(missing, self._count)) < 2:
            return
        # If nothing is missing, one byte shows whether the version is still the same.
        if self._divide(missing or [(total - 1, total)], total):
            self._tools.meter.begin(self.arrived, total)

    def begin(self, response: Response, total: int | None) -> _Gap | None:
        """Divide a file when the response has begun that has its rest, if that is possible.

        Args:
            response: the first one.
            total: the size of the file, or None.

        Returns:
            The segment of its stream, or None if the file comes as one stream.
        """
        record, start = self._part.record, self._part.size
        if self._count < 2 or total is None or record is None or record.total != total:
            return None
        if response.headers.get("accept-ranges", "").strip().lower() == "none":
            return None
        missing = [(start, total)]
        if len(divide(missing, self._count)) < 2 or not self._divide(missing, total):
            return None
        self.wake()
        gap = self._gaps[0]
        gap.is_taken, gap.until = True, total
        return gap

    def _divide(self, missing: list[Span], total: int) -> bool:
        self._is_split = self._part.split()
        if self._is_split:
            self.arrived = total - sum(end - start for start, end in missing)
            self._gaps = [_Gap(start, end) for start, end in divide(missing, self._count)]
        return self._is_split

    def _take(self) -> _Gap | None:
        """Return a segment for a stream: one that none has, or the end of the largest one."""
        gap = next((gap for gap in self._gaps if not gap.is_taken), None)
        if gap is None:
            largest = max(self._gaps, key=lambda gap: gap.end - gap.received, default=None)
            if largest is None or not all(gap.until for gap in self._gaps):
                return None  # more streams would only wait, too
            half = (largest.end - largest.received) // 2
            if half < MIN_SEGMENT:
                return None
            gap = _Gap(largest.end - half, largest.end)
            largest.end -= half
            self._gaps.insert(self._gaps.index(largest) + 1, gap)
        gap.is_taken = True
        return gap

    def go_on(self, gap: _Gap) -> bool:
        """Let the stream of a segment go on with the next one, if nothing of it was received.

        Returns:
            Whether the segment is longer now.
        """
        index = self._gaps.index(gap) + 1
        following = self._gaps[index] if index < len(self._gaps) else None
        if following is None or following.until or following.written > gap.end:
            return False
        if following.end > gap.until:
            return False
        following.is_lost = True
        self._gaps.remove(following)
        gap.end = following.end
        return True

    # streams

    def _make_stream(self, gap: _Gap | None) -> _SegmentStream:
        self._running += 1
        return _SegmentStream(self._tools, self._request, self._part, self, gap)

    async def _run_stream(self, stream: _SegmentStream) -> None:
        """Fetch one segment after another."""
        try:
            while await self._fetch(stream):
                stream.gap = self._take()
                if stream.gap is None:
                    break
        except RequestException as error:
            self._error = error
            self._give_up(stream)
            if self._part.record is None and self._is_split:  # the server sent what is wrong
                self._fatal = self._fatal or error
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            self._fatal = self._fatal or error
        finally:
            self._running -= 1
            self.wake()

    async def _fetch(self, stream: _SegmentStream) -> bool:
        """Fetch the segment of a stream; return whether it may fetch another one."""
        if self._tools.client.is_closed:
            raise client_closed(self._request)
        try:
            response = await stream.send()
        except _Lost:
            return True
        gap = stream.gap
        if stream.refusal is not None:
            self._give_up(stream)
            if stream.refusal is _Changed:
                self._fatal = self._fatal or _Changed()
            self._has_ranges = False
            return False
        if gap is not None and not gap.is_lost:
            self._gaps.remove(gap)
        if self._finished is None or stream.has_begun:
            self._finished = stream, response
        return gap is not None

    def _give_up(self, stream: _SegmentStream) -> None:
        """Leave the segment of a stream to others."""
        self._failed += 1
        if stream.gap is not None:
            stream.gap.is_taken = False


class _SegmentStream(DownloadStream):
    """A stream that receives one segment after another, or the whole file.

    Args:
        tools: see there.
        request: of the whole file.
        part: the partial file.
        streams: which this one belongs to.
        gap: the segment; None to ask for the whole file.

    Attributes:
        gap: as given; None as long as the file is not divided.
        refusal: why its last response was of no use; None if it was.
        has_begun: it has the response to the request for the whole file.
    """

    refusal: type[_Changed | _NoRanges] | None = None
    _fetched = 0  # bytes

    def __init__(
        self,
        tools: Tools,
        request: ClientRequest,
        part: PartialFile,
        streams: _Streams,
        gap: _Gap | None,
    ) -> None:
        super().__init__(tools, request, part)
        self._file = part
        self._streams = streams
        self.gap = gap
        self.has_begun = gap is None

    def wrap(self, send: Send) -> Send:
        receive_rest = super().wrap(send)

        async def receive(request: ClientRequest) -> Response:
            gap, record = self.gap, self._file.record
            if gap is None:
                return await receive_rest(request)
            if gap.is_lost or gap.written >= gap.end:
                raise _Lost(f"{request}: another stream was faster", request=request)
            requested = plan_segment(record, gap.written, gap.end, request)
            response = await send(with_range(request, requested))
            result = classify_response(response.status_code, response.headers, requested)
            if result is RangeResult.OTHER:
                return response
            if result is RangeResult.PARTIAL and not gap.is_lost:
                await self._receive(response, requested)
            else:
                self._refuse(response)
            return response

        return receive

    def _refuse(self, response: Response) -> None:
        """Abandon a response that is not of the range, or too late."""
        gap, record = self.gap, self._file.record
        abandon(response)
        if gap is None or gap.is_lost:
            self._received = response
            return
        is_other = record is not None and is_of_other_version(
            response.headers, record.validator, self._wall()
        )
        self.refusal = _Changed if is_other else _NoRanges

    async def accept(self, response: Response) -> Response:
        if self.gap is None:
            return await super().accept(response)
        if response is self._received or self.refusal is not None:
            return response
        if response.status_code not in (200, 206):
            await self._refuse_other(response)
        self._refuse(response)  # an Auth has sent it, or a middleware made it
        return response

    def _plan_range(self, hop: ClientRequest) -> RangeRequest | None:
        return None if self._file.spans is not None else super()._plan_range(hop)

    def _begin(self, response: Response, requested: RangeRequest | None) -> int | None:
        if self.gap is None:
            total = super()._begin(response, requested)
            self.gap = self._streams.begin(response, total)
            self._renewed_at = 0
            return total
        total = int(response.headers["content-range"].rpartition("/")[2])
        self._check_size(response, total)
        modified = parse_http_date(response.headers.get("last-modified"), self._wall())
        self.modified = modified or self.modified
        self.gap.until = self.gap.end
        self._streams.wake()
        return total

    async def _write(self, read: Callable[[], Awaitable[list[bytes]]]) -> None:
        gap, streams = self.gap, self._streams
        if gap is None:
            return await super()._write(read)
        collected: list[bytes] = []
        size, now = 0, self._tools.runtime.now
        due = now() + _UNWRITTEN
        try:
            while pieces := await read():
                kept = self._fit(gap, pieces)
                count = sum(map(len, kept))
                is_excess = count < sum(map(len, pieces))
                if is_excess and gap.end == gap.until:
                    self._file.discard()  # the server said something else
                collected += kept
                size += count
                streams.arrived += count
                self._meter.move(streams.arrived)
                if size >= self._batch or now() >= due:
                    kept, collected, size, due = collected, [], 0, now() + _UNWRITTEN
                    await self._run_blocking(self._flush, gap, kept)
                if is_excess or (gap.received == gap.end < gap.until and not streams.go_on(gap)):
                    break
        finally:
            gap.until = 0
            if collected:
                self._flush(gap, collected)
            gap.received = gap.written
        return None

    def _fit(self, gap: _Gap, pieces: list[bytes]) -> list[bytes]:
        """Return the pieces up to where another stream is, and note that they were received."""
        kept = []
        for piece in pieces:
            while gap.end - gap.received < len(piece) and self._streams.go_on(gap):
                pass
            kept.append(piece[: gap.end - gap.received])
            gap.received += len(kept[-1])
        return kept

    def _flush(self, gap: _Gap, pieces: list[bytes]) -> None:
        size = sum(map(len, pieces))
        self._file.write_at(gap.written, pieces)
        gap.written += size
        self._fetched += size

    def _check_end(self, response: Response, total: int | None) -> None:
        gap = self.gap
        if gap is None:
            return super()._check_end(response, total)
        abandon(response)  # it may go on where another stream is
        left = gap.end - gap.written
        if left or self._file.record is None:
            state = f"{left} bytes are missing" if left else "it is longer than the server said"
            raise ChunkedEncodingError(
                f"{response.request}: the body of a range is not right: {state}",
                response=response,
                request_sent=True,
            )
        return None

    def _count_arrived(self) -> int:
        return super()._count_arrived() if self.gap is None else self._fetched
