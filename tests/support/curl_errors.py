"""Errors as clients raise them for a code of libcurl, without a transfer."""

from __future__ import annotations

from typing import Any

from curlhttp import Client, ClientRequest, RequestException
from curlhttp._libcurl.errors import TransferFailure, find_descriptor_shortage, make_error


def error_of_code(
    code: int, url: str = "https://a.test/", *, proxy: str | None = None, **facts: Any
) -> RequestException:
    """Return the exception that a code becomes.

    Args:
        code: of libcurl.
        url: of the request.
        proxy: of the request.
        facts: what else is known of the transfer.
    """
    with Client(trust_env=False) as client:
        request = client.build_request("GET", url, proxies=proxy)
    known: dict[str, Any] = {
        "request": request,
        "code": code,
        "message": "what libcurl said",
        "sent": True,
        "has_head": False,
        "os_errno": 0,
        "connect_code": 0,
        "timings": None,
        "deadline_passed": False,
        "aborted_resend": False,
    }
    return make_error(TransferFailure(**{**known, **facts}))


def find_shortage(code: int, os_errno: int = 0) -> RequestException | None:
    """Return the exception that a code becomes where descriptors are short, else None."""
    request = ClientRequest("GET", "https://h.test/")
    return find_descriptor_shortage(request, code, "why", os_errno)
