"""A name server over HTTPS (RFC 8484), for invented names."""

from __future__ import annotations

import ipaddress
import ssl
import struct

from tests.servers.app import AppConnection, AppServer
from tests.servers.record import Record

_A, _AAAA = 1, 28  # RFC 1035, section 3.2.2; RFC 3596
_HEAD, _QUESTION_TAIL = 12, 4  # bytes
_ANSWER, _NO_SUCH_NAME = 0x8180, 0x8183


class DoHServer(AppServer):
    """Resolve names at /dns-query.

    Args:
        context: TLS, which the protocol demands.
        names: addresses by name; other names have none.

    Attributes:
        asked: the requested names, once per query.
    """

    def __init__(self, context: ssl.SSLContext, names: dict[str, str]) -> None:
        super().__init__(context)
        self.names = names
        self.asked: list[str] = []
        self.route("/dns-query", self.resolve)

    @property
    def query_url(self) -> str:
        return f"{self.url}/dns-query"

    def resolve(self, record: Record, conn: AppConnection) -> None:
        name, kind, question = _question(record.body)
        self.asked.append(name)
        address = ipaddress.ip_address(self.names[name]) if name in self.names else None
        fits = address is not None and kind == (_A if address.version == 4 else _AAAA)
        flags = _ANSWER if address is not None else _NO_SUCH_NAME
        response = record.body[:2] + struct.pack(">HHHHH", flags, 1, int(fits), 0, 0) + question
        if fits:
            assert address is not None
            packed = address.packed
            # The name is a pointer to that of the question (RFC 1035, section 4.1.4).
            response += struct.pack(">HHHIH", 0xC000 | _HEAD, kind, 1, 60, len(packed)) + packed
        conn.reply(200, response, [("Content-Type", "application/dns-message")])


def _question(query: bytes) -> tuple[str, int, bytes]:
    """Return the name that a query asks for, the kind of record, and all of the question."""
    labels = []
    at = _HEAD
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    at += 1
    (kind,) = struct.unpack_from(">H", query, at)
    return ".".join(labels), kind, query[_HEAD : at + _QUESTION_TAIL]
