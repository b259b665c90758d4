"""URLs: parsed and made canonical once, so that origin, cookies, policy and wire agree.

libcurl reads odd URLs differently from other software, so it only gets `URL.wire`. A raw URL keeps
its target as it was written; its host is made canonical all the same.
Nothing here resolves a name, opens anything, or shows the userinfo of a URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NoReturn, cast

from curlhttp._http.credentials import unquote_credential
from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.percent import quote, quote_form, unquote
from curlhttp._http.redaction import display_url, redact_text
from curlhttp.exceptions import InvalidSchema, InvalidURL, MissingSchema

if TYPE_CHECKING:
    from curlhttp._http.inputs import FormInput, ParamsInput, Text

# --- host and port ---

_HOST_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]*))?").fullmatch
_HOST = re.compile(r"(?:[a-z0-9_~-]{1,63}\.)*[a-z0-9_~-]{1,63}\.?").fullmatch
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?").fullmatch
# Like other texts of patterns here, compiled when it is first used, because few programs need it.
_ZONE = r"[A-Za-z0-9._~-]{1,64}"
_NUMBER = r"0x([0-9a-f]+)|(0[0-7]*)|([1-9][0-9]*)"


class Origin(NamedTuple):
    """The parts that all URLs of an origin have in common."""

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
        InvalidURL: host or port is not valid; the URL itself is not in the message.
    """
    scheme, _, host_port = prefix.partition("://")
    match = _HOST_PORT(host_port)
    if match is None:
        raise InvalidURL("malformed host or port")
    text, digits = match.groups()
    if not text:
        raise InvalidURL("No host supplied")
    default = 443 if scheme == "https" else 80
    port = _parse_port(digits) if digits else default
    if text[0] == "[":
        host, named, wired = _canonical_ipv6(text[1:-1])
    else:
        host = named = wired = _canonical_host(text)
    suffix = "" if port == default else f":{port}"
    origin = f"{scheme}://{bracketed(host)}:{port}"
    return Origin(scheme, host, port, origin, named + suffix, f"{scheme}://{wired}{suffix}")


def bracketed(host: str) -> str:
    """Return a host as in URLs: IPv6 in brackets (RFC 3986, section 3.2.2)."""
    return f"[{host}]" if ":" in host else host


def _parse_port(digits: str) -> int:
    port = int("0" + digits.lstrip("0")[:6])
    if not 1 <= port <= 65535:
        raise InvalidURL("port out of range")
    return port


def _canonical_ipv6(text: str) -> tuple[str, str, str]:
    """Return the address with its zone; then in brackets, for Host (no zone) and for libcurl."""
    from ipaddress import IPv6Address  # slow to load

    text, percent, zone = text.partition("%")
    try:
        address = IPv6Address(text)
    except ValueError:
        raise InvalidURL("malformed IPv6 address") from None
    # Python 3.13 and later write these with a dotted tail; here all versions do.
    mapped = address.ipv4_mapped
    host = f"::ffff:{mapped}" if mapped else str(address)
    if not percent:
        return host, f"[{host}]", f"[{host}]"
    zone = zone.removeprefix("25")  # RFC 6874: the percent sign itself is escaped
    if not re.fullmatch(_ZONE, zone):
        raise InvalidURL("malformed IPv6 zone")
    return f"{host}%{zone}", f"[{host}]", f"[{host}%25{zone}]"


def _canonical_host(text: str) -> str:
    if text[0] in "*.":
        raise InvalidURL("URL has an invalid label.")
    if len(text) <= 1024 and "%" in text:
        text = _unescape_host(text)
    if len(text) > 254:
        raise InvalidURL("host too long")
    if not text.isascii():
        text = _to_a_labels(text)
    host = text.lower()
    if not _HOST(host) or len(host.rstrip(".")) > 253:
        raise InvalidURL("malformed host")
    return _canonical_ipv4(host.rstrip(".")) if _ENDS_IN_NUMBER(host) else host


def _unescape_host(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidURL("malformed host") from None


def _to_a_labels(text: str) -> str:
    import idna  # its tables take milliseconds to import, and few hosts need them

    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except UnicodeError:
        raise InvalidURL("URL has an invalid label.") from None


def _canonical_ipv4(host: str) -> str:
    """Return the dotted address for a host whose last label is a number, as inet_aton reads it.

    Resolvers take these forms for addresses, and no public name ends like this. Otherwise 127.1
    would pass a check for 127.0.0.1.
    """
    *heads, tail = [_parse_number(part) for part in host.split(".")]
    if len(heads) > 3 or any(head > 255 for head in heads) or tail >= 256 ** (4 - len(heads)):
        raise InvalidURL("malformed IPv4 address")
    return ".".join(map(str, [*heads, *tail.to_bytes(4 - len(heads), "big")]))


def _parse_number(text: str) -> int:
    match = re.fullmatch(_NUMBER, text)
    if match is None:
        raise InvalidURL("malformed IPv4 address")
    hexadecimal, octal, decimal = match.groups()
    if hexadecimal:
        return int(hexadecimal, 16)
    return int(octal, 8) if octal else int(decimal)


# --- path and query ---

PATH_SAFE = "!$&'()*+,;=:@/%"  # RFC 3986, section 3.3; besides letters, digits and "_.-~"
QUERY_SAFE = PATH_SAFE + "?"


def build_target(path: str, query: str | None) -> str:
    """Return "/path?query" without dot segments, percent-encoded.

    Raises:
        UnicodeEncodeError: a lone surrogate, which UTF-8 cannot encode.
    """
    if "/." in path:
        path = _remove_dot_segments(path)
    path = quoted(path, PATH_SAFE) or "/"
    return f"{path}?{quoted(query, QUERY_SAFE)}" if query else path


def _remove_dot_segments(path: str) -> str:
    """Return the path without dot segments (RFC 3986, section 5.2.4); "%2e" is not one."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def quoted(text: str, safe: str) -> str:
    """Return text percent-encoded, except its escapes and the safe characters."""
    return quote(_normal_escapes(text) if "%" in text else text, safe=safe)


def _normal_escapes(text: str) -> str:
    """Return text with normalized escapes; a "%" that begins none is escaped itself."""
    head, *tails = text.split("%")
    escapes = _get_normal_escapes()
    return head + "".join(
        [
            f"{escapes[tail[:2]]}{tail[2:]}" if tail[:2] in escapes else f"%25{tail}"
            for tail in tails
        ]
    )


def _normal_escape(digits: str) -> str:
    char = chr(int(digits, 16))
    if char == ".":
        return f"%{digits}"  # decoded, "%2e%2e" would climb directories
    if char.isascii() and (char.isalnum() or char in "-_~"):
        return char
    return f"%{digits.upper()}"


@cache
def _get_normal_escapes() -> dict[str, str]:
    """Return the normal form of each escape, by its digits."""
    digits = "0123456789abcdefABCDEF"
    return {high + low: _normal_escape(high + low) for high in digits for low in digits}


# --- parameters of queries and forms ---

_PLAIN_PARAM = re.compile(r"[\w.~-]*", re.ASCII).fullmatch


def encode_params(params: ParamsInput) -> str:
    """Encode parameters for a query or a form, by requests' rules.

    None values are dropped, a list repeats its name, and str() is called on everything else; text
    is UTF-8 and a blank is "+".

    Args:
        params: a mapping, pairs, or encoded text (returned as it is; bytes are UTF-8).

    Raises:
        InvalidURL: text that UTF-8 cannot encode.
        TypeError: see get_fields.
    """
    if isinstance(params, str):
        return params
    try:
        if isinstance(params, bytes):
            return params.decode()
        return encode_fields("params", params)
    except UnicodeError:
        raise InvalidURL("parameters that are not Unicode text") from None


def encode_fields(setting: str, source: FormInput) -> str:
    """Return a query or a form; the arguments and the TypeError are those of get_fields.

    Raises:
        UnicodeEncodeError: text that UTF-8 cannot encode.
    """
    fields = get_fields(setting, source)
    return "&".join([f"{_form(name)}={_form(value)}" for name, value in fields])


_NESTED = {
    "params": "write a name for each value, such as 'a[b]', or pass json.dumps(...) as the value",
    "data": "to send JSON, pass json= instead of data=",
}
_TEXTS = (str, int, float, bytes, bytearray)


def get_fields(setting: str, source: FormInput) -> list[tuple[Text, object]]:
    """Return the names and values of a query or a form, in which each list repeats its name.

    Args:
        setting: "params" or "data".
        source: a mapping or pairs; None values are left out.

    Raises:
        TypeError: it is neither, or a value has no text, such as a mapping, a file or a function.
    """
    found: list[tuple[Text, object]] = []
    for field in _check_pairs(setting, source):
        name, value = field
        if isinstance(value, _TEXTS):
            found.append((name, value))
        elif value is None:
            continue
        elif not hasattr(value, "__iter__"):
            _check_text(setting, name, value)
            found.append((name, value))
        elif hasattr(value, "read"):
            raise TypeError(f"{setting}[{name!r}] is a file: pass it in files=")
        else:
            # An empty list leaves the name out.
            values = (value,) if isinstance(value, Mapping) else cast("Iterable[object]", value)
            for each in values:
                if not isinstance(each, _TEXTS) and each is not None:
                    _check_text(setting, name, each)
                if each is not None:
                    found.append((name, each))
    return found


def _check_pairs(setting: str, source: FormInput) -> Iterator[tuple[Text, object]]:
    if not hasattr(source, "__iter__"):
        text = " or text" if setting == "params" else ""
        raise TypeError(
            f'{setting} are a mapping, pairs{text}, not {type(source).__name__}: {{"page": 1}}'
        )
    for field in pairs(source):
        if not isinstance(field, (tuple, list)) or len(field) != 2:
            raise TypeError(
                f"{setting} are a mapping or pairs of name and value, not a list of "
                f'{type(field).__name__}: {{"page": 1}}'
            )
        yield field[0], field[1]


def _check_text(setting: str, name: object, value: object) -> None:
    if isinstance(value, Mapping) or hasattr(value, "__iter__"):
        kind = type(value).__name__
        raise TypeError(f"{setting}[{name!r}] contains a {kind}: {_NESTED[setting]}")
    text = str(value)
    if text[:1] == "<" and text[-1:] == ">":  # of a function, a coroutine or any object
        hint = "; call it, or await it" if callable(value) or hasattr(value, "__await__") else ""
        kind = type(value).__name__
        raise TypeError(f"{setting}[{name!r}] has no text, because its type is {kind}{hint}")


def _form(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return quote_form(bytes(value))
    text = value if isinstance(value, str) else str(value)
    return text if _PLAIN_PARAM(text) else quote_form(text)


def pairs(source: FormInput) -> Iterable[tuple[Text, object]]:
    """Return the (name, value) pairs of a mapping or of an iterable of pairs."""
    # dict first, because an ABC is slow to check
    return source.items() if isinstance(source, (dict, Mapping)) else source


# --- the URL ---

_LONGEST_CACHED = 2048  # characters; bounds the memory of the cache of parsed URLs

_PATH = r"[\w.~!$&'()*+,;=:@/-]*"
_QUERY = r"[\w.~!$&'()*+,;=:@/?-]*"
# An escape in canonical form: upper case, and not of an unreserved character.
_ESCAPE = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[BCDF])"
_CANONICAL_START = r"(https?://[a-z0-9._\-:\[\]]+)"
_match_plain = re.compile(rf"{_CANONICAL_START}(/{_PATH}(?:\?(?=.){_QUERY})?)", re.ASCII).fullmatch
_WITH_ESCAPES = (
    rf"(?a:{_CANONICAL_START}"
    rf"(/{_PATH}(?:{_ESCAPE}{_PATH})*(?:\?(?=.){_QUERY}(?:{_ESCAPE}{_QUERY})*)?))"
)
_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*):"
_PARTS = r"(?s)(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?"
_FORBIDDEN_IN_AUTHORITY = r"[\s\x00-\x1f\x7f-\x9f\\]"
_FORBIDDEN_IN_TARGET = r"[^!-~]"
# A target that libcurl sends as it is in its URL. In others, it writes escapes in upper case, or
# leaves out an empty query.
_UNCHANGED = (
    rf"(?a:/{_PATH}(?:%[0-9A-F]{{2}}{_PATH})*(?:\?(?=.){_QUERY}(?:%[0-9A-F]{{2}}{_QUERY})*)?)"
)

# Around the URL in a field. Not str.strip(), because UTF-8 has the bytes 85 and A0, as in "\u00e0".
BLANKS = " \t\r\n\f\v"
_ASCII = "".join(map(chr, range(128)))
_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))


def decode_reference(value: str) -> str:
    """Return the URL in a header field: as UTF-8, or with its bytes beyond ASCII escaped.

    Args:
        value: of the field, whose bytes were read as Latin-1.
    """
    if value.isascii():
        return value
    try:
        received = value.encode("latin-1")
    except UnicodeEncodeError:  # no server sent it: it is from a mock of the drop-in
        return value
    try:
        return received.decode()
    except UnicodeDecodeError:
        return quote(received, safe=_ASCII)


class _URLBuilder:
    """A URL that is being built.

    It becomes a `URL` when its class is changed, which is three times faster than
    object.__setattr__ for each slot of an immutable object.
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


class URL(_URLBuilder):
    """An http or https URL in canonical form; immutable and hashable.

    In canonical form, the path has no "." and ".." segments, escapes are in upper case, letters,
    digits and "-_~" are not escaped, and everything that cannot be sent is, as is a "%" that begins
    no escape. An empty query is left out.

    Args:
        url: an absolute URL.
        raw: send the path and query byte for byte, and so for all URLs that are joined to this one,
            such as those of redirects and those relative to a `base_url`. Only the host is made
            canonical.

    Attributes:
        scheme: "http" or "https".
        host: lower case; IDNA A-labels, dotted IPv4, or IPv6 without brackets (zone kept).
        port: the effective port.
        is_raw: whether path, query and fragment are as they were written.
        target: the request target in origin form, "/path?query", percent-encoded ASCII.
        path: the target without the query.
        query: the text after "?", or "".
        origin: "scheme://host:port", always with the port: the key for all per-origin state.
        authority: the value of the Host header: no zone, no default port.
        wire: the ASCII URL for libcurl, without userinfo and fragment.
        fragment: the text after "#", percent-encoded ASCII.
        username: percent-decoded, or None; str() and repr() of a URL never show it. Bytes that are
            not UTF-8 are surrogates, as `os.fsdecode` returns them.
        password: the same.

    Raises:
        MissingSchema, InvalidSchema, InvalidURL: the URL cannot be requested. With `raw`, also if
            it has a space, a control character or a character beyond ASCII.
    """

    __slots__ = ()

    _had_userinfo = False  # True if without_userinfo() removed it
    is_raw = False

    def __new__(cls, url: str | bytes | URL, *, raw: bool = False) -> URL:
        """Return the URL, from the cache where possible."""
        return _parse_raw(url) if raw else parse_url(url)

    def __init__(self, url: str | bytes | URL, *, raw: bool = False) -> None:
        """Do nothing: __new__ returns a finished URL."""

    @property
    def path(self) -> str:
        """Return the path of the target."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """Return the query of the target, or ""."""
        return self.target.partition("?")[2]

    @property
    def absolute_target(self) -> str:
        """Return the target in absolute form, as a proxy needs it (RFC 9112, section 3.2.2)."""
        is_path = self.target[:1] == "/"  # and not "*"
        return f"{self.scheme}://{self.authority}{self.target}" if is_path else self.target

    def join(self, location: str | bytes) -> URL:
        """Resolve a reference such as a link against this URL (RFC 3986, section 5.2).

        The result never inherits the userinfo of this URL, nor its fragment. If this URL is raw, so
        is the result. Then, only "." and ".." at the start of a relative path are resolved.

        Args:
            location: an absolute or relative reference; bytes are UTF-8.

        Raises:
            InvalidSchema, InvalidURL: the result cannot be requested.
        """
        text = _to_text(location).strip(BLANKS)
        if text.startswith("//"):
            text = f"{self.scheme}:{text}"
        elif not re.match(_SCHEME, text):
            return self._relative(text)
        return _parse_raw(text) if self.is_raw else parse_url(text)

    def join_location(self, location: str | bytes) -> URL:
        """Resolve a Location value, which inherits the fragment (RFC 9110, section 10.2.2).

        Args:
            location: an absolute or relative reference; bytes are UTF-8.

        Raises:
            InvalidSchema, InvalidURL: the result cannot be requested.
        """
        if self.is_raw:  # escape what cannot be sent, but nothing else
            with _add_url_to_errors(str(location)):
                location = quote(_to_text(location).strip(BLANKS), safe=_VISIBLE)
        found = self.join(location)
        if self.fragment and not found.fragment:
            return found._with(found.target, self.fragment)
        return found

    def _relative(self, text: str) -> URL:
        _, path, query, fragment = _split(text)
        with _add_url_to_errors(text):
            if not path:
                path, query = self.path, self._query() if query is None else query
            elif path[0] != "/":
                folder = self.path[: self.path.rindex("/") + 1]
                path = _resolve_start(folder, path) if self.is_raw else folder + path
            target, fragment = self._build_target(path, query), self._quoted(fragment or "")
        return self._with_origin(self._origin, target, fragment)

    def _build_target(self, path: str, query: str | None) -> str:
        return _build_raw_target(path, query) if self.is_raw else build_target(path, query)

    def _query(self) -> str | None:
        _, mark, query = self.target.partition("?")
        return query if mark else None

    def _quoted(self, text: str) -> str:
        """Return a query or fragment as it is sent."""
        return _check_raw(text) if self.is_raw else quoted(text, QUERY_SAFE)

    def _join_path(self, text: str) -> URL:
        """Return the URL below the path of this one, even without a final slash.

        Args:
            text: path and query, perhaps with a fragment; a slash at its start changes nothing.
        """
        _, path, query, fragment = _split("/" + text.removeprefix("/"))
        with _add_url_to_errors(text):
            if path == "/" and text[:1] != "/":
                path = self.path
            else:
                folder = self.path
                path = (folder.removesuffix("/") if self.is_raw else folder.rstrip("/")) + path
            target, fragment = self._build_target(path, query), self._quoted(fragment or "")
        return self._with(target, fragment)  # with the credentials of this URL

    def with_params(self, params: ParamsInput | None) -> URL:
        """Return this URL with parameters appended to its query, by requests' rules.

        Args:
            params: see `encode_params`; str or bytes is a complete query, quoted where needed, or
                sent as it is if this URL is raw.
        """
        if not params:
            return self
        piece = encode_params(params)
        if isinstance(params, (str, bytes)):
            with _add_url_to_errors(str(self)):
                piece = self._quoted(piece)
        if not piece:
            return self
        separator = "&" if "?" in self.target else "?"
        if self.target.endswith("?"):  # of a raw URL
            separator = ""
        return self._with(f"{self.target}{separator}{piece}", self.fragment)

    def with_target(self, target: str) -> URL:
        """Return this URL, raw, with another request target.

        Args:
            target: ASCII without blanks and control characters. It need not be a path: servers know
                "*" (RFC 9112, section 3.2), too.
        """
        return _build(self._origin, target, kind=_RawURL)

    def without_userinfo(self) -> URL:
        """Return this URL without user name and password."""
        if self.username is None:
            return self
        parts = _URLBuilder(self._origin, self.target, self.wire, self.fragment)
        return _finish(parts, _StrippedRawURL if self.is_raw else _StrippedURL)

    def without_fragment(self) -> URL:
        """Return this URL without its fragment, which no server receives."""
        return self._with(self.target, "") if self.fragment else self

    def _with(self, target: str, fragment: str) -> URL:
        kind = _RawURL if self.is_raw else URL
        return _build(self._origin, target, fragment, self.username, self.password, kind)

    def _with_origin(self, origin: Origin, target: str, fragment: str) -> URL:
        """Return a URL without user name and password, raw if this one is."""
        return _build(origin, target, fragment, kind=_RawURL if self.is_raw else URL)

    def __str__(self) -> str:
        fragment = f"#{self.fragment}" if self.fragment else ""
        return f"{self.scheme}://{self.authority}{self.target}{fragment}"

    def __repr__(self) -> str:
        return f"URL({redact_text(str(self))!r}{', raw=True' if self.is_raw else ''})"

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
        return _restore, (*self._key(), self.is_raw)


class _StrippedURL(URL):
    """A URL whose user name and password were removed."""

    __slots__ = ()
    _had_userinfo = True


class _RawURL(URL):
    """A URL whose target is sent as it was written."""

    __slots__ = ()
    is_raw = True


class _StrippedRawURL(_RawURL):
    """A raw URL whose user name and password were removed."""

    __slots__ = ()
    _had_userinfo = True


def _build(
    origin: Origin,
    target: str,
    fragment: str = "",
    username: str | None = None,
    password: str | None = None,
    kind: type[URL] = URL,
) -> URL:
    wire = origin.prefix + target
    if kind is _RawURL and not re.fullmatch(_UNCHANGED, target):
        # After a "#", by which the engine recognizes a target that libcurl must not parse.
        wire = f"{origin.prefix}/#{target}"
    return _finish(_URLBuilder(origin, target, wire, fragment, username, password), kind)


def _finish(parts: _URLBuilder, kind: type[URL] = URL) -> URL:
    parts.__class__ = kind
    return cast("URL", parts)


def _restore(
    wire: str, fragment: str, username: str | None, password: str | None, is_raw: bool = False
) -> URL:
    end = wire.index("/", wire.index("://") + 3)
    target = wire[end:].removeprefix("/#")
    kind = _RawURL if is_raw else URL
    return _build(parse_origin(wire[:end]), target, fragment, username, password, kind)


def parse_url(url: str | bytes | URL) -> URL:
    """Parse a URL and make it canonical; recent ones come from a cache.

    Args:
        url: an absolute URL; bytes are UTF-8, and str() is called on other objects.

    Raises:
        MissingSchema: there is no scheme.
        InvalidSchema: the scheme is neither http nor https.
        InvalidURL: host, port or text is not valid; the message shows no userinfo.
    """
    if type(url) is str:
        return _cached(url) if len(url) <= _LONGEST_CACHED else _parse_slowly(url)
    if isinstance(url, URL):
        return url
    return parse_url(_to_text(url))


# Other objects may be URLs of another library.
_NO_URLS = (int, float, list, tuple, dict, set, frozenset)


def _to_text(text: str | bytes | None) -> str:
    if text is None:
        raise MissingSchema("the URL is None: give text, such as 'https://example.com/'")
    if not isinstance(text, bytes):
        if isinstance(cast(object, text), _NO_URLS) or callable(text):
            kind = type(text).__name__
            raise InvalidURL(f"the URL must be text, such as 'https://example.com/', not {kind}")
        return str(text)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise InvalidURL(
            f"Invalid URL {display_url(text.decode('latin-1'))!r}: not UTF-8"
        ) from None


def _parse(text: str) -> URL:
    match = re.fullmatch(_WITH_ESCAPES, text) if "%" in text else _match_plain(text)
    if match is not None:
        prefix, target = match.groups()
        if "/." not in target:  # a dot segment, perhaps
            try:
                origin = parse_origin(prefix)
            except InvalidURL:
                return _parse_slowly(text)  # to raise the precise error
            return _finish(
                _URLBuilder(
                    origin, target, text if origin.prefix == prefix else origin.prefix + target
                )
            )
    return _parse_slowly(text)


_cached = lru_cache(4096)(_parse)


def _parse_raw(url: str | bytes | URL) -> URL:
    """Parse a URL whose target is sent as it was written."""
    if isinstance(url, URL):
        return _build(url._origin, url.target, url.fragment, url.username, url.password, _RawURL)
    return _parse_slowly(_to_text(url), is_raw=True)


def _parse_slowly(text: str, *, is_raw: bool = False) -> URL:
    text = text.lstrip()
    scheme, rest = _split_scheme(text)
    authority, path, query, fragment = _split(rest)
    with _add_url_to_errors(text):
        userinfo, host_port = _split_userinfo(authority or "")
        origin = parse_origin(f"{scheme}://{host_port}")
        username, password = _parse_credentials(userinfo)
        if is_raw:
            target, fragment = _build_raw_target(path, query), _check_raw(fragment or "")
            return _build(origin, target, fragment, username, password, _RawURL)
        target = build_target(path, query)
        return _build(origin, target, quoted(fragment or "", QUERY_SAFE), username, password)


def _build_raw_target(path: str, query: str | None) -> str:
    return _check_raw((path or "/") + ("" if query is None else f"?{query}"))


def _check_raw(text: str) -> str:
    """Return a part of a raw URL.

    Raises:
        InvalidURL: it would end the target, or the line: a request could contain another one.
    """
    found = re.search(_FORBIDDEN_IN_TARGET, text)
    if found is None:
        return text
    escape = quote(found[0], errors="replace")
    raise InvalidURL(f"a raw URL is sent as it is, so write {found[0]!a} as {escape}")


def _resolve_start(folder: str, path: str) -> str:
    """Return a relative path below a folder; only dot segments at its start are no names."""
    while True:
        segment, _, rest = path.partition("/")
        if segment == "..":
            folder = folder[:-1].rpartition("/")[0] + "/"
        elif segment != ".":
            return folder + path
        path = rest


@contextmanager
def _add_url_to_errors(text: str) -> Iterator[None]:
    """Add the URL, redacted, to the message of an InvalidURL."""
    try:
        yield
    except InvalidURL as reason:
        raise InvalidURL(f"Invalid URL {display_url(text)!r}: {reason}") from None
    except UnicodeEncodeError:
        raise InvalidURL(f"Invalid URL {display_url(text)!r}: lone surrogate") from None


def _split_scheme(text: str) -> tuple[str, str]:
    match = re.match(_SCHEME, text)
    scheme = match[1].lower() if match else ""
    if scheme in ("http", "https"):
        return scheme, text[len(scheme) + 1 :]
    shown = display_url(text)
    # As in requests, a colon after anything but "http..." ends a scheme.
    if scheme or (":" in text and text[:4].lower() != "http"):
        hint = "; websocket() opens ws:// and wss://" if scheme in ("ws", "wss") else ""
        raise InvalidSchema(f"Invalid URL {shown!r}: it must begin with http:// or https://{hint}")
    if text[:1] in ("", "/") and text[:2] != "//":
        raise MissingSchema(
            f"Invalid URL {shown!r}: a relative URL needs a client with a base_url, such as "
            "Client(base_url='https://example.com')"
        )
    rest = re.sub("^(https?)?/+", "", shown)  # of "https//example.com", too
    raise MissingSchema(
        f"Invalid URL {shown!r}: No scheme supplied. Perhaps you meant https://{rest}?"
    )


def _split(text: str) -> tuple[str | None, str, str | None, str | None]:
    """Return authority, path, query and fragment; None for a missing part."""
    match = cast("re.Match[str]", re.fullmatch(_PARTS, text))  # it matches any text
    authority, path, query, fragment = match.groups()
    return authority, path, query, fragment


def _split_userinfo(authority: str) -> tuple[str, str]:
    # Parsers disagree about which "@" or "\" ends the userinfo, and so about the host: refuse both.
    if re.search(_FORBIDDEN_IN_AUTHORITY, authority):
        raise InvalidURL("white space, control character or backslash in the authority")
    userinfo, _, host_port = authority.rpartition("@")
    if "@" in userinfo:
        raise InvalidURL("more than one @ in the authority")
    return userinfo, host_port


def _parse_credentials(userinfo: str) -> tuple[str | None, str | None]:
    if userinfo in ("", ":"):
        return None, None
    userinfo.encode()  # raises UnicodeEncodeError for a lone surrogate
    username, colon, password = userinfo.partition(":")
    return unquote_credential(username), unquote_credential(password) if colon else None


def may_keep_credentials(old: URL, new: URL) -> bool:
    """Return whether credentials for one URL may be sent to another.

    They may be sent to the same origin, and, as in requests, from http on port 80 to https on port
    443 of the same host.
    """
    if old.origin == new.origin:
        return True
    upgrade = (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)
    return upgrade and old.host == new.host
