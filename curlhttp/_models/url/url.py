"""The URL: parsed and made canonical once, so that origin, cookies, policy and wire agree.

libcurl's own reading of odd URLs differs from everyone else's; it is only ever given `URL.wire`.
Nothing here resolves a name, opens anything, or shows the userinfo of a URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn, cast
from urllib.parse import unquote

from curlhttp._models.scrub import scrub_text, shown_url
from curlhttp._models.url.origin import Origin, parse_origin
from curlhttp._models.url.params import encode_params
from curlhttp._models.url.target import PATH_SAFE, QUERY_SAFE, build_target, quoted
from curlhttp.exceptions import InvalidSchema, InvalidURL, MissingSchema

if TYPE_CHECKING:
    from curlhttp._models.inputs import ParamsInput

__all__ = ["URL", "encode_params", "parse_url"]

_LONGEST_CACHED = 2048  # characters; bounds what the cache of parsed URLs can hold on to

_PATH = r"[\w.~!$&'()*+,;=:@/-]*"
_QUERY = r"[\w.~!$&'()*+,;=:@/?-]*"
# An escape that canonical form keeps: upper case, and not of an unreserved character.
_ESCAPE = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[BCDF])"
_CANONICAL = re.compile(
    r"(https?://[a-z0-9._\-:\[\]]+)"
    rf"(/{_PATH}(?:{_ESCAPE}{_PATH})*(?:\?(?=.){_QUERY}(?:{_ESCAPE}{_QUERY})*)?)",
    re.ASCII,
).fullmatch
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):").match
_PARTS = re.compile(r"(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL).fullmatch
_FORBIDDEN_IN_AUTHORITY = re.compile(r"[\s\x00-\x1f\x7f-\x9f\\]").search


class _Draft:
    """A URL while it is filled in.

    It turns into a `URL` by a change of class: three times faster than object.__setattr__
    for each of the slots of an immutable object.
    """

    __slots__ = (
        "_origin",
        "authority",
        "fragment",
        "host",
        "origin",
        "password",
        "port",
        "scheme",
        "target",
        "username",
        "wire",
    )

    scheme: str
    host: str
    port: int
    target: str
    origin: str
    authority: str
    wire: str
    fragment: str
    username: str | None
    password: str | None

    def __init__(
        self,
        origin: Origin,
        target: str,
        wire: str,
        fragment: str = "",
        username: str | None = None,
        password: str | None = None,
    ) -> None:
        self._origin = origin
        self.scheme, self.host, self.port, self.origin, self.authority, _ = origin
        self.target = target
        self.wire = wire
        self.fragment = fragment
        self.username = username
        self.password = password


class URL(_Draft):
    """Hold an http or https URL in canonical form; immutable and hashable.

    Args:
        url: an absolute URL.

    Attributes:
        scheme: "http" or "https".
        host: lower case; IDNA A-labels, dotted IPv4, or IPv6 without brackets (zone kept).
        port: the effective port.
        target: the request target in origin form, "/path?query", percent-encoded ASCII.
        origin: "scheme://host:port", always with the port: the key for all per-origin state.
        authority: the value of the Host header: no zone, no default port.
        wire: the ASCII URL for libcurl, without userinfo and fragment.
        fragment: what follows "#", percent-encoded ASCII.
        username: percent-decoded, or None; the text forms of a URL never show it.
        password: percent-decoded, or None.

    Raises:
        MissingSchema, InvalidSchema, InvalidURL: the URL cannot be requested.
    """

    __slots__ = ()

    def __new__(cls, url: str | bytes | URL) -> URL:
        """Return the URL, from the cache where possible."""
        return parse_url(url)

    def __init__(self, url: str | bytes | URL) -> None:
        """Do nothing: __new__ returns a finished URL."""

    @property
    def path(self) -> str:
        """Return the path of the target."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """Return the query of the target, "" when there is none."""
        return self.target.partition("?")[2]

    def join(self, location: str | bytes) -> URL:
        """Resolve a reference such as a Location value against this URL (RFC 3986, section 5.2).

        Userinfo comes from the reference alone, never from this URL; the fragment of this URL
        is inherited where the reference has none (RFC 9110, section 10.2.2).

        Args:
            location: an absolute or relative reference; bytes are UTF-8.

        Raises:
            InvalidSchema, InvalidURL: the reference leads nowhere that can be requested.
        """
        text = _decoded(location).strip()
        if _SCHEME(text):
            found = parse_url(text)
        elif text.startswith("//"):
            found = parse_url(f"{self.scheme}:{text}")
        else:
            found = self._relative(text)
        if self.fragment and not found.fragment:
            return found._with(found.target, self.fragment)
        return found

    def _relative(self, text: str) -> URL:
        _, path, query, fragment = _split(text)
        with _naming(text):
            # Quoted before the merge: a bad escape here must not make that of the base literal.
            path = quoted(path, PATH_SAFE)
            if not path:
                path, query = self.path, self.query if query is None else query
            elif path[0] != "/":
                path = self.path[: self.path.rindex("/") + 1] + path
            target, fragment = build_target(path, query), quoted(fragment or "", QUERY_SAFE)
        return _built(self._origin, target, fragment)

    def with_params(self, params: ParamsInput | None) -> URL:
        """Return this URL with parameters appended to its query, by requests' rules.

        Args:
            params: see `encode_params`; a str or bytes is a query as it is, quoted where needed.
        """
        if not params:
            return self
        piece = encode_params(params)
        if isinstance(params, (str, bytes)):
            with _naming(str(self)):
                piece = quoted(piece, QUERY_SAFE)
        if not piece:
            return self
        separator = "&" if "?" in self.target else "?"
        return self._with(f"{self.target}{separator}{piece}", self.fragment)

    def with_target(self, target: str) -> URL:
        """Return this URL with a request target that goes out as it is.

        Args:
            target: ASCII without blanks and controls. One that is no path, such as "*" (RFC 9112,
                section 3.2), or that holds a "#", stands in `wire` as a fragment does: the engine
                knows it by that.
        """
        if target[:1] == "/" and "#" not in target:
            return self._with(target, "")
        parts = _Draft(self._origin, target, f"{self._origin.prefix}/#{target}")
        return _finished(parts)

    def without_userinfo(self) -> URL:
        """Return this URL without user name and password."""
        if self.username is None:
            return self
        return _built(self._origin, self.target, self.fragment)

    def _with(self, target: str, fragment: str) -> URL:
        return _built(self._origin, target, fragment, self.username, self.password)

    def __str__(self) -> str:
        fragment = f"#{self.fragment}" if self.fragment else ""
        return f"{self.scheme}://{self.authority}{self.target}{fragment}"

    def __repr__(self) -> str:
        return f"URL({scrub_text(str(self))!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, URL):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.wire)

    def _key(self) -> tuple[str, str, str | None, str | None]:
        return self.wire, self.fragment, self.username, self.password

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a URL is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a URL is immutable: cannot delete {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, self._key()


def _built(
    origin: Origin,
    target: str,
    fragment: str = "",
    username: str | None = None,
    password: str | None = None,
) -> URL:
    parts = _Draft(origin, target, origin.prefix + target, fragment, username, password)
    return _finished(parts)


def _finished(parts: _Draft) -> URL:
    parts.__class__ = URL
    return cast("URL", parts)


def _restored(wire: str, fragment: str, username: str | None, password: str | None) -> URL:
    url = parse_url(wire)
    return _built(url._origin, url.target, fragment, username, password)


def parse_url(url: str | bytes | URL) -> URL:
    """Parse a URL and make it canonical; recent ones come from a cache.

    Args:
        url: an absolute URL; bytes are UTF-8, other objects are taken by their str().

    Raises:
        MissingSchema: there is no scheme.
        InvalidSchema: the scheme is neither http nor https.
        InvalidURL: host, port or text is not fit to be sent; the message shows no userinfo.
    """
    if type(url) is str:
        return _cached(url) if len(url) <= _LONGEST_CACHED else _parsed_slowly(url)
    if isinstance(url, URL):
        return url
    return parse_url(_decoded(url))


def _decoded(text: str | bytes | None) -> str:
    if text is None:
        raise MissingSchema("the URL is None: give text, such as 'https://example.com/'")
    if not isinstance(text, bytes):
        return str(text)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise InvalidURL(f"Invalid URL {shown_url(text.decode('latin-1'))!r}: not UTF-8") from None


def _parsed(text: str) -> URL:
    match = _CANONICAL(text)
    if match is not None:
        prefix, target = match.groups()
        if "/." not in target:  # a dot segment, perhaps
            try:
                origin = parse_origin(prefix)
            except InvalidURL:
                return _parsed_slowly(text)  # which says what is wrong with it
            return _finished(
                _Draft(origin, target, text if origin.prefix == prefix else origin.prefix + target)
            )
    return _parsed_slowly(text)


_cached = lru_cache(4096)(_parsed)


def _parsed_slowly(text: str) -> URL:
    text = text.lstrip()
    scheme, rest = _after_scheme(text)
    authority, path, query, fragment = _split(rest)
    with _naming(text):
        userinfo, host_port = _after_userinfo(authority or "")
        origin = parse_origin(f"{scheme}://{host_port}")
        target = build_target(path, query)
        username, password = _credentials(userinfo)
        return _built(origin, target, quoted(fragment or "", QUERY_SAFE), username, password)


@contextmanager
def _naming(text: str) -> Iterator[None]:
    """Put the URL, safe to show, in front of the reason of an InvalidURL."""
    try:
        yield
    except InvalidURL as reason:
        raise InvalidURL(f"Invalid URL {shown_url(text)!r}: {reason}") from None
    except UnicodeEncodeError:
        raise InvalidURL(f"Invalid URL {shown_url(text)!r}: lone surrogate") from None


def _after_scheme(text: str) -> tuple[str, str]:
    match = _SCHEME(text)
    scheme = match[1].lower() if match else ""
    if scheme in ("http", "https"):
        return scheme, text[len(scheme) + 1 :]
    shown = shown_url(text)
    # requests' order: a colon after anything but "http..." is the end of some scheme.
    if scheme or (":" in text and text[:4].lower() != "http"):
        raise InvalidSchema(
            f"No connection adapters were found for {shown!r}: URLs begin with http:// or https://"
        )
    raise MissingSchema(
        f"Invalid URL {shown!r}: No scheme supplied. Perhaps you meant https://{shown}?"
    )


def _split(text: str) -> tuple[str | None, str, str | None, str | None]:
    """Return authority, path, query and fragment; None is not there at all."""
    match = cast("re.Match[str]", _PARTS(text))  # it matches any text
    authority, path, query, fragment = match.groups()
    return authority, path, query, fragment


def _after_userinfo(authority: str) -> tuple[str, str]:
    # Parsers disagree on which "@" or "\" ends the userinfo, so on the host: refuse both.
    if _FORBIDDEN_IN_AUTHORITY(authority):
        raise InvalidURL("white space, control character or backslash in the authority")
    userinfo, _, host_port = authority.rpartition("@")
    if "@" in userinfo:
        raise InvalidURL("more than one @ in the authority")
    return userinfo, host_port


def _credentials(userinfo: str) -> tuple[str | None, str | None]:
    if userinfo in ("", ":"):
        return None, None
    userinfo.encode()  # UnicodeEncodeError for a lone surrogate
    username, colon, password = userinfo.partition(":")
    return unquote(username), unquote(password) if colon else None
