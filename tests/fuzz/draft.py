"""A builder of HTTP/1.1 responses: parts that mutations change, and the bytes they make."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True)
class Site:
    """Where the server is, and which case is being answered.

    Attributes:
        port: of 127.0.0.1, the only place that a response may lead to.
        kind: the first part of the case's path.
        case: its number.
        hop: how many redirects led here.
        method: of the request.
    """

    port: int
    kind: str
    case: int
    hop: int
    method: str

    @property
    def authority(self) -> bytes:
        """Return host and port."""
        return b"127.0.0.1:%d" % self.port

    @property
    def onward(self) -> bytes:
        """Return the path of the next hop."""
        return b"/%s/%d/%d" % (self.kind.encode(), self.case, self.hop + 1)


@dataclass
class Draft:
    """A response in the making.

    Attributes:
        site: what is answered.
        before: bytes ahead of the status line.
        version: of the status line.
        status: likewise.
        reason: likewise.
        fields: header lines without their ends.
        eol: ends a line.
        blank: ends the head.
        body: with its coding, without framing.
        framing: "length", "chunked", "close", or "none" for what the fields say.
        chunk: bytes a chunk has.
        trailers: trailer lines.
        notes: what was done to it.
        plain: the body before its coding.
    """

    site: Site
    before: bytes = b""
    version: bytes = b"HTTP/1.1"
    status: bytes = b"200"
    reason: bytes = b" OK"
    fields: list[bytes] = field(default_factory=list)
    eol: bytes = b"\r\n"
    blank: bytes = b"\r\n"
    body: bytes = b""
    framing: str = "length"
    chunk: int = 1 << 20
    trailers: list[bytes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    plain: bytes = b""

    @property
    def head(self) -> bytes:
        """Return the head's bytes."""
        framed = list(self.fields)
        if self.framing == "length":
            framed.append(b"Content-Length: %d" % len(self.body))
        elif self.framing == "chunked":
            framed.append(b"Transfer-Encoding: chunked")
        lines = [self.version + b" " + self.status + self.reason, *framed]
        return self.before + b"".join(line + self.eol for line in lines) + self.blank

    @property
    def framed(self) -> bytes:
        """Return the body's bytes with their framing."""
        if self.framing != "chunked":
            return self.body
        pieces = []
        for start in range(0, len(self.body), self.chunk):
            piece = self.body[start : start + self.chunk]
            pieces.append(b"%x\r\n%s\r\n" % (len(piece), piece))
        ends = b"".join(line + b"\r\n" for line in self.trailers)
        return b"".join(pieces) + b"0\r\n" + ends + b"\r\n"

    def replace(self, name: bytes, line: bytes) -> None:
        """Put a line in place of those of a name."""
        start = name.lower() + b":"
        self.fields = [old for old in self.fields if not old.lower().startswith(start)]
        self.fields.append(line)


def junk(random: Random, most: int = 12) -> bytes:
    """Return a few bytes of any value."""
    return random.randbytes(random.randint(1, most))
