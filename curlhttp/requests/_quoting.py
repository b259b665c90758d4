"""URLs as text: escapes, schemes and user names. Exposed by utils."""

from __future__ import annotations

import re
from typing import cast
from urllib.parse import quote, unquote, urlparse, urlunparse

from curlhttp.exceptions import InvalidURL

__all__ = [
    "UNRESERVED_SET",
    "get_auth_from_url",
    "prepend_scheme_if_needed",
    "requote_uri",
    "unquote_unreserved",
    "urldefragauth",
]

UNRESERVED_SET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE = re.compile(r"%([^\W_]{2})")
_URL_SAFE = "!#$&'()*+,/:;=?@[]~"


def unquote_unreserved(uri: str) -> str:
    """Return a URI without the escapes that it does not need (RFC 3986, section 2.3).

    Raises:
        InvalidURL: a "%" is followed by letters or digits that are not hexadecimal.
    """
    return _ESCAPE.sub(_unescaped, uri) if "%" in uri else uri


def _unescaped(escape: re.Match[str]) -> str:
    try:
        char = chr(int(escape[1], 16))
    except ValueError:
        raise InvalidURL(f"Invalid percent-escape sequence: {escape[1]!r}") from None
    return char if char in UNRESERVED_SET else escape[0]


def requote_uri(uri: str) -> str:
    """Return a URI with every character escaped that has to be, and no other.

    An escape that is none makes every "%" a character to be escaped.
    """
    try:
        return quote(unquote_unreserved(uri), safe=f"%{_URL_SAFE}")
    except InvalidURL:
        return quote(uri, safe=_URL_SAFE)


def prepend_scheme_if_needed(url: str, new_scheme: str) -> str:
    """Return a URL, such as a proxy's, with a scheme; "host:port" is taken for what it is.

    Raises:
        InvalidURL: its host or port makes no sense (a ValueError).
    """
    from curlhttp.requests import _url

    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", url)
    scheme = match[1] if match else new_scheme
    rest = url[match.end() - 2 :] if match else url if url[:1] == "/" else f"//{url}"
    parts = re.match(r"(?://([^/\\?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", rest, re.DOTALL)
    authority, path, query, fragment = cast("re.Match[str]", parts).groups("")
    userinfo, at, host_port = authority.rpartition("@")
    host, port = _url._host_and_port(host_port, url)
    if not match or scheme.lower() in ("http", "https"):
        scheme, host = scheme.lower(), _url._normal_host(host)
        path, query, fragment = (requote_uri(part) for part in (path, query, fragment))
    query, fragment = query and f"?{query}", fragment and f"#{fragment}"
    return f"{scheme}://{userinfo}{at}{host}{port}{path}{query}{fragment}"


def get_auth_from_url(url: str) -> tuple[str, str]:
    """Return user name and password of a URL, decoded; two empty strings if one is not there."""
    parts = urlparse(url)
    if parts.username is None or parts.password is None:
        return "", ""
    return unquote(parts.username), unquote(parts.password)


def urldefragauth(url: str) -> str:
    """Return a URL without fragment, user name and password."""
    scheme, authority, path, params, query, _ = urlparse(url)
    if not authority:
        authority, path = path, authority
    return urlunparse((scheme, authority.rpartition("@")[2], path, params, query, ""))
