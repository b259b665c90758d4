"""Routes that need one whole response, and so serve HTTP/1.1 and HTTP/2 alike.

Each is `route(record, out)` and calls `out.reply` once.
"""

from __future__ import annotations

import functools
import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import brotli

from tests.servers.record import Record, echo, payload, to_json
from tests.support.codings import zstd

Headers = Iterable[tuple[str, str]]
PLAIN = ("Content-Type", "text/plain")
JSON = ("Content-Type", "application/json")


@dataclass
class Memory:
    """What routes remember between requests: digest nonces, and how often they were asked."""

    nonces: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


class Out(Protocol):
    """Where a route responds: a connection of HTTP/1.1 or a stream of HTTP/2."""

    @property
    def memory(self) -> Memory: ...

    def reply(
        self, status: int = 200, body: bytes = b"", headers: Headers = (), reason: str | None = None
    ) -> None: ...


def hello(record: Record, out: Out) -> None:
    out.reply(200, b"hello", [PLAIN])


def bytes_(record: Record, out: Out) -> None:
    seed = int(record.query("seed", "0")) if record.query_string else 0
    out.reply(200, payload(record.number, seed), [("Content-Type", "application/octet-stream")])


def echo_(record: Record, out: Out) -> None:
    out.reply(200, echo(record), [JSON])


def status(record: Record, out: Out) -> None:
    after = record.query("retry_after")
    headers = [("Retry-After", after)] if after else []
    out.reply(record.number, b"", headers, record.query("reason") or None)


def redirect(record: Record, out: Out) -> None:
    hops = record.number
    if hops <= 0:
        return hello(record, out)
    location = f"/redirect/{hops - 1}" if hops > 1 else "/"
    return out.reply(int(record.query("status", "302")), b"", [("Location", location)])


def redirect_to(record: Record, out: Out) -> None:
    code = int(record.query("status", "302"))
    body = payload(int(record.query("body", "0")))
    out.reply(code, body, [("Location", record.query("url"))])


def set_cookies(record: Record, out: Out) -> None:
    target = record.query("redirect")
    headers = [("Set-Cookie", f"{n}={v}") for n, v in record.pairs if n != "redirect"]
    if target:
        out.reply(302, b"", [*headers, ("Location", target)])
    else:
        out.reply(200, b"", headers)


def cookies(record: Record, out: Out) -> None:
    sent = record.values("cookie")
    crumbs = [crumb.partition("=") for value in sent for crumb in value.split("; ")]
    found = {name: value for name, _, value in crumbs}
    body = to_json({"header": "; ".join(sent) if sent else None, "cookies": found})
    out.reply(200, body, [JSON])


def headers_(record: Record, out: Out) -> None:
    count = int(record.query("n", "10"))
    out.reply(200, b"", [(f"X-Header-{i}", f"value {i}") for i in range(count)])


def set_header(record: Record, out: Out) -> None:
    out.reply(200, b"", [(record.query("name"), record.query("value"))])


def links(record: Record, out: Out) -> None:
    value = '</page/2>; rel="next", </page/9>; rel=last; title="the, end"'
    out.reply(200, b"", [("Link", value)])


def json_(record: Record, out: Out) -> None:
    out.reply(200, to_json({"hello": "world", "n": [1, 2.5, None, True], "é": "ü"}), [JSON])


def text(record: Record, out: Out) -> None:
    charset = record.query("charset")
    kind = f"text/plain; charset={charset}" if charset else "text/plain"
    body = record.query("text", "héllo").encode(charset or "utf-8")
    out.reply(200, body, [("Content-Type", kind)])


def not_modified(record: Record, out: Out) -> None:
    out.reply(304, b"", [("ETag", '"1"')])


def no_content(record: Record, out: Out) -> None:
    out.reply(204)


# -- coded bodies


def coded(record: Record) -> tuple[bytes, list[tuple[str, str]]]:
    """Return the coded body that /gzip, /br and so on ask for, and its headers.

    The plain body is `payload(size)`, or zeros with `&zeros=1` (for decompression bombs).
    """
    name = record.path.split("/")[1].removesuffix("-chunked")
    size, zeros = int(record.query("size", "1000")), record.query("zeros") == "1"
    coding = {"multi-gzip": "gzip", "raw-deflate": "deflate"}.get(name, name)
    headers = [("Content-Encoding", coding), ("Content-Type", "application/octet-stream")]
    return _code(name, size, zeros), headers


def coded_reply(record: Record, out: Out) -> None:
    body, headers = coded(record)
    out.reply(200, body, headers)


@functools.lru_cache(maxsize=16)
def _code(name: str, size: int, zeros: bool) -> bytes:
    plain = bytes(size) if zeros else payload(size)
    return CODERS[name](plain)


def _raw_deflate(plain: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return coder.compress(plain) + coder.flush()


def _multi_gzip(plain: bytes) -> bytes:
    middle = len(plain) // 2
    return gzip.compress(plain[:middle], mtime=0) + gzip.compress(plain[middle:], mtime=0)


def _brotli(plain: bytes) -> bytes:
    return bytes(brotli.compress(plain, quality=5))


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": functools.partial(gzip.compress, mtime=0),
    "deflate": zlib.compress,
    "raw-deflate": _raw_deflate,
    "br": _brotli,
    "multi-gzip": _multi_gzip,
}


if zstd is not None:
    CODERS["zstd"] = zstd.compress

Route = Callable[[Record, Out], None]

SHARED: dict[str, Route] = {
    "/": hello,
    "/bytes": bytes_,
    "/echo": echo_,
    "/status": status,
    "/redirect": redirect,
    "/redirect-to": redirect_to,
    "/cookies/set": set_cookies,
    "/cookies": cookies,
    "/headers": headers_,
    "/set-header": set_header,
    "/links": links,
    "/json": json_,
    "/text": text,
    "/304": not_modified,
    "/204": no_content,
    **{f"/{name}": coded_reply for name in CODERS},
}
