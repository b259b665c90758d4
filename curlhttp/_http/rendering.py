"""Show requests: the repr, the header fields as sent, and the command line of curl."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from curlhttp._http.body_redaction import FORM, Redactor, search_charset
from curlhttp._http.config import names_folders
from curlhttp._http.credentials import encode_credential
from curlhttp._http.headers import ANNOUNCES_NO_BODY, WITHOUT_HOST, Headers
from curlhttp._http.url import bracketed

if TYPE_CHECKING:
    from curlhttp._http.body import Body
    from curlhttp._http.config import TLS, NetworkRoute, Proxy
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.timeout import Timeout
    from curlhttp._http.url import URL

_REPLACED = frozenset({"host", "content-length", "transfer-encoding", "proxy-authorization"})
_JSON = "application/json"
_LOOKED_AT, _SHOWN = 64 * 1024, 60  # bytes of a body


def sent_headers(request: ClientRequest) -> Headers:
    """Return the header fields as they are sent, including those that libcurl adds.

    Host comes first, as on the wire. Content-Length and Transfer-Encoding are those of the body,
    and Proxy-Authorization is left out, because `proxies=` sets it.
    """
    own = request.headers
    host = own.get("host")
    fields = [("Host", request.url.authority if host is None else host)]
    if request.extensions is not None and (
        request.extensions.get(WITHOUT_HOST) == request.url.authority
    ):
        fields.clear()
    fields += [(name, value) for name, value in own.multi_items() if name.lower() not in _REPLACED]
    body = request.body
    if body is not None and body.length is None:
        fields.append(("Transfer-Encoding", "chunked"))
    elif body is not None or request.method in ANNOUNCES_NO_BODY:
        fields.append(("Content-Length", str(0 if body is None else body.length)))
    return Headers(fields, sensitive=own.sensitive)


def repr_of_body(body: Body, media_type: str | None = None) -> str:
    """Return the class of a body, its length, and the first bytes of a form or JSON.

    Values whose names sound like credentials are masked. Secrets in other bodies, and in forms with
    files, cannot be found, so none of their content is shown.

    Args:
        body: it is not read.
        media_type: the Content-Type of the request; None for that of the body itself.
    """
    length = "unknown length" if body.length is None else f"{body.length} bytes"
    shown = f"{type(body).__name__}, {length}"
    data, kind = body.data, media_type or body.content_type or ""
    if data is None or not kind.startswith((FORM, _JSON)):
        return f"<{shown}>"
    masked = Redactor().body(data[:_LOOKED_AT], kind)
    cut = "..." if len(masked) > _SHOWN or len(data) > _LOOKED_AT else ""
    return f"<{shown}: {masked[:_SHOWN]!r}{cut}>"


def repr_of_request(request: ClientRequest) -> str:
    """Return the repr of a request: what is sent, without credentials."""
    fields = repr(sent_headers(request)).removeprefix("Headers(").removesuffix(")")
    body = request.body
    shown = None if body is None else repr_of_body(body, request.get_header("content-type"))
    return f"<ClientRequest [{request}] headers={fields} body={shown}>"


# --- the command line of curl, for a POSIX shell ---

_MASK = "***"
_LONGEST_ARGUMENT = 64 * 1024  # bytes; Linux allows 128 KiB; printf is a builtin without a limit
_FRAMED_BY_CURL = ("content-length", "transfer-encoding")
# curl adds these, unless an option such as --header 'Accept:' removes them.
_ADDED = ("User-Agent", "Accept")
_ADDED_WITH_BODY = ("Content-Type", "Expect")


def curl_command(request: ClientRequest, *, secrets: bool = False) -> str:
    """Return the command line of curl that sends a request, for a POSIX shell.

    Settings that curl does not have are listed in a comment at the end.

    Args:
        request: sent or not; its authentication is shown as far as it is known.
        secrets: show credentials. By default they are masked by their names, as in recordings,
            because command lines are copied to tickets and chats.
    """
    line = _Command(secrets)
    route: NetworkRoute | None = request.route
    line.add("curl")
    # curl would expand brackets in the URL and remove dot segments from its path.
    line.add("--globoff", "--path-as-is")
    if request.follow_redirects:
        line.add("--location")
    _add_method(line, request)
    if route is not None:
        _add_route(line, route, request.url)
    if request.timeout is not None:
        _add_timeout(line, request.timeout)
    _add_headers(line, request)
    if request.body is not None:
        _add_body(line, request, request.body)
    elif request.method in ANNOUNCES_NO_BODY:
        line.add("--data-raw", "")
    url = request.url.wire
    if "#" in url:
        proxy = None if route is None else route.proxy
        is_forwarded = url.startswith("http:") and proxy and proxy.url.startswith("http")
        target = request.url.absolute_target if is_forwarded else request.url.target
        line.add("--request-target", target if secrets else Redactor().url(target))
        url = f"{request.url.scheme}://{request.url.authority}/"
    line.add("--url", url if secrets else Redactor().url(url))
    return str(line)


class _Command:
    """The quoted words so far, the source of the body, and notes for the comment."""

    def __init__(self, secrets: bool) -> None:
        self.secrets = secrets
        self.input = ""
        self.notes: list[str] = []
        self._words: list[str] = []

    def add(self, *words: str | bytes) -> None:
        self._words += map(_quote, words)

    def __str__(self) -> str:
        note = f"  # {'; '.join(self.notes)}" if self.notes else ""
        return self.input + " ".join(self._words) + note


def _quote(word: str | bytes) -> str:
    if isinstance(word, bytes):
        return f'"$({_printf(word)})"'
    return shlex.quote(word)


def _printf(data: bytes) -> str:
    """Return the command that writes any bytes: no shell variable holds NUL, and few hold \\xff."""
    plain = [
        f"\\{byte:03o}" if byte in b"\\%'" or not 32 <= byte < 127 else chr(byte) for byte in data
    ]
    return f"printf -- '{''.join(plain)}'"


def _add_method(line: _Command, request: ClientRequest) -> None:
    has_data = request.body is not None or request.method in ANNOUNCES_NO_BODY
    if request.method == "HEAD" and not has_data:
        line.add("--head")
    elif request.method != ("POST" if has_data else "GET"):
        line.add("--request", request.method)


def _add_headers(line: _Command, request: ClientRequest) -> None:
    headers = sent_headers(request)
    _add_auth(line, request, headers)
    if "cookie" not in headers and request.jar is not None:
        cookie = request.jar.header(request.url, request.cookies)
        if cookie is not None:
            headers["Cookie"] = cookie
    fields = headers.multi_items() if line.secrets else Redactor().headers(headers)
    for name, value in fields:
        if name.lower() == "host" and value == request.url.authority:
            continue  # curl adds the same
        if name.lower() not in _FRAMED_BY_CURL:
            _add_header(line, name, value)
    # curl adds Content-Length itself, but not Transfer-Encoding.
    if "transfer-encoding" in headers:
        line.add("--header", "Transfer-Encoding: chunked")
    has_data = request.body is not None or request.method in ANNOUNCES_NO_BODY
    for name in (*_ADDED, *(_ADDED_WITH_BODY if has_data else ())):
        if name not in headers:
            line.add("--header", f"{name}:")
    if "accept-encoding" in headers:
        line.add("--compressed")


def _add_header(line: _Command, name: str, value: str) -> None:
    text = f"{name}: {value}" if value else f"{name};"  # curl's notation for an empty value
    line.add("--header", text if text.isascii() else text.encode("latin-1"))


def _add_auth(line: _Command, request: ClientRequest, headers: Headers) -> None:
    auth = request.auth
    if auth is None or "authorization" in headers:
        return
    find = getattr(auth, "known_header", None)  # an auth class of httpx has none
    value = None if find is None else find()
    if value:
        headers["Authorization"] = value
    elif value is None:
        line.notes.append(f"authenticated by {type(auth).__name__}, which is not shown")


def _add_timeout(line: _Command, timeout: Timeout) -> None:
    if timeout.connect is not None:
        line.add("--connect-timeout", f"{timeout.connect:g}")
    if timeout.total is not None or timeout.attempt is not None:
        longest = min(each for each in (timeout.total, timeout.attempt) if each is not None)
        line.add("--max-time", f"{longest:g}")
    if timeout.min_speed is not None:
        speed, seconds = timeout.min_speed
        line.add("--speed-limit", f"{math.ceil(speed)}")
        line.add("--speed-time", f"{math.ceil(seconds)}")


# --- the route ---


def _add_route(line: _Command, route: NetworkRoute, url: URL) -> None:
    is_tls = url.scheme == "https"
    if route.http3 and is_tls:
        line.add("--http3")
    elif route.http2 == "prior-knowledge":
        line.add("--http2-prior-knowledge")
    else:
        # Without TLS curl would request an upgrade.
        line.add("--http2" if route.http2 and is_tls else "--http1.1")
    if is_tls:
        _add_tls(line, route.tls)
        if route.pins is not None:
            line.add("--pinnedpubkey", route.pins)
    if route.proxy is not None:
        _add_proxy(line, route.proxy, route.tls_to_proxy)
    _add_path(line, route, url)


def _add_tls(line: _Command, tls: TLS, kind: str = "") -> None:
    """Add the options for TLS to the server, or with the kind "proxy-" to the proxy."""
    if tls.verify is False:
        line.add(f"--{kind}insecure")
    else:
        _add_authorities(line, tls, kind)
        if not tls.check_hostname:
            line.notes.append("the host name was not verified")
    if isinstance(tls.cert, tuple):
        names = (f"--{kind}cert", f"--{kind}key", f"--{kind}pass")
        for name, part in zip(names, tls.cert, strict=False):
            if isinstance(part, bytes):
                line.notes.append(f"{name} was in memory")
            elif part is not None:
                hides = name.endswith("pass") and not line.secrets
                path = os.fspath(part)
                if name.endswith("cert"):  # the password would follow a colon
                    path = path.replace("\\", "\\\\").replace(":", "\\:")
                line.add(name, _MASK if hides else path)
    lowest, highest = tls.versions
    if kind and (lowest or highest):
        line.notes.append("the versions of TLS to the proxy were limited")
    elif lowest:
        line.add(f"--tlsv{lowest}")
    if highest and not kind:
        line.add("--tls-max", highest)
    if tls.ciphers:
        line.add(f"--{kind}ciphers", tls.ciphers)


def _add_authorities(line: _Command, tls: TLS, kind: str) -> None:
    verify = tls.verify
    if isinstance(verify, bytes):
        line.notes.append("the CA certificates were in memory")
    elif not isinstance(verify, bool):
        path = os.fspath(verify)
        line.add(f"--{kind}{'capath' if names_folders(path) else 'cacert'}", path)


def _add_proxy(line: _Command, proxy: Proxy, tls: TLS) -> None:
    line.add("--proxy", proxy.url)
    if proxy.username is not None:
        user = f"{proxy.username}:{proxy.password or ''}" if line.secrets else f"{_MASK}:{_MASK}"
        line.add("--proxy-user", user if user.isascii() else encode_credential(user))
    for name, value in proxy.fields:
        line.add("--proxy-header", f"{name}: {value if line.secrets else _MASK}")
    if proxy.url.startswith("https:"):
        _add_tls(line, tls, "proxy-")


def _add_path(line: _Command, route: NetworkRoute, url: URL) -> None:
    if route.local_address is not None:
        address, port = route.local_address
        if address:
            line.add("--interface", f"host!{address}")
        if port:
            line.add("--local-port", str(port))
    if route.interface is not None:
        line.add("--interface", route.interface)
    if route.ip_version is not None:
        line.add(f"--ipv{route.ip_version}")
    for entry in route.connect_to:
        line.add("--connect-to", entry)
    for host, its_port, addresses in route.addresses:
        listed = ",".join(map(bracketed, addresses))
        line.add("--resolve", f"{host}:{its_port or url.port}:{listed}")
    if route.doh is not None:
        line.add("--doh-url", route.doh if line.secrets else Redactor().url(route.doh))
    if route.happy_eyeballs_ms is not None:
        line.add("--happy-eyeballs-timeout-ms", str(route.happy_eyeballs_ms))
    if route.unix_socket is not None:
        line.add("--unix-socket", route.unix_socket)
    if route.socket_options:
        line.notes.append("socket options were set")


# --- the body ---


def _add_body(line: _Command, request: ClientRequest, body: Body) -> None:
    data = _get_content(body)
    if data is None:
        size = "" if body.length is None else f" of {body.length} bytes"
        line.notes.append(f"the body{size} was streamed: pass it to curl on standard input")
        return line.add("--data-binary", "@-")
    if not line.secrets:
        kind = request.get_header("content-type") or ""
        if _is_coded(kind, request.get_header("content-encoding") or ""):
            line.notes.append(f"the body of {len(data)} bytes is coded, and may hold credentials")
            return line.add("--data-binary", "@-")
        data = Redactor().body(data, kind)
    if len(data) <= _LONGEST_ARGUMENT and _is_text(data):
        return line.add("--data-raw", data.decode())
    line.input = f"{_printf(data)} | "
    return line.add("--data-binary", "@-")


def _get_content(body: Body) -> bytes | None:
    """Return the whole body if it is in memory, or if all parts of a form are; else None."""
    parts: Iterable[Body] = getattr(body, "_segments", (body,))
    found = [part.data for part in parts]
    data = [piece for piece in found if piece is not None]
    return b"".join(data) if len(data) == len(found) else None


def _is_coded(content_type: str, coding: str) -> bool:
    """Return whether a body's coding hides credentials from a search for their names."""
    charset = search_charset(content_type)
    is_wide = charset is not None and charset[1].lower().startswith(("utf-16", "utf-32", "utf-7"))
    return is_wide or coding.strip().lower() not in ("", "identity")


def _is_text(data: bytes) -> bool:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\n\t" for char in text)
