"""requests' helpers: proxies, netrc, lengths of bodies, headers, URLs and encodings.

The environment is read on every call.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any, BinaryIO

import curlhttp.requests.certs as certs
from curlhttp._client.environment import find_netrc, find_netrc_credentials
from curlhttp._http.decoding import ACCEPT_ENCODING as DEFAULT_ACCEPT_ENCODING
from curlhttp.exceptions import (
    FileModeWarning,
    InvalidHeader,
    InvalidURL,
    UnrewindableBodyError,
)
from curlhttp.requests.__version__ import __version__
from curlhttp.requests._core_request import (
    guess_filename,
    rewind_body,
    super_len,
)
from curlhttp.requests._headers import (
    _parse_content_type_header as _parse_content_type_header,
)
from curlhttp.requests._headers import (
    check_header_validity,
    get_encoding_from_headers,
    make_default_headers,
    parse_dict_header,
    parse_header_links,
    parse_list_header,
    unquote_header_value,
)
from curlhttp.requests._internal_utils import make_getattr, to_native_string
from curlhttp.requests._text import (
    get_encodings_from_content,
    get_unicode_from_response,
    guess_json_utf,
    iter_slices,
    stream_decode_response_unicode,
)
from curlhttp.requests._url import (
    UNRESERVED_SET,
    get_auth_from_url,
    prepend_scheme_if_needed,
    requote_uri,
    unquote_unreserved,
    urldefragauth,
)
from curlhttp.requests.compat import (
    basestring,
    builtin_str,
    getproxies,
    getproxies_environment,
    integer_types,
    is_urllib3_1,
    proxy_bypass,
    proxy_bypass_environment,
    quote,
    unquote,
    urlparse,
    urlunparse,
)
from curlhttp.requests.cookies import cookiejar_from_dict
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from urllib.parse import ParseResult

    DEFAULT_CA_BUNDLE_PATH: str
    HEADER_VALIDATORS: dict[type, tuple[re.Pattern[Any], re.Pattern[Any]]]

__all__ = [
    "DEFAULT_ACCEPT_ENCODING", "DEFAULT_CA_BUNDLE_PATH", "DEFAULT_PORTS", "HEADER_VALIDATORS",
    "NETRC_FILES", "UNRESERVED_SET", "CaseInsensitiveDict", "FileModeWarning", "InvalidHeader",
    "InvalidURL", "OrderedDict", "UnrewindableBodyError", "add_dict_to_cookiejar",
    "address_in_network", "atomic_open", "basestring", "builtin_str", "check_header_validity",
    "cookiejar_from_dict", "default_headers", "default_user_agent", "dict_from_cookiejar",
    "dict_to_sequence", "dotted_netmask", "extract_zipped_paths", "from_key_val_list",
    "get_auth_from_url", "get_encoding_from_headers", "get_encodings_from_content",
    "get_environ_proxies", "get_netrc_auth", "get_unicode_from_response", "getproxies",
    "getproxies_environment", "guess_filename", "guess_json_utf", "integer_types",
    "is_ipv4_address", "is_urllib3_1", "is_valid_cidr", "iter_slices", "parse_dict_header",
    "parse_header_links", "parse_list_header", "prepend_scheme_if_needed", "proxy_bypass",
    "proxy_bypass_environment", "quote", "requote_uri", "resolve_proxies", "rewind_body",
    "select_proxy", "set_environ", "should_bypass_proxies", "stream_decode_response_unicode",
    "super_len", "to_key_val_list", "to_native_string", "unquote", "unquote_header_value",
    "unquote_unreserved", "urldefragauth", "urlparse", "urlunparse",
]  # fmt: skip

NETRC_FILES = (".netrc", "_netrc")
DEFAULT_PORTS = {"http": 80, "https": 443}


_look_up = make_getattr(
    __name__,
    {"_internal_utils": "HEADER_VALIDATORS", "packages:urllib3.util": "make_headers parse_url"},
)


def __getattr__(name: str) -> Any:
    return certs.where() if name == "DEFAULT_CA_BUNDLE_PATH" else _look_up(name)


# --- default headers ---


def default_user_agent(name: str = "python-requests") -> str:
    """Return a User-Agent with the version of requests."""
    return f"{name}/{__version__}"


def default_headers() -> CaseInsensitiveDict[str]:
    """Return a new session's headers."""
    return make_default_headers(default_user_agent())


# --- mappings and pairs ---


def dict_to_sequence(d: Any) -> Any:
    """Return the items of a mapping, and anything else unchanged."""
    return d.items() if hasattr(d, "items") else d


def from_key_val_list(value: object) -> OrderedDict[Any, Any] | None:
    """Return a dictionary of a mapping or pairs; None stays None.

    Raises:
        ValueError: it is neither.
    """
    return None if value is None else OrderedDict(_check_not_scalar(value))


def to_key_val_list(value: object) -> list[Any] | None:
    """Return a list of the items of a mapping, or of pairs; None stays None.

    Raises:
        ValueError: it is neither.
    """
    if value is None:
        return None
    pairs = _check_not_scalar(value)
    return list(pairs.items() if isinstance(pairs, Mapping) else pairs)


def _check_not_scalar(value: object) -> Any:
    if isinstance(value, (str, bytes, bool, int)):
        raise ValueError("cannot encode objects that are not 2-tuples")
    return value


def dict_from_cookiejar(cj: CookieJar) -> dict[str, str | None]:
    """Return names and values of a jar's cookies; the last wins among cookies of one name."""
    return {cookie.name: cookie.value for cookie in cj}


def add_dict_to_cookiejar(cj: CookieJar, cookie_dict: Mapping[str, str]) -> CookieJar:
    """Put names and values into a jar and return it."""
    return cookiejar_from_dict(cookie_dict, cj)


# --- addresses ---


def is_ipv4_address(string_ip: str) -> bool:
    """Return whether a text is an IPv4 address, in any form that the C library accepts."""
    try:
        socket.inet_aton(string_ip)
    except OSError:
        return False
    return True


def is_valid_cidr(string_network: str) -> bool:
    """Return whether a text is a network such as 192.168.1.0/24, with 1 to 32 bits."""
    address, *masks = string_network.split("/")
    if len(masks) != 1:
        return False
    try:
        bits = int(masks[0])
    except ValueError:
        return False
    return 1 <= bits <= 32 and is_ipv4_address(address)


def address_in_network(ip: str, net: str) -> bool:
    """Return whether an IPv4 address is within a network such as 192.168.1.0/24."""
    network, bits = net.split("/")
    mask = _to_number(dotted_netmask(int(bits)))
    return _to_number(ip) & mask == _to_number(network) & mask


def _to_number(address: str) -> int:
    return int.from_bytes(socket.inet_aton(address), "big")


def dotted_netmask(mask: int) -> str:
    """Return the netmask of a number of bits: 255.255.255.0 for 24."""
    return socket.inet_ntoa(struct.pack(">I", (1 << 32) - (1 << 32 - mask)))


# --- environment ---


@contextlib.contextmanager
def set_environ(env_name: str, value: str | None) -> Iterator[None]:
    """Set an environment variable temporarily; None changes nothing."""
    if value is None:
        yield
        return
    before = os.environ.get(env_name)
    os.environ[env_name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(env_name, None)
        else:
            os.environ[env_name] = before


def should_bypass_proxies(url: str, no_proxy: str | None) -> bool:
    """Return whether a URL bypasses the environment's proxies.

    Args:
        url: where the request goes.
        no_proxy: hosts, IPv4 networks and host:port, separated by commas; None for the NO_PROXY
            variable.
    """
    parts = urlparse(url)
    host = parts.hostname
    if host is None:
        return True
    exceptions = no_proxy
    if exceptions is None:
        exceptions = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
    if exceptions and _is_excepted(host, parts, exceptions):
        return True
    if no_proxy is not None:
        # requests sets the variable instead, which other threads would see.
        return bool(proxy_bypass_environment(host, {"no": no_proxy}))
    try:
        return bool(proxy_bypass(host))
    except (TypeError, socket.gaierror):
        return False


def _is_excepted(host: str, parts: ParseResult, no_proxy: str) -> bool:
    entries = filter(None, no_proxy.replace(" ", "").split(","))
    if is_ipv4_address(host):
        return any(
            address_in_network(host, entry) if is_valid_cidr(entry) else entry == host
            for entry in entries
        )
    names = (host, f"{host}:{parts.port}") if parts.port else (host,)
    return any(_is_within(name, entry.lstrip(".")) for entry in entries for name in names)


def _is_within(name: str, domain: str) -> bool:
    return name == domain or (domain != "" and name.endswith(f".{domain}"))


def get_environ_proxies(url: str, no_proxy: str | None = None) -> dict[str, str]:
    """Return the environment's proxies by scheme; an empty dict if the URL bypasses them.

    Args:
        url: where the request goes.
        no_proxy: as for should_bypass_proxies().
    """
    proxies = getproxies()
    return proxies if proxies and not should_bypass_proxies(url, no_proxy) else {}


def select_proxy(url: str, proxies: Mapping[str, str | None] | None) -> str | None:
    """Return the proxy for a URL from a mapping, or None.

    Args:
        url: where the request goes.
        proxies: by "scheme://host", "scheme", "all://host" and "all", in this order.
    """
    if not proxies:
        return None
    parts = urlparse(url)
    scheme, host = parts.scheme, parts.hostname
    keys = (
        (scheme, "all") if host is None else (f"{scheme}://{host}", scheme, f"all://{host}", "all")
    )
    return next((proxies[key] for key in keys if key in proxies), None)


def resolve_proxies(
    request: Any, proxies: Mapping[str, str | None] | None, trust_env: bool = True
) -> dict[str, str | None]:
    """Return the proxies for a request, with the environment's as defaults.

    Args:
        request: a request with a URL.
        proxies: by scheme; its "no_proxy" replaces the NO_PROXY variable.
        trust_env: False ignores the environment.
    """
    found = dict(proxies) if proxies else {}
    if trust_env:
        environment = get_environ_proxies(request.url, no_proxy=found.get("no_proxy"))
        if environment:
            scheme = urlparse(request.url).scheme
            if proxy := environment.get(scheme, environment.get("all")):
                found.setdefault(scheme, proxy)
    return found


def get_netrc_auth(url: str | bytes, raise_errors: bool = False) -> tuple[str, str] | None:
    """Return the user name and password in the netrc file for a URL's host, or None.

    Args:
        url: where the request goes.
        raise_errors: True raises for a file that cannot be read or parsed.

    Raises:
        netrc.NetrcParseError, OSError: the file is invalid, and `raise_errors` is set.
    """
    host: Any = urlparse(url or "").hostname
    if not host:
        return None
    if isinstance(host, bytes):
        host = host.decode("ascii")
    if raise_errors and (path := find_netrc(os.environ)) and os.path.exists(path):
        from netrc import netrc

        netrc(path)
    return find_netrc_credentials(host)


# --- files ---


def extract_zipped_paths(path: str) -> str:
    """Return the path of a file that can be opened, for one that may be in a ZIP archive.

    Args:
        path: a path that may lead through an archive, as in "app.zip/certs/ca.pem".

    Returns:
        The path of a temporary copy; `path` itself when it exists or there is no such member.
    """
    if os.path.exists(path):
        return path
    archive, member = os.path.split(path)
    while archive and not os.path.exists(archive):
        archive, prefix = os.path.split(archive)
        if not prefix:
            return path
        member = f"{prefix}/{member}"
    from zipfile import ZipFile, is_zipfile

    if not is_zipfile(archive):
        return path
    with ZipFile(archive) as opened:
        if member not in opened.namelist():
            return path
        content = opened.read(member)
    import tempfile

    descriptor, extracted = tempfile.mkstemp(suffix=os.path.splitext(member)[1])
    with open(descriptor, "wb") as file:
        file.write(content)
    return extracted


@contextlib.contextmanager
def atomic_open(filename: str) -> Iterator[BinaryIO]:
    """Write a file atomically: a temporary file is renamed at the end, or removed on errors."""
    import tempfile

    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(filename))
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.replace(temporary, filename)
    except BaseException:
        os.remove(temporary)
        raise
