"""Read JSON from a text or a body, and convert it to the user's types; errors say what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from curlhttp.exceptions import JSONDecodeError, JSONTypeError


# Any: as of json.loads; the drop-in's responses are another class.
def read_json(
    body: str | bytes,
    options: dict[str, Any],
    response: Any,
    loads: Callable[..., Any] = json.loads,
) -> Any:
    """Return a body read as JSON.

    Args:
        body: the body of the response, or its text.
        options: passed on to loads.
        response: provides the text for the error; None for what is no body of a response.
        loads: json.loads, or the user's function.

    Raises:
        JSONDecodeError: the body is not JSON, or exceeds the limits of Python's parser.
    """
    try:
        return loads(body, **options)
    except json.JSONDecodeError as error:
        raise _make_json_error(error.msg, error.doc, response, error.pos) from error
    except UnicodeDecodeError as error:
        raise _make_json_error(f"the body is not {error.encoding}", body, response) from error
    except RecursionError as error:
        raise _make_json_error("the body is nested too deeply", body, response) from error
    except ValueError as error:
        if loads is json.loads and type(error) is not ValueError:
            raise  # from a function among the options; json raises one for thousands of digits
        raise _make_json_error(str(error), body, response) from error


def convert_json(value: object, to: object, where: str = "") -> object:
    """Return a value that was read as JSON as another type.

    Args:
        value: the value.
        to: the type; see `Response.json`.
        where: the end of the error's message.

    Raises:
        JSONTypeError: the value does not fit the type.
        TypeError: curlhttp cannot create values of this type.
    """
    from curlhttp._http.json_types import Misfit, convert

    try:
        return convert(value, to)
    except Misfit as misfit:
        # The __qualname__ of list[User] is "list".
        shown = to if hasattr(to, "__args__") else getattr(to, "__qualname__", to)
        error = JSONTypeError(f"the JSON does not fit {shown}: {misfit}{where}")
        raise error from misfit.__cause__


# Any: see read_json
def _make_json_error(
    what: str, body: str | bytes, response: Any, position: int = 0
) -> JSONDecodeError:
    if isinstance(body, str):
        text = body
    else:
        text = body.decode(errors="replace") if response is None else response.text
    error = JSONDecodeError(what, text, position, response=response)
    describe = getattr(response, "_describe", None)  # the raw response of the drop-in has none
    if describe is not None:
        error._detail = f"; {describe(text)}"
    return error
