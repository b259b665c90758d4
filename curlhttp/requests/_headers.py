"""Header fields: check those of requests, parse values, and show responses like http.client.

`utils` exposes the functions that requests has there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import is_
from typing import TYPE_CHECKING, Any

import curlhttp.requests._internal_utils as _internal_utils
from curlhttp._http.decoding import ACCEPT_ENCODING
from curlhttp._http.redaction import is_secret_header
from curlhttp.exceptions import InvalidHeader
from curlhttp.requests._cached import cached_property
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from http.client import HTTPMessage

    from curlhttp._http.response import Response

_QUOTES = "\"'"
_VERSIONS = {"HTTP/1.0": 10, "HTTP/1.1": 11, "HTTP/2": 20, "HTTP/3": 30}
_MOST_CHECKED = 1024  # headers that are remembered as good
_LONGEST_CHECKED = 512  # characters of such a header
_checked: set[tuple[str, str | bytes]] = set()
_last_good: tuple[tuple[str, object], ...] = ()  # the last headers of which all are


# --- of requests ---


def are_known_good(headers: Iterable[tuple[str, object]]) -> bool:
    """Return whether all headers were checked before; False may only mean that they were not."""
    global _last_good
    fields = (*headers,)
    # As for most requests of a session. Not by equality: a bytearray equals bytes.
    if len(fields) == len(_last_good) and all(map(is_, fields, _last_good)):
        return True
    try:
        are_good = _checked.issuperset(fields)
    except TypeError:  # a value that cannot be hashed is invalid
        return False
    if are_good:
        _last_good = fields
    return are_good


def check_header(name: Any, value: Any) -> None:
    """Check a header.

    Raises:
        InvalidHeader: name or value is not str or bytes, or would break the message.
    """
    if type(name) is str and isinstance(value, (str, bytes)) and (name, value) in _checked:
        return
    check_header_validity((name, value))
    # requests accepts NUL, which ends a string in C.
    if any(("\0" if isinstance(text, str) else b"\0") in text for text in (name, value)):
        raise InvalidHeader(f"A header must not contain NUL: {name!r}")
    if type(name) is str and len(name) + len(value) <= _LONGEST_CHECKED:
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked.add((name, value))


def check_header_validity(header: tuple[str | bytes, str | bytes]) -> None:
    """Check a name with its value; a message shows no credentials.

    Raises:
        InvalidHeader: one is neither str nor bytes, begins with a blank or holds a line break;
            or the name is empty or holds a colon.
    """
    name, value = header
    _validate_header_part(header, name, 0)
    _validate_header_part(header, value, 1)


def _validate_header_part(
    header: tuple[str | bytes, str | bytes], header_part: str | bytes, header_validator_index: int
) -> None:
    kind = bytes if isinstance(header_part, bytes) else str
    if not isinstance(header_part, kind):
        shown, whole = _repr_of(header, header_part), _repr_of(header, header)
        raise InvalidHeader(
            f"Header part ({shown}) from {whole} must be of type str or bytes, "
            f"not {type(header_part)}"
        )
    pattern = _internal_utils.HEADER_VALIDATORS[kind][header_validator_index]
    if not pattern.match(header_part):
        raise InvalidHeader(
            f"Header {'value' if header_validator_index else 'name'} begins with a blank or holds "
            f"a reserved or line-breaking character: {_repr_of(header, header_part)}"
        )


def _repr_of(header: tuple[str | bytes, str | bytes], part: object) -> str:
    """Return the repr of part of a header for a message; secret values are hidden."""
    name = header[0].decode("latin-1") if isinstance(header[0], bytes) else str(header[0])
    name = name.partition(":")[0].strip()  # all of "Authorization: ..." may be passed as the name
    return f"<hidden, of {name}>" if is_secret_header(name) else repr(part)


# --- values of fields ---


def make_default_headers(user_agent: str) -> CaseInsensitiveDict[str]:
    """Return a new session's headers."""
    return CaseInsensitiveDict(
        {
            "User-Agent": user_agent,
            "Accept-Encoding": ACCEPT_ENCODING,
            "Accept": "*/*",
            "Connection": "keep-alive",
        }
    )


def unquote_header_value(value: str, is_filename: bool = False) -> str:
    r"""Return a quoted string without its quotes, and any other value unchanged.

    Args:
        value: the value.
        is_filename: True leaves a Windows share (\\server\share) alone, as browsers send it.
    """
    if not value or value[0] != '"' or value[-1] != '"':
        return value
    value = value[1:-1]
    if is_filename and value.startswith("\\\\"):
        return value
    return value.replace("\\\\", "\\").replace('\\"', '"')


def parse_list_header(value: str) -> list[str]:
    """Split a list at its commas, except those within quotes; items come unquoted."""
    from urllib.request import parse_http_list

    return [_unquote(item) for item in parse_http_list(value)]


def parse_dict_header(value: str) -> dict[str, str | None]:
    """Read a list of name=value; values come unquoted, a name without "=" has None."""
    found: dict[str, str | None] = {}
    from urllib.request import parse_http_list

    for item in parse_http_list(value):
        name, equals, text = item.partition("=")
        found[name] = _unquote(text) if equals else None
    return found


def _unquote(text: str) -> str:
    # Splitting has removed the backslashes; the text inside the quotes may be quoted again.
    return unquote_header_value(text[1:-1]) if text[:1] == text[-1:] == '"' else text


def parse_header_links(value: str) -> list[dict[str, str]]:
    """Read a Link header: a dictionary of "url" and the parameters for each link.

    A comma and the next "<" end a link. A parameter that is not name=value ends its parameters.
    The first link may lack the "<".
    """
    import re

    quotes = " '\""
    links = []
    value = value.strip(quotes)
    for item in re.split(", *<", value) if value else ():
        target, _, parameters = item.partition(";")
        link = {"url": target.strip("<> '\"")}
        for parameter in parameters.split(";"):
            name, *texts = parameter.split("=")
            if len(texts) != 1:
                break
            link[name.strip(quotes)] = texts[0].strip(quotes)
        links.append(link)
    return links


def _parse_content_type_header(header: str) -> tuple[str, dict[str, str]]:
    content_type, *parameters = header.split(";")
    found = {}
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if equals:
            found[name.strip(_QUOTES + " ").lower()] = value.strip(_QUOTES + " ")
    return content_type.strip(), found


def get_encoding_from_headers(headers: Mapping[str, str]) -> str | None:
    """Return the charset of Content-Type, or the default one for text and JSON; else None."""
    content_type = headers.get("content-type")
    return _get_encoding(content_type) if content_type else None


@lru_cache(maxsize=64)
def _get_encoding(content_type: str) -> str | None:
    kind, parameters = _parse_content_type_header(content_type)
    if "charset" in parameters:
        return str(parameters["charset"])
    if "text" in kind:
        return "ISO-8859-1"
    return "utf-8" if "application/json" in kind else None


# --- of responses ---


class Head:
    """The attributes that the responses of http.client and urllib3 have in common.

    Args:
        received: the core's response.
    """

    def __init__(self, received: Response) -> None:
        self.received = received

    @cached_property
    def status(self) -> int:
        """Return the status code."""
        return self.received.status_code

    @cached_property
    def reason(self) -> str:
        """Return the reason phrase."""
        return self.received.reason

    @cached_property
    def version(self) -> int:
        """Return 10, 11, 20 or 30."""
        return _VERSIONS.get(self.received.http_version, 11)

    @cached_property
    def msg(self) -> HTTPMessage:
        """Return the header fields."""
        from http.client import HTTPMessage  # slow to import, and seldom needed

        message = HTTPMessage()
        for name, value in self.received.headers.multi_items():
            message.set_raw(name, value)  # like a parser; since Python 3.14, [] checks the name
        return message

    @cached_property
    def chunked(self) -> bool:
        """Return whether the body comes in chunks."""
        return "chunked" in self.received.headers.get("transfer-encoding", "").lower()
