"""Which entry of a cassette answers a request, and which came nearest where none does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

from curlhttp._models.decoding import decode_readable
from curlhttp._models.redactor import Redactor, parse_boundary
from curlhttp._models.request import Request
from curlhttp._record.reading import Played

__all__ = ["Key", "Part", "key_of", "key_of_entry", "nearest", "only"]

Part: TypeAlias = Literal["method", "url", "body"]


class Key(NamedTuple):
    """What is compared of a request; secrets are masked."""

    method: str
    url: str
    body: bytes


def key_of(request: Request, body: bytes, masks: Redactor) -> Key:
    """Return the key of a request that is to be sent."""
    media_type = request.get_header("content-type") or ""
    plain = decode_readable(body, request.read_headers().get_list("content-encoding"))
    masked = masks.body(plain, media_type)
    return Key(request.method, _sorted(masks.url(request.url)), _steady(masked, media_type))


def key_of_entry(played: Played, masks: Redactor) -> Key:
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


def only(key: Key, parts: Collection[Part]) -> Key:
    """Return a key that has the parts that count, and is equal where they are."""
    return Key(
        key.method if "method" in parts else "",
        key.url if "url" in parts else "",
        key.body if "body" in parts else b"",
    )


def nearest(key: Key, known: Sequence[Key], parts: Sequence[Part]) -> tuple[int, list[Part]] | None:
    """Return the position of the key that is most like one, and the parts that differ."""
    if not known:
        return None

    def likeness(position: int) -> tuple[int, float]:
        other = known[position]
        equal = sum(getattr(key, part) == getattr(other, part) for part in parts)
        return equal, SequenceMatcher(None, key.url, other.url).quick_ratio()

    best = max(range(len(known)), key=likeness)
    return best, [part for part in parts if getattr(key, part) != getattr(known[best], part)]
