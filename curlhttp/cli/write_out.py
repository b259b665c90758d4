"""The format of -w, with curl's variables: %{http_code} and others."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from curlhttp._models.redaction import display_url, redact_text, redact_url
from curlhttp._policy.redirect import as_utf8
from curlhttp.cli.terminal import printable
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._models.response import Response

__all__ = ["check_format", "write_out"]

_VARIABLE = re.compile(r"%\{([^}]+)\}|%%|\\[nrt\\]")
_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\\": "\\", "%%": "%"}
_VERSIONS = {"HTTP/1.0": "1.0", "HTTP/1.1": "1.1", "HTTP/2": "2", "HTTP/3": "3"}


def _seconds(seconds: float) -> str:
    return f"{seconds:.6f}"


def _until(*names: str) -> Callable[[Response, int, float], str]:
    """Return what tells the sum of some timings, as curl's times count from the start."""
    return lambda response, *_: _seconds(sum(getattr(response.timings, name) for name in names))


def _peer(at: int, side: str) -> Callable[[Response, int, float], str]:
    def tell(response: Response, *_: object) -> str:
        address = getattr(response.timings, side)
        return "" if address is None else str(address[at])

    return tell


_VARIABLES: dict[str, Callable[[Response, int, float], str]] = {
    "content_type": lambda response, *_: redact_text(response.headers.get("content-type", "")),
    "http_code": lambda response, *_: f"{response.status_code:03}",
    "http_version": lambda response, *_: _VERSIONS.get(response.http_version, "0"),
    "local_ip": _peer(0, "local"),
    "local_port": _peer(1, "local"),
    "method": lambda response, *_: response.request.method,
    "num_redirects": lambda response, *_: str(len(response.history)),
    "redirect_url": lambda response, *_: _redirect_url(response),
    "remote_ip": _peer(0, "peer"),
    "remote_port": _peer(1, "peer"),
    "response_code": lambda response, *_: f"{response.status_code:03}",
    "scheme": lambda response, *_: response.request.url.scheme,
    "size_download": lambda _, size, __: str(size),
    "time_appconnect": _until("dns", "connect", "tls"),
    "time_connect": _until("dns", "connect"),
    "time_namelookup": _until("dns"),
    "time_starttransfer": _until("first_byte"),
    "time_total": lambda _, __, total: _seconds(total),
    "url": lambda response, *_: redact_url((response.history or [response])[0].request.url),
    "url_effective": lambda response, *_: redact_url(response.request.url),
}


def _redirect_url(response: Response) -> str:
    """Return where the response leads, as a whole URL without its secrets."""
    location = response.headers.get("location", "").strip()
    if not location:
        return ""
    try:
        return redact_url(response.request.url.join(as_utf8(location)))
    except RequestException:
        return display_url(location)


def check_format(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Refuse variables that we do not have; a callback of click.

    Raises:
        click.BadParameter: there is one; says which there are.
    """
    for name in _VARIABLE.findall(text or ""):
        if name and name not in _VARIABLES:
            raise click.BadParameter(
                f"there is no variable {name!r}; there are {', '.join(_VARIABLES)}"
            )
    return text


def write_out(text: str, response: Response, size: int, total: float) -> None:
    r"""Write a format to stdout, with its variables filled in, and \n, \r, \t and %%.

    Args:
        text: the format; check_format has let it through.
        response: whose body was read.
        size: bytes of that.
        total: seconds from the beginning of the first request to the end of that.
    """

    def filled(found: re.Match[str]) -> str:
        name = found[1]
        if not name:
            return _ESCAPES[found[0]]
        return printable(_VARIABLES[name](response, size, total))  # a server may have said it

    sys.stdout.write(_VARIABLE.sub(filled, text))
    sys.stdout.flush()
