"""How requests turns params, data and files into text and bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

from curlhttp._models.body import MultipartBody, form_fields

__all__ = ["RequestEncodingMixin"]

_MAKES_NO_HEADER = ("content-type", "content-location")


class RequestEncodingMixin:
    """Encode what a request is made of; the base of PreparedRequest."""

    @property
    def path_url(self) -> str:
        """Return the path and query of the URL: what a server is asked for."""
        parts = urlsplit(self.url or "")  # type: ignore[attr-defined]
        return f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"

    @staticmethod
    def _encode_params(data: Any) -> Any:
        """Encode a mapping or pairs as a form; anything else is returned as it is."""
        if isinstance(data, (str, bytes)) or hasattr(data, "read"):
            return data
        if not hasattr(data, "__iter__"):
            return data
        return urlencode(list(form_fields(data)), doseq=True)

    @staticmethod
    def _encode_files(files: Any, data: Any) -> tuple[bytes, str]:
        """Encode files, after the fields of data, as multipart/form-data.

        Returns:
            The body and its Content-Type.

        Raises:
            ValueError: there are no files, data is a string, or something is no pair.
        """
        if not files:
            raise ValueError("Files must be provided.")
        if isinstance(data, (str, bytes)):
            raise ValueError("Data must not be a string.")
        from curlhttp.requests.utils import to_key_val_list

        fields = form_fields(to_key_val_list(data or {}) or ())
        parts = _parts(to_key_val_list(files) or ())
        body = MultipartBody(fields, parts, boundary=_chosen_boundary())
        content = body.data
        if content is None:
            content = b"".join(iter(lambda: body.read(1 << 62), b""))
        return content, str(body.content_type)


def _chosen_boundary() -> str | None:
    """Return what urllib3 chooses where a program has it: caches choose one for all there."""
    choose: Any = getattr(sys.modules.get("urllib3.filepost"), "choose_boundary", None)
    return None if choose is None else str(choose())


def _parts(files: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    from curlhttp.requests.utils import guess_filename

    for field, spec in files:
        if not isinstance(spec, (tuple, list)):
            spec = (guess_filename(spec) or field, spec)
        if not 2 <= len(spec) <= 4:
            raise ValueError(f"a file is given by 2 to 4 values, not {len(spec)}")
        filename, source, content_type, headers = (*spec, None, None)[:4]
        yield field, (filename, _content(source), content_type or None, _part_headers(headers))


def _content(source: Any) -> Any:
    """Read a file now: a prepared body is bytes."""
    if hasattr(source, "read"):
        source = source.read()
        if source is None:
            raise TypeError("a file gave None, not bytes")
    if source is None or isinstance(source, (str, bytes)):
        return source
    return str(source) if isinstance(source, int) else bytes(memoryview(source))


def _part_headers(headers: Any) -> dict[Any, Any]:
    """Return the headers of a part without those that come from its content type."""
    return {
        name: value
        for name, value in dict(headers or {}).items()
        if not isinstance(name, str) or name.lower() not in _MAKES_NO_HEADER
    }
