"""From a request to what an app is told of it."""

from __future__ import annotations

from urllib.parse import unquote

from curlhttp._models.request import Request

__all__ = ["asgi_scope", "request_fields"]

_ANNOUNCES_NO_BODY = ("PATCH", "POST", "PUT")  # with Content-Length: 0 (RFC 9110, section 8.6)


def request_fields(request: Request) -> list[tuple[str, str]]:
    """Return all header fields of a request, with those that libcurl would add."""
    fields = request.headers.multi_items()
    names = {name.lower() for name, _ in fields}
    if "host" not in names:
        fields.insert(0, ("Host", request.url.authority))
    body = request.body
    if body is None:
        if request.method in _ANNOUNCES_NO_BODY and "content-length" not in names:
            fields.append(("Content-Length", "0"))
    elif body.length is None:
        fields.append(("Transfer-Encoding", "chunked"))
    else:
        fields.append(("Content-Length", str(body.length)))
    return fields


def asgi_scope(
    kind: str,
    request: Request,
    *,
    client: tuple[str, int] | None,
    root_path: str,
    state: dict[str, object] | None,
) -> dict[str, object]:
    """Return the scope of a request, of spec version 2.4.

    Args:
        kind: "http" or "websocket".
        request: complete.
        client: address and port on the client's side, or None.
        root_path: where the app is mounted.
        state: what the app's lifespan made, or None where it has none.
    """
    url = request.url
    scheme = url.scheme if kind == "http" else {"http": "ws", "https": "wss"}[url.scheme]
    scope: dict[str, object] = {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": scheme,
        "path": unquote(url.path),
        "raw_path": url.path.encode("ascii"),
        "query_string": url.query.encode("ascii"),
        "root_path": root_path,
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in request_fields(request)
        ],
        "client": None if client is None else tuple(client),
        "server": (url.host, url.port),
        "extensions": {},
    }
    if kind == "http":
        scope["method"] = request.method
    if state is not None:
        scope["state"] = state.copy()
    return scope
