"""Replies of a SOCKS proxy to a handshake (RFC 1928 and 1929, SOCKS 4a), and mutations of them."""

from __future__ import annotations

from random import Random

from tests.fuzz.draft import junk
from tests.servers.raw import RawConnection

_AUTHENTICATED = b"\x01\x00"
_CONNECTED = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50"
_GRANTED = b"\x00\x5a\x00\x50\x7f\x00\x00\x01"


def replies(random: Random, version: int) -> list[bytes]:
    """Return what a proxy says after it knows who asks: once for SOCKS 4a, twice for 5.

    Args:
        random: of this case alone.
        version: 4 or 5.
    """
    good = [_GRANTED] if version == 4 else [_AUTHENTICATED, _CONNECTED]
    return [reply if random.random() < 0.4 else _broken(random, reply) for reply in good]


def _broken(random: Random, reply: bytes) -> bytes:
    at = random.randrange(len(reply))
    status = bytes([reply[0], random.choice([1, 2, 5, 8, 9, 0x5B, 0x5C, 0x5D, 0xFF])]) + reply[2:]
    named = b"\x05\x00\x00\x03" + bytes([random.choice([0, 3, 255])]) + b"abc\x00\x50"
    return random.choice(
        [
            status,
            status,
            reply[:at],
            reply[:at] + junk(random, 1) + reply[at + 1 :],
            reply + junk(random),
            named,
            b"\x05\x00\x00\x04" + bytes(18),
            b"\x05\x00\x00\x07",
            junk(random, 30),
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
            b"",
        ]
    )


def read_name(conn: RawConnection) -> str:
    """Read all that the client says before the replies matter; return the user's name.

    Args:
        conn: its first byte is the version.
    """
    if conn.read_exactly(1) == b"\x04":
        conn.read_exactly(7)
        user = _until_nul(conn)
        _until_nul(conn)
        return user
    conn.read_exactly(conn.read_exactly(1)[0])
    conn.send(b"\x05\x02")
    conn.read_exactly(1)
    name = conn.read_exactly(conn.read_exactly(1)[0])
    conn.read_exactly(conn.read_exactly(1)[0])
    return name.decode()


def read_target(conn: RawConnection) -> None:
    """Read where the client of SOCKS 5 wants to go; it names a host."""
    conn.read_exactly(4)
    conn.read_exactly(conn.read_exactly(1)[0] + 2)


def _until_nul(conn: RawConnection) -> str:
    text = b""
    while (byte := conn.read_exactly(1)) != b"\x00":
        text += byte
    return text.decode()
