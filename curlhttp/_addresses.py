"""From the settings that say where a connection leads and begins to fields of a Transport.

All of them are checked here, before anything is sent. Nothing is looked up.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from curlhttp._models.url import bracketed, parse_url
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._models.url import URL

__all__ = ["ADDRESSES", "AddressMap", "HostMap", "IPVersion", "UnixSocket", "address_fields"]

HostMap: TypeAlias = "Mapping[str, str] | None"
AddressMap: TypeAlias = "Mapping[str, str | Sequence[str]] | None"
UnixSocket: TypeAlias = "str | os.PathLike[str] | None"
IPVersion: TypeAlias = "Literal[4, 6] | None"

ADDRESSES = frozenset(
    {
        "uds",
        "resolve",
        "connect_to",
        "local_address",
        "interface",
        "doh",
        "ip_version",
        "happy_eyeballs_timeout",
    }
)
"""The names of these settings."""

_Value = TypeVar("_Value")

_LONGEST_SOCKET = 107  # bytes of sockaddr_un.sun_path on Linux, without the NUL at the end


def address_fields(
    *,
    uds: UnixSocket = None,
    resolve: AddressMap = None,
    connect_to: HostMap = None,
    local_address: str | None = None,
    interface: str | None = None,
    doh: str | None = None,
    ip_version: IPVersion = None,
    happy_eyeballs_timeout: float | None = None,
) -> dict[str, object]:
    """Return the fields of a Transport that differ from its defaults.

    Args:
        uds: the path of a Unix socket to connect to, whatever the URL.
        resolve: an address, or several, by "host:port", or by "host" for all ports.
        connect_to: "other:port", or "other" for the same port, by "host:port" or "host".
        local_address: the address to connect from.
        interface: the name of the network interface to connect through.
        doh: the URL of a server that answers questions for names (RFC 8484).
        ip_version: 4 or 6, to connect to such addresses only.
        happy_eyeballs_timeout: seconds that IPv6 has before IPv4 is tried as well.

    Raises:
        TypeError: one that goes by host is no mapping.
        ValueError: one of them is not what it should be.
    """
    detours, addresses = _detours(connect_to or {}, resolve or {})
    fields = {
        "unix_socket": None if uds is None else _socket_path(uds),
        "connect_to": detours,
        "addresses": addresses,
        "local_address": None if local_address is None else (_own_address(local_address), 0),
        "interface": None if interface is None else _interface(interface),
        "doh": None if doh is None else _doh(doh),
        "ip_version": _ip_version(ip_version),
        "happy_eyeballs_ms": _milliseconds(happy_eyeballs_timeout),
    }
    return {name: value for name, value in fields.items() if value not in (None, ())}


def _socket_path(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if not text or "\0" in text or len(os.fsencode(text)) > _LONGEST_SOCKET:
        raise ValueError(f"uds must be a path of 1 to {_LONGEST_SOCKET} bytes, not {text!r}")
    return text


def _own_address(address: str) -> str:
    try:
        return str(ip_address(address))
    except ValueError:
        raise ValueError(
            f"local_address must be an IP address of this machine, not {address!r}; "
            "for the name of a network interface there is interface="
        ) from None


def _interface(name: str) -> str:
    # libcurl takes "host!" and "if!" for words of its own.
    if not name or not name.isprintable() or "!" in name or " " in name:
        raise ValueError(f"interface must be the name of a network interface, not {name!r}")
    return name


def _doh(text: str) -> str:
    url = _url_of(text, "doh must be the URL of a name server")
    if url.scheme != "https" or url.username is not None:
        raise ValueError("doh must be an https:// URL without credentials")
    return url.wire


def _ip_version(version: IPVersion) -> IPVersion:
    if version not in (None, 4, 6):
        raise ValueError(f"ip_version must be 4, 6 or None, not {version!r}")
    return version


def _milliseconds(seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if not 0 <= seconds <= 3600:  # not of NaN either
        raise ValueError(f"happy_eyeballs_timeout must be 0 to 3600 seconds, not {seconds!r}")
    return max(1, math.ceil(seconds * 1000))  # 0 would mean libcurl's own default


# --- which host is another ---


def _detours(
    connect_to: Mapping[str, str], resolve: Mapping[str, str | Sequence[str]]
) -> tuple[tuple[str, ...], tuple[tuple[str, str, tuple[str, ...]], ...]]:
    """Return what both maps come to: Transport.connect_to, and Transport.addresses.

    One address for each host is a detour as well: an entry of CURLOPT_RESOLVE would stay in
    libcurl's cache of names, so that such requests need connections and names of their own.
    """
    for name, given in (("connect_to", connect_to), ("resolve", resolve)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{name} must be a mapping by host, not {type(given).__name__}")
    named = {_place(key, "resolve"): _of_host(key, value) for key, value in resolve.items()}
    has_several = any(len(addresses) > 1 for addresses in named.values())
    found = {} if has_several else {place: (known[0], "") for place, known in named.items()}
    for key, value in connect_to.items():
        place = _place(key, "connect_to")
        host, port = _place(value, "connect_to")
        address = None
        if not has_several:
            address = named.get((host, port or place[1])) or named.get((host, ""))
        found[place] = (address[0] if address else host, port)
    detours = tuple(
        f"{bracketed(host)}:{port}:{bracketed(to)}:{to_port}"
        for (host, port), (to, to_port) in _by_port(found)
    )
    several = _by_port(named) if has_several else []
    return detours, tuple((host, port, addresses) for (host, port), addresses in several)


def _by_port(places: Mapping[tuple[str, str], _Value]) -> list[tuple[tuple[str, str], _Value]]:
    """Return the entries for one port before those for all: the first that fits counts."""
    return sorted(places.items(), key=lambda entry: not entry[0][1])


def _place(text: str, setting: str) -> tuple[str, str]:
    """Return canonical host and port of "host:port"; a port of "" is any."""
    wanted = f'{setting} takes "host" or "host:port"'
    if not isinstance(text, str) or not text or set(text) & set("/?#@\\"):
        raise ValueError(f"{wanted}, not {text!r}")
    url = _url_of(f"https://{text}", wanted)
    has_port = text.rpartition("]")[2].rpartition(":")[2].isdigit() and ":" in text
    return url.host.strip("[]"), str(url.port) if has_port else ""


def _of_host(key: str, value: str | Sequence[str]) -> tuple[str, ...]:
    several = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
    if not several:
        raise ValueError(f"resolve must give an IP address for {key!r}")
    return tuple(dict.fromkeys(_address(key, each) for each in several))


def _address(key: str, value: str) -> str:
    try:
        return str(ip_address(value.strip("[]")))
    except (ValueError, AttributeError):
        raise ValueError(
            f"resolve must give an IP address for {key!r}, not {value!r}; "
            "for another name there is connect_to="
        ) from None


def _url_of(text: str, wanted: str) -> URL:
    try:
        return parse_url(text)
    except RequestException as error:
        raise ValueError(f"{wanted}: {error}") from None
