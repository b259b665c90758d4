"""Functions with which a client writes and reads JSON, instead of Python's json."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from curlhttp._http.suggestions import with_suggestions


@with_suggestions("JSON")
class JSON:
    """Choose the functions with which a client writes and reads JSON, such as those of orjson.

        client = curlhttp.Client(json=curlhttp.JSON(loads=orjson.loads, dumps=orjson.dumps))

    `dumps` creates the body for `json=`, and `loads` the value of `response.json()`.

    Args:
        loads: returns the value of a body, which it gets as bytes, or as str if you have set
            `response.encoding` or if the body is in no Unicode encoding. It also gets the keyword
            arguments of `response.json()`.
        dumps: returns the JSON of a value as bytes, or as str, which is sent as UTF-8.

    Raises:
        TypeError: one of them is not a function.
    """

    # Any: as of json.loads.
    def __init__(
        self,
        *,
        loads: Callable[..., Any] | None = None,
        dumps: Callable[[object], bytes | str] | None = None,
    ) -> None:
        for name, function in (("loads", loads), ("dumps", dumps)):
            if not (function is None or callable(cast(object, function))):
                kind = type(function).__name__
                raise TypeError(f"{name} must be a function, such as json.{name}, not {kind}")
        self.loads = loads
        self.dumps = dumps

    def _encode(self, value: object) -> bytes:
        """Return the body for a value.

        Raises:
            ValueError: JSON cannot express the value.
            TypeError: JSON cannot express the value, or `dumps` returned neither bytes nor str.
        """
        assert self.dumps is not None
        found = self.dumps(value)
        if isinstance(found, str):
            return found.encode()
        if isinstance(found, (bytes, bytearray, memoryview)):
            return bytes(found)
        raise TypeError(f"dumps returned {type(found).__name__}, not bytes or str")

    def __repr__(self) -> str:
        return f"JSON(loads={self.loads!r}, dumps={self.dumps!r})"


def check_json(codec: object) -> None:
    """Check the setting `json` of a client.

    Raises:
        TypeError: this is not a JSON.
    """
    if not isinstance(codec, JSON):
        kind = type(codec).__name__
        raise TypeError(
            f"json must be a curlhttp.JSON(loads=, dumps=), not {kind}; the json= of a request "
            "is its body"
        )
