"""What --json shows of one request: one line of JSON, with the names that `fetch` has."""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from curlhttp._models.redaction import redact_url

if TYPE_CHECKING:
    from curlhttp.cli.body import MeasuredBody
    from curlhttp.exceptions import RequestException

__all__ = ["escape_controls", "print_document", "print_error", "print_response"]

_CONTROLS = re.compile("[\x7f-\x9f]")
_PHASES = ("queue", "dns", "connect", "tls", "first_byte", "total")


def escape_controls(text: str) -> str:
    """Return JSON with the control characters escaped that json leaves as they are: DEL and C1."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_document(fields: dict[str, object]) -> None:
    """Write a line of JSON to stdout."""
    text = escape_controls(json.dumps(fields, ensure_ascii=False))
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


def print_response(reading: MeasuredBody, path: Path | None) -> None:
    """Write a response and its body.

    Args:
        reading: the body was read.
        path: the file where it is; None where it was kept.
    """
    response = reading.response
    headers: dict[str, list[str]] = {}
    for name, value in response.headers.multi_items():
        headers.setdefault(name.lower(), []).append(value)
    timings = response.timings
    first = (response.history or [response])[0].request
    fields: dict[str, object] = {
        "method": first.method,
        "url": redact_url(first.url),
        "final_url": redact_url(response.request.url) if response.history else None,
        "status": response.status_code,
        "reason": response.reason,
        "http_version": response.http_version,
        "headers": headers,
        "attempts": max(1, len(response.attempts)),
        "redirects": len(response.history),
        "timings": {name: round(getattr(timings, name), 6) for name in _PHASES},
        "elapsed": round(reading.total, 6),
        "size": reading.size,
    }
    print_document({**fields, **_body(reading, path)})


def _body(reading: MeasuredBody, path: Path | None) -> dict[str, object]:
    if path is not None:
        return {"file": str(path)}
    kept = b"".join(reading.kept)
    try:
        return {"body": kept.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(kept).decode()}


def print_error(error: RequestException, method: str, url: str) -> None:
    """Write what went wrong, where no response came."""
    print_document(
        {
            "method": method,
            "url": redact_url(url),
            "status": None if error.response is None else error.response.status_code,
            "error": type(error).__name__,
            "message": str(error),
        }
    )
