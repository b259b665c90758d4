"""What header fields say: lists, parameters, links, encodings. Exposed by utils."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import curlhttp.requests._internal_utils as _internal_utils
from curlhttp._models.decoding import ACCEPT_ENCODING
from curlhttp._models.redaction import is_secret_header
from curlhttp.exceptions import InvalidHeader
from curlhttp.requests.structures import CaseInsensitiveDict

__all__ = [
    "are_known",
    "check_header",
    "check_header_validity",
    "get_encoding_from_headers",
    "headers_of",
    "parse_dict_header",
    "parse_header_links",
    "parse_list_header",
    "unquote_header_value",
]


_QUOTES = "\"'"


def headers_of(user_agent: str) -> CaseInsensitiveDict[str]:
    """Return the headers that a session begins with."""
    return CaseInsensitiveDict(
        {
            "User-Agent": user_agent,
            "Accept-Encoding": ACCEPT_ENCODING,
            "Accept": "*/*",
            "Connection": "keep-alive",
        }
    )


def unquote_header_value(value: str, is_filename: bool = False) -> str:
    r"""Return what a quoted string holds; other values are returned as they are.

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

    return [_unquoted(item) for item in parse_http_list(value)]


def parse_dict_header(value: str) -> dict[str, str | None]:
    """Read a list of name=value; values come unquoted, a name without "=" has None."""
    found: dict[str, str | None] = {}
    from urllib.request import parse_http_list

    for item in parse_http_list(value):
        name, equals, text = item.partition("=")
        found[name] = _unquoted(text) if equals else None
    return found


def _unquoted(text: str) -> str:
    # Splitting has undone the backslashes; what is within the quotes may be quoted once more.
    return unquote_header_value(text[1:-1]) if text[:1] == text[-1:] == '"' else text


def parse_header_links(value: str) -> list[dict[str, str]]:
    """Read a Link header: a dictionary of "url" and the parameters for each link.

    A link ends where a comma and another "<" come, and its parameters at one that is not
    name=value. A list that begins otherwise is read all the same.
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
    """Return the encoding that Content-Type names or, for text and JSON, means; else None."""
    content_type = headers.get("content-type")
    return _encoding_of(content_type) if content_type else None


@lru_cache(maxsize=64)
def _encoding_of(content_type: str) -> str | None:
    kind, parameters = _parse_content_type_header(content_type)
    if "charset" in parameters:
        return str(parameters["charset"])
    if "text" in kind:
        return "ISO-8859-1"
    return "utf-8" if "application/json" in kind else None


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
        shown, whole = _shown(header, header_part), _shown(header, header)
        raise InvalidHeader(
            f"Header part ({shown}) from {whole} must be of type str or bytes, "
            f"not {type(header_part)}"
        )
    pattern = _internal_utils.HEADER_VALIDATORS[kind][header_validator_index]
    if not pattern.match(header_part):
        raise InvalidHeader(
            f"Header {'value' if header_validator_index else 'name'} begins with a blank or holds "
            f"a reserved or line-breaking character: {_shown(header, header_part)}"
        )


def _shown(header: tuple[str | bytes, str | bytes], part: object) -> str:
    """Return a part of a header fit for a message, if not all of it."""
    name = header[0].decode("latin-1") if isinstance(header[0], bytes) else str(header[0])
    name = name.partition(":")[0].strip()  # all of "Authorization: ..." may be passed as the name
    return f"<hidden, of {name}>" if is_secret_header(name) else repr(part)


# --- Which headers may go into a request; the good ones are remembered, for most come again ---

_MOST_CHECKED = 1024  # headers that are remembered as good
_LONGEST_CHECKED = 512  # characters of such a header
_checked: set[tuple[str, str | bytes]] = set()


def are_known(headers: Iterable[tuple[str, object]]) -> bool:
    """Return whether all headers have been found good; False may only mean that nobody knows."""
    try:
        return _checked.issuperset(headers)
    except TypeError:  # a value that cannot be hashed is no good one
        return False


def check_header(name: Any, value: Any) -> None:
    """Check a header.

    Raises:
        InvalidHeader: name or value is not str or bytes, or would break the message.
    """
    if type(name) is str and isinstance(value, (str, bytes)) and (name, value) in _checked:
        return

    check_header_validity((name, value))
    # The one control character that requests lets pass and that means an end to C code.
    if any(("\0" if isinstance(text, str) else b"\0") in text for text in (name, value)):
        raise InvalidHeader(f"A header must not contain NUL: {name!r}")
    if type(name) is str and len(name) + len(value) <= _LONGEST_CHECKED:
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked.add((name, value))
