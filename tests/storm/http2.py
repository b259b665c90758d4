"""The storm over HTTP/2: streams are refused, reset and cut; connections end with GOAWAY.

What the server says was not processed was not: such requests do not count as seen.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from h2.errors import ErrorCodes

from tests.adversary.stamps import stamp
from tests.servers.http2 import H2Server
from tests.servers.http2_stream import Stream
from tests.servers.record import Record
from tests.storm.fate import Fate, fate_of

if TYPE_CHECKING:
    from tests.storm.server import Storm


_CUTS = ("close at once", "cut in head", "cut in body")
_RARELY = 0.2  # how often of these: an end concerns all streams of a connection
_RESETS = (ErrorCodes.INTERNAL_ERROR, ErrorCodes.CANCEL, ErrorCodes.ENHANCE_YOUR_CALM)


def http2_server(storm: Storm) -> H2Server:
    """Return a server for /s/<number> over HTTP/2 without TLS.

    Args:
        storm: counts what is seen.
    """
    server = H2Server()
    newest: defaultdict[int, int] = defaultdict(
        int
    )  # the last stream that was processed, by connection

    def answer(record: Record, stream: Stream) -> None:
        fate = fate_of(storm.seed, int(record.path.rpartition("/")[2]))
        if _refuses(stream, fate, newest[record.connection]):
            return
        newest[record.connection] = max(newest[record.connection], stream.id)
        storm.note(fate, -record.connection)
        _Answer(fate, stream, newest).send()

    def good(record: Record, stream: Stream) -> None:
        newest[record.connection] = max(newest[record.connection], stream.id)
        stream.reply(200, stamp(record.path.rpartition("/")[2]))

    server.stream_route("/s", answer)
    server.stream_route("/good", good)
    return server


def _refuses(stream: Stream, fate: Fate, newest: int) -> bool:
    """Refuse a request unprocessed, if that is its fate."""
    if stream.id == 1:  # so that nobody is refused for ever
        return False
    if fate.fault == "reset in head":
        stream.reset(ErrorCodes.REFUSED_STREAM)
    elif fate.fault == "announced close that is none" and stream.id > newest:
        stream.session.goaway(newest, ErrorCodes.NO_ERROR)
    else:
        return False
    return True


class _Answer:
    def __init__(self, fate: Fate, stream: Stream, newest: dict[int, int]) -> None:
        self._fate = fate
        self._newest = newest
        self._stream = stream
        mark = stamp(fate.name)
        self._body = mark * (fate.size // len(mark) + 1)

    def send(self) -> None:
        fate, stream = self._fate, self._stream
        code = _RESETS[fate.number % len(_RESETS)]
        if fate.fault.startswith("stall"):
            if fate.fault == "stall in body":
                self._part()
        elif fate.fault == "interim":
            stream.head(103, [("link", "</x>")])
            self._later(self._whole)
        elif fate.fault == "reset at once":
            stream.reset(code)
        elif fate.fault in _CUTS and fate.share < _RARELY:
            if fate.fault == "cut in body":
                self._part()
            stream.close_connection()
        elif fate.fault == "reset in body":
            self._part()
            self._later(lambda: stream.reset(code))
        elif fate.fault.startswith("early answer"):
            stream.head(413)
            stream.send(stamp(fate.name))
            stream.session.h2.end_stream(stream.id)
            stream.reset(ErrorCodes.NO_ERROR)
        elif fate.fault in ("drip", "slow reader"):
            self._later(self._whole)
        else:
            self._whole()
            self._end()

    def _end(self) -> None:
        """End the connection after a whole response, if that is the fate."""
        fate, stream = self._fate, self._stream
        if fate.share > _RARELY:
            return
        if fate.fault == "silent close":
            stream.close_connection()
        elif fate.fault in ("half-close", "announced close", "close after a while"):
            last = self._newest[stream.record.connection]
            stream.session.goaway(last, ErrorCodes.NO_ERROR)

    def _later(self, action: object) -> None:
        assert callable(action)
        self._stream.later(self._fate.delay, action)

    def _whole(self) -> None:
        self._stream.stream(200, [self._body], self._length())

    def _part(self) -> None:
        self._stream.head(200, self._length())
        self._stream.send(self._body[: min(16_000, int(len(self._body) * self._fate.share))])

    def _length(self) -> list[tuple[str, str]]:
        if self._fate.framing == "close":  # which has none here
            return []
        return [("content-length", str(len(self._body)))]
