"""A request as it goes out, for whoever looks: its header fields, and a glance at its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curlhttp._models.headers import Headers
from curlhttp._models.masks import FORM, Masks

if TYPE_CHECKING:
    from curlhttp._models.body.body import Body
    from curlhttp._models.request import Request

__all__ = ["ANNOUNCES_NO_BODY", "sent_headers", "shown_body", "shown_request"]

ANNOUNCES_NO_BODY = ("PATCH", "POST", "PUT")  # with Content-Length: 0 (RFC 9110, section 8.6)
_FRAMING = frozenset({"content-length", "transfer-encoding", "proxy-authorization"})
_JSON = "application/json"
_LOOKED_AT, _SHOWN = 64 * 1024, 60  # bytes of a body


def sent_headers(request: Request) -> Headers:
    """Return the header fields as they go out, with those that libcurl adds.

    Host comes first, as on the wire. What a request says of its own body is put right there, and
    Proxy-Authorization is left out: `proxies=` has the place for that.
    """
    own = request.headers
    host = own.get("host")
    fields = [("Host", request.url.authority if host is None else host)]
    left_out = {*_FRAMING, "host"}
    fields += [(name, value) for name, value in own.multi_items() if name.lower() not in left_out]
    body = request.body
    if body is not None and body.length is None:
        fields.append(("Transfer-Encoding", "chunked"))
    elif body is not None or request.method in ANNOUNCES_NO_BODY:
        fields.append(("Content-Length", str(0 if body is None else body.length)))
    return Headers(fields, sensitive=own.sensitive)


def shown_body(body: Body, media_type: str | None = None) -> str:
    """Return what kind of body it is, its length, and the first bytes of a form and of JSON.

    There, values whose names speak of credentials are masked. What else is secret in a body, and
    in the parts of a form with files, nobody can tell: nothing of those is shown.

    Args:
        body: is not read for that.
        media_type: what the request says that it is; None for what the body itself says.
    """
    length = "unknown length" if body.length is None else f"{body.length} bytes"
    shown = f"{type(body).__name__}, {length}"
    data, kind = body.data, media_type or body.content_type or ""
    if data is None or not kind.startswith((FORM, _JSON)):
        return f"<{shown}>"
    masked = Masks().body(data[:_LOOKED_AT], kind)
    cut = "..." if len(masked) > _SHOWN or len(data) > _LOOKED_AT else ""
    return f"<{shown}: {masked[:_SHOWN]!r}{cut}>"


def shown_request(request: Request) -> str:
    """Return all that is sent, fit for a repr: no credentials."""
    fields = repr(sent_headers(request)).removeprefix("Headers(").removesuffix(")")
    body = request.body
    shown = None if body is None else shown_body(body, request.get_header("content-type"))
    return f"<Request [{request}] headers={fields} body={shown}>"
