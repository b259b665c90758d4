"""Records of what engines do: what users hold, and the file behind it."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from curlhttp._client.record.engine import RecordingEngine
from curlhttp._client.record.har import (
    JSONObject,
    PlaybackEntry,
    RecordedExchange,
    empty_log,
    read_log,
    write_log,
)
from curlhttp._engine.engine import Engine
from curlhttp._models.decoding import decode_readable
from curlhttp._models.errors import Unpicklable
from curlhttp._models.redaction import display_url
from curlhttp._models.redactor import Redactor, parse_boundary
from curlhttp._models.request import Request

__all__ = ["HarLog", "Record", "keep_parts"]


# --- Which entry of a cassette answers a request, and which came nearest where none does ---

Part: TypeAlias = Literal["method", "url", "body"]


class Key(NamedTuple):
    """What is compared of a request; secrets are masked."""

    method: str
    url: str
    body: bytes


def make_key(request: Request, body: bytes, masks: Redactor) -> Key:
    """Return the key of a request that is to be sent."""
    media_type = request.get_header("content-type") or ""
    plain = decode_readable(body, request.read_headers().get_list("content-encoding"))
    masked = masks.body(plain, media_type)
    return Key(request.method, _sorted(masks.url(request.url)), _steady(masked, media_type))


def make_entry_key(played: PlaybackEntry, masks: Redactor) -> Key:
    """Return the key of an entry, whoever has written it."""
    body = _steady(masks.body(played.body, played.media_type), played.media_type)
    return Key(played.method, _sorted(masks.url(played.url)), body)


def _sorted(url: str) -> str:
    """Return a URL with its parameters in order: some programs have them in a set."""
    path, mark, query = url.partition("?")
    return path + mark + "&".join(sorted(query.split("&")))


def _steady(body: bytes, media_type: str) -> bytes:
    """Return a body without what chance has put there: the boundary of a form."""
    found = parse_boundary(media_type)
    return body if found is None else body.replace(found.encode("latin-1", "replace"), b"-")


def keep_parts(key: Key, parts: Collection[Part]) -> Key:
    """Return a key that has the parts that count, and is equal where they are."""
    return Key(
        key.method if "method" in parts else "",
        key.url if "url" in parts else "",
        key.body if "body" in parts else b"",
    )


def find_nearest(
    key: Key, known: Sequence[Key], parts: Sequence[Part]
) -> tuple[int, list[Part]] | None:
    """Return the position of the key that is most like one, and the parts that differ."""
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
    """What was recorded since the file was read; it is written where anything was."""

    def __init__(self, path: Path, masks: Redactor, log: JSONObject) -> None:
        self.path = path
        self._masks = masks
        self._log = log
        self._exchanges: deque[RecordedExchange] = deque()
        self._is_new = False  # there is more in the log than in the file
        self._lock = threading.Lock()

    def add(self, exchange: RecordedExchange) -> None:
        """Take down an exchange; without a lock, since a finalizer may do so."""
        self._exchanges.append(exchange)

    def save(self, *, always: bool = False) -> None:
        """Write the file, if there is anything new.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            # One by one, as another thread may be adding to them.
            new = [self._exchanges.popleft() for _ in range(len(self._exchanges))]
            new.sort(key=lambda exchange: exchange.number)
            self._log["entries"] += [exchange.entry(self._masks) for exchange in new]
            self._is_new = self._is_new or always or bool(new)
            if self._is_new:
                write_log(self.path, self._log)
                self._is_new = False


class _Recording(Unpicklable):
    """What records have in common: the tape, and what engines ask of it."""

    _why_not = "it is the one to write its file; make one a process, each with its own path"

    def __init__(self, tape: _Cassette, *, keeps_errors: bool) -> None:
        self._tape = tape
        self._keeps_errors = keeps_errors
        self._numbers = itertools.count()

    @property
    def records(self) -> bool:
        """Return whether a request that no entry answers is sent."""
        return True

    def around(self, engine: Engine) -> Engine:
        """Return an engine that records what one does, or plays back."""
        return RecordingEngine(self, engine)

    def find(self, request: Request, body: bytes) -> PlaybackEntry | None:
        """Return the entry to play back, or None to record.

        Raises:
            AssertionError: there is none, and nothing is to be recorded.
        """
        return None

    def begin(self) -> int:
        """Return the number of one more exchange."""
        return next(self._numbers)

    def add(self, exchange: RecordedExchange) -> None:
        """Take down an exchange that has ended."""
        if exchange.error is None or self._keeps_errors:
            self._tape.add(exchange)

    def save(self) -> None:
        """Write what was recorded up to now; streams that are not over are not in it.

        Raises:
            OSError: the file cannot be written.
        """
        self._tape.save()

    close = save


class Record(_Recording):
    """Record what happens on the wire into a file, and play it back.

        with curlhttp.Client(transport=curlhttp.Record("users.har")) as client:
            client.get("https://api.example.org/users")

    The file is HAR 1.2, which the tools of browsers open. Each attempt is an entry, so that
    redirects, challenges and retries play back one by one, each entry once. Credentials are masked
    before they are written: of headers, parameters, forms and JSON, by their names. A request is
    masked in the same way before it is compared, so any value of a masked parameter fits.

    Bodies of requests are read into memory, those of responses kept as they are read. A body that
    was left early plays back as far as it was read. Requests that failed without a response are not
    recorded: the next run tries them again.

    It is written when a client that has it closes, by save(), and when the program ends.

    Args:
        path: of the file.
        mode: "once" records if there is no file, else plays back; "new" plays back, and records
            what is not there; "none" plays back alone; "all" records all anew.
        match: what of a request has to be the same: any of "method", "url" and "body". The order
            of parameters, and the boundary of a form, do not count.
        secrets: names of headers, parameters, form fields and members of JSON to be masked, beside
            those that say it by themselves.

    Raises:
        ValueError: the file is no HAR 1.2; says where. Or the mode is none of these.
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
        self.path: Path = Path(path)
        self.mode: Mode = mode
        self._masks = Redactor(secrets)
        self._match = tuple(match)
        self._has_file = mode != "all" and self.path.exists()
        log, played = read_log(self.path) if self._has_file else (empty_log(), [])
        self._played = [(make_entry_key(each, self._masks), each) for each in played]
        self._left: dict[Key, deque[PlaybackEntry]] = {}
        for key, each in self._played:
            self._left.setdefault(keep_parts(key, self._match), deque()).append(each)
        self._lock = threading.Lock()
        tape = _Cassette(self.path, self._masks, log)
        super().__init__(tape, keeps_errors=False)
        weakref.finalize(self, tape.save)

    @property
    def records(self) -> bool:
        """Return whether a request that no entry answers is sent."""
        return self.mode in ("all", "new") or (self.mode == "once" and not self._has_file)

    def find(self, request: Request, body: bytes) -> PlaybackEntry | None:
        """Return the entry that answers a request and was not played back yet, else None."""
        key = make_key(request, body, self._masks)
        with self._lock:
            left = self._left.get(keep_parts(key, self._match))
            if left:
                return left.popleft()
        if self.records:
            return None
        raise AssertionError(self._explain(request, key))

    def _explain(self, request: Request, key: Key) -> str:
        said = f"{request}: no entry of {self.path} answers this, and mode {self.mode!r} records"
        said += " nothing new" if self._has_file else " nothing: there is no such file"
        found = find_nearest(key, [known for known, _ in self._played], self._match)
        if found is None:
            return said
        position, differing = found
        known, played = self._played[position]
        said += f"\nnearest: {played.place}, {known.method} {display_url(known.url)}"
        if not differing:
            return f"{said}\n  it was played back already"
        for part in differing:
            ours, theirs = getattr(key, part), getattr(known, part)
            said += f"\n  {part}: {theirs!r:.200} there, {ours!r:.200} here"
        return said

    def __repr__(self) -> str:
        return f"<curlhttp.Record {str(self.path)!r} {self.mode}>"


class HarLog(_Recording):
    """What `client.har(path)` returns: use it in `with` or `async with`.

    Args:
        path: of the file, which is written at the end.
        secrets: names of what is masked as well.
        put: puts this around the engines of the client.
        take: takes it away again.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        secrets: Iterable[str],
        put: Callable[[_Recording], object],
        take: Callable[[_Recording], object],
    ) -> None:
        super().__init__(_Cassette(Path(path), Redactor(secrets), empty_log()), keeps_errors=True)
        self._put = put
        self._take = take

    def __enter__(self) -> HarLog:
        self._put(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self._take(self)
        self._tape.save(always=True)

    async def __aenter__(self) -> HarLog:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        self.__exit__(*exc)
