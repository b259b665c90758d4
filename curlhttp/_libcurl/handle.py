"""Set the options of an easy handle, and reset those that must not stay on an idle one.

Setting all options for each request costs a quarter of a small request, so a handle remembers them
and sets only those that differ. It knows no transfer; it gets its callbacks once, when it is made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from curlhttp._http.config import Limits, NetworkRoute, Proxy, ShareKey
from curlhttp._http.headers import ANNOUNCES_NO_BODY, WITHOUT_HOST
from curlhttp._http.request import ClientRequest
from curlhttp._http.timeout import Timeout
from curlhttp._http.url import URL
from curlhttp._libcurl import USES_SCHANNEL, pycurl
from curlhttp._libcurl.options import (
    address_options,
    base_options,
    body_headers,
    default_authorities,
    get_connect_ms,
    get_trust_flags,
    limit_options,
    route_options,
)

if TYPE_CHECKING:
    from curlhttp._libcurl.libcurl_log import DebugLog

# --- Share connections and names only between requests with the same share key (CURLSH) ---
#
# libcurl reuses a connection for another request to the same host even if that one uses another
# name server, and a curl_multi has a single cache of names.

_MAX_SHARES = 256  # because each request may have another one


class Shares:
    """One pycurl.CurlShare for each share key, for handles that one thread uses at a time.

    Args:
        common: for requests without a share key; None for the connections of their curl_multi.
    """

    __slots__ = ("_by_key",)

    def __init__(self, common: pycurl.CurlShare | None = None) -> None:
        self._by_key: dict[ShareKey | None, pycurl.CurlShare | None] = {None: common}

    def get(self, key: ShareKey | None) -> pycurl.CurlShare | None:
        """Return the share for a key; None for the connections and names of the curl_multi."""
        if key in self._by_key:
            return self._by_key[key]
        if len(self._by_key) > _MAX_SHARES:  # its handles keep the share until they get another one
            del self._by_key[next(each for each in self._by_key if each is not None)]
        share = self._by_key[key] = pycurl.CurlShare()
        share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_CONNECT)
        share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_DNS)
        return share

    def clear(self) -> None:
        """Release all of them, after their handles were closed."""
        self._by_key.clear()


_UNUSED_OPTIONS = (
    # ALLOW_BEAST, EARLYDATA; NO_REVOKE, REVOKE_BEST_EFFORT, AUTO_CLIENT_CERT. 1 << 7 is none.
    (1 << 0, 1 << 6, 1 << 7) if USES_SCHANNEL else (1 << 1, 1 << 3, 1 << 5)
)
_UPLOAD_BUFFER = 256 * 1024  # bytes
_LARGE_UPLOAD = 16 * _UPLOAD_BUFFER
_UNSENT = rb"proxy-authorization|content-length|transfer-encoding"
_SECRET = frozenset({b"authorization", b"cookie", *_UNSENT.split(b"|")})
_NOT_OURS = rb"(?i:%b)\s*[:;]" % _UNSENT  # compiled when it is first used


class Callbacks(Protocol):
    """What libcurl calls during a request; nothing here may raise.

    An exception in a callback breaks all other transfers of a curl_multi.
    """

    lines: list[bytes]  # of a head whose body is kept in memory

    def on_body(self, piece: bytes, /) -> int | None: ...
    def on_header(self, line: bytes, /) -> int | None: ...  # of a head whose body is streamed
    def on_piece(self, piece: bytes, /) -> int | None: ...
    def on_limited(self, piece: bytes, /) -> int | None: ...  # in place of on_body and on_piece
    def on_read(self, size: int, /) -> bytes | int: ...
    def on_lookup(self) -> int: ...
    def on_socket(self, descriptor: int, purpose: int, /) -> int: ...
    def on_send(self, *route: object) -> int: ...
    @property
    def on_open(self) -> Callable[..., object]: ...  # this and the next two only with a guard
    def on_guarded_socket(self, descriptor: int, purpose: int, /) -> int: ...
    def on_guarded_send(self, *route: object) -> int: ...
    def on_discard(self, peer: str, own: str, port: int, own_port: int, /) -> int: ...
    def on_progress(self, *sizes: int) -> int: ...  # only of a tunnel without credentials
    def on_log(self, kind: int, text: bytes, /) -> None: ...


class Handle:
    """One pycurl.Curl, for one request after another.

    Args:
        limits: the client's limits.
        callbacks: are called for each request; a Transfer.
        shares: hold the connections of each share key.

    Attributes:
        easy: the pycurl.Curl.
        _connects_only: it opens a connection, sends nothing, and keeps it (CURLOPT_CONNECT_ONLY).
        multiplexes: the request may share its connection with other requests.
        is_discarding: see `discard_next`.
        is_dirty: some options must be reset before the next request; see `clean`.
    """

    __slots__ = (
        "_attempt_ms",
        "_avoids_reuse",
        "_bare_lines",
        "_body_lines",
        "_callbacks",
        "_clears_headers",
        "_connect_ms",
        "_connects_only",
        "_custom",
        "_generation",
        "_has_body",
        "_has_body_lines",
        "_header_lines",
        "_lacks_authorities",
        "_limits",
        "_log",
        "_method",
        "_needs_reset",
        "_reads_log",
        "_route",
        "_share_key",
        "_shares",
        "_timeout",
        "_timeout_ms",
        "_url",
        "_waits_to_share",
        "easy",
        "is_dirty",
        "is_discarding",
        "multiplexes",
        "streams",
    )

    def __init__(self, limits: Limits, callbacks: Callbacks, shares: Shares) -> None:
        self.easy = pycurl.Curl()
        self._limits = limits
        self._callbacks = callbacks
        self.multiplexes = False
        self._shares = shares
        self._set_share(None)
        self._set_base()

    def _set_base(self) -> None:
        easy, callbacks = self.easy, self._callbacks
        self._url = ""
        self._method = "GET"
        self._custom = ""  # CURLOPT_CUSTOMREQUEST
        self._header_lines: list[bytes] | None = None
        # Of the last request that needed lines about its body: without and with these lines.
        self._bare_lines: list[bytes] | None = None
        self._body_lines: list[bytes] = []
        self._route: NetworkRoute | None = None
        self._timeout: Timeout | None = None
        self._connect_ms = self._timeout_ms = self._attempt_ms = self._generation = 0
        self._has_body = self._waits_to_share = self._avoids_reuse = False
        self.streams: bool | str = False
        self._has_body_lines = False  # a line with the length of the body, or of none
        self._needs_reset = self._clears_headers = self._reads_log = False
        self._lacks_authorities = False  # they are set for the first URL that needs them
        self._log: DebugLog | None = None
        self._connects_only = False
        self.is_dirty = self.is_discarding = False
        for option, value in (*base_options(), *limit_options(self._limits)):
            self._set(option, value)
        easy.setopt(pycurl.HEADERFUNCTION, callbacks.lines.append)
        easy.setopt(pycurl.WRITEFUNCTION, callbacks.on_body)
        easy.setopt(pycurl.PREREQFUNCTION, callbacks.on_send)
        easy.setopt(pycurl.SOCKOPTFUNCTION, callbacks.on_socket)
        easy.setopt(pycurl.RESOLVER_START_FUNCTION, callbacks.on_lookup)

    def _set(self, option: int, value: object) -> None:
        if value is None:
            self.easy.unsetopt(option)
        else:
            self.easy.setopt(option, value)

    def prepare(self, request: ClientRequest) -> None:
        """Set the options that the request needs, if they are not set yet.

        Args:
            request: complete; its deadline, if any, becomes CURLOPT_TIMEOUT_MS.
        """
        easy = self.easy
        route = request.route
        if route is not self._route and route != self._route:
            self._set_route(route)
        url = request.url.wire
        # Most requests of a handle go to the same URL as the last one, with the same settings.
        if url != self._url:
            easy.setopt(pycurl.URL, url)
            self._url = url
            if "#" in url:
                self._set_target(request.url, route.proxy)
            if self._lacks_authorities and (request.url.scheme != "http" or route.doh is not None):
                self._lacks_authorities = False
                for option, value in default_authorities():
                    easy.setopt(option, value)
            self.multiplexes = may_multiplex(request)
            self.wait_to_share(self.multiplexes)
            if route.addresses and route.checked_address is None:
                for option, value in address_options(route, request.url):
                    easy.setopt(option, value)
            if route.proxy is not None:
                self._limit_tunnel(route.proxy, tunnels=request.url.scheme == "https")
        body = request.body
        if body is not None or request.method != self._method or self._has_body:
            self._set_method(request)
        lines = request.header_lines()
        if self._has_body_lines:
            if lines is not self._bare_lines:
                self._bare_lines, self._body_lines = lines, body_headers(lines)
            lines = self._body_lines
        if lines is not self._header_lines:
            self._set_headers(request, lines)
        if request.timeout is not self._timeout:
            self._set_connect_timeout(request.timeout)
        if request.deadline is not None or self._timeout_ms:
            self.set_deadline(request.deadline)
        if request.stream is not self.streams:
            self.set_streaming(request.stream)
        if request._connects_only:
            self._set_connecting(route.proxy)

    @property
    def is_special(self) -> bool:
        """Return whether it has settings that only some requests need."""
        return (
            self._has_body
            or self._has_body_lines
            or bool(self.streams)
            or self._timeout_ms > 0
            or self._connects_only
            or self.is_dirty
        )

    def _set_route(self, route: NetworkRoute) -> None:
        if self._route is not None:
            self.easy.reset()
            self._set_base()
        for option, value in route_options(route):
            self._set(option, value)
        self._lacks_authorities = route.tls.verify is True
        self._route = route
        if (key := route.share_key) != self._share_key:
            self.easy.unsetopt(pycurl.SHARE)
            self._set_share(key)
        if route.guard is not None:
            self.easy.setopt(pycurl.OPENSOCKETFUNCTION, self._callbacks.on_open)
            self.easy.setopt(pycurl.SOCKOPTFUNCTION, self._callbacks.on_guarded_socket)
            self._set_connection_check()
        if route.max_receive_rate is not None:
            self.easy.setopt(pycurl.WRITEFUNCTION, self._callbacks.on_limited)
        # Credentials must not outlive their request on a handle. Many of curl's advisories of 2026
        # are about state that did.
        proxy = route.proxy
        if route.sends_certificate or (
            proxy is not None and (proxy.username is not None or bool(proxy.headers))
        ):
            self._needs_reset = self.is_dirty = True

    def _set_share(self, key: ShareKey | None) -> None:
        self._share_key = key
        share = self._shares.get(key)
        if share is not None:
            self.easy.setopt(pycurl.SHARE, share)  # survives reset()

    def _set_target(self, url: URL, proxy: Proxy | None) -> None:
        # libcurl also sends it unchanged to a proxy, which needs the absolute form.
        is_forwarded = url.scheme == "http" and proxy is not None and proxy.url.startswith("http")
        target = url.absolute_target if is_forwarded else url.target
        self.easy.setopt(pycurl.REQUEST_TARGET, target)
        self._needs_reset = self.is_dirty = True

    def _set_headers(self, request: ClientRequest, lines: list[bytes]) -> None:
        self._header_lines = lines
        names = {line.replace(b";", b":").partition(b":")[0].rstrip().lower() for line in lines}
        if not names.isdisjoint(_SECRET):
            self._clears_headers = self.is_dirty = True
            # A proxy's credentials would go to the origin; they belong in proxies=. libcurl
            # frames the body, because two different lengths could mean two messages. It keeps a
            # correct line in its place.
            framing = _framing(request)
            lines = [
                line for line in lines if not re.match(_NOT_OURS, line) or line.lower() == framing
            ]
        if request.get_header("accept") is None:
            lines = [*lines, b"Accept:"]  # libcurl would add one
        extensions = request.extensions
        if extensions is not None and extensions.get(WITHOUT_HOST) == request.url.authority:
            lines = [*lines, b"Host:"]
        self.easy.setopt(pycurl.HTTPHEADER, lines)

    def _set_method(self, request: ClientRequest) -> None:
        easy, method, body = self.easy, request.method, request.body
        # First, because unsetting NOBODY sets the method to GET.
        if self._method == "HEAD":
            easy.setopt(pycurl.NOBODY, 0)
        if method == "HEAD":
            easy.setopt(pycurl.NOBODY, 1)
            implied = "HEAD"
        elif body is None and method not in ANNOUNCES_NO_BODY:
            easy.setopt(pycurl.HTTPGET, 1)
            implied = "GET"
        elif body is None or body.data is not None:
            easy.setopt(pycurl.POSTFIELDS, b"" if body is None else body.data)
            implied = "POST"
        else:
            self._set_upload(body.length)
            implied = "PUT"
        # Set only where the options above imply another method, and unset otherwise.
        custom = "" if method == implied else method
        if custom != self._custom:
            self._set(pycurl.CUSTOMREQUEST, custom or None)
            self._custom = custom
        self._method = method
        self._has_body = body is not None
        self._has_body_lines = body is not None or method in ANNOUNCES_NO_BODY

    def _set_upload(self, length: int | None) -> None:
        # No SEEKFUNCTION, because libcurl would rewind the body and resend it unnoticed.
        self._needs_reset = self.is_dirty = True
        self.easy.setopt(pycurl.UPLOAD, 1)
        self.easy.setopt(pycurl.INFILESIZE_LARGE, -1 if length is None else length)
        self.easy.setopt(pycurl.READFUNCTION, self._callbacks.on_read)
        # Each read is a call into Python: with libcurl's 64 KiB an upload takes 1.4 times as long.
        # Smaller bodies are read in small pieces for those who count them to show progress.
        if length is None or length >= _LARGE_UPLOAD:
            self.easy.setopt(pycurl.UPLOAD_BUFFERSIZE, _UPLOAD_BUFFER)

    def _set_connect_timeout(self, timeout: Timeout) -> None:
        limit = get_connect_ms(timeout)
        if limit != self._connect_ms:
            self.easy.setopt(pycurl.CONNECTTIMEOUT_MS, limit)
            self._connect_ms = limit
        if timeout.attempt is not None or self._attempt_ms:
            self._attempt_ms = math.ceil((timeout.attempt or 0) * 1000)
            self.set_deadline(None)
        self._timeout = timeout

    def set_time_left(self, request: ClientRequest, seconds: float) -> None:
        """Leave a request that starts again the rest of its time.

        Args:
            request: has been prepared.
            seconds: how long it has waited for its names.
        """
        if request.timeout.connect is not None:
            limit = max(1, get_connect_ms(request.timeout) - int(seconds * 1000))
            self.easy.setopt(pycurl.CONNECTTIMEOUT_MS, limit)
            self._connect_ms = limit
            self._timeout = None  # so that the next request sets its own
        if request.deadline is not None:
            self.set_deadline(request.deadline)

    def set_deadline(self, deadline: float | None) -> None:
        """Make libcurl give up at a time (CURLOPT_TIMEOUT_MS).

        Args:
            deadline: monotonic, or None for never; the limit of an attempt applies as well.
        """
        left = self._attempt_ms
        if deadline is not None:
            until = max(1, math.ceil((deadline - monotonic()) * 1000))
            left = min(until, left) if left else until
        self.easy.setopt(pycurl.TIMEOUT_MS, left)
        self._timeout_ms = left

    def set_streaming(self, streams: bool | str) -> None:
        """Pass what arrives to the callbacks of streamed responses, or of others.

        Args:
            streams: as of a request; IF_LARGE is not streamed until the body is large.
        """
        # Kept until a request needs the other way; a handle that streamed often streams again.
        easy, callbacks, at_once = self.easy, self._callbacks, streams is True
        easy.setopt(
            pycurl.HEADERFUNCTION, callbacks.on_header if at_once else callbacks.lines.append
        )
        if self._route is None or self._route.max_receive_rate is None:
            easy.setopt(pycurl.WRITEFUNCTION, callbacks.on_piece if at_once else callbacks.on_body)
        easy.setopt(pycurl.OPT_CERTINFO, int(at_once))  # a streamed response can report it
        self.streams = streams

    def _set_connecting(self, proxy: Proxy | None) -> None:
        self._needs_reset = self.is_dirty = self._connects_only = True
        self.easy.setopt(pycurl.CONNECT_ONLY, 1)
        self.easy.setopt(pycurl.FRESH_CONNECT, 1)
        self.easy.setopt(pycurl.FORBID_REUSE, 0)  # libcurl would close it at once
        self.easy.setopt(pycurl.HTTPPROXYTUNNEL, 1)  # a proxy does not know the other protocol
        self.easy.unsetopt(pycurl.PREREQFUNCTION)
        if proxy is not None:
            self._limit_tunnel(proxy, tunnels=True)

    def _limit_tunnel(self, proxy: Proxy, *, tunnels: bool) -> None:
        """Count what a proxy sends before there is a tunnel.

        Without credentials, libcurl (8.23) reads the body of a 407 byte by byte in one call, in
        which no timeout counts. It calls this callback for each byte.
        """
        counts = tunnels and proxy.username is None and proxy.url.startswith("http")
        if counts:
            self.easy.setopt(pycurl.XFERINFOFUNCTION, self._callbacks.on_progress)
        self.easy.setopt(pycurl.NOPROGRESS, int(not counts))

    # which connection

    def wait_to_share(self, waits: bool) -> None:
        """Wait for a connection that can be shared, or open another one (CURLOPT_PIPEWAIT)."""
        if waits is not self._waits_to_share:
            self.easy.setopt(pycurl.PIPEWAIT, int(waits))
            self._waits_to_share = waits

    def set_generation(self, generation: int) -> None:
        """Share no connection with requests of another generation.

        libcurl has no option to avoid one connection, but requests whose CURLOPT_SSL_OPTIONS
        differ never share one. The bits that differ here only matter to other TLS libraries.

        Args:
            generation: from 0 to 7.
        """
        if generation != self._generation:
            route = self._route
            options = get_trust_flags(True if route is None else route.tls.verify)
            for bit, option in enumerate(_UNUSED_OPTIONS):
                options |= option * (generation >> bit & 1)
            self.easy.setopt(pycurl.SSL_OPTIONS, options)
            self._generation = generation
            self.is_dirty = True

    def end_connection(self) -> None:
        """Make libcurl close the connection of a running request, if no other request uses it."""
        self._needs_reset = self.is_dirty = True
        self.easy.setopt(pycurl.FORBID_REUSE, 1)

    def receive_more(self, size: int) -> None:
        """Let a running request receive so many bytes at once."""
        self._needs_reset = self.is_dirty = True
        self.easy.setopt(pycurl.BUFFERSIZE, size)

    def avoid_reuse(self, avoids: bool) -> None:
        """Set whether the request opens a new connection (CURLOPT_FRESH_CONNECT)."""
        if avoids is not self._avoids_reuse:
            self.easy.setopt(pycurl.FRESH_CONNECT, int(avoids))
            self._avoids_reuse = avoids
            self.is_dirty = True

    def discard_next(self) -> None:
        """Make libcurl close the idle connection that it picks next; nothing is sent on it.

        Otherwise it would offer a connection that has ended to each request until its own check.
        """
        self.is_discarding = self._needs_reset = self.is_dirty = True
        self.avoid_reuse(False)
        self.easy.setopt(pycurl.FORBID_REUSE, 1)
        self.easy.setopt(pycurl.PREREQFUNCTION, self._callbacks.on_discard)

    def end_discarding(self) -> None:
        """Send the request, now that the connection is closed."""
        self.is_discarding = False
        self.easy.setopt(pycurl.FORBID_REUSE, int(self._limits.max_keepalive_connections == 0))
        self._set_connection_check()

    def _set_connection_check(self) -> None:
        route, callbacks = self._route, self._callbacks
        is_guarded = route is not None and route.guard is not None
        check = callbacks.on_guarded_send if is_guarded else callbacks.on_send
        self.easy.setopt(pycurl.PREREQFUNCTION, check)

    # log, and end

    def read_log(self, log: DebugLog | None = None) -> None:
        """Read libcurl's log of the request, which costs 10 us.

        Args:
            log: collects it and passes it on until `clean`; or None.
        """
        if self._reads_log:  # a DebugLog passes each line on
            return
        self.easy.setopt(pycurl.VERBOSE, 1)
        self.easy.setopt(pycurl.DEBUGFUNCTION, log or self._callbacks.on_log)
        self._log = log
        self._reads_log = self.is_dirty = True

    def mark_log(self) -> None:
        """Leave out what libcurl logs until `cut_log`, if there is a log."""
        if self._log is not None:
            self._log.mark()

    def cut_log(self) -> None:
        """Log again what libcurl logs."""
        if self._log is not None:
            self._log.cut()

    def note(self, text: str) -> None:
        """Add a line to the log, if there is one, about something that libcurl does not know."""
        if self._log is not None:
            self._log.note(text)

    def clean(self) -> None:
        """Reset the options that must not stay on an idle handle."""
        if self._needs_reset:  # cheaper than remembering what each of those options was
            self.easy.reset()
            self._set_base()
            return
        self.avoid_reuse(False)
        self.set_generation(0)
        self.is_dirty = False
        if self._reads_log:
            self.easy.setopt(pycurl.VERBOSE, 0)
            self._reads_log = False
            self._log = None
        if self._clears_headers:
            self.easy.setopt(pycurl.HTTPHEADER, [])
            self._header_lines = self._bare_lines = None
            self._body_lines = []
            self._clears_headers = False

    def close(self) -> None:
        """Close the handle, and the connections that only it has."""
        self.easy.close()
        del self._shares
        del self._callbacks  # they hold the transfer, which holds this handle: a cycle


def _framing(request: ClientRequest) -> bytes:
    """Return the header line that libcurl would add for the body, in lower case."""
    length = 0 if request.body is None else request.body.length
    return b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length


def may_multiplex(request: ClientRequest) -> bool:
    """Return whether the request may share its connection with others."""
    http2 = request.route.http2
    return (
        bool(request.route.http3)
        or http2 == "prior-knowledge"
        or (http2 is True and request.url.scheme == "https")
    )
