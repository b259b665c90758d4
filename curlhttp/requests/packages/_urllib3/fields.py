"""urllib3.fields: one part of a form."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = [
    "RequestField",
    "format_header_param",
    "format_header_param_html5",
    "format_header_param_rfc2231",
    "format_multipart_header_param",
    "guess_content_type",
]

# WHATWG HTML, "multipart/form-data encoding algorithm".
_ESCAPES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
_FIRST = ("Content-Disposition", "Content-Type", "Content-Location")


def guess_content_type(filename: str | None, default: str = "application/octet-stream") -> str:
    """Return the media type that a file name stands for, or the default."""
    return (filename and mimetypes.guess_type(filename)[0]) or default


def format_multipart_header_param(name: str, value: str | bytes) -> str:
    """Return name="value", escaped as browsers do."""
    text = value.decode("utf-8") if isinstance(value, bytes) else value
    return f'{name}="{text.translate(_ESCAPES)}"'


format_header_param_html5 = format_header_param = format_multipart_header_param


def format_header_param_rfc2231(name: str, value: str | bytes) -> str:
    """Return name="value", or name*=utf-8''value where the value calls for it (RFC 2231)."""
    text = value.decode("utf-8") if isinstance(value, bytes) else value
    if text.isascii() and not any(char in '"\\\r\n' for char in text):
        return f'{name}="{text}"'
    from urllib.parse import quote

    return f"{name}*=utf-8''{quote(text, safe='')}"


class RequestField:
    """One part of a form.

    Args:
        name: of the field.
        data: its value.
        filename: of a file.
        headers: of the part; None and "" are left out.
        header_formatter: makes name="value".
    """

    def __init__(
        self,
        name: str,
        data: Any,
        filename: str | None = None,
        headers: Mapping[str, Any] | None = None,
        header_formatter: Callable[[str, Any], str] | None = None,
    ) -> None:
        self._name = name
        self._filename = filename
        self.data = data
        self.headers: dict[str, Any] = dict(headers) if headers else {}
        self.header_formatter = header_formatter or format_multipart_header_param

    @classmethod
    def from_tuples(
        cls,
        fieldname: str,
        value: Any,
        header_formatter: Callable[[str, Any], str] | None = None,
    ) -> RequestField:
        """Return the part for a value, (file name, data) or (file name, data, content type)."""
        filename, content_type = None, None
        if isinstance(value, tuple):
            filename, value, *rest = value
            content_type = rest[0] if rest else guess_content_type(filename)
        field = cls(fieldname, value, filename=filename, header_formatter=header_formatter)
        field.make_multipart(content_type=content_type)
        return field

    def _render_part(self, name: str, value: Any) -> str:
        return self.header_formatter(name, value)

    def _render_parts(self, header_parts: Any) -> str:
        parts: Iterable[tuple[str, Any]]
        parts = header_parts.items() if isinstance(header_parts, dict) else header_parts
        return "; ".join(
            self._render_part(name, value) for name, value in parts if value is not None
        )

    def render_headers(self) -> str:
        """Return the header fields, with the blank line after them."""
        order = [*_FIRST, *(name for name in self.headers if name not in _FIRST)]
        lines = [f"{name}: {self.headers[name]}" for name in order if self.headers.get(name)]
        return "\r\n".join([*lines, "", ""])

    def make_multipart(
        self,
        content_disposition: str | None = None,
        content_type: str | None = None,
        content_location: str | None = None,
    ) -> None:
        """Set the header fields that make this part of a form.

        Args:
            content_disposition: "form-data" unless given.
            content_type: of the data.
            content_location: where it is.
        """
        names = self._render_parts((("name", self._name), ("filename", self._filename)))
        self.headers["Content-Disposition"] = f"{content_disposition or 'form-data'}; {names}"
        self.headers["Content-Type"] = content_type
        self.headers["Content-Location"] = content_location
