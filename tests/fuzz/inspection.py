"""Use every attribute of a response or an error, and check what that may raise.

Nothing but what is documented: JSONDecodeError of json(), HTTPError of raise_for_status().
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

from curlhttp.exceptions import ContentDecodingError, HTTPError, RequestException
from tests.fuzz.case import SECRET

_ATTRIBUTES = (
    "status_code", "reason", "headers", "cookies", "encoding", "text", "links", "elapsed",
    "timings", "ok", "url", "history", "is_redirect", "http_version", "trailers", "request",
    "attempts", "is_success", "is_error", "apparent_encoding", "is_permanent_redirect", "next",
    "raw", "certificate",
)  # fmt: skip


class Surprise(Exception):
    """Report that looking at something went wrong; the cause is the exception."""


def look_at_response(response: Any) -> None:
    """Look at all of a response whose body was read, and of those that redirected to it.

    Raises:
        Surprise: something raised what it must not, or did not survive a pickle.
    """
    for earlier in response.history:
        # Else its body is broken, or was left unread as too long to discard, and says so.
        if getattr(earlier, "_content", None) not in (None, False):
            _look_at_one(earlier)
    _look_at_one(response)


def _look_at_one(response: Any) -> None:
    def may_be_coded(error: Exception) -> bool:
        """Return whether it says that a part of a coded body cannot be decoded on its own."""
        return isinstance(error, ContentDecodingError) and response.status_code == 206

    for name in _ATTRIBUTES:
        if hasattr(type(response), name) or name in vars(response):
            may_be = may_be_coded if name == "text" else _is_none
            _try(f".{name}", lambda name=name: getattr(response, name), may_be)  # type: ignore[misc]
    _try("headers", lambda: _look_at_headers(response.headers))
    _try("trailers", lambda: _look_at_headers(getattr(response, "trailers", {})))
    _try("cookies", lambda: _look_at_cookies(response.cookies))
    _try("repr", lambda: (repr(response), str(response), bool(response)))
    _try("json", response.json, lambda error: _is_json_error(error) or may_be_coded(error))
    _try("raise_for_status", response.raise_for_status, lambda error: isinstance(error, HTTPError))
    if hasattr(response, "raw"):
        _try("iter_lines", lambda: list(response.iter_lines()), may_be_coded)
    again = _try("pickle", lambda: pickle.loads(pickle.dumps(response)))
    if (again.status_code, again.content) != (response.status_code, response.content):
        raise Surprise("pickle: another response came out")
    if list(again.headers.items()) != list(response.headers.items()):
        raise Surprise("pickle: other headers came out")


def _look_at_headers(headers: Any) -> None:
    repr(headers), str(headers), len(headers), dict(headers), list(headers.items()), headers.copy()
    headers.get("content-type"), "x" in headers, headers == headers.copy()
    if hasattr(headers, "multi_items"):
        headers.multi_items(), headers.get_list("set-cookie")


def _look_at_cookies(cookies: Any) -> None:
    repr(cookies), len(cookies), list(cookies), cookies.get_dict(), cookies.copy()
    cookies.keys(), cookies.values(), cookies.items()
    pickle.loads(pickle.dumps(cookies))


def _is_json_error(error: Exception) -> bool:
    return isinstance(error, RequestException) and isinstance(error, ValueError)


def _is_none(error: Exception) -> bool:
    return False


def _try(what: str, look: Callable[[], Any], may_be: Callable[[Exception], bool] = _is_none) -> Any:
    try:
        return look()
    except Exception as error:
        if may_be(error):
            _try(f"{what}'s error", lambda error=error: _look_at_error(error))  # type: ignore[misc]
            return None
        raise Surprise(f"{what}: {type(error).__name__}") from error


def look_at_error(error: RequestException) -> None:
    """Look at all of an error.

    Raises:
        Surprise: something raised, did not survive a pickle, or shows the password.
    """
    _try("the error", lambda: _look_at_error(error))
    shown = f"{error} {error!r} {error.args!r}"
    if SECRET in shown:
        raise Surprise("the error shows the password")
    response = error.response
    if response is not None and getattr(response, "_content", None) not in (None, False):
        look_at_response(response)


def _look_at_error(error: Any) -> None:
    str(error), repr(error), error.args
    for name in ("request", "response", "curl_code", "request_sent", "timings", "attempts"):
        getattr(error, name)
    again = pickle.loads(pickle.dumps(error))
    copy.copy(error)
    says_all = all(
        isinstance(argument, str) for argument in error.args
    )  # urllib3's lose their pool
    if type(again) is not type(error) or (says_all and str(again) != str(error)):
        raise AssertionError(f"pickle: {again!r} came out of {error!r}")


def bytes_of(response: Any) -> bytes:
    """Return head and body of a response, for the stamps in it."""
    head = getattr(response, "_head", None)
    block = b"" if head is None else head.block + head.trailers
    content = getattr(response, "_content", b"")
    return bytes(block) + (content or b"")
