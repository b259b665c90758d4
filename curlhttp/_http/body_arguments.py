"""From the arguments of a request to its body: `content`, `data`, `json` and `files`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from json import JSONEncoder
from typing import TYPE_CHECKING, cast

from curlhttp._http.body import WHOLE, Body, BytesBody, open_body
from curlhttp._http.url import encode_fields, get_fields, pairs
from curlhttp.exceptions import InvalidJSONError

if TYPE_CHECKING:
    from curlhttp._http.inputs import ContentInput, DataInput, FilesInput, FormInput, JSONInput

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_to_json = JSONEncoder(allow_nan=False).encode  # json.dumps(allow_nan=False) makes one per call
_FORMS = (dict, list, tuple, Mapping)  # in this order, because an ABC is slow to check


def encode_body(
    *,
    content: ContentInput | None = None,
    data: DataInput | None = None,
    json: JSONInput = None,
    files: FilesInput | None = None,
    length: int | None = None,
    encode: Callable[[JSONInput], bytes] | None = None,
    content_type: str | None = None,
) -> Body | None:
    """Return the body for a request's arguments of the same names, by requests' rules; or None.

    Args:
        content: sent as it is, see open_body(); without Content-Type.
        data: a mapping or list of pairs is sent as a form, anything else like content.
        json: any value but None.
        files: a mapping or list of pairs (field name, file), see make_form; the fields of data are
            sent first.
        length: bytes of a streamed body whose size cannot be determined.
        encode: returns the JSON of a value, None for Python's json.
        content_type: that the caller set for the request, for the boundary of files.

    Raises:
        TypeError: content or json together with another argument, or a value that cannot be a body.
        ValueError: data is a string together with files.
        InvalidJSONError: json holds NaN, an infinity, or itself.
        InvalidHeader: `length` is wrong, or a content type, its boundary or a header of a file
            would break the message.
    """
    if json is not None and (files or not _is_empty(data)):
        raise TypeError(
            f"a request has one body: json cannot be combined with {'files' if files else 'data'}"
        )
    if content is None and not files:
        if data is not None and not _is_empty(data):
            return _make_data_body(data, length)
        return None if json is None else BytesBody(encode_json(json, encode), _JSON)
    if content is not None:
        if files or json is not None or not _is_empty(data):
            raise TypeError("content cannot be combined with data, files or json")
        return open_body(content, length)
    if not hasattr(files, "__iter__"):
        kind = type(files).__name__
        raise TypeError(f'files are a mapping or pairs, not {kind}: {{"field": open(path, "rb")}}')
    from curlhttp._http.multipart import make_form

    fields, parts = _get_file_fields(data), pairs(cast("FormInput", files))
    return make_form(fields, parts, length, content_type=content_type)


def encode_json(value: JSONInput, encode: Callable[[JSONInput], bytes] | None) -> bytes:
    """Return the JSON of a value.

    Args:
        value: any value, also None.
        encode: the user's function, None for Python's json.

    Raises:
        InvalidJSONError: the value holds NaN, an infinity, or itself.
        TypeError: JSON cannot express the value.
    """
    try:
        return _to_json(value).encode() if encode is None else encode(value)
    except ValueError as error:
        raise InvalidJSONError(str(error)) from error
    except TypeError as error:
        if encode is not None:  # an error of the user's function
            raise
        raise TypeError(
            f"json: {error}; convert it, or create the client with json=curlhttp.JSON(dumps=...), "
            "a function that can"
        ) from None


def _make_data_body(data: DataInput, length: int | None) -> Body:
    if isinstance(data, _FORMS):
        form = encode_fields("data", cast("FormInput", data))
        return BytesBody(form.encode("ascii"), _FORM)
    return open_body(data, length)


def _is_empty(data: object) -> bool:
    return data is None or (not data and isinstance(data, (*WHOLE, *_FORMS)))


def _get_file_fields(data: DataInput | None) -> Iterable[tuple[object, object]]:
    """Return the fields that are sent before the files."""
    if isinstance(data, WHOLE):
        raise ValueError("data must not be a string when there are files")
    if data is not None and not isinstance(data, _FORMS):
        raise NotImplementedError("a streamed body and files are mutually exclusive")
    return get_fields("data", cast("FormInput", data or ()))
