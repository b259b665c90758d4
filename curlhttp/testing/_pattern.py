"""Which requests a route is for, and in what another request differs from that."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from curlhttp._models.redaction import display_url, is_secret_header, redact_text
from curlhttp._models.url import parse_url
from curlhttp.testing._sent import Sent, fields_of

if TYPE_CHECKING:
    from curlhttp._models.url import URL

__all__ = ["Pattern", "URLPattern"]

URLPattern: TypeAlias = "str | URL | re.Pattern[str] | Callable[[Sent], object] | None"
"""Which URLs: one, with `*` for what has no slash and `**` for anything; what `re` finds in it; a
function of the Sent; None for every one."""

_ANYTHING, _SEGMENT = "curlhttpanything", "curlhttpsegment"  # survive the parser as they are
_MISSING = object()
_LONGEST_SHOWN = 200  # characters of a value in a message


class Pattern:
    """Hold what a request must be like.

    Args:
        method: in upper case, or None for every one.
        url: see URLPattern; a query in it is exactly that of the request, in any order.
        params: names and values of the query, which has no others; see header values.
        headers: some headers of the request, by name; a value is text, what `re` finds in it,
            anything that is equal to it, or None where there must be no such header.
        json: what the body holds; ... for anything.
        content: the body, or None for any.
        data: names and values of a form, which has no others; None for any.
    """

    def __init__(
        self,
        method: str | None,
        url: URLPattern,
        *,
        params: Mapping[str, object] | None,
        headers: Mapping[str, object] | None,
        json: object,
        content: bytes | str | None,
        data: Mapping[str, object] | None,
    ) -> None:
        self._method = method
        self._url = url
        self._headers = dict(headers or {})
        self._json = json
        self._content = content.encode() if isinstance(content, str) else content
        self._data = None if data is None else _fields(data)
        self._params = None if params is None else _fields(params)
        self._base: re.Pattern[str] | None = None
        if url is not None and not isinstance(url, re.Pattern) and not callable(url):
            base, query = _canonical(str(url))
            self._base = _as_regex(base)
            if query:
                self._params = {**fields_of(query), **(self._params or {})}
        self.needs_body: bool = (
            json is not ... or content is not None or data is not None or callable(url)
        )

    def differences(self, sent: Sent) -> list[tuple[int, str]]:
        """Return in what a request differs: how much that weighs, and what to say of it."""
        found = []
        if self._method not in (None, sent.method):
            found.append((2, f"method: {sent.method}, not {self._method}"))
        if (url := self._url_difference(sent)) is not None:
            found.append((4, url))
        if self._params is not None:
            found += _field_differences("params", self._params, sent.params)
        found += self._header_differences(sent)
        return found

    def body_differences(self, sent: Sent) -> list[tuple[int, str]]:
        """Return in what the body of a request differs, likewise."""
        found = []
        if callable(self._url) and not self._url(sent):
            found.append((4, f"url: {_name(self._url)} says no"))
        if self._content is not None and self._content != sent.body:
            found.append((1, f"content: {_shown(sent.body)}, not {_shown(self._content)}"))
        if self._data is not None:
            form = fields_of(sent.body.decode("utf-8", "replace"))
            found += _field_differences("data", self._data, form)
        if self._json is not ...:
            found += [(1, text) for text in self._json_differences(sent)]
        return found

    def _url_difference(self, sent: Sent) -> str | None:
        if isinstance(self._url, re.Pattern) and not self._url.search(sent.url):
            return f"url: nothing in it is like {self._url.pattern}"
        if self._base is None or self._base.fullmatch(base := _base_of(sent.url)):
            return None
        return f"url: {display_url(base)}, not {self._shown_url()}"

    def _header_differences(self, sent: Sent) -> list[tuple[int, str]]:
        found = []
        for name, wanted in self._headers.items():
            value: object = sent.headers.get(name, _MISSING)
            if value is _MISSING:
                if wanted is not None:
                    found.append((1, f"headers: there is no {name}"))
            elif wanted is None:
                found.append((1, f"headers: there is {name}"))
            elif not _is_like(wanted, value):
                secret = is_secret_header(name) or name.lower() in sent.headers.sensitive
                said = "is another" if secret else f"is {_shown(value)}, not {_shown(wanted)}"
                found.append((1, f"headers: {name} {said}"))
        return found

    def _json_differences(self, sent: Sent) -> list[str]:
        try:
            value = json.loads(sent.body)
        except ValueError:
            return [f"json: the body is none: {_shown(sent.body)}"]
        return [f"json: {text}" for text in _json_differences("$", value, self._json)]

    def _shown_url(self) -> str:
        if self._url is None:
            return "any URL"
        if isinstance(self._url, re.Pattern):
            return f"URLs like {self._url.pattern}"
        return f"{_name(self._url)}()" if callable(self._url) else display_url(str(self._url))

    def __str__(self) -> str:
        """Return method and URL, fit for a message."""
        return f"{self._method or 'any method'} {self._shown_url()}"


# --- URLs ---


def _base_of(url: str) -> str:
    return re.split("[?#]", url, maxsplit=1)[0]


def _canonical(text: str) -> tuple[str, str]:
    """Return a URL pattern in canonical form without its query, and that."""
    marked = text.replace("**", _ANYTHING).replace("*", _SEGMENT)
    base, query, *_ = [*re.split("[?#]", str(parse_url(marked)), maxsplit=1), ""]
    return base, query.replace(_ANYTHING, "**").replace(_SEGMENT, "*").partition("#")[0]


def _as_regex(base: str) -> re.Pattern[str]:
    text = re.escape(base).replace(_ANYTHING, ".*").replace(_SEGMENT, "[^/]*")
    return re.compile(text, re.DOTALL)


# --- values ---


def _fields(wanted: Mapping[str, object]) -> dict[str, object]:
    return {str(name): _text(value) for name, value in wanted.items() if value is not None}


def _text(value: object) -> object:
    """Return a value as it stands in a query or form, as the client would put it there."""
    if isinstance(value, (list, tuple)):
        texts = [_text(each) for each in value]
        return texts[0] if len(texts) == 1 else texts
    if isinstance(value, bytes):
        return value.decode()
    return str(value) if isinstance(value, (int, float)) else value


def _is_like(wanted: object, value: object) -> bool:
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.search(value) is not None
    return bool(wanted == value)


def _field_differences(
    what: str, wanted: Mapping[str, object], found: Mapping[str, object]
) -> list[tuple[int, str]]:
    said = []
    for name, value in wanted.items():
        if name not in found:
            said.append(f"there is no {name}")
        elif not _is_like(value, found[name]):
            said.append(f"{_shown_field(name, found[name])}, not {_shown_field(name, value)}")
    said += [f"there is {_shown_field(name, found[name])}" for name in found if name not in wanted]
    return [(1, f"{what}: {text}") for text in said]


def _json_differences(at: str, value: object, wanted: object) -> list[str]:
    """Return where two values differ, by paths such as $.items[0].id."""
    if wanted == value:
        return []
    if isinstance(value, dict) and isinstance(wanted, dict):
        said = [f"there is no {at}.{name}" for name in wanted if name not in value]
        said += [f"there is {at}.{name}" for name in value if name not in wanted]
        for name in wanted:
            if name in value:
                said += _json_differences(f"{at}.{name}", value[name], wanted[name])
        return said
    if isinstance(value, list) and isinstance(wanted, list) and len(value) == len(wanted):
        said = []
        for at_index, (one, other) in enumerate(zip(value, wanted, strict=True)):
            said += _json_differences(f"{at}[{at_index}]", one, other)
        return said
    if is_secret_header(at.rpartition(".")[2]):
        return [f"{at} is another"]
    return [f"{at} is {_shown(value)}, not {_shown(wanted)}"]


def _shown_field(name: str, value: object) -> str:
    shown = redact_text(f"{name}={value}" if isinstance(value, str) else f"{name}={value!r}")
    return shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "..."


def _shown(value: object) -> str:
    text = repr(value.pattern if isinstance(value, re.Pattern) else value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def _name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)
