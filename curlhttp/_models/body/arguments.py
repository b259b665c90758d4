"""From the caller's content, data, json and files to the body that sends them.

It chooses and encodes, by requests' rules; what a body is and how it is read is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from json import JSONEncoder
from typing import TYPE_CHECKING, cast
from urllib.parse import urlencode

from curlhttp._models.body.body import Body, BytesBody
from curlhttp._models.body.multipart import MultipartBody
from curlhttp._models.body.streams import WHOLE, FileBody, open_body
from curlhttp._models.url.params import pairs
from curlhttp.exceptions import InvalidJSONError

if TYPE_CHECKING:
    from curlhttp._models.inputs import JSON, ContentInput, DataInput, FilesInput, FormInput, Text

__all__ = ["encode_body"]

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_to_json = JSONEncoder(allow_nan=False).encode  # json.dumps(allow_nan=False) builds one per call
_FORMS = (dict, list, tuple, Mapping)  # in this order: the check of an ABC is slow


def encode_body(
    *,
    content: ContentInput | None = None,
    data: DataInput | None = None,
    json: JSON = None,
    files: FilesInput | None = None,
    length: int | None = None,
) -> Body | None:
    """Make the body of a request from the arguments of the same names; None for none.

    Args:
        content: sent as it is, see open_body(); no Content-Type.
        data: a mapping or list of pairs is sent as a form, anything else like content.
        json: any value but None; ignored when there is data or files, as in requests.
        files: a mapping or list of pairs (field name, file), see MultipartBody; the fields of
            data come first.
        length: bytes of a streamed body whose size cannot be found out.

    Raises:
        TypeError: content together with another, or a value of no use as a body.
        ValueError: data is a string and there are files.
        InvalidJSONError: json holds NaN or an infinity, or itself.
        InvalidHeader: `length` is wrong, or a content type or header of a file would break the
            message.
    """
    if content is None and not files:
        if data is None:
            return None if json is None else _json_body(json)
        return _data_body(data, json, length)
    if content is not None:
        if files or json is not None or not _is_empty(data):
            raise TypeError("content cannot go together with data, files or json")
        return open_body(content, length)
    if not hasattr(files, "__iter__"):
        kind = type(files).__name__
        raise TypeError(f'files are a mapping or pairs, not {kind}: {{"field": open(path, "rb")}}')
    return MultipartBody(_file_fields(data), pairs(cast("FormInput", files)), length)


def _json_body(value: JSON) -> BytesBody:
    try:
        return BytesBody(_to_json(value).encode(), _JSON)
    except ValueError as error:
        raise InvalidJSONError(str(error)) from error


def _data_body(data: DataInput, json: JSON, length: int | None) -> Body | None:
    if _is_empty(data):
        return None if json is None else _json_body(json)
    if isinstance(data, _FORMS):
        form = urlencode(list(form_fields(cast("FormInput", data)))).encode("ascii")
        return BytesBody(form, _FORM)
    body = open_body(data, length)
    if isinstance(body, FileBody) and body.length == 0 and length is None:
        body.length = None  # chunked, as in requests
    return body


def _is_empty(data: object) -> bool:
    return data is None or (not data and isinstance(data, (*WHOLE, *_FORMS)))


def form_fields(data: FormInput) -> Iterator[tuple[Text, object]]:
    """Give the fields of a form: a list of values repeats the name, None is dropped."""
    for name, values in pairs(data):
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            values = (values,)
        for value in cast("Iterable[object]", values):
            if value is not None:
                yield name, value


def _file_fields(data: DataInput | None) -> Iterable[tuple[Text, object]]:
    """Give the fields that go before the files."""
    if isinstance(data, WHOLE):
        raise ValueError("data must not be a string when there are files")
    if data is not None and not isinstance(data, _FORMS):
        raise NotImplementedError("a streamed body and files are mutually exclusive")
    return form_fields(cast("FormInput", data or ()))
