"""Header fields: validated before they are sent, kept as they are when received.

libcurl sends any text, so `lines` returns only what was checked. This module knows nothing about
the meaning of fields, except which ones hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, TypeVar, overload

from curlhttp._http.decoding import ACCEPT_ENCODING
from curlhttp._http.redaction import redact_field
from curlhttp._http.suggestions import without_attributes
from curlhttp._version import __version__
from curlhttp.exceptions import InvalidHeader, InvalidMethod

if TYPE_CHECKING:
    from curlhttp._http.inputs import HeaderChanges, HeadersInput, Text

# The extension of a request with the authority to send no Host to.
WITHOUT_HOST = "curlhttp.without_host"

_Default = TypeVar("_Default")

DEFAULT_HEADERS = (
    ("User-Agent", f"curlhttp/{__version__}"),
    ("Accept-Encoding", ACCEPT_ENCODING),
    ("Accept", "*/*"),
)
SENSITIVE = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})

match_token = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch  # RFC 9110, section 5.6.2
# RFC 9110, section 5.5: visible characters at both ends; UTF-8 bytes appear here as obs-text.
_VALUE = re.compile(r"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?").fullmatch
_DIGITS = re.compile(r"[0-9]{1,18}").fullmatch  # int() refuses thousands, and libcurl has 64 bits
_NONE: frozenset[str] = frozenset()
_SOURCE_FIELDS = frozenset({"referer", "origin"})
# Compiled when they are first used.
_USERINFO = r"(?i)\A((?:[a-z][a-z0-9+.\-]*:)?[/\\]{2})[^/?#\\]*@"
_FOLD = r"\r?\n[ \t]+"
_METHODS = {
    spelling: method
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
    for spelling in (method, method.lower())
}


def parse_length(value: str) -> int | None:
    """Return the number of bytes in a Content-Length; None if it is invalid, or beyond all sizes.

    Args:
        value: of one field.
    """
    digits = value.lstrip("0") or value[:1]
    return int(digits) if _DIGITS(digits) else None


def check_method(method: Text) -> str:
    """Return a method in upper case.

    Raises:
        InvalidMethod: it is not a token (RFC 9110, section 9.1), so it could inject a header.
    """
    known = _METHODS.get(method) if isinstance(method, str) else None
    if known is not None:
        return known
    text = method.decode("latin-1") if isinstance(method, bytes) else method
    if not isinstance(text, str) or not match_token(text):
        if isinstance(text, str) and "://" in text:  # without the URL: it may hold credentials
            raise InvalidMethod('the method comes first, then the URL: request("GET", url)')
        raise InvalidMethod(f"Invalid method: {text!r:.100}")
    return text.upper()


def check_header(name: Text, value: Text) -> tuple[str, str]:
    """Return name and value as str, valid to send; Referer and Origin lose their userinfo.

    Args:
        name: a token; bytes are latin-1.
        value: latin-1 text without control characters and without blanks at either end.

    Raises:
        InvalidHeader: it would break the header block; the message never shows the value.
    """
    if isinstance(name, str) and isinstance(value, str) and match_token(name) and _VALUE(value):
        return name, without_userinfo(name, value) if "@" in value else value
    name = _latin1(name, "name")
    if not match_token(name):
        # A whole "Authorization: ..." line may have been passed as the name: show no value.
        raise InvalidHeader(f"Invalid header name {name.partition(':')[0]!r:.100}: not a token")
    value = _latin1(value, f"value of {name!r:.100}")
    if not _VALUE(value):
        raise InvalidHeader(f"Invalid value of header {name!r:.100}: {_explain_invalid(value)}")
    return name, without_userinfo(name, value)


def without_userinfo(name: str, value: str) -> str:
    """Return the value of a field without user and password, if it is Referer or Origin.

    Referer must not have them (RFC 9110, section 10.1.3), and Origin has no place for them. Other
    fields are returned unchanged.
    """
    if name.lower() not in _SOURCE_FIELDS:
        return value
    return re.sub(_USERINFO, r"\1", value)


def _latin1(text: object, what: str) -> str:
    if isinstance(text, bytes):
        return text.decode("latin-1")
    if not isinstance(text, str):
        raise InvalidHeader(f"Header {what} must be str or bytes, not {type(text).__name__}")
    return text


def _explain_invalid(value: str) -> str:
    if value[0] in " \t" or value[-1] in " \t":
        return "blank at the start or end"
    if any(char > "\xff" for char in value):
        return "not latin-1; encode it to bytes first"
    return "control character"


@without_attributes(
    "headers", "get_all getall getheaders getlist getone has_key iteritems popall raw"
)
class Headers(MutableMapping[str, str]):
    """Map names to values, ignoring case; order, spelling and repeated fields are kept.

    Reading a repeated field returns its values joined by ", "; `get_list` and `multi_items`
    return them one by one.

    Args:
        headers: a mapping, pairs or other Headers; str or bytes (latin-1), checked.
        sensitive: names whose values no repr shows, in addition to names that indicate secrets
            (Authorization, Cookie, X-Api-Key, ...).

    Attributes:
        sensitive: these names in lower case.

    Raises:
        InvalidHeader: see `check_header`.
    """

    __slots__ = ("_checked", "_fields", "_lines", "_typed", "_unread", "_views", "sensitive")

    _fields: list[tuple[str, str]]
    _unread: str | None  # a received block that was not parsed yet
    _views: dict[str, tuple[str, str]] | None  # lower-case name -> name, joined value
    _checked: bool  # False for received headers: they are checked before they are sent
    sensitive: frozenset[str]
    _lines: list[bytes] | None  # of lines(), until a change: the engine compares by identity
    # The arguments of with_type(), and its result.
    _typed: tuple[list[tuple[str, str]], frozenset[str], str, Headers] | None

    def __init__(
        self, headers: HeadersInput | None = None, *, sensitive: Iterable[str] = ()
    ) -> None:
        self._unread = self._views = self._lines = self._typed = None
        self._checked = True
        self.sensitive = frozenset(map(str.lower, sensitive)) if sensitive else _NONE
        if isinstance(headers, Headers):
            self.sensitive |= headers.sensitive
        if headers is None:
            self._fields = []
        elif isinstance(headers, Headers) and headers._checked:
            self._fields = headers._fields.copy()
        else:
            self._fields = [check_header(name, value) for name, value in _pairs(headers)]

    @classmethod
    def from_block(cls, block: bytes) -> Headers:
        """Return the fields of a received header block, unchecked; it is parsed at its first use.

        Args:
            block: the lines of one head, latin-1, with or without a status line before them and
                the blank line after them. A folded line continues the line before it.
        """
        self = cls.__new__(cls)
        self._fields = []
        self._unread = block.decode("latin-1")
        self._views = self._lines = self._typed = None
        self._checked = False
        self.sensitive = _NONE
        return self

    def _read(self) -> list[tuple[str, str]]:
        unread = self._unread
        if unread is not None:
            # Threads may race here: both parse the same, and neither sees a half-filled list.
            self._fields = _parse_block(unread)
            self._unread = None
        return self._fields

    def _by_name(self) -> dict[str, tuple[str, str]]:
        views = self._views
        if views is None:
            views = self._views = _group_by_name(self._read())
        return views

    def _replace(self, fields: list[tuple[str, str]]) -> None:
        self._unread = self._views = self._lines = self._typed = None
        self._fields = fields

    def __getitem__(self, name: str) -> str:
        return self._by_name()[name.lower()][1]

    @overload
    def get(self, name: str, default: None = None) -> str | None: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    @overload
    def get(self, name: str, default: _Default) -> str | _Default: ...
    def get(self, name: str, default: object = None) -> object:
        """Return the value of a field (joined if repeated), or the default."""
        found = self._by_name().get(name.lower())  # without the KeyError of Mapping.get
        return default if found is None else found[1]

    def get_list(self, name: str) -> list[str]:
        """Return the values of a field, one for each line."""
        wanted = name.lower()
        return [value for name, value in self._read() if name.lower() == wanted]

    def multi_items(self) -> list[tuple[str, str]]:
        """Return all names and values in order, with repeated fields."""
        return self._read().copy()

    def __setitem__(self, name: str, value: Text) -> None:
        field = check_header(name, value)
        self._put(field[0].lower(), [field])

    def add(self, name: Text, value: Text) -> None:
        """Append a field, next to those of the same name."""
        self._replace([*self._read(), check_header(name, value)])

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._put(name.lower(), [])

    def _put(self, lower: str, fields: list[tuple[str, str]]) -> None:
        self._replace(_override(self._read(), {lower: fields}))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name()

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._by_name().values()])

    def __len__(self) -> int:
        return len(self._by_name())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self._values() == _get_values(other)

    __hash__ = None  # type: ignore[assignment]

    def _values(self) -> dict[str, str]:
        return {lower: value for lower, (_, value) in self._by_name().items()}

    def __repr__(self) -> str:
        shown = [
            (name, "[secret]" if name.lower() in self.sensitive else redact_field(name, value))
            for name, value in self._read()
        ]
        return f"Headers({shown!r})"

    def copy(self) -> Headers:
        """Return an independent copy."""
        clone = Headers.__new__(Headers)
        clone._checked = self._checked
        clone.sensitive = self.sensitive
        clone._replace(self._read().copy())
        return clone

    __copy__ = copy

    def without_credentials(self) -> Headers:
        """Return these headers without those that hold credentials or are marked sensitive."""
        clone = self.copy()
        secret = SENSITIVE | self.sensitive
        clone._replace([field for field in self._read() if field[0].lower() not in secret])
        return clone

    def without_secrets(self) -> Headers:
        """Return these headers for the pickle of an error: no credentials, URLs redacted."""
        clone = self.without_credentials()
        clone._replace([(name, redact_field(name, value)) for name, value in clone._fields])
        return clone

    def with_type(self, content_type: str) -> Headers:
        """Return these headers, which have no Content-Type, with one; do not change the result.

        The result is cached until these headers or the type change, because a client that sends
        forms or JSON sends the same headers each time.
        """
        # Compared with its sources, because another thread may change these headers meanwhile.
        fields, sensitive = self._read(), self.sensitive
        known = self._typed
        if known is not None and known[0] is fields and known[1:3] == (sensitive, content_type):
            return known[3]
        made = self.copy()
        made["Content-Type"] = content_type
        self._typed = fields, sensitive, content_type, made
        return made

    def lines(self) -> list[bytes]:
        """Return the lines for CURLOPT_HTTPHEADER, where "Name;" means an empty value.

        The same list is returned until these headers change; do not change it.

        Raises:
            InvalidHeader: these headers were received and are not valid to send.
        """
        if self._lines is not None:
            return self._lines
        fields = self._read()
        if not self._checked:
            fields = [check_header(name, value) for name, value in fields]
        lines = self._lines = [
            (f"{name}: {value}" if value else f"{name};").encode("latin-1")
            for name, value in fields
        ]
        return lines

    def merged(self, other: HeaderChanges | None) -> Headers:
        """Return these headers, with all fields of a name replaced by those of other.

        Args:
            other: like the argument of Headers; a value of None removes the name.

        Raises:
            InvalidHeader: see `check_header`.
        """
        if not other:
            return self.copy()
        changes: dict[str, list[tuple[str, str]]] = {}
        for name, value in _pairs(other):
            if value is None:
                changes[_latin1(name, "name").lower()] = []
            else:
                field = check_header(name, value)
                changes.setdefault(field[0].lower(), []).append(field)
        merged = Headers.__new__(Headers)
        merged._checked = self._checked
        merged.sensitive = self.sensitive
        if isinstance(other, Headers):
            merged.sensitive |= other.sensitive
        merged._replace(_override(self._read(), changes))
        return merged


@overload
def _pairs(headers: HeadersInput) -> Iterable[tuple[Text, Text]]: ...
@overload
def _pairs(headers: HeaderChanges) -> Iterable[tuple[Text, Text | None]]: ...
def _pairs(headers: HeaderChanges) -> Iterable[tuple[Text, Text | None]]:
    if isinstance(headers, Headers):
        return headers._read()
    if isinstance(headers, (dict, Mapping)):
        return headers.items()
    kind = type(headers).__name__  # only the type, because the value may be a secret
    if kind in ("str", "bytes") or not hasattr(headers, "__iter__"):
        raise TypeError(f'headers are a mapping or pairs, such as {{"Accept": "*/*"}}, not {kind}')
    return map(_check_pair, headers)


def _check_pair(pair: tuple[Text, Text | None]) -> tuple[Text, Text | None]:
    if isinstance(pair, (str, bytes)) or not hasattr(pair, "__iter__"):
        kind = type(pair).__name__  # a line such as "Name: value" may hold a secret
        raise TypeError(
            f'headers are a mapping or pairs, such as {{"Accept": "*/*"}}, not a {kind}'
        )
    return pair


def _parse_block(block: str) -> list[tuple[str, str]]:
    if "\n " in block or "\n\t" in block:
        block = " ".join([part.strip(" \t") for part in re.split(_FOLD, block)])
    fields = []
    # Not splitlines(): that ends a line at \x85 and other bytes that a value may hold.
    for line in block.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            fields.append((name.rstrip(" \t"), value.strip(" \t\r")))
    if block.startswith("HTTP/") and ":" in block.partition("\n")[0]:
        del fields[0]  # a reason phrase with a colon is no field
    return fields


def _group_by_name(fields: list[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    views: dict[str, tuple[str, str]] = {}
    repeats: dict[str, list[str]] = {}
    for field in fields:
        lower = field[0].lower()
        if lower in views:
            repeats.setdefault(lower, [views[lower][1]]).append(field[1])
        else:
            views[lower] = field
    for lower, values in repeats.items():
        views[lower] = views[lower][0], ", ".join(values)
    return views


def _override(
    fields: list[tuple[str, str]], changes: dict[str, list[tuple[str, str]]]
) -> list[tuple[str, str]]:
    """Return fields with each name in changes replaced, and new names at the end."""
    kept: list[tuple[str, str]] = []
    for field in fields:
        lower = field[0].lower()
        substitute = changes.get(lower)
        if substitute is None:
            kept.append(field)
        elif substitute:
            kept += substitute
            changes[lower] = []
    for rest in changes.values():
        kept += rest
    return kept


def _get_values(other: Mapping[object, object]) -> object:
    if isinstance(other, Headers):
        return other._values()
    return {k.lower() if isinstance(k, str) else k: value for k, value in other.items()}


# --- fields that describe a body, and fields to leave out ---

# RFC 9110, section 15.4; the others are those of RFC 9530, and of how the body is sent.
_CONTENT_FIELDS = frozenset(
    {
        "digest",
        "expect",
        "last-modified",
        "repr-digest",
        "trailer",
        "transfer-encoding",
        "unencoded-digest",
    }
)

# Without a body, they are sent with Content-Length: 0 (RFC 9110, section 8.6).
ANNOUNCES_NO_BODY = ("PATCH", "POST", "PUT")


def is_content_field(name: str) -> bool:
    """Return whether a header describes the body, so that it must not be sent without it."""
    lower = name.lower()
    return lower.startswith("content-") or lower in _CONTENT_FIELDS


def drop_headers(headers: Headers, dropped: Iterable[str]) -> Headers:
    """Return headers without those with the given lower-case names."""
    return Headers(
        [(name, value) for name, value in headers.multi_items() if name.lower() not in dropped],
        sensitive=headers.sensitive,
    )
