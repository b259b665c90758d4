"""Names and values as a caller gives them, and as the text of a query or a form.

Nothing here knows URLs or bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast
from urllib.parse import quote_plus

from curlhttp.exceptions import InvalidURL

if TYPE_CHECKING:
    from curlhttp._models.inputs import FormInput, ParamsInput, Text

__all__ = ["encode_params", "pairs"]

_PLAIN_PARAM = re.compile(r"[\w.~-]*", re.ASCII).fullmatch


def encode_params(params: ParamsInput) -> str:
    """Encode parameters for a query or a form, by requests' rules.

    None values are dropped, a list repeats its name, everything else is taken by its str();
    text is UTF-8 and a blank is "+".

    Args:
        params: a mapping, pairs, or the finished text (returned as it is; bytes are UTF-8).

    Raises:
        InvalidURL: text that UTF-8 cannot express.
    """
    if isinstance(params, str):
        return params
    try:
        if isinstance(params, bytes):
            return params.decode()
        return "&".join(
            [
                f"{_form(name)}={_form(value)}"
                for name, values in pairs(params)
                for value in _each(values)
                if value is not None
            ]
        )
    except TypeError:
        if hasattr(params, "__iter__"):
            raise  # one of its values
        shown = type(params).__name__
        raise TypeError(
            f'params are a mapping, pairs or text, not {shown}: {{"page": 1}}'
        ) from None
    except UnicodeError:
        raise InvalidURL("parameters that are not Unicode text") from None


def _each(value: object) -> Iterable[object]:
    single = isinstance(value, (str, bytes, bytearray)) or not hasattr(value, "__iter__")
    return (value,) if single else cast("Iterable[object]", value)


def _form(value: object) -> str:
    if isinstance(value, (bytes, bytearray)):
        return quote_plus(bytes(value))
    text = value if isinstance(value, str) else str(value)
    return text if _PLAIN_PARAM(text) else quote_plus(text)


def pairs(source: FormInput) -> Iterable[tuple[Text, object]]:
    """Give the (name, value) pairs of a mapping or of an iterable of pairs."""
    # dict first: the check of an ABC is slow
    return source.items() if isinstance(source, (dict, Mapping)) else source
