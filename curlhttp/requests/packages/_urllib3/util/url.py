"""urllib3.util.url: a URL in parts; what is sent goes through the core's stricter parser."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from curlhttp.requests.packages._urllib3.exceptions import LocationParseError

__all__ = ["Url", "parse_url"]

_HAS_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+-]*:|/").match
_PARTS = re.compile(  # RFC 3986, appendix B
    r"(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?://([^\\/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
).fullmatch
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+(?:%[^\]]+)?\]|[^\[\]:]*)(?::([0-9]{0,5}))?").fullmatch
_NOT_IN_HOST = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]").search
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")

_USERINFO = "!$&'()*+,;=:"  # RFC 3986: what may stand unescaped besides letters, digits, "_.-~"
_PATH = _USERINFO + "@/"
_QUERY = _PATH + "?"


class _Parts(NamedTuple):
    scheme: str | None = None
    auth: str | None = None
    host: str | None = None
    port: int | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


class Url(_Parts):
    """The parts of a URL; None for one that is not there."""

    __slots__ = ()

    def __new__(
        cls,
        scheme: str | None = None,
        auth: str | None = None,
        host: str | None = None,
        port: int | None = None,
        path: str | None = None,
        query: str | None = None,
        fragment: str | None = None,
    ) -> Url:
        """Make one from its parts; the path begins with a slash."""
        if path and not path.startswith("/"):
            path = "/" + path
        if scheme is not None:
            scheme = scheme.lower()
        return super().__new__(cls, scheme, auth, host, port, path, query, fragment)

    @property
    def hostname(self) -> str | None:
        """Return the host."""
        return self.host

    @property
    def auth_decoded(self) -> tuple[str | None, str | None]:
        """Return user name and password, unescaped."""
        if self.auth is None:
            return None, None
        name, colon, password = self.auth.partition(":")
        return unquote(name), unquote(password) if colon else None

    @property
    def auth_decoded_joined(self) -> str | None:
        """Return "user:password", unescaped."""
        name, password = self.auth_decoded
        return None if name is None else f"{name}:{password or ''}"

    @property
    def request_uri(self) -> str:
        """Return path and query."""
        path = self.path or "/"
        return path if self.query is None else f"{path}?{self.query}"

    @property
    def netloc(self) -> str | None:
        """Return host and port."""
        if self.host is None:
            return None
        return f"{self.host}:{self.port}" if self.port else self.host

    @property
    def authority(self) -> str | None:
        """Return userinfo, host and port."""
        netloc = self.netloc
        return netloc if netloc is None or self.auth is None else f"{self.auth}@{netloc}"

    @property
    def url(self) -> str:
        """Return all of it."""
        text = "" if self.scheme is None else f"{self.scheme}://"
        if self.auth is not None:
            text += f"{self.auth}@"
        text += self.host or ""
        if self.port is not None:
            text += f":{self.port}"
        text += self.path or ""
        if self.query is not None:
            text += f"?{self.query}"
        return text if self.fragment is None else f"{text}#{self.fragment}"

    def __str__(self) -> str:
        return self.url


def parse_url(url: str) -> Url:
    """Return the parts of a URL, which may lack a scheme.

    Raises:
        LocationParseError: it is no URL.
    """
    if not url:
        return Url()
    match = _PARTS(url if _HAS_SCHEME(url) else f"//{url}")
    if match is None:
        raise LocationParseError(url)
    scheme, authority, path, query, fragment = match.groups()
    is_web = scheme is None or scheme.lower() in ("http", "https")
    auth, host, port = _authority(url, authority, is_web) if authority else (None, None, None)
    if is_web:
        path = _quoted(_without_dots(path), _PATH)
        query = None if query is None else _quoted(query, _QUERY)
        fragment = None if fragment is None else _quoted(fragment, _QUERY)
    if not path and query is None and fragment is None:
        path = None
    return Url(scheme, auth, host, port, path, query, fragment)


def _authority(url: str, authority: str, is_web: bool) -> tuple[str | None, str | None, int | None]:
    userinfo, _, host_port = authority.rpartition("@")
    match = _HOST_PORT(host_port)
    if match is None:
        raise LocationParseError(f"'{host_port}' is not a valid host or port")
    host, digits = match.groups()
    port = int(digits) if digits else None
    if port is not None and port > 65535:
        raise LocationParseError(url)
    auth = _quoted(userinfo, _USERINFO) if is_web else userinfo
    return auth or None, _host(host) if is_web else host, port


def _host(host: str) -> str:
    if host.startswith("["):
        address, percent, zone = host[1:-1].partition("%")
        return f"[{address.lower()}{percent}{zone.removeprefix('25')}]"
    if bad := _NOT_IN_HOST(host):
        raise LocationParseError(f"Host '{host}' contains invalid character '{bad[0]}'")
    host = host.lower()
    if host.isascii():
        return host
    import idna

    try:
        return idna.encode(host, strict=True, std3_rules=True).decode("ascii")
    except idna.IDNAError:
        raise LocationParseError(f"'{host}', label empty or too long") from None


def _quoted(text: str, safe: str) -> str:
    """Return text with what is not allowed escaped, and with upper-case escapes."""
    if text.count("%") == len(_ESCAPE.findall(text)):
        safe += "%"
    return quote(_ESCAPE.sub(lambda match: match[0].upper(), text), safe=safe)


def _without_dots(path: str) -> str:
    """Return the path without "." and ".." (RFC 3986, section 5.2.4)."""
    if "/." not in path:
        return path
    segments = path.split("/")
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if path.startswith("/") and (not kept or kept[0]):
        kept.insert(0, "")
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)
