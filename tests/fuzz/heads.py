"""Heads: status lines, interim responses, line ends; and whole responses built of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from tests.adversary.stamps import stamp
from tests.fuzz.bodies import break_body, choose_body
from tests.fuzz.draft import Draft, Site, junk
from tests.fuzz.fields import FIELDS, add_field, add_value, challenge, location, retry_after

_PLAIN = (b"200", b"200", b"200", b"200", b"404", b"206", b"204", b"304", b"500", b"301", b"503")
_VERSIONS = (
    b"HTTP/1.0", b"HTTP/1.2", b"HTTP/1.10", b"HTTP/2", b"HTTP/2.0", b"HTTP/3", b"HTTP/0.9",
    b"HTTP/1", b"HTTP", b"http/1.1", b"HTTP/", b"HTTP/1.1.1", b"HTTP/9", b"HTTP/2026", b"HTTP/3200",
    b"ICY", b"RTSP/1.0", b"", b"\xefHTTP/1.1", b" HTTP/1.1", b"HTTP /1.1", b"HTTP/1.1\t",
    b"HTTP/1.1 ", b"HTTP/-1", b"HTTP/1.\xd9\xa1", b"HTTP/1.1\x00", b"HTTP/11", b"XHTTP/1.1",
    b"HTTP/1,1", b"HTTP/+1.1", b"HTTP/2 \x00",
)  # fmt: skip
_STATUSES = (
    b"0", b"00", b"000", b"001", b"099", b"100", b"101", b"102", b"103", b"150", b"199", b"201",
    b"205", b"226", b"299", b"300", b"302", b"303", b"305", b"307", b"308", b"399", b"400", b"401",
    b"403", b"407", b"408", b"421", b"425", b"429", b"431", b"451", b"502", b"504", b"599", b"600",
    b"999", b"1000", b"2000", b"20000", b"2", b"20", b"-200", b"+200", b"2e2", b"0200", b"0xc8",
    b"200.0", b"2OO", b"", b" ", b"  200", b"200OK", b"\xd9\xa2\xd9\xa0\xd9\xa0", b"4294967496",
    b"9" * 30, b"05:00", b"200\t", b"20\x00", b"\t200",
)  # fmt: skip
_REASONS = (
    b"", b" ", b"  ", b" \xff\xfe", b" \x1b[2J", b" \x00", b" a\rb", b"\tOK", b" " + b"r" * 9000,
    b" \xe4\xf6", "\N{SNOWMAN}".encode(), b" OK OK", b"-", b" 404",
)  # fmt: skip
_INTERIM = (
    b"100 Continue",
    b"103 Early Hints",
    b"102 x",
    b"100",
    b"199 \xff",
    b"101 Switching",
    b"110 x",
)
_REDIRECTS = (b"301", b"302", b"303", b"307", b"308", b"300", b"304", b"305", b"201")


_BREAKS = re.compile(rb"[\r\n\x00]")


class Expected(NamedTuple):
    """What a client must get of a response: status, fields without those of framing, plain body."""

    status: int
    fields: list[tuple[str, bytes]]
    body: bytes


@dataclass
class Answer:
    """What the server does about one request.

    Attributes:
        pieces: bytes that are sent one after the other.
        ending: "keep" the connection, "close" it, "reset" it, "half" close it, or "stall".
        stray: unsolicited bytes after a valid response.
        delay: seconds before that.
        notes: what makes the response odd.
        expected: what must come of it if anything does; None where that cannot be said.
    """

    pieces: list[bytes]
    ending: str = "keep"
    stray: bytes = b""
    delay: float = 0.0
    notes: list[str] = field(default_factory=list)
    expected: Expected | None = None


# What makes it hard to say what a client should make of a response.
_UNCLEAR = {"damaged coding", "interim", "duplicate"}


def expected_of(draft: Draft) -> Expected | None:
    """Return what must come of a response whose framing is right."""
    lines = [line.partition(b":") for line in draft.fields]
    if _UNCLEAR.intersection(draft.notes) or any(_BREAKS.search(line) for line in draft.fields):
        return None
    fields = [(name.decode("latin-1").lower(), value.strip(b" \t")) for name, _, value in lines]
    status = int(draft.status)
    codings = b",".join(value for name, value in fields if name == "content-encoding").split(b",")
    if status == 206 and len(codings) > 5:
        return None  # a part that cannot be decoded is as received
    return Expected(status, fields, b"" if status in (204, 304) else draft.plain)


def answer(random: Random, site: Site, owner: str) -> Answer:
    """Return the response to a request; a good one to the last hop of many redirects.

    Args:
        random: of this response only.
        site: what is answered.
        owner: whose stamp the body has.
    """
    draft = Draft(site)
    draft.status = random.choice(_PLAIN)
    choose_body(random, draft, stamp(owner))
    theme = random.random()
    if site.hop >= 4 or theme < 0.12:
        return _good(random, draft, owner)
    if theme < 0.32:
        _redirect(random, draft)
    elif theme < 0.40:
        _challenge(random, draft)
    elif theme < 0.46:
        draft.status = random.choice([b"429", b"503", b"413"])
        draft.fields.append(retry_after(random, site))
    elif theme < 0.52:
        draft.status = random.choice([b"206", b"416", b"200"])
        draft.fields += [FIELDS["ranges"](random, site) for _ in range(3)]
    mutations = _MILD if random.random() < 0.45 else _MUTATIONS
    for _ in range(random.choice([0, 1, 1, 1, 2, 2, 3, 5])):
        random.choice(mutations)(random, draft)
    if mutations is _MUTATIONS:
        return _sent(random, draft, spoils=random.random() < 0.35)
    made = _sent(random, draft, spoils=False)
    made.expected = expected_of(draft)
    return made


def _good(random: Random, draft: Draft, owner: str) -> Answer:
    draft = Draft(draft.site, fields=[b"Content-Type: text/plain"], body=stamp(owner))
    if draft.site.method == "HEAD":
        draft.body = b""
    made = Answer([draft.head + draft.framed], notes=["good"])
    if random.random() < 0.4:
        evil = Draft(draft.site, body=stamp(owner))
        made.stray = random.choice(
            [
                evil.head + evil.framed,
                evil.head + evil.framed,
                junk(random),
                b"\r\n",
                b"HTTP/1.1 408 x\r\n\r\n",
            ]
        )
        made.delay = random.choice([0.0, 0.0, 20e-6, 100e-6, 1e-3, 5e-3])
        made.notes.append("stray")
    return made


def _redirect(random: Random, draft: Draft) -> None:
    draft.status = random.choice(_REDIRECTS)
    draft.fields += [location(random, draft.site) for _ in range(random.choice([1, 1, 1, 2]))]
    draft.notes.append("redirect")


def _challenge(random: Random, draft: Draft) -> None:
    draft.status = b"407" if draft.site.kind == "connect" or random.random() < 0.1 else b"401"
    draft.fields += [challenge(random, draft.site) for _ in range(random.choice([1, 1, 2, 5]))]
    draft.notes.append("challenge")


def _version(random: Random, draft: Draft) -> None:
    draft.version = random.choice(_VERSIONS)


def _status(random: Random, draft: Draft) -> None:
    draft.status = random.choice(_STATUSES)


def _reason(random: Random, draft: Draft) -> None:
    draft.reason = random.choice(_REASONS)


def _before(random: Random, draft: Draft) -> None:
    draft.before = random.choice(
        [b"\r\n", b"\n", b"\r\n\r\n", b" ", b"\x00", b"\r", junk(random), b"\n" * 99]
    )


def _interim(random: Random, draft: Draft) -> None:
    for _ in range(random.choice([1, 1, 2, 30])):
        line = b"HTTP/1.1 " + random.choice(_INTERIM)
        inner = Draft(draft.site)
        if random.random() < 0.4:
            add_field(random, inner)
        lines = b"".join(one + b"\r\n" for one in [line, *inner.fields])
        draft.before += lines + random.choice([b"\r\n", b"\r\n", b"\n", b"\r\n\r\n", b""])


def _eol(random: Random, draft: Draft) -> None:
    if any(b"ocation" in line.lower() for line in draft.fields):
        return  # joined with the next line it might lead anywhere
    draft.eol = random.choice([b"\n", b"\r", b"\r\r\n", b"\n\r", b"", b"\r\n "])


def _blank(random: Random, draft: Draft) -> None:
    draft.blank = random.choice(
        [b"\n", b"", b"\r", b" \r\n", b"\t\r\n", b"\r\r\n", b"\n\r\n", b"\r\n\r\n"]
    )


def _duplicate(random: Random, draft: Draft) -> None:
    if draft.fields:
        draft.fields += [random.choice(draft.fields)] * random.choice([1, 1, 100])


def _swap_case(random: Random, draft: Draft) -> None:
    draft.fields = [line.swapcase() for line in draft.fields]


def _many(random: Random, draft: Draft) -> None:
    name = random.choice(list(FIELDS))
    draft.fields += [FIELDS[name](random, draft.site) for _ in range(random.choice([20, 60]))]


def _huge(random: Random, draft: Draft) -> None:
    if random.random() < 0.1:
        draft.fields += random.choice(
            [[b"X: y"] * 5100, [b"X: " + b"y" * 110_000], [b"X: " + b"y" * 6000] * 60]
        )


def _both_framings(random: Random, draft: Draft) -> None:
    draft.framing = "chunked"
    draft.fields.append(
        b"Content-Length: %d" % random.choice([0, 1, len(draft.body), len(draft.framed), 1 << 40])
    )


def _no_body(random: Random, draft: Draft) -> None:
    draft.body, draft.framing = b"", random.choice(["none", "length", "chunked"])


def _no_framing(random: Random, draft: Draft) -> None:
    draft.framing = "none"


def _noted(mutation: Callable[[Random, Draft], None]) -> Callable[[Random, Draft], None]:
    def noted(random: Random, draft: Draft) -> None:
        mutation(random, draft)
        draft.notes.append(mutation.__name__.strip("_"))

    return noted


_MILD = (*[add_value] * 10, _noted(_swap_case), _noted(_duplicate), _noted(_interim))
_MUTATIONS = (
    *[add_field] * 8,
    *[break_body] * 3,
    *map(
        _noted,
        [
            _version, _status, _reason, _before, _interim, _eol, _blank, _duplicate, _swap_case,
            _many, _huge, _both_framings, _no_body, _no_framing,
        ],
    ),
)  # fmt: skip


def _sent(random: Random, draft: Draft, *, spoils: bool) -> Answer:
    """Return the bytes of a draft, perhaps with a few damaged, and how its connection ends."""
    wire = draft.head + draft.framed
    if spoils and b"ocation" not in wire.lower():  # or it might lead anywhere
        wire = _damaged(random, wire)
        draft.notes.append("damaged bytes")
    ending = random.choice(["keep"] * 10 + ["close"] * 7 + ["reset", "half"])
    if draft.framing == "close" and ending == "keep":
        ending = "close"
    return Answer(_pieces(random, wire), ending, notes=draft.notes)


def _pieces(random: Random, wire: bytes) -> list[bytes]:
    if random.random() < 0.7:
        return [wire]
    cuts = sorted(random.randint(0, len(wire)) for _ in range(random.choice([1, 2, 5])))
    return [wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]


def _damaged(random: Random, wire: bytes) -> bytes:
    near = min(len(wire), random.choice([40, 200, len(wire)]))
    at = random.randint(0, near)
    to = min(len(wire), at + random.choice([1, 1, 2, 8, 40]))
    token = random.choice(
        [
            b"\r\n",
            b"\n",
            b"\r",
            b"\x00",
            b" ",
            b":",
            b"\r\n\r\n",
            b"\t",
            b"\xff",
            b"0",
            junk(random),
        ]
    )
    return random.choice(
        [
            wire[:at] + wire[to:],
            wire[:at] + token + wire[at:],
            wire[:at] + token + wire[to:],
            wire[:to] + wire[at:],
            wire[:at],
            wire[:at]
            + bytes(byte ^ (1 << random.randrange(8)) for byte in wire[at:to])
            + wire[to:],
        ]
    )
