"""From a request to what a WSGI app is told of it (PEP 3333)."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

from curlhttp._apps.scope import request_fields
from curlhttp._models.body import Body
from curlhttp._models.request import Request

__all__ = ["environ_of"]

_PIECE = 64 * 1024
_BARE = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


def environ_of(
    request: Request,
    *,
    client: tuple[str, int] | None,
    root_path: str,
    failed: Callable[[BaseException], object],
) -> dict[str, Any]:  # Any: texts, and what begins with "wsgi."
    """Return the environ of a request.

    Args:
        request: complete.
        client: address and port on the client's side, or None.
        root_path: where the app is mounted: SCRIPT_NAME for the paths below it.
        failed: called with what the request's body raises.
    """
    url = request.url
    script, path = "", url.path
    root_path = root_path.rstrip("/")
    if root_path and (path == root_path or path.startswith(f"{root_path}/")):
        script, path = root_path, path[len(root_path) :]
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": _native(script),
        "PATH_INFO": _native(path),
        "QUERY_STRING": url.query,
        "REQUEST_URI": url.target,  # as it was, which PATH_INFO does not tell
        "RAW_URI": url.target,
        "SERVER_NAME": url.host,
        "SERVER_PORT": str(url.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": url.scheme,
        "wsgi.input": _input(request.body, failed),
        "wsgi.input_terminated": True,  # it ends where the body does, whatever its length
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    if client is not None:
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = client[0], str(client[1])
    for name, value in request_fields(request):
        key = name.upper().replace("-", "_")
        key = key if key in _BARE else f"HTTP_{key}"
        if key in environ:
            value = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ', '}{value}"
        environ[key] = value
    return environ


def _native(path: str) -> str:
    """Return a path without its escapes, each byte as a character of latin-1."""
    return unquote_to_bytes(path).decode("latin-1")


def _input(body: Body | None, failed: Callable[[BaseException], object]) -> io.BufferedIOBase:
    if body is None or body.data is not None:
        return io.BytesIO(b"" if body is None or body.data is None else body.data)
    return io.BufferedReader(_BodyReader(body, failed))


class _BodyReader(io.RawIOBase):
    """A request's body as a file, read when the app asks for it."""

    def __init__(self, body: Body, failed: Callable[[BaseException], object]) -> None:
        self._body = body
        self._failed = failed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # Any: typeshed's name for buffers is no type here
        try:
            piece = self._body.read(min(len(buffer), _PIECE))
        except BaseException as error:
            self._failed(error)
            raise
        buffer[: len(piece)] = piece
        return len(piece)
