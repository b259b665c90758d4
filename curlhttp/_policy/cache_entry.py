"""A stored response: its fields, whose it is, which requests it answers, and when it was born.

No URL and no credential is in it: of these it has digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import hishel

from curlhttp._models.headers import Headers
from curlhttp._models.redaction import is_secret_header
from curlhttp._models.request import Request
from curlhttp._policy.cache_fields import age_of, date_of

__all__ = [
    *("BORN", "GUARD", "LINE", "STORED", "VARY", "WHO"),
    *("birth_of", "born_at", "digest", "fields_of", "guard_of", "has_body", "head_of"),
    *("is_sealed", "leave_out", "owner_of", "seal", "stored_at", "twins", "variant_of"),
]

# Of a stored response, beside its own fields: no server can send a name with a colon.
BORN = ":born"  # when it would have had an Age of 0, in seconds since the epoch
GUARD, LINE, VARY, WHO = ":guard", ":line", ":vary", ":who"
STORED = ":stored"  # when it was stored or confirmed, in seconds since the epoch
BODY, SEAL = ":body", ":seal"  # digests: of the body, and of all else with that


def twins(entry: hishel.Entry, entries: Iterable[hishel.Entry]) -> list[hishel.Entry]:
    """Return those of some stored responses that answer the same requests as one."""
    about = entry.request.headers
    return [
        other
        for other in entries
        if all(other.request.headers.get(name) == about.get(name) for name in (GUARD, WHO, VARY))
    ]


def head_of(entry: hishel.Entry, age: float, line: str = "") -> bytes:
    """Return the head of a stored response with its Age, as it would be on the wire.

    Args:
        entry: what is stored.
        age: in seconds.
        line: another status line than the stored one.
    """
    headers = entry.response.headers
    lines = [line or entry.request.headers[LINE]]
    lines += [
        f"{name}: {value}"
        for name in headers
        if not name.startswith(":")
        for value in headers.get_list(name) or ()
    ]
    lines += [f"age: {int(age)}", "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace")


def fields_of(headers: Headers) -> hishel.Headers:
    """Return the fields of a response as hishel has them, without names that are our own."""
    grouped: dict[str, str | list[str]] = {}
    for name, value in headers.multi_items():
        if not name.startswith(":"):
            grouped.setdefault(name.lower(), []).append(value)  # type: ignore[union-attr]
    return hishel.Headers(grouped)


def leave_out(headers: hishel.Headers, names: Iterable[str]) -> None:
    """Remove fields, if they are there."""
    for name in names:
        if name in headers:
            del headers[name]


def birth_of(headers: hishel.Headers, began: float, now: float) -> float:
    """Return when a response would have had an Age of 0 (RFC 9111, section 4.2.3)."""
    date = date_of(headers.get("date"), now)
    apparent = 0.0 if date is None else max(0.0, now - date)
    return now - max(apparent, age_of(headers.get("age")) + max(0.0, now - began))


def born_at(entry: hishel.Entry) -> float:
    """Return when a stored response would have had an Age of 0, in seconds since the epoch."""
    return float(entry.response.headers[BORN])


def stored_at(entry: hishel.Entry) -> float:
    """Return when a response was stored or confirmed last, in seconds since the epoch."""
    return float(entry.response.headers[STORED])


def seal(entry: hishel.Entry, key: str, body: bytes | None = None) -> None:
    """Note in a response what tells later whether all of it is there, and as it was.

    Args:
        entry: what is to be stored.
        key: what it is stored under.
        body: of it; None where that stays as it is.
    """
    headers = entry.response.headers
    if body is not None:
        leave_out(headers, (BODY,))
        headers[BODY] = _checksum(body)
    leave_out(headers, (SEAL,))
    headers[SEAL] = _seal_of(entry, key)


def is_sealed(entry: hishel.Entry, key: str) -> bool:
    """Return whether a response is, without its body, what was stored under a key."""
    return entry.response.headers.get(SEAL) == _seal_of(entry, key)


def has_body(entry: hishel.Entry, body: bytes) -> bool:
    """Return whether a body is the one that was stored with a response."""
    return entry.response.headers.get(BODY) == _checksum(body)


def _seal_of(entry: hishel.Entry, key: str) -> str:
    lines = [key, str(entry.response.status_code)]
    for headers in (entry.request.headers, entry.response.headers):
        names = sorted({name.lower() for name in headers} - {SEAL})
        lines += [f"{name}: {list(headers.get_list(name) or ())!r}" for name in names]
        lines.append("")
    return _checksum("\n".join(lines).encode("utf-8", "surrogateescape"))


def _checksum(data: bytes) -> str:
    # A CRC is as fast, and an edit by hand or two flipped blocks may keep it.
    return hashlib.blake2b(data, digest_size=16, usedforsecurity=False).hexdigest()


def owner_of(request: Request) -> str:
    """Return what tells whose request it is: a digest of its credentials, "" without any."""
    headers = request.read_headers()
    secrets = [
        f"{name.lower()}: {value}"
        for name, value in headers.multi_items()
        if is_secret_header(name) or name.lower() in headers.sensitive
    ]
    if request.transport.tls.cert is not None:
        secrets.append(repr(request.transport.tls.cert))
    return digest(sorted(secrets)) if secrets else ""


def guard_of(request: Request) -> str:
    """Return what tells which addresses it may be answered from, "" for any."""
    guard = request.transport.guard
    return "" if guard is None else digest([guard.name])


def variant_of(request: Request, vary: str | None) -> str:
    """Return a digest of the request's fields that a Vary names, "" without one."""
    if not vary:
        return ""
    names = sorted({name.strip().lower() for name in vary.split(",")} - {""})
    headers = request.read_headers()
    # Blanks around commas, and lines in place of commas, make no difference (section 4.1).
    return digest(
        f"{name}: {[part.strip() for part in ','.join(headers.get_list(name)).split(',')]}"
        for name in names
    )


def digest(parts: Iterable[str]) -> str:
    """Return what tells some texts from others, and from which none of them can be read."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
