"""What is wrong with a request, or with how it is used; nothing of it was sent."""

from __future__ import annotations

from curlhttp.exceptions._base import RequestException

__all__ = [
    "ClientClosed",
    "InvalidHeader",
    "InvalidMethod",
    "InvalidProxyURL",
    "InvalidSchema",
    "InvalidURL",
    "MissingSchema",
    "URLRequired",
    "UnrewindableBodyError",
]


class InvalidURL(RequestException, ValueError):
    """Report a URL that cannot be sent as it is."""


class InvalidProxyURL(InvalidURL):
    """Report a proxy URL that cannot be used."""


class MissingSchema(RequestException, ValueError):
    """Report a URL without a scheme such as https://."""


class InvalidSchema(RequestException, ValueError):
    """Report a URL scheme other than http and https."""


class InvalidHeader(RequestException, ValueError):
    """Report a header name or value that must not reach the wire."""


class InvalidMethod(RequestException, ValueError):
    """Report a method that is not a token (RFC 9110, section 9.1)."""


class URLRequired(RequestException):
    """Report that no URL was given."""


class UnrewindableBodyError(RequestException):
    """Report a body that must be sent again and cannot be rewound."""


class ClientClosed(RequestException, RuntimeError):
    """Report the use of a client after close()."""
