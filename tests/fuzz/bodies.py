"""Bodies: texts, JSON, content codings, chunks, and what breaks them."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Callable
from random import Random

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from tests.fuzz.draft import Draft, junk
from tests.fuzz.fields import number

_LINE_ENDS = (
    b"\n",
    b"\r\n",
    b"\r",
    b"\x0b",
    b"\x0c",
    b"\x1c",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\r\r\n",
)


def _text(random: Random, stamp: bytes) -> bytes:
    lines = [random.choice([b"a", b"", "ä€😀".encode(), b"\xff", b"word " * 9]) for _ in range(9)]
    return b"".join(line + random.choice(_LINE_ENDS) for line in [*lines, stamp])


def _json(random: Random, stamp: bytes) -> bytes:
    whole = json.dumps({"a": [stamp.decode(), 1, None, "\U0001f600"]})
    return random.choice(
        [
            *[whole.encode()] * 4,
            whole.encode("utf-16"),
            whole.encode("utf-16-le"),
            whole.encode("utf-32"),
            whole.encode("utf-8-sig"),
            b"\x00" + whole.encode("utf-16-be")[1:],
            whole[:-1].encode(),
            whole.encode() + b"x",
            b"[" * 100_000,
            b"[" * 3000 + b"]" * 3000,
            b'{"a":' * 100_000,
            b"9" * 5000,
            b"-" + b"9" * 4301,
            b"1e99999",
            b"[1e5000, -1E-9999]",
            b"NaN",
            b"[Infinity,-Infinity]",
            b'"\\ud800"',
            b'"\\u12"',
            b'"\xff"',
            b'"\xed\xa0\x80"',
            b"\xff\xfe",
            b"\xfe\xff\x00",
            b"\x00\x00\xfe\xff",
            b'"\n"',
            b"",
            b" ",
            b'{"a": 1, "a": 2}',
            b"nul",
        ]
    )


def choose_body(random: Random, draft: Draft, stamp: bytes) -> None:
    """Give a draft a body, perhaps coded, and a framing."""
    pick = random.choice
    kinds: list[Callable[[Random, bytes], bytes]] = [_text, _json, _short, _short, _random, _html]
    draft.body = pick(kinds)(random, stamp)
    draft.framing = pick(["length", "length", "length", "chunked", "chunked", "close"])
    draft.chunk = pick([1, 2, 7, 64, 1000, 1 << 20]) if len(draft.body) < 2000 else 1000
    draft.plain = draft.body
    if random.random() < 0.35:
        _encode(random, draft)


def _short(random: Random, stamp: bytes) -> bytes:
    return stamp


def _random(random: Random, stamp: bytes) -> bytes:
    return stamp + random.randbytes(random.choice([1, 100, 5000, 70000])) + stamp


def _html(random: Random, stamp: bytes) -> bytes:
    names = [b"utf-16", b"punycode", b"", b"\xe4", b"zip", b"utf-8", b'"', b"unicode_escape"]
    name = random.choice(names)
    return b'<html><meta charset="%s"><?xml version="1.0" encoding="%s"?>\xe4 %s' % (
        name,
        name,
        stamp,
    )


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=-15)
    return packer.compress(data) + packer.flush()


_CODERS: dict[bytes, Callable[[bytes], bytes]] = {  # as fast as they can be
    b"gzip": lambda data: gzip.compress(data, 1, mtime=0),
    b"deflate": lambda data: zlib.compress(data, 1),
    b"Deflate": _raw_deflate,
    b"br": lambda data: bytes(brotli.compress(data, quality=1)),
    b"zstd": zstd.compress,
    b"identity": lambda data: data,
}


def _encode(random: Random, draft: Draft) -> None:
    names = [random.choice(list(_CODERS)) for _ in range(random.choice([1, 1, 1, 2, 3, 6]))]
    if random.random() < 0.01:
        draft.body = draft.plain = bytes(2 << 20)
        draft.notes.append("bomb")
    for name in names:
        draft.body = _CODERS[name](draft.body)
        if random.random() < 0.15:
            draft.body = _damage_coded(random, draft.body, _CODERS[name])
            draft.notes.append("damaged coding")
    line = b"Content-Encoding: "
    if random.random() < 0.8:
        draft.fields.append(line + b", ".join(names))
    else:
        draft.fields += [line + name for name in names]


def _damage_coded(random: Random, data: bytes, coder: Callable[[bytes], bytes]) -> bytes:
    at = random.randint(0, len(data))
    return random.choice(
        [
            data[:at],
            data[:-1],
            data[:at] + junk(random) + data[at:],
            data + junk(random),
            data + data,
            data + coder(b"") * 50,
            coder(b"") * 50 + data,
            data + bytes(100),
            b"",
            data[:4],
            _flip(random, data),
        ]
    )


def _flip(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        if changed:
            changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def break_body(random: Random, draft: Draft) -> None:
    """Break the framing of a draft: its body becomes what goes over the wire."""
    framed = draft.framed
    how = random.choice([_break_chunks, _cut, _lie, _lengthen])
    draft.notes.append(how.__name__.strip("_"))
    how(random, draft, framed)


def _cut(random: Random, draft: Draft, framed: bytes) -> None:
    _freeze(draft, framed[: random.randint(0, len(framed))])


def _lengthen(random: Random, draft: Draft, framed: bytes) -> None:
    _freeze(
        draft, framed + random.choice([b"x", b"\r\n", b"0\r\n\r\n", junk(random), b"HTTP/1.1 200"])
    )


def _lie(random: Random, draft: Draft, framed: bytes) -> None:
    _freeze(draft, framed)
    draft.replace(b"Content-Length", b"Content-Length: " + number(random))


def _freeze(draft: Draft, framed: bytes) -> None:
    """Say in the fields what the framing was, so that the body may be something else."""
    if draft.framing == "length":
        draft.fields.append(b"Content-Length: %d" % len(draft.body))
    elif draft.framing == "chunked":
        draft.fields.append(b"Transfer-Encoding: chunked")
    draft.framing, draft.body = "none", framed


def _break_chunks(random: Random, draft: Draft, framed: bytes) -> None:
    pieces, body = [], draft.body[:3000]
    while body:
        size = random.choice([1, 2, 5, 100])
        pieces.append(_chunk(random, body[:size]))
        body = body[size:]
    draft.framing = "chunked"
    _freeze(draft, b"".join(pieces) + _end(random))


def _chunk(random: Random, piece: bytes) -> bytes:
    if random.random() < 0.97:
        return b"%x\r\n%s\r\n" % (len(piece), piece)
    size = b"%x" % len(piece)
    odd = [
        b"0" * 20 + size,
        size.upper(),
        b"0x" + size,
        b"+" + size,
        b"-" + size,
        b" " + size,
        size + b" ",
    ]
    odd += [
        size + b";x=y",
        size + b';x="\r\n"',
        size + b";" + b"x" * 9000,
        size + b"\t",
        b"",
        b"g",
        b"\xff",
    ]
    odd += [
        b"f" * 16,
        b"f" * 17,
        b"8" + b"0" * 15,
        b"7" + b"f" * 15,
        b"1" + size,
        size + b";\x00",
        b"-1",
    ]
    eol = random.choice([b"\r\n", b"\r\n", b"\n", b"\r", b"", b"\n\r", b"\r\r\n"])
    return random.choice(odd) + eol + piece + random.choice([b"\r\n", eol, b"x\r\n"])


def _end(random: Random) -> bytes:
    trailers = [
        b"X: y\r\n",
        b"Content-Length: 5\r\n",
        b"Set-Cookie: t=1\r\n",
        b"no colon\r\n",
        b" fold\r\n",
    ]
    trailers += [
        b"X: " + b"y" * 9000 + b"\r\n",
        b": x\r\n",
        b"X\x00: y\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"\n",
    ]
    trailers += [
        b"Transfer-Encoding: chunked\r\n",
        b"X: y\n",
        b"X: \xff\r\n",
        b"Location: /\r\n",
        b"\r",
    ]
    chosen = b"".join(random.choice(trailers) for _ in range(random.choice([0, 0, 0, 1, 2, 300])))
    last = random.choice(
        [b"0\r\n"] * 8 + [b"0\n", b"00000\r\n", b"0;x\r\n", b"", b"0", b"-0\r\n", b"0x0\r\n"]
    )
    return last + chosen + random.choice([b"\r\n"] * 6 + [b"\n", b"", b"\r", b"x"])
