"""What of a request and a response is not written into a recording: credentials, by their names.

A request that is to be played back is masked in the same way before it is compared, so that any
value of a masked parameter fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote_plus

from curlhttp._models.headers import Headers
from curlhttp._models.scrub import is_secret_header, scrub_field, scrub_text, scrub_url
from curlhttp._models.url.url import URL

__all__ = ["FORM", "Masks"]

_MASK = "***"
FORM = "application/x-www-form-urlencoded"
# Of JSON, and of whatever else has the same form, only strings are masked: numbers such as
# "max_tokens" are no secrets. A name of more than 64 characters is none either.
_MEMBERS = re.compile(r'"([^"\\]{1,64})"(\s*:\s*)"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
_SECRET_MEMBER = re.compile(
    r"token|secret|passw|passphrase|api_?key|access_?key|private_?key|credential|signature"
    r"|assertion|authorization",
    re.IGNORECASE,
).search
_PAIRS = re.compile(r"([?&;]|^)([^=&;#?/]*)=([^&;#]*)")


class Masks:
    """Mask what carries credentials.

    Args:
        names: of headers, parameters, form fields and members of JSON to be masked as well.

    Raises:
        TypeError: the names are one string, whose letters would be masked, and it would not.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        if isinstance(names, (str, bytes)):
            raise TypeError("secrets must be a list of names, not one string")
        self._names = frozenset(name.lower() for name in names)

    def url(self, url: URL | str) -> str:
        """Return a URL with the values of its secret parameters masked."""
        return self._pairs(scrub_url(url))

    def headers(self, headers: Headers) -> list[tuple[str, str]]:
        """Return the fields, those that are secret masked.

        Of cookies the names are left, and of Authorization the scheme.
        """
        secret = self._names | headers.sensitive
        return [
            (name, self._field(name, value, is_secret=name.lower() in secret))
            for name, value in headers.multi_items()
        ]

    def _field(self, name: str, value: str, *, is_secret: bool) -> str:
        lower = name.lower()
        if lower == "set-cookie":
            cookie, semicolon, attributes = value.partition(";")
            return f"{cookie.partition('=')[0]}={_MASK}{semicolon}{attributes}"
        if lower == "cookie":
            names = [crumb.partition("=")[0].strip() for crumb in value.split(";")]
            return "; ".join(f"{name}={_MASK}" for name in names)
        if is_secret or is_secret_header(name):
            scheme, blank, _ = value.partition(" ")
            return f"{scheme} {_MASK}" if blank and lower.endswith("authorization") else _MASK
        value = scrub_field(name, value)
        return self._pairs(value) if lower in {"location", "referer"} else value

    def body(self, body: bytes, media_type: str) -> bytes:
        """Return a body with its secrets masked, as it is if it is no text.

        Args:
            body: without content coding.
            media_type: its Content-Type.
        """
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return body
        if media_type.lower().startswith(FORM):
            return self._pairs(scrub_text(text)).encode()
        return _MEMBERS.sub(self._member, text).encode() if '"' in text else body

    def _member(self, found: re.Match[str]) -> str:
        name = found[1]
        if name.lower() in self._names or _SECRET_MEMBER(name):
            return f'"{name}"{found[2]}"{_MASK}"'
        if "://" in found[3]:
            return f'"{name}"{found[2]}"{self._pairs(scrub_text(found[3]))}"'
        return found[0]

    def _pairs(self, text: str) -> str:
        if not self._names:
            return text
        return _PAIRS.sub(self._pair, text)

    def _pair(self, found: re.Match[str]) -> str:
        is_secret = unquote_plus(found[2]).lower() in self._names
        return f"{found[1]}{found[2]}={_MASK}" if is_secret else found[0]
