"""How a request shows itself to people. What that takes is loaded when somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from curlhttp._models.headers import Headers
    from curlhttp._models.request import Request

__all__ = ["Shown"]


class Shown:
    """The part of a Request that shows it."""

    __slots__ = ()

    @property
    def sent_headers(self) -> Headers:
        """Return the header fields as they go out: with Host, and what frames the body.

        A copy: to send others, change `headers`. `Response.request` has also the Cookie and the
        Authorization that were sent. HTTP/2 sends Host as ":authority", and no Transfer-Encoding.
        """
        from curlhttp._models.as_sent import sent_headers

        return sent_headers(cast("Request", self))

    def to_curl(self, *, secrets: bool = False) -> str:
        """Return a command line of curl that sends the same, for a POSIX shell.

        Args:
            secrets: show credentials. Without, they are masked by their names, in headers, URLs,
                forms and JSON; in other bodies nobody can tell.
        """
        from curlhttp._models.as_curl import as_curl

        return as_curl(cast("Request", self), secrets=secrets)

    def __repr__(self) -> str:
        from curlhttp._models.as_sent import shown_request

        return shown_request(cast("Request", self))
