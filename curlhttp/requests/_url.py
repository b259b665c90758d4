"""The URL of a prepared request, as requests leaves it in r.url.

Text only. What goes to libcurl is made from it by the core, which is stricter about hosts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple, cast
from urllib.parse import quote

from curlhttp._models.scrub import shown_url
from curlhttp._models.url.target import PATH_SAFE, QUERY_SAFE
from curlhttp.exceptions import InvalidURL, MissingSchema

__all__ = ["prepare_url"]

_LONGEST_CACHED = 2048  # characters; bounds what the caches can hold on to

# The path and query that nothing has to be done to; "%" is not among the characters.
_PATH = r"[\w.~!$&'()*+,;=:@/-]*"
_QUERY = r"[\w.~!$&'()*+,;=:@/?-]+"
_CANONICAL = re.compile(
    rf"(https?://[a-z0-9_][a-z0-9_.-]*(?::[1-9][0-9]{{0,3}})?)(/{_PATH})(?:\?({_QUERY}))?", re.ASCII
).fullmatch
_REQUOTED = re.compile(r"[\w.~!#$&'()*+,/:;=?@\[\]-]*", re.ASCII).fullmatch

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+-]*):").match
_REST = re.compile(r"(?://([^/\\?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL).fullmatch
_HOST_PORT = re.compile(
    r"((?:[^%:\[\]]|%[0-9A-Fa-f]{2})*|\[[0-9A-Fa-f:.]*(?:%(?:[\w.~-]|%[0-9A-Fa-f]{2})+)?\])"
    r"(?::0*([1-9][0-9]{0,4})?)?",
    re.ASCII,
).fullmatch
_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\x7f]").search
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(r"[\w.~-]", re.ASCII).fullmatch


class _Parts(NamedTuple):
    start: str  # scheme://userinfo@host:port
    path: str
    query: str
    fragment: str


def prepare_url(url: str, query: str = "") -> str:
    """Return the URL as it is requested, or as it is when its scheme is none of HTTP's kind.

    Args:
        url: what the caller gave.
        query: what is appended to the query of the URL.

    Raises:
        MissingSchema: it has no scheme.
        InvalidURL: its host or port makes no sense.
    """
    if len(url) > _LONGEST_CACHED:
        return _with_query(url, query, _split(url.lstrip()))
    return _with_query(url, query, _cached_split(url)) if query else _cached(url)


@lru_cache(4096)
def _cached(url: str) -> str:
    match = _CANONICAL(url)
    if match is not None and "/." not in match[2]:
        return url
    return _with_query(url, "", _split(url.lstrip()))


@lru_cache(1024)
def _cached_split(url: str) -> _Parts | None:
    match = _CANONICAL(url)
    if match is not None and "/." not in match[2]:
        return _Parts(match[1], match[2], match[3] or "", "")
    return _split(url.lstrip())


def _with_query(url: str, query: str, parts: _Parts | None) -> str:
    if parts is None:
        return url.lstrip()
    start, path, own, fragment = parts
    if own and query:
        query = f"{own}&{query}"
    query = query or own
    text = f"{start}{path}{'?' if query else ''}{query}{'#' if fragment else ''}{fragment}"
    if _REQUOTED(text):
        return text
    from curlhttp.requests.utils import requote_uri  # few URLs need it

    return requote_uri(text)


def _split(url: str) -> _Parts | None:
    """Take a URL apart, each part quoted; None is a URL that is left alone."""
    if ":" in url and url[:4].lower() != "http":
        return None
    match = _SCHEME(url)
    scheme = match[1].lower() if match else ""
    rest = url[match.end() :] if match else url if url.startswith("/") else f"//{url}"
    authority, path, query, fragment = cast("re.Match[str]", _REST(rest)).groups("")
    userinfo, _, host_port = authority.rpartition("@")
    host, port = _host_and_port(host_port, url if match else rest)
    is_http = scheme in ("http", "https", "")
    if is_http:
        host = _normal_host(host)
        userinfo = _quoted(userinfo, _USERINFO_SAFE)
        path = _quoted(_without_dot_segments(path), PATH_SAFE)
        query, fragment = _quoted(query, QUERY_SAFE), _quoted(fragment, QUERY_SAFE)
    if not scheme:
        shown = shown_url(url)
        raise MissingSchema(
            f"Invalid URL {shown!r}: No scheme supplied. Perhaps you meant https://{shown}?"
        )
    if not host:
        raise InvalidURL(f"Invalid URL {shown_url(url)!r}: No host supplied")
    if not host.isascii():
        host = _a_labels(host)
    elif host[0] in "*.":
        raise InvalidURL("URL has an invalid label.")
    start = f"{scheme}://{userinfo}{'@' if userinfo else ''}{host}{port}"
    return _Parts(start, path if path[:1] == "/" else f"/{path}", query, fragment)


# --- host ---


def _host_and_port(text: str, url: str) -> tuple[str, str]:
    match = _HOST_PORT(text)
    host, port = match.groups() if match else (text, "")
    if port and int(port) > 65535:
        raise _unparsable(shown_url(url))
    # With an "@" behind it, what looks like a host may be half of a password.
    hides = "@" in url
    if found := _BLANK_OR_CONTROL(host):
        shown = shown_url(url) if hides else host
        raise _unparsable(f"Host {shown!r} contains invalid character {found[0]!r}")
    if not match or (host[:1] == "[" and not _is_ipv6(host[1:-1])):
        shown = shown_url(url) if hides else text
        raise _unparsable(f"{shown!r} is not a valid host or port")
    return host, f":{port}" if port else ""


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _normal_host(host: str) -> str:
    if host[:1] == "[":
        address, percent, zone = host.partition("%")
        if zone[:2] == "25" and zone != "25]":
            zone = zone[2:]
        return f"{address.lower()}{percent}{zone}"
    if "%" in host:
        host = _ESCAPE.sub(lambda match: _normal_escape(match, host), host)
    host = ".".join([_a_label(label) for label in host.split(".")])
    return _ESCAPE.sub(lambda match: match[0].upper(), host) if "%" in host else host


def _normal_escape(match: re.Match[str], host: str) -> str:
    char = chr(int(match[1], 16))
    if char.isascii() and not char.isprintable():
        reason = "contains invalid percent-encoded control character"
        raise _unparsable(f"Host {host!r} {reason} {match[0]!r}")
    return char if _UNRESERVED(char) else match[0].upper()


def _a_label(label: str) -> str:
    if label.isascii():
        return label.lower()
    import idna  # its tables cost milliseconds, and few hosts need them

    try:
        return idna.encode(label.lower(), strict=True, std3_rules=True).decode("ascii")
    except UnicodeError:
        raise _unparsable(f"Name '{label}' is not a valid IDNA label") from None


def _a_labels(host: str) -> str:
    """Encode the host of a scheme such as "http+unix"; the others have been by label."""
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except UnicodeError:
        raise InvalidURL("URL has an invalid label.") from None


def _unparsable(reason: str) -> InvalidURL:
    return InvalidURL(f"Failed to parse: {reason}")


# --- the rest ---

_USERINFO_SAFE = "!$&'()*+,;=:%"


def _without_dot_segments(path: str) -> str:
    """Return the path after RFC 3986, section 5.2.4; "..", at the root, also eats an empty name."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


def _quoted(text: str, safe: str) -> str:
    """Percent-encode, but for escapes; one bad escape makes every "%" of the part literal."""
    if "%" in text:
        text, escapes = _ESCAPE.subn(lambda match: match[0].upper(), text)
        if escapes != text.count("%"):
            text = text.replace("%", "%25")
    return quote(text, safe, errors="surrogatepass")
