"""The host and port of a URL: names, A-labels and addresses, each in one canonical form.

Nothing here resolves a name; what comes in has no userinfo, so no message can show any.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import unquote

from curlhttp.exceptions import InvalidURL

__all__ = ["Origin", "bracketed", "parse_origin"]

_HOST_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]*))?").fullmatch
_HOST = re.compile(r"(?:[a-z0-9_~-]{1,63}\.)*[a-z0-9_~-]{1,63}\.?").fullmatch
_ZONE = re.compile(r"[A-Za-z0-9._~-]{1,64}").fullmatch
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?").fullmatch
_NUMBER = re.compile(r"0x([0-9a-f]+)|(0[0-7]*)|([1-9][0-9]*)").fullmatch


class Origin(NamedTuple):
    """What every URL of an origin has in common."""

    scheme: str
    host: str
    port: int
    text: str  # "scheme://host:port", always with the port
    authority: str
    prefix: str  # URL.wire up to the target


@lru_cache(4096)
def parse_origin(prefix: str) -> Origin:
    """Parse "scheme://host:port", where the scheme is http or https; recent ones are cached.

    Raises:
        InvalidURL: host or port is not fit to be sent; the URL itself is not in the message.
    """
    scheme, _, host_port = prefix.partition("://")
    match = _HOST_PORT(host_port)
    if match is None:
        raise InvalidURL("malformed host or port")
    text, digits = match.groups()
    if not text:
        raise InvalidURL("No host supplied")
    default = 443 if scheme == "https" else 80
    port = _port(digits) if digits else default
    if text[0] == "[":
        host, named, wired = _ipv6(text[1:-1])
    else:
        host = named = wired = _host(text)
    suffix = "" if port == default else f":{port}"
    origin = f"{scheme}://{bracketed(host)}:{port}"
    return Origin(scheme, host, port, origin, named + suffix, f"{scheme}://{wired}{suffix}")


def bracketed(host: str) -> str:
    """Return a host as URLs write it: IPv6 in brackets (RFC 3986, section 3.2.2)."""
    return f"[{host}]" if ":" in host else host


def _port(digits: str) -> int:
    port = int("0" + digits.lstrip("0")[:6])
    if not 1 <= port <= 65535:
        raise InvalidURL("port out of range")
    return port


def _ipv6(text: str) -> tuple[str, str, str]:
    """Return the address with its zone, and in brackets for Host (no zone) and for libcurl."""
    text, percent, zone = text.partition("%")
    try:
        address = IPv6Address(text)
    except ValueError:
        raise InvalidURL("malformed IPv6 address") from None
    # Python 3.13 began to write these with a dotted tail; one form for all versions.
    mapped = address.ipv4_mapped
    host = f"::ffff:{mapped}" if mapped else str(address)
    if not percent:
        return host, f"[{host}]", f"[{host}]"
    zone = zone.removeprefix("25")  # RFC 6874: the percent sign itself is escaped
    if not _ZONE(zone):
        raise InvalidURL("malformed IPv6 zone")
    return f"{host}%{zone}", f"[{host}]", f"[{host}%25{zone}]"


def _host(text: str) -> str:
    if text[0] in "*.":
        raise InvalidURL("URL has an invalid label.")
    if len(text) <= 1024 and "%" in text:
        text = _unescaped_host(text)
    if len(text) > 254:
        raise InvalidURL("host too long")
    if not text.isascii():
        text = _a_labels(text)
    host = text.lower()
    if not _HOST(host) or len(host.rstrip(".")) > 253:
        raise InvalidURL("malformed host")
    return _ipv4(host.rstrip(".")) if _ENDS_IN_NUMBER(host) else host


def _unescaped_host(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidURL("malformed host") from None


def _a_labels(text: str) -> str:
    import idna  # its tables cost milliseconds, and few hosts need them

    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except UnicodeError:
        raise InvalidURL("URL has an invalid label.") from None


def _ipv4(host: str) -> str:
    """Return the dotted address that inet_aton reads in a host whose last label is a number.

    Resolvers take these forms for addresses, and no public name ends so: left alone, 127.1
    would slip past whatever knows only 127.0.0.1.
    """
    *heads, tail = [_number(part) for part in host.split(".")]
    if len(heads) > 3 or any(head > 255 for head in heads) or tail >= 256 ** (4 - len(heads)):
        raise InvalidURL("malformed IPv4 address")
    return str(IPv4Address(sum([head << (24 - 8 * i) for i, head in enumerate(heads)], tail)))


def _number(text: str) -> int:
    match = _NUMBER(text)
    if match is None:
        raise InvalidURL("malformed IPv4 address")
    hexadecimal, octal, decimal = match.groups()
    if hexadecimal:
        return int(hexadecimal, 16)
    return int(octal, 8) if octal else int(decimal)
