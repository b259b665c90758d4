"""Record what a client sends and receives to a HAR file, and play it back."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from curlhttp._client.streamed_response import BaseStreamedResponse, StoredBody, WrappedIncoming
from curlhttp._client.transport import AttemptWrapper
from curlhttp._features.attempt_numbers import get_attempt_numbers
from curlhttp._features.record.har import (
    JSONObject,
    PlaybackEntry,
    RecordedExchange,
    RecordedResponse,
    make_empty_log,
    read_log,
    write_log,
)
from curlhttp._http.body import BytesBody, read_whole
from curlhttp._http.body_redaction import Redactor, parse_boundary
from curlhttp._http.decoding import decode_readable
from curlhttp._http.errors import Unpicklable, validate_path
from curlhttp._http.redaction import display_url
from curlhttp._http.request import ClientRequest, is_handshake
from curlhttp._http.response import Response
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.timings import NO_TIME, Timings, make_timings
from curlhttp._http.url import parse_url
from curlhttp._runtime.engine import Incoming
from curlhttp._runtime.network import network
from curlhttp._runtime.race import Result, get_attempt, is_beaten
from curlhttp.exceptions import InvalidURL, RequestException, ResponseTooLarge

if TYPE_CHECKING:
    from curlhttp._runtime.engine import Runtime, Send

# --- Which entry of a cassette matches a request, and which is nearest if none does ---

Part: TypeAlias = Literal["method", "url", "body"]


class Key(NamedTuple):
    """The parts of a request that are compared, with secrets masked."""

    method: str
    url: str
    body: bytes


def make_key(request: ClientRequest, body: bytes, redactor: Redactor) -> Key:
    """Return the key of a request to send."""
    media_type = request.get_header("content-type") or ""
    plain = decode_readable(body, request.read_headers().get_list("content-encoding"))
    masked = redactor.body(plain, media_type)
    return Key(
        request.method,
        _sort_parameters(redactor.url(request.url)),
        _replace_boundary(masked, media_type),
    )


def make_entry_key(played: PlaybackEntry, redactor: Redactor) -> Key:
    """Return the key of an entry, which another program may have written."""
    body = _replace_boundary(redactor.body(played.body, played.media_type), played.media_type)
    return Key(played.method, _sort_parameters(redactor.url(played.url)), body)


def respell(key: Key) -> Key:
    """Return the key with its URL as curlhttp sends one that is not raw.

    Other programs write URLs as they send them, with `%7e` or `[`, for example.
    """
    try:
        return key._replace(url=_sort_parameters(str(parse_url(key.url))))
    except InvalidURL:
        return key


def _sort_parameters(url: str) -> str:
    """Return a URL with sorted parameters: some programs send them in any order."""
    path, mark, query = url.partition("?")
    return path + mark + "&".join(sorted(query.split("&")))


def _replace_boundary(body: bytes, media_type: str) -> bytes:
    """Return a body without the random boundary of a form."""
    found = parse_boundary(media_type)
    return body if found is None else body.replace(found.encode("latin-1", "replace"), b"-")


def keep_parts(key: Key, parts: Collection[Part]) -> Key:
    """Return a key with only the parts to compare."""
    return Key(
        key.method if "method" in parts else "",
        key.url if "url" in parts else "",
        key.body if "body" in parts else b"",
    )


def find_nearest(
    key: Key, known: Sequence[Key], parts: Sequence[Part]
) -> tuple[int, list[Part]] | None:
    """Return the position of the most similar key, and the parts that differ."""
    if not known:
        return None

    def likeness(position: int) -> tuple[int, float]:
        other = known[position]
        equal = sum(getattr(key, part) == getattr(other, part) for part in parts)
        return equal, SequenceMatcher(None, key.url, other.url).quick_ratio()

    best = max(range(len(known)), key=likeness)
    return best, [part for part in parts if getattr(key, part) != getattr(known[best], part)]


Mode: TypeAlias = Literal["once", "all", "none", "new"]
_MODES = ("once", "all", "none", "new")
_PARTS: tuple[Part, ...] = ("method", "url", "body")


class _Cassette:
    """The exchanges recorded since the file was read."""

    def __init__(self, path: Path, redactor: Redactor, log: JSONObject) -> None:
        self.path = path
        self._redactor = redactor
        self._log = log
        self._exchanges: deque[RecordedExchange] = deque()
        self._is_new = False  # the log has more entries than the file
        self._lock = threading.Lock()

    def add(self, exchange: RecordedExchange) -> None:
        """Add an exchange. Takes no lock, because a finalizer may call this."""
        self._exchanges.append(exchange)

    def save(self, *, always: bool = False) -> None:
        """Write the file if anything is new.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            # One by one, because another thread may be adding exchanges.
            new = [self._exchanges.popleft() for _ in range(len(self._exchanges))]
            new.sort(key=lambda exchange: exchange.number)
            self._log["entries"] += [exchange.to_entry(self._redactor) for exchange in new]
            self._is_new = self._is_new or always or bool(new)
            if self._is_new:
                write_log(self.path, self._log)
                self._is_new = False


class _Recording(Unpicklable):
    """Base class of Record and HarLog: a cassette, and what is recorded or played back."""

    _why_not = "it writes a file; make one in each process, each with its own path"

    def __init__(self, cassette: _Cassette, *, keeps_errors: bool) -> None:
        self._cassette = cassette
        self._keeps_errors = keeps_errors
        self._numbers = itertools.count()

    @property
    def records(self) -> bool:
        """Return whether requests without a matching entry are sent."""
        return True

    async def around(self, request: ClientRequest, send: Send, runtime: Runtime) -> Response:
        """Play a response back, or send the request and record its response.

        Raises:
            AssertionError: no entry matches, and the mode records nothing new.
        """
        if is_handshake(request):  # what follows on its connection is not recorded
            if not self.records:
                raise AssertionError(f"{request}: only HTTP can be played back, not this protocol")
            return await send(request)
        request, body = await _read_body(request)
        played = self._find(request, body)
        if played is not None:
            return _play(played, request)
        recording = _RecordingExchange(self, runtime, request, body)
        try:
            response = await send(request)
        except BaseException as error:
            recording.fail(error)
            raise
        if isinstance(response, BaseStreamedResponse):
            response.wrap_incoming(partial(_RecordingIncoming, recording))
        else:
            recording.take(response)
        return response

    def _find(self, request: ClientRequest, body: bytes) -> PlaybackEntry | None:
        """Return the entry to play back, or None to record.

        Raises:
            AssertionError: no entry matches, and the mode records nothing new.
        """
        return None

    def begin(self) -> int:
        """Return the number of the next exchange."""
        return next(self._numbers)

    def _find_origin(self, request: ClientRequest) -> int | None:
        """Return the number of the client's request that this is an attempt of, if known."""
        return None

    def add(self, exchange: RecordedExchange) -> None:
        """Add an exchange that has ended."""
        if exchange.error is None or self._keeps_errors:
            self._cassette.add(exchange)

    def save(self) -> None:
        """Write everything recorded so far, without streams that have not ended.

        Raises:
            OSError: the file cannot be written.
        """
        self._cassette.save()

    close = save


@with_suggestions("Record")
class Record(_Recording, AttemptWrapper):
    """Record requests and responses to a file, and play them back.

        with curlhttp.Client(transport=curlhttp.Record("users.har")) as client:
            client.get("https://api.example.org/users")

    The file is HAR 1.2, which browser tools can open. Each attempt is one entry, so redirects,
    challenges and retries are played back one by one. Each entry is played back once. Credentials
    in headers, parameters, forms and JSON are masked by name before they are written. A request is
    masked in the same way before it is compared, so any value of a masked parameter matches.

    Request bodies are read into memory. Response bodies are kept as you read them: a body that you
    did not read to its end is played back as far as you read it. Requests that failed without a
    response are not recorded, so the next run sends them again.

    The file is written when a client that uses the Record closes, by save(), and at exit.

    Args:
        path: of the file.
        mode: "once" records if there is no file and otherwise plays back; "new" plays back and
            records requests without an entry; "none" only plays back; "all" records everything
            again.
        match: the parts of a request to compare, any of "method", "url" and "body". The order of
            parameters and the boundary of a form are ignored.
        secrets: names of headers, parameters, form fields and JSON members to mask, in addition to
            the well-known ones.

    Raises:
        ValueError: the file is not valid HAR 1.2 (the message says where), or an argument is
            invalid.
        OSError: the file cannot be read.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Mode = "once",
        *,
        match: Sequence[Part] = _PARTS,
        secrets: Iterable[str] = (),
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(map(repr, _MODES))}, not {mode!r}")
        if not set(match) <= set(_PARTS):
            raise ValueError(f"match takes some of {', '.join(map(repr, _PARTS))}, not {match!r}")
        self.path: Path = Path(validate_path("path", path))
        self.mode: Mode = mode
        names = secrets if isinstance(secrets, str) else tuple(secrets)  # Redactor refuses a str
        self._redactor = Redactor(names)  # of what is compared: any value matches
        self._match = tuple(match)
        self._has_file = mode != "all" and self.path.exists()
        log, played = read_log(self.path) if self._has_file else (make_empty_log(), [])
        self._played = [(make_entry_key(each, self._redactor), each) for each in played]
        self._unplayed: dict[Key, deque[PlaybackEntry]] = {}
        for key, each in self._played:
            self._unplayed.setdefault(keep_parts(key, self._match), deque()).append(each)
        self._lock = threading.Lock()
        cassette = _Cassette(self.path, Redactor(names, keeps_kinds=True), log)
        super().__init__(cassette, keeps_errors=False)
        weakref.finalize(self, cassette.save)

    @property
    def records(self) -> bool:
        """Return whether requests without a matching entry are sent."""
        return self.mode in ("all", "new") or (self.mode == "once" and not self._has_file)

    def _find(self, request: ClientRequest, body: bytes) -> PlaybackEntry | None:
        """Return a matching entry that was not played back yet, or None to record."""
        key = make_key(request, body, self._redactor)
        wanted = keep_parts(key, self._match)
        with self._lock:
            left = self._unplayed.get(wanted)
            if not left and not request.url.is_raw:
                unplayed = self._unplayed.items()
                left = next(
                    (each for known, each in unplayed if each and respell(known) == wanted), None
                )
            if left:
                return left.popleft()
        if self.records:
            return None
        raise AssertionError(self._explain(request, key))

    def _explain(self, request: ClientRequest, key: Key) -> str:
        text = f"{request}: no entry in {self.path} matches, and mode {self.mode!r} records"
        text += " nothing new" if self._has_file else " nothing: the file does not exist"
        found = find_nearest(key, [known for known, _ in self._played], self._match)
        if found is None:
            return text
        position, differing = found
        known, played = self._played[position]
        text += f"\nnearest: {played.place}, {known.method} {display_url(known.url)}"
        if not differing:
            return f"{text}\n  it was already played back"
        for part in differing:
            ours, theirs = getattr(key, part), getattr(known, part)
            text += f"\n  {part}: {theirs!r:.200} in the file, {ours!r:.200} here"
        return text

    def __repr__(self) -> str:
        return f"<curlhttp.Record {str(self.path)!r} {self.mode}>"


class HarLog(_Recording):
    """The recording that `client.har(path)` returns: use it in `with` or `async with`.

    Args:
        path: of the file, which is written at the end.
        secrets: more names to mask.
        add: adds this wrapper to the client.
        remove: removes it.
        wall: returns the client's time of day.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        secrets: Iterable[str],
        add: Callable[[HarLog], object],
        remove: Callable[[HarLog], object],
        wall: Callable[[], float],
    ) -> None:
        super().__init__(
            _Cassette(Path(path), Redactor(secrets, keeps_kinds=True), make_empty_log()),
            keeps_errors=True,
        )
        self._add = add
        self._remove = remove
        self._wall = wall
        self._origins = itertools.count(1)
        # By the counter that the attempts of a request share, which is kept alive here.
        self._known: dict[int, tuple[int, object]] = {}

    def _find_origin(self, request: ClientRequest) -> int | None:
        """Return the number of the client's request that this is an attempt of."""
        counter = get_attempt_numbers(request)
        if counter is None:
            return None
        known = self._known.get(id(counter))
        if known is None:
            known = self._known.setdefault(id(counter), (next(self._origins), counter))
        return known[0]

    async def note_cached(self, request: ClientRequest, send: Send) -> Response:
        """Record a response from the cache. This is the middleware right above the cache."""
        begun = self._wall()
        response = await send(request)
        # A stream from the cache was not read yet.
        if (
            response.from_cache
            and response._content is not None
            and "; hit" in (response.cache_status or "")
        ):
            received = RecordedResponse(response._head, response._content, bool(request.decode))
            exchange = RecordedExchange(
                self.begin(), request, b"", begun, None, 0.0, received, is_cached=True
            )
            exchange.origin = self._find_origin(request)
            self.add(exchange)
        return response

    def __enter__(self) -> HarLog:
        network.counts_sends.add(self)
        self._add(self)
        return self

    def __exit__(self, *exc: object) -> None:
        network.counts_sends.discard(self)
        self._remove(self)
        self._cassette.save(always=True)

    async def __aenter__(self) -> HarLog:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        self.__exit__(*exc)


# --- One exchange, recorded or played back ---


async def _read_body(request: ClientRequest) -> tuple[ClientRequest, bytes]:
    """Return a request whose body is in memory, and the body."""
    body = request.body
    if body is None:
        return request, b""
    if body.data is not None:
        return request, body.data
    try:
        data = await read_whole(body)
    finally:
        body.close()
        await body.aclose()
    request = request.copy()
    request.body = BytesBody(data, body.content_type)
    return request, data


def _play(played: PlaybackEntry, request: ClientRequest) -> Response:
    pieces = _get_pieces(played, request)
    if request.stream:
        return BaseStreamedResponse(request, StoredBody(played.head, pieces))
    return Response(request, played.head, b"".join(pieces), NO_TIME)


def _get_pieces(played: PlaybackEntry, request: ClientRequest) -> list[bytes]:
    limit = request.max_response_size
    if limit is not None and sum(map(len, played.pieces)) > limit:
        raise ResponseTooLarge(
            f"{request}: the response body is larger than max_response_size={limit} bytes",
            request=request,
            request_sent=True,
        )
    return [] if request.method == "HEAD" else played.pieces.copy()


class _RecordingExchange:
    """One exchange that is being recorded."""

    def __init__(
        self, recorder: _Recording, runtime: Runtime, request: ClientRequest, body: bytes
    ) -> None:
        self.now: Callable[[], float] = runtime.now
        self._recorder = recorder
        self._request = request
        self._body = body
        self._number = recorder.begin()
        self._begun = runtime.wall()
        self._started = self.now()
        self._attempt = get_attempt(request)

    def take(self, response: Response) -> None:
        """Record a response whose body is in memory."""
        request, timings = response.request, response.timings
        # The engine decodes all bodies, except those of followed redirects, which nobody reads.
        # Nor is a part that cannot be decoded.
        is_decoded = bool(request.decode) and not (
            response._is_coded_part or (request.follow_redirects and response.is_redirect)
        )
        received = RecordedResponse(response._head, response._content or b"", is_decoded)
        self.end(timings, timings.total - timings.first_byte, received)

    def fail(self, error: BaseException) -> None:
        """Record that no complete response was received."""
        if not isinstance(error, RequestException):
            if is_beaten(self._request, error):
                self.end(None, 0.0, None)
            return
        response = error.response
        received = None
        if response is not None and response._content is not None:
            received = RecordedResponse(
                response._head, response._content, is_decoded=False, is_whole=False
            )
        self.end(error.timings, 0.0, received, error)

    def end(
        self,
        timings: Timings | None,
        receive: float,
        received: RecordedResponse | None,
        error: RequestException | None = None,
    ) -> None:
        """Record how the exchange ended."""
        exchange = RecordedExchange(
            self._number, self._request, self._body, self._begun, timings, receive, received
        )
        exchange.origin = self._recorder._find_origin(self._request)
        if error is not None:
            exchange.error = f"{type(error).__name__}: {error}"
        attempt = self._attempt
        if attempt is None:
            self._recorder.add(exchange)
        elif attempt.result is not None:
            if attempt.result == "lost" and not attempt.is_done:
                exchange.error = exchange.error or _CANCELLED
            self._add(exchange, attempt.result)
        else:
            attempt.when_decided(partial(self._add, exchange))

    def _add(self, exchange: RecordedExchange, result: Result) -> None:
        """Add an attempt of a hedge, whose result is known."""
        if result == "lost":
            received = exchange.response
            if received is not None and exchange.error is None:
                exchange.error = f"{received.head.status_code}, and another attempt continued"
            exchange.response = None  # it must not be played back
        exchange.hedge = "" if result == "alone" else result
        if exchange.timings is None:
            elapsed = self.now() - self._started
            exchange.timings = NO_TIME._replace(first_byte=elapsed, total=elapsed)
        self._recorder.add(exchange)


_CANCELLED = "cancelled, because another attempt won"


class _RecordingIncoming(WrappedIncoming):
    """A response on the wire whose body is recorded as it is read."""

    def __init__(self, recording: _RecordingExchange, incoming: Incoming) -> None:
        super().__init__(incoming)
        self._recording = recording
        self._pieces: list[bytes] = []
        self._is_over = False
        times = incoming.timings()
        self._times = times if isinstance(times, Timings) else make_timings(times)
        self._since = recording.now()

    def timings(self) -> Timings:
        """Return the timings up to the head."""
        return self._times

    async def read(self) -> bytes:
        """Return the next piece of the body, and keep it."""
        try:
            piece = await self._incoming.read()
        except RequestException as error:
            self._end(error)
            raise
        except BaseException:  # a cancellation, after which the engine has aborted it
            self._end()
            raise
        if piece:
            self._pieces.append(piece)
        else:
            self._end(is_whole=True)
        return piece

    def abort(self) -> None:
        """Drop the rest of the body; the part that was read is recorded."""
        super().abort()
        self._end()

    def abort_from_finalizer(self) -> None:
        """Drop the rest of the body, from a finalizer."""
        super().abort_from_finalizer()
        self._end()

    def _end(self, error: RequestException | None = None, *, is_whole: bool = False) -> None:
        if self._is_over:
            return
        self._is_over = True
        sizes = tuple(map(len, self._pieces))
        received = RecordedResponse(self.head, b"".join(self._pieces), False, sizes, is_whole)
        self._recording.end(self._times, self._recording.now() - self._since, received, error)
