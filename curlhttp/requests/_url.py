"""URLs as text, normalized as in requests' `r.url`. `utils` exposes these functions.

A pattern recognises canonical URLs, which most are; urllib3 parses the others. The core, which is
stricter about hosts, makes libcurl's URL from the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import quote, unquote, urlparse, urlunparse

from curlhttp._http.redaction import display_url
from curlhttp.exceptions import InvalidURL, MissingSchema

if TYPE_CHECKING:
    from urllib3.util import Url

UNRESERVED_SET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_URL_SAFE = "!#$&'()*+,/:;=?@[]~"
_LONGEST_CACHED = 2048  # characters; limits the memory of the caches

# Escapes that stay as they are: in upper case, and not of an unreserved character.
_KEPT = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|[46]0|5[B-E]|7[BCDF])"
_PATH = r"[\w.~!$&'()*+,;=:@/-]*"
_QUERY = r"[\w.~!$&'()*+,;=:@/?-]*"
_HOST_PORT = r"[a-z0-9_][a-z0-9_.-]*(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
_match_plain = re.compile(
    rf"(https?://{_HOST_PORT})(/{_PATH})?(?:\?({_QUERY}))?(?:#({_QUERY}))?", re.ASCII
).fullmatch
# The other patterns are compiled when they are first used, because many programs do not need them.
_CANONICAL = (
    rf"(?a:(https?://(?:[\w.~!$&'()*+,;=:-]+@)?{_HOST_PORT})"
    rf"(/{_PATH}(?:{_KEPT}{_PATH})*)?"
    rf"(?:\?({_QUERY}(?:{_KEPT}{_QUERY})*))?(?:#({_QUERY}(?:{_KEPT}{_QUERY})*))?)"
)
_DOT_SEGMENT = r"/\.\.?(?:/|\Z)"
_PLAIN = r"[\w.~!#$&'()*+,/:;=?@\[\]-]*"
_QUOTED = rf"(?a:{_PLAIN}(?:{_KEPT}{_PLAIN})*)"
_ESCAPE = r"%([^\W_]{2})"

_Split: TypeAlias = "tuple[str, str, str, str]"  # scheme to port, path, query, fragment


# --- for prepared requests ---


def prepare_url(url: str, query: str = "") -> str:
    """Return the URL to request, or the same URL if its scheme does not begin with http.

    Args:
        url: the caller's.
        query: appended to the query of the URL.

    Raises:
        MissingSchema: it has no scheme.
        InvalidURL: its host or port is invalid.
    """
    if len(url) > _LONGEST_CACHED:
        return _join(url, query, _split(url))
    return _join(url, query, _cached_split(url)) if query else _prepare_cached(url)


@lru_cache(4096)
def _prepare_cached(url: str) -> str:
    match = _match_plain(url)
    if match and match[2] and match[3] != "" and match[4] != "" and "/." not in url:
        return url  # no part of it would change
    return _join(url, "", _split(url))


def _join(url: str, query: str, split: _Split | None) -> str:
    if split is None:
        return url.lstrip()
    start, path, own, fragment = split
    query = f"{own}&{query}" if own and query else own or query
    text = f"{start}{path}{'?' if query else ''}{query}{'#' if fragment else ''}{fragment}"
    return text if re.fullmatch(_QUOTED, text) else requote_uri(text)


def _split(url: str) -> _Split | None:
    """Split a URL into quoted parts; return None for a URL that stays unchanged."""
    match = _match_plain(url) or re.fullmatch(_CANONICAL, url)
    if match is not None and not re.search(_DOT_SEGMENT, match[2] or ""):
        return match[1], match[2] or "/", match[3] or "", match[4] or ""
    url = url.lstrip()
    if ":" in url and url[:4].lower() != "http":
        return None
    found = _parse(url)
    if not found.scheme:
        shown = display_url(url)
        hint = f"Perhaps you meant https://{shown}?"
        if url[:1] == "/" and url[:2] != "//":
            hint = "It is relative; write the whole URL, such as https://example.com/"
        raise MissingSchema(f"Invalid URL {shown!r}: No scheme supplied. {hint}")
    if not found.host:
        raise InvalidURL(f"Invalid URL {display_url(url)!r}: No host supplied")
    host = found.host if found.host.isascii() else _to_a_labels(found.host)
    if host[0] in "*.":
        raise InvalidURL("URL has an invalid label.")
    origin = found._replace(host=host, port=found.port or None, path=None, query=None)
    start = origin._replace(fragment=None).url
    return start, found.path or "/", found.query or "", found.fragment or ""


_cached_split = lru_cache(1024)(_split)


def _parse(url: str) -> Url:
    from urllib3.exceptions import LocationParseError
    from urllib3.util import parse_url

    try:
        return parse_url(url)
    except LocationParseError as error:
        shown = display_url(url)
        # Before an "@", what looks like a host may be part of a password.
        reason = f"Failed to parse: {shown}" if "@" in url else str(error).replace(url, shown)
    raise InvalidURL(reason)  # outside the handler, because the error there shows the whole URL


def _to_a_labels(host: str) -> str:
    """Encode the host of a scheme such as "http+unix", which urllib3 leaves as it is."""
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except UnicodeError:
        raise InvalidURL("URL has an invalid label.") from None


# --- for a "%" that begins no escape ---

_BARE_PERCENT = r"%(?![0-9A-Fa-f]{2})"
_TO_PARTS = r"(?s)([^/?#]*(?://[^/?#]*)?)([^?#]*)(\?[^#]*)?(#.*)?"


def has_bare_percent(text: str) -> bool:
    """Return whether a "%" begins no escape."""
    return re.search(_BARE_PERCENT, text) is not None


def escape_percents(url: str) -> str:
    """Return a URL in which, as in urllib3, one bare "%" makes every "%" of its part literal."""
    match = cast("re.Match[str]", re.fullmatch(_TO_PARTS, url))  # it matches any text
    start, *parts = match.groups("")
    return start + "".join(
        [part.replace("%", "%25") if has_bare_percent(part) else part for part in parts]
    )


# --- for utils ---


def unquote_unreserved(uri: str) -> str:
    """Return a URI without unnecessary escapes (RFC 3986, section 2.3).

    Raises:
        InvalidURL: a "%" is followed by letters or digits that are not hexadecimal.
    """
    return re.sub(_ESCAPE, _unescape, uri) if "%" in uri else uri


def _unescape(escape: re.Match[str]) -> str:
    try:
        char = chr(int(escape[1], 16))
    except ValueError:
        raise InvalidURL(f"Invalid percent-escape sequence: {escape[1]!r}") from None
    return char if char in UNRESERVED_SET else escape[0]


def requote_uri(uri: str) -> str:
    """Return a URI in which exactly the necessary characters are escaped.

    If an escape is invalid, every "%" is escaped.
    """
    try:
        return quote(unquote_unreserved(uri), safe=f"%{_URL_SAFE}")
    except InvalidURL:
        return quote(uri, safe=_URL_SAFE)


def prepend_scheme_if_needed(url: str, new_scheme: str) -> str:
    """Return a URL, such as a proxy's, with a scheme; "host:port" has none.

    Raises:
        InvalidURL: its host or port is invalid (a ValueError).
    """
    found = _parse(url)
    return (found if found.scheme else found._replace(scheme=new_scheme)).url


def get_auth_from_url(url: str) -> tuple[str, str]:
    """Return user name and password of a URL, decoded; two empty strings if one is not there."""
    parts = urlparse(url)
    if parts.username is None or parts.password is None:
        return "", ""
    return unquote(parts.username), unquote(parts.password)


def quote_latin1_userinfo(proxy: str) -> str:
    """Return the URL of an HTTP proxy with its credentials in Latin-1, as requests sends them.

    Raises:
        UnicodeEncodeError: they are not Latin-1.
    """
    if "@" not in proxy or (proxy.isascii() and "%" not in proxy):
        return proxy
    parts = urlparse(proxy)
    if parts.scheme.startswith("socks"):
        return proxy  # for which requests sends UTF-8
    userinfo, at, host = parts.netloc.rpartition("@")
    pair = [quote(unquote(part).encode("latin-1"), safe="") for part in userinfo.split(":", 1)]
    return parts._replace(netloc=f"{':'.join(pair)}{at}{host}").geturl()


def urldefragauth(url: str) -> str:
    """Return a URL without fragment, user name and password."""
    scheme, authority, path, params, query, _ = urlparse(url)
    if not authority:
        authority, path = path, authority
    return urlunparse((scheme, authority.rpartition("@")[2], path, params, query, ""))
