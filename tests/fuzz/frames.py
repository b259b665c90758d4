"""HTTP/2 responses: valid frames, then errors in them, their order and their bytes.

Header blocks are written without the dynamic table, so that any of them can be damaged alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.adversary.stamps import stamp
from tests.fuzz.bodies import choose_body
from tests.fuzz.draft import Draft, Site, junk
from tests.fuzz.fields import add_field, add_value, location
from tests.fuzz.heads import Answer, expected_of

(
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION,
) = range(10)
END_STREAM, END_HEADERS, PADDED, WITH_PRIORITY = 1, 4, 8, 32

_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

_Fields = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Frame:
    """A frame as it goes out (RFC 9113, section 4.1); its length may be a lie."""

    kind: int
    flags: int
    stream: int
    payload: bytes
    length: int | None = None

    def wire(self) -> bytes:
        """Return its bytes."""
        length = len(self.payload) if self.length is None else self.length
        return (
            (length & 0xFFFFFF).to_bytes(3, "big")
            + bytes([self.kind & 255, self.flags & 255])
            + (self.stream & 0xFFFFFFFF).to_bytes(4, "big")
            + self.payload
        )


def answer_frames(random: Random, site: Site, owner: str, stream: int) -> Answer:
    """Return the frames of a response; valid ones after the last of many redirects.

    Args:
        random: of this response only.
        site: what is answered.
        owner: whose stamp the body has.
        stream: the request's.
    """
    draft = Draft(site)
    choose_body(random, draft, stamp(owner))
    notes = draft.notes
    is_mild = random.random() < 0.4
    fields = _fields(random, draft, is_mild=is_mild)
    good = site.hop >= 4 or random.random() < 0.15
    if good:
        draft.body, fields = stamp(owner), [(b":status", b"200")]
    frames = _frames(random, stream, fields, b"" if site.method == "HEAD" else draft.body)
    if good:
        return Answer([b"".join(frame.wire() for frame in frames)], notes=["good"])
    for _ in range(0 if is_mild else random.choice([0, 1, 1, 1, 2, 3])):
        change = random.choice(_CHANGES)
        frames = change(random, frames, stream)
        notes.append(change.__name__.strip("_"))
    wire = b"".join(frame.wire() for frame in frames)
    if (
        not is_mild
        and random.random() < 0.12
        and not any(name == b"location" for name, _ in fields)
    ):
        wire = _damaged(random, wire)
        notes.append("damaged bytes")
    ending = random.choice(["keep"] * 14 + ["close", "reset", "half"])
    made = Answer([wire], ending, notes=notes)
    if is_mild:
        draft.status = fields[0][1]
        made.expected = expected_of(draft)
        if made.expected is not None:  # nghttp2 drops fields with control characters
            kept = [one for one in made.expected.fields if not _CONTROLS.search(one[1])]
            made.expected = made.expected._replace(fields=kept)
    return made


def _fields(random: Random, draft: Draft, *, is_mild: bool) -> _Fields:
    pick = random.choice
    status = pick([b"200"] * 6 + [b"404", b"204", b"304", b"500", b"206"])
    if random.random() < 0.2:
        status = pick([b"301", b"302", b"303", b"307", b"308"])
        draft.fields.append(location(random, draft.site))
        draft.notes.append("redirect")
    for _ in range(pick([0, 0, 1, 2, 4])):
        (add_value if is_mild else add_field)(random, draft)
    fields = [_as_field(line) for line in draft.fields]
    if is_mild:
        return [(b":status", status), *fields]
    if random.random() < 0.2:
        status = pick(_STATUSES)
        draft.notes.append("status")
    fields.insert(0, (b":status", status))
    if random.random() < 0.15:
        fields.insert(random.randint(0, len(fields)), pick(_ODD))
        draft.notes.append("odd field")
    if random.random() < 0.04:
        fields = fields[1:]
        draft.notes.append("no status")
    return fields


_STATUSES = (
    b"", b"2", b"20", b"2000", b"abc", b"099", b"100", b"101", b"103", b"000", b"999", b"-1",
    b"+200", b"600", b"200 OK", b" 200", b"\xd9\xa2", b"200\x00",
)  # fmt: skip
_ODD: tuple[tuple[bytes, bytes], ...] = (
    (b":status", b"200"), (b":path", b"/"), (b":x", b"y"), (b":", b""), (b"", b""), (b"connection",
    b"close"), (b"transfer-encoding", b"chunked"), (b"keep-alive", b"1"), (b"upgrade", b"h2c"),
    (b"te", b"trailers"), (b"X-Upper", b"y"), (b"x y", b"z"), (b"x", b"a\r\nb: c"), (b"x", b"a\nb"),
    (b"x\x00", b"y"), (b"x", b"\x00"), (b"x:", b"y"), (b"\xff", b"\xfe"), (b"x", b"y" * 70_000),
    (b"content-length", b"1"), (b"content-length", b"-1"), (b"content-length", b"9" * 30),
    (b"content-length", b"0"), (b"x", b" y "), (b"proxy-connection", b"x"), (b"content-length",
    b"5, 5"), (b"http2-settings", b"AA"), (b"host", b"x"), (b"set-cookie", b"a\x01=b"),
)  # fmt: skip


def _as_field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.strip().lower() or b"x", value.strip(b" ")


def _frames(random: Random, stream: int, fields: _Fields, body: bytes) -> list[Frame]:
    pick = random.choice
    block = b"".join(_literal(random, name, value) for name, value in fields)
    has_trailers = random.random() < 0.15
    ends = END_STREAM if not body and not has_trailers else 0
    frames = _blocks(random, stream, block, ends)
    step = pick([1000, 16384, 16384, max(1, len(body) // 3)])
    for at in range(0, len(body), step):
        is_last = at + step >= len(body) and not has_trailers
        frames.append(Frame(DATA, END_STREAM if is_last else 0, stream, body[at : at + step]))
    if has_trailers:
        trailer = pick(
            [
                (b"x-sum", b"1"),
                (b":status", b"200"),
                (b"", b""),
                (b"content-length", b"1"),
                (b"X", b"y"),
            ]
        )
        frames += _blocks(random, stream, _literal(random, *trailer), END_STREAM)
    return frames


def _blocks(random: Random, stream: int, block: bytes, flags: int) -> list[Frame]:
    is_whole = random.random() < 0.9 or b"ocation" in block.lower()  # see _spoil_payload
    step = 16384 if is_whole else max(1, len(block) // 3)
    pieces = [block[at : at + step] for at in range(0, len(block), step)] or [b""]
    kinds = [HEADERS] + [CONTINUATION] * (len(pieces) - 1)
    frames = [
        Frame(kind, flags if kind == HEADERS else 0, stream, piece)
        for kind, piece in zip(kinds, pieces, strict=True)
    ]
    frames[-1] = replace(frames[-1], flags=frames[-1].flags | END_HEADERS)
    return frames


def _literal(random: Random, name: bytes, value: bytes) -> bytes:
    """Return a field never to be indexed (RFC 7541, section 6.2.3), rarely one that is."""
    first = 0x40 if random.random() < 0.02 else 0x10
    return bytes([first]) + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    return _integer(len(text), 7) + text


def _integer(number: int, bits: int) -> bytes:
    """Return a number as HPACK has it (RFC 7541, section 5.1)."""
    most = (1 << bits) - 1
    if number < most:
        return bytes([number])
    rest, out = number - most, bytearray([most])
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    out.append(rest)
    return bytes(out)


_Change = Callable[[Random, list[Frame], int], list[Frame]]


def _at(random: Random, frames: list[Frame]) -> int:
    return random.randrange(len(frames)) if frames else 0


def _drop(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    at = _at(random, frames)
    return frames[:at] + frames[at + 1 :]


def _repeat(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    at = _at(random, frames)
    return frames[: at + 1] + frames[at : at + 1] * random.choice([1, 1, 200]) + frames[at + 1 :]


def _shuffle(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    return random.sample(frames, len(frames))


def _restream(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    others = [0, stream + 2, stream + 1, 2, 0x7FFFFFFF, 0x80000000 | stream, stream - 2]
    return _with(random, frames, stream=random.choice(others))


def _reflag(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    flags = [
        0,
        END_STREAM,
        END_HEADERS,
        PADDED,
        WITH_PRIORITY,
        255,
        END_STREAM | END_HEADERS | PADDED,
    ]
    return _with(random, frames, flags=random.choice(flags))


def _rekind(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    return _with(random, frames, kind=random.choice([*range(12), 255]))


def _relength(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    return _with(random, frames, length=random.choice([0, 1, 5, 16384, 16385, 0xFFFFFF, 100]))


def _cut_payload(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    at = _at(random, frames)
    payload = frames[at].payload if frames else b""
    return _with(random, frames, at, payload=payload[: random.randint(0, len(payload))])


def _spoil_payload(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    at = _at(random, frames)
    if not frames or b"ocation" in frames[at].payload.lower():  # it might lead anywhere
        return frames
    return _with(random, frames, at, payload=_damaged(random, frames[at].payload))


def _with(
    random: Random, frames: list[Frame], at: int | None = None, **changes: object
) -> list[Frame]:
    if not frames:
        return frames
    at = _at(random, frames) if at is None else at
    changed: Frame = replace(frames[at], **changes)  # type: ignore[arg-type]
    return [*frames[:at], changed, *frames[at + 1 :]]


def _bad_block(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    block = random.choice(
        [
            b"\x80",  # index 0
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # an endless index
            b"\xbe",  # an index of the empty dynamic table
            b"\x3f\xff\xff\xff\x7f",  # a table size beyond the setting
            b"\x20\x88",  # a table of no size, then 200
            b"\x88\x20",  # a size after a field
            b"\x88",
            b"\x88" * 5000,
            b"\x10\x05ab",
            b"\x10\x81\xff\x81\xff",  # Huffman padding alone
            b"\x40\x01x\x7f\xff\xff\xff\x7f",
            b"",
            junk(random, 30),
        ]
    )
    extra = Frame(HEADERS, END_HEADERS | random.choice([0, END_STREAM]), stream, block)
    return random.choice([[extra], [extra, *frames], [*frames, extra]])


def _insert(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    at = random.randint(0, len(frames))
    return frames[:at] + _strange(random, stream) + frames[at:]


def _strange(random: Random, stream: int) -> list[Frame]:
    pick = random.choice
    of = pick([0, stream, stream, stream + 2, 2])
    code = pick([0, 1, 2, 5, 7, 8, 11, 13, 14, 255, 0xFFFFFFFF]).to_bytes(4, "big")
    last = pick([0, stream - 2, stream, stream + 2, 0x7FFFFFFF]) & 0x7FFFFFFF
    setting = pick([0, 1, 2, 3, 4, 5, 6, 8, 9, 99]).to_bytes(2, "big")
    value = pick([0, 1, 2, 100, 16383, 16384, 65535, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]).to_bytes(
        4, "big"
    )
    one = pick(
        [
            Frame(RST_STREAM, 0, of, code),
            Frame(RST_STREAM, 0, stream, code),
            Frame(RST_STREAM, 0, of, code[:3]),
            Frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + code + pick([b"", b"why",
            b"\xff" * 1000])), Frame(GOAWAY, 0, of, b"\x00" * pick([0, 7, 8])),
            Frame(PING, 0, pick([0, 0, of]), b"12345678"[: pick([8, 8, 7])]),
            Frame(PING, 1, 0, b"unasked!"),
            Frame(SETTINGS, 0, pick([0, 0, of]), setting + value),
            Frame(SETTINGS, 1, 0, pick([b"", setting + value])),
            Frame(SETTINGS, 0, 0, b"\x00" * pick([5, 6000])),
            Frame(WINDOW_UPDATE, 0, of, value),
            Frame(WINDOW_UPDATE, 0, of, value[:2]),
            Frame(PRIORITY, 0, of, value + b"\x10"),
            Frame(PRIORITY, 0, stream, stream.to_bytes(4, "big") + b"\x10"),
            Frame(PUSH_PROMISE, END_HEADERS, stream, b"\x00\x00\x00\x02\x82\x84\x86\x41\x01x"),
            Frame(CONTINUATION, pick([0, END_HEADERS]), of, pick([b"", b"\x88"])),
            Frame(DATA, pick([0, END_STREAM]), of, pick([b"", b"x" * 100])),
            Frame(DATA, PADDED | END_STREAM, stream, pick([b"", b"\xff", b"\x03abc\x00\x00\x00",
            b"\x00ab"])), Frame(HEADERS, END_HEADERS, stream, b"\x10\x07:status\x03103"),
            Frame(HEADERS, END_HEADERS, stream, b"\x10\x07:status\x03101"),
            Frame(HEADERS, END_HEADERS | PADDED, stream, b"\x01\x88\x00"),
            Frame(HEADERS, END_HEADERS | WITH_PRIORITY, stream, b"\x00\x00\x00\x00\x10\x88"),
            Frame(HEADERS, 0, stream, b"\x88"),
            Frame(0x0A, 0, 0, b"\x00\x00h3=\":1\""),
            Frame(0xBE, 255, of, junk(random)),
        ]
    )  # fmt: skip
    return [one] * pick([1, 1, 1, 1, 1, 1, 2, 300])


def _empty_data(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    at = random.randint(0, len(frames))
    return frames[:at] + [Frame(DATA, 0, stream, b"")] * random.choice([1, 500]) + frames[at:]


def _http1(random: Random, frames: list[Frame], stream: int) -> list[Frame]:
    text = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    return [
        Frame(
            text[3],
            text[4],
            int.from_bytes(text[5:9], "big"),
            text[9:],
            int.from_bytes(text[:3], "big"),
        )
    ]


_CHANGES: tuple[_Change, ...] = (
    _drop, _drop, _repeat, _shuffle, _restream, _reflag, _rekind, _relength, _cut_payload,
    _spoil_payload, _bad_block, _insert, _insert, _insert, _insert, _insert, _empty_data, _http1,
)  # fmt: skip


def _damaged(random: Random, wire: bytes) -> bytes:
    at = random.randint(0, len(wire))
    to = min(len(wire), at + random.choice([1, 1, 4, 9]))
    flipped = bytes(byte ^ (1 << random.randrange(8)) for byte in wire[at:to])
    return random.choice(
        [
            wire[:at] + flipped + wire[to:],
            wire[:at] + wire[to:],
            wire[:at] + junk(random) + wire[at:],
        ]
    )
