"""Suggest in errors what to write instead of keywords and attributes of other libraries.

A call with the right arguments costs nothing more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

_Class = TypeVar("_Class", bound=type)


class SuggestingAttributes:
    """Suggest the right name in the AttributeError for an attribute of another library."""

    __slots__ = ()

    _suggestions: ClassVar[str] = "response"  # a key of TABLE

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name):
            subject = f"{type(self).__name__!r} object"
            if name.startswith("_"):  # Python looks up optional methods
                raise AttributeError(f"{subject} has no attribute {name!r}", name=name, obj=self)
            raise no_attribute(self._suggestions, subject, self, name)


def with_suggestions(context: str) -> Callable[[_Class], _Class]:
    """Return a class decorator: the constructor's TypeErrors suggest the right keyword.

    Args:
        context: a key of TABLE; without an entry there, only close names are suggested.
    """

    def decorate(cls: _Class) -> _Class:
        make = vars(cls)["__init__"]

        @wraps(make)
        def suggesting(self: object, *args: object, **options: object) -> None:
            try:
                make(self, *args, **options)
            except TypeError as error:
                subject = f"{type(self).__name__}()"
                if (better := explain_call(context, subject, error, make)) is error:
                    raise
                raise better from None

        type.__setattr__(cls, "__init__", suggesting)
        return cls

    return decorate


def explain_call(
    context: str, subject: str, error: TypeError, called: Callable[..., object]
) -> TypeError:
    """Return what to raise for a TypeError: a better one if the arguments did not fit, or itself.

    Args:
        context: a key of TABLE.
        subject: what was called, such as "Client()".
        error: caught where it was called.
        called: the function.
    """
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return error  # raised inside the function: the arguments were right
    from inspect import signature

    parameters = [each for each in signature(called).parameters.values() if each.name != "self"]
    known = [each.name for each in parameters]
    text = str(error)
    if "unexpected keyword argument '" in text:
        return no_keyword(context, subject, text.split("'")[1], known)
    if "positional argument" in text and " given" in text:
        bare = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        named = ", ".join(f"{name}=" for name in known[len(bare) : len(bare) + 3])
        if not bare:
            return TypeError(f"{subject} takes only keywords, such as {named}")
        rest = f"; the others need keywords, such as {named}" if named else ""
        if "positional" in TABLE.get(context, {}):
            rest += f": {TABLE[context]['positional']}"
        return TypeError(f"{subject} takes only {', '.join(bare)} without a keyword{rest}")
    if " missing " in text:
        return TypeError(f"{subject} is{text[text.index(' missing ') :]}")
    return error


def no_name(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module does not have.

    Args:
        module: its full name.
        name: the missing name.
    """
    owner, subject = sys.modules[module], f"module {module!r}"
    if name.startswith("_"):
        return AttributeError(f"{subject} has no attribute {name!r}", name=name, obj=owner)
    return no_attribute("module", subject, owner, name)


def no_keyword(context: str, subject: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for an unknown keyword.

    Args:
        context: a key of TABLE.
        subject: what was called, such as "Client()".
        name: the unknown keyword.
        known: the keywords that exist.
    """
    return TypeError(f"{subject} has no keyword {name!r}{_instead(context, name, known, '=')}")


def no_option(method: Callable[..., object], name: str, other: str = "") -> TypeError:
    """Return the error for an unknown option of a client's method, such as download().

    Args:
        method: what was called.
        name: the unknown option.
        other: what to call for a request with a body, if this method only sends GET.
    """
    from inspect import signature

    subject = f"{method.__name__}()"
    if other and name in _BODY_OPTIONS:
        return TypeError(f"{subject} takes no {name}: it sends GET without a body; {other}")
    context = method.__name__ if name in TABLE[method.__name__] else "request"
    return no_keyword(context, subject, name, signature(method).parameters)


def no_attribute(context: str, subject: str, owner: object, name: str) -> AttributeError:
    """Return the error for a missing attribute.

    Args:
        context: a key of TABLE.
        subject: how messages name the owner, such as "module 'curlhttp'".
        owner: the object without the attribute.
        name: the missing attribute.
    """
    text = f"{subject} has no attribute {name!r}"
    other = name[1:] if name.startswith("a") else f"a{name}"
    if "response" in context and other in _SYNC_AND_ASYNC and hasattr(type(owner), other):
        return AttributeError(f"{text}; write response.{other}()")
    if name in TABLE[context]:
        return AttributeError(text + _instead(context, name, (), ""))
    return AttributeError(text, name=name, obj=owner)  # Python itself suggests a close name


def no_change(kind: str, name: str) -> AttributeError:
    """Return the error for a setting of a client that is assigned to."""
    known = TABLE["client"].get(name, f"{name}=...")
    return AttributeError(f"{name} cannot be changed: create a client with {kind}({known})")


def _instead(context: str, name: str, known: Iterable[str], sign: str) -> str:
    instead = TABLE.get(context, {}).get(name)
    if instead is None:
        from difflib import get_close_matches  # loaded only for an error

        close = get_close_matches(name, list(known), 1, 0.75)
        return f"; did you mean {close[0]}{sign}?" if close else ""
    if instead == _NOT_NEEDED:
        return "; leave it out"
    found, colon, reason = instead.partition("nothing:")
    return f"; you need none here:{reason}" if colon and not found else f"; write {instead}"


# --- the table ---

_HOOKS = 'hooks={"request": ..., "response": ...}'
_VERIFY = "verify=False, the path of CA certificates, or an ssl.SSLContext"
_PROXY = 'proxies="http://user:password@host:port"'
_STREAM = "`with client.stream(method, url) as response:`, which has it"
_PIECES = "response.iter_{0}(), or response.aiter_{0}() with an AsyncClient"
_LIMITS = "limits=curlhttp.Limits(...), or its fields, such as max_connections=100"
_MIDDLEWARE = "middleware=[...], each `async def middleware(request, send)`"
_CERT = "cert=(certificate, key) and verify=, or verify=an ssl.SSLContext"
_BOUNDED = "max_response_size=, in bytes"
_NOT_NEEDED = "nothing: leave it out"
_FRAMING = "nothing: a body without a length is sent with chunked coding"
_TIMEOUT = "curlhttp.Timeout(connect=10, read=60, total=None)"
_BACKOFF = "backoff_strategy=curlhttp.FullJitterBackoff(base=0.1, factor=2, max_backoff=10)"
_OUTCOMES = "nothing: failed connections, timeouts and failure_statuses= count"
_CHOSEN_BY_FALLBACK = "fallback= of the client"

_CLIENT_OPTIONS = (
    *("attempt_middleware", "breaker", "cache", "certificates", "concurrency_limit", "dns_ttl"),
    *("guard", "hedge", "hsts", "http3", "keepalive_expiry", "limits", "max_connection_lifetime"),
    *("max_connections", "max_connections_per_host", "max_keepalive_connections", "rate_limit"),
    *("sensitive_headers", "transport"),
)
CLIENT_SETTINGS = frozenset(
    (
        *_CLIENT_OPTIONS,
        *("auth", "base_url", "cert", "coalesce", "connect_to", "default_encoding", "doh"),
        *("fallback", "follow_redirects", "happy_eyeballs_timeout", "hooks", "http2", "interface"),
        *("ip_version", "json", "local_address", "max_receive_rate", "max_redirects"),
        *("max_response_size", "max_send_rate", "middleware", "params", "pins", "proxies"),
        *("proxy", "raise_for_status", "resolve", "retry", "timeout", "trust_env", "uds", "verify"),
        *("event_hooks", "mounts"),  # of httpx
    )
)
_BODY_OPTIONS = frozenset({"data", "json", "content", "files", "body", "form", "method", "stream"})
_SYNC_AND_ASYNC = frozenset(
    prefix + name
    for prefix in ("", "a")
    for name in (
        "iter_lines",
        "iter_text",
        "iter_bytes",
        "iter_raw",
        "read",
        "close",
    )
)

_ROUTES: Final = {
    "proxy_auth": _PROXY,
    "proxy_headers": "proxy=curlhttp.Proxy(url=..., headers=...)",
    "retries": "retry=3, or retry=curlhttp.RetryPolicy(...)",
    "max_retries": "retry=3, or retry=curlhttp.RetryPolicy(...)",
    "skip_auto_headers": 'headers={"User-Agent": None}: None removes a header',
    "auto_decompress": 'headers={"Accept-Encoding": None}, or response.iter_raw() of a stream',
    "ssl": _VERIFY,
    "ssl_context": _VERIFY,
    "verify_ssl": _VERIFY,
    "fingerprint": 'pins={"host": "sha256//..."}',
    "middlewares": _MIDDLEWARE,
    "read_bufsize": _NOT_NEEDED,
    "max_line_size": _NOT_NEEDED,
    "max_field_size": _NOT_NEEDED,
    "max_headers": _NOT_NEEDED,
}

TABLE: Final[dict[str, dict[str, str]]] = {
    "client": {
        **_ROUTES,
        "allow_redirects": "follow_redirects=",
        "mounts": 'proxies={"https://host": "http://proxy:3128"}, or a client for each route',
        "event_hooks": _HOOKS,
        "url": "base_url=",
        "stream": _STREAM,
        "connector": f"{_LIMITS}; verify=, uds=, local_address= for its other settings",
        "connector_owner": _NOT_NEEDED,
        "cookie_jar": "cookies=, which also takes a jar",
        "allow_incoming_cookies": "middleware that deletes response.headers['Set-Cookie']",
        "http1": "http2=False, which is Client's default",
        "disable_http1": 'http2="prior-knowledge"',
        "disable_http2": "http2=False",
        "disable_http3": "http3=False, which is the default",
        "disable_ipv4": "ip_version=6",
        "disable_ipv6": "ip_version=4",
        "multiplexed": "http2=True, and client.map or AsyncClient for concurrent requests",
        "happy_eyeballs": "happy_eyeballs_timeout=0.2",
        "source_address": "local_address=",
        "resolver": 'resolve={"host": "address"}, or doh="https://..."',
        "app": "transport=curlhttp.ASGITransport(app) or curlhttp.WSGITransport(app)",
        "pool_connections": _LIMITS,
        "pool_maxsize": _LIMITS,
        "keepalive_delay": "keepalive_expiry=",
        "keepalive_idle_window": "keepalive_expiry=",
        "conn_timeout": f"timeout={_TIMEOUT}",
        "read_timeout": f"timeout={_TIMEOUT}",
        "fallback_charset_resolver": "default_encoding=",
        "json_serialize": "json=curlhttp.JSON(dumps=...)",
        "json_serialize_bytes": "json=curlhttp.JSON(dumps=...)",
        "json_encoder": "json=curlhttp.JSON(dumps=...)",
        "trace_configs": 'hooks={"before_attempt": ..., "after_attempt": ...}, or response.timings',
        "tls_configuration": _CERT,
        "revocation_configuration": "nothing: certificates are not checked for revocation",
        "quic_cache_layer": 'http3="auto"',
        "loop": "nothing: a client works in every event loop",
        "request_class": _MIDDLEWARE,
        "response_class": _MIDDLEWARE,
        "ws_response_class": "client.websocket(url)",
        "version": "http2= and http3=",
        "requote_redirect_url": _NOT_NEEDED,
        "ssl_shutdown_timeout": _NOT_NEEDED,
    },
    "request": {
        **_ROUTES,
        "proxy": _PROXY,
        "raise_for_status": "response.raise_for_status(), or raise_for_status=True of the client",
        "default_encoding": "response.encoding = ..., or default_encoding= of the client",
        "hooks": f"{_HOOKS}, for the client",
        "middleware": f"{_MIDDLEWARE}, for the client",
        "event_hooks": f"{_HOOKS}, for the client",
        "follow": "follow_redirects=",
        "max_redirects": "max_redirects= of the client",
        "body": "content= for a body that is sent unchanged, data= for a form",
        "form": "data=",
        "query": "params=",
        "header": "headers=",
        "url_params": "params=",
        "trust_env": "trust_env= of the client",
        "http2": "http2= of the client",
        "base_url": "base_url= of the client",
        "extensions": "timeout=, or the client's settings: there are no extensions",
        "chunked": _FRAMING,
        "compress": "content=gzip.compress(body) with headers={'Content-Encoding': 'gzip'}",
        "expect100": "headers={'Expect': '100-continue'}",
        "read_until_eof": _NOT_NEEDED,
        "server_hostname": 'connect_to={"host": "address"}, with the name in the URL',
        "trace_request_ctx": "a context variable, which hooks can read",
        "override_scheme": "the scheme in the URL",
        "upload_tracker": "progress=, a function of (bytes sent, bytes in all)",
        **{name: f"{name}= of the client" for name in _CLIENT_OPTIONS},
    },
    "map": {
        **dict.fromkeys(
            ("limit", "max_concurrency", "max_connections", "max_workers", "n_jobs", "size"),
            "concurrency=",
        ),
        **dict.fromkeys(("threads", "workers", "pool_size", "num_workers"), "concurrency="),
        "keep_order": "ordered=",
        "chunksize": "nothing: items are consumed one by one, when there is room for them",
        "exception_handler": "return_exceptions=True, the default: an error is a result",
        "raise_exceptions": "return_exceptions=False",
        "callback": "a loop over the results: they arrive as they complete",
    },
    "download": {
        **dict.fromkeys(
            ("dest", "destination", "file", "filename", "output", "to", "target"), "path="
        ),
        "chunk_size": "nothing: pieces are written as they arrive",
        "overwrite": "nothing: a complete file replaces the old one",
        "sha256": 'checksum="sha256:<hex>"',
        "md5": 'checksum="md5:<hex>"',
        "hash": 'checksum="sha256:<hex>"',
        "callback": "progress=, a function of (bytes on disk, bytes in all)",
        "retries": "retry=3, or retry=curlhttp.RetryPolicy(...)",
    },
    "sse": {
        **dict.fromkeys(("max_retries", "max_reconnects", "max_reconnect_attempts"), "reconnect=3"),
        "retry_timeout": f"retry=curlhttp.RetryPolicy({_BACKOFF})",
        "reconnection_time": f"retry=curlhttp.RetryPolicy({_BACKOFF})",
        "last_id": "last_event_id=",
        "chunk_size": "nothing: events are parsed as they arrive",
        "heartbeat": "timeout=curlhttp.Timeout(read=60): how long the server may be silent",
    },
    "websocket": {
        "heartbeat": "ping_interval=",
        "autoping": "ping_interval=None to send no pings; pings are always answered",
        "autoclose": _NOT_NEEDED,
        "protocols": "subprotocols=",
        "max_msg_size": "max_size=",
        "compress": 'compression="deflate" or None',
        "receive_timeout": "ws.receive(timeout=...)",
        "open_timeout": "timeout=",
        "decode_text": "nothing: a text message is a str, a binary one is bytes",
        "max_queue": "nothing: a message is read when you ask for it",
        "extra_headers": "headers=",
        "additional_headers": "headers=",
        "user_agent_header": 'headers={"User-Agent": ...}',
        "origin": 'headers={"Origin": ...}',
    },
    "RetryPolicy": {
        **dict.fromkeys(
            ("total", "retries", "attempts", "max_attempts", "tries", "stop", "stop_after_attempt"),
            "max_retries=, the number of attempts after the first",
        ),
        **dict.fromkeys(
            ("connect", "read", "redirect", "status", "other"),
            "max_retries=, which counts all failures together",
        ),
        **dict.fromkeys(
            ("status_forcelist", "status_codes", "retry_statuses", "retry_status_codes"),
            "statuses=[502, 503, 504]",
        ),
        **dict.fromkeys(
            ("allowed_methods", "method_whitelist", "retryable_methods"), 'methods=["GET", "PUT"]'
        ),
        **dict.fromkeys(
            ("backoff_factor", "backoff_max", "backoff_jitter", "backoff", "wait", "delay"),
            _BACKOFF,
        ),
        **dict.fromkeys(("max_backoff", "jitter", "base", "factor", "delay"), _BACKOFF),
        **dict.fromkeys(("start_timeout", "max_timeout", "max_delay"), _BACKOFF),
        "respect_retry_after_header": "retry_after_max=0 to ignore Retry-After",
        "retry_after_max_seconds": "retry_after_max=",
        "remove_headers_on_redirect": "sensitive_headers= of the client",
        "raise_on_status": "raise_for_status=True of the client, or response.raise_for_status()",
        "raise_on_redirect": "max_redirects= of the client",
        "retry": "statuses= and methods=; failed connections are retried in any case",
        "exceptions": "nothing: failed connections and timeouts are retried if it does no harm",
        "retry_on_exceptions": "fallback= of the client, or middleware that sends again",
        "reraise": _NOT_NEEDED,
        "timeout": "timeout=curlhttp.Timeout(total=30) of the client or the request",
        "before_sleep": 'hooks={"before_sleep": ...} of the client',
    },
    "RetryBudget": {
        "percent_can_retry": "ratio=0.2",
        "min_retries_per_second": "reserve=",
        "ttl": "window=",
    },
    "CircuitBreaker": {
        "fail_max": "failure_threshold=",
        "max_failures": "failure_threshold=",
        "threshold": "failure_threshold=",
        "reset_timeout": "recovery_timeout=",
        "timeout_duration": "recovery_timeout=",
        "timeout": "recovery_timeout=",
        "success_threshold": "half_open_permits=",
        "expected_exception": _OUTCOMES,
        "exclude": _OUTCOMES,
        "listeners": "on_transition=",
        "name": "nothing: each origin has its own circuit",
        "fallback_function": _CHOSEN_BY_FALLBACK,
        "fallback": _CHOSEN_BY_FALLBACK,
        "state_storage": "store=",
        "statuses": "failure_statuses=",
    },
    "RateLimit": {
        **dict.fromkeys(
            ("max_rate", "calls", "requests", "requests_per_second", "per_second", "limit"),
            "rate=, the requests per second, such as RateLimit(10), or "
            "RateLimit(10 / 60, burst=10) for 10 per minute",
        ),
        **dict.fromkeys(
            ("time_period", "period", "seconds", "interval", "per_minute"),
            "rate=, which is per second: RateLimit(10 / 60, burst=10) for 10 per minute",
        ),
        "positional": "RateLimit(10 / 60, burst=10) for 10 per minute",
        "capacity": "burst=",
        "bucket": "burst=",
        "redis": "store=curlhttp.redis.RedisStore(url)",
    },
    "ConcurrencyLimit": {
        **dict.fromkeys(("value", "max_concurrency", "max_concurrent", "permits"), "limit="),
        "redis": "store=curlhttp.redis.RedisStore(url)",
    },
    "Hedge": {
        **dict.fromkeys(("delay", "wait", "timeout", "percentile"), 'after=0.3 or after="p95"'),
        **dict.fromkeys(("max_hedges", "attempts", "max_attempts"), "max="),
    },
    "Endpoints": {
        **dict.fromkeys(("endpoints", "hosts", "servers", "base_urls", "url"), "urls="),
        **dict.fromkeys(("strategy", "policy", "balancer"), 'choose="least_pending"'),
        "weights": "nothing: all endpoints get the same share",
    },
    "Proxy": {
        "auth": "username= and password=",
        "proxy_auth": "username= and password=",
        "ssl_context": "verify= of the client",
    },
    "BasicAuth": {"user": "username=", "login": "username="},
    "DigestAuth": {"user": "username=", "login": "username="},
    "Cache": {
        "storage": 'path="http.db", or redis=',
        "expire_after": "nothing: the response headers say how long a response is fresh",
        "ttl": "nothing: the response headers say how long a response is fresh",
        "cache_name": 'path="http.db"',
    },
    "Timeout": {
        "timeout": f"{_TIMEOUT}: connect= and read= take the seconds",
        "sock_connect": "connect=",
        "connect_timeout": "connect=",
        "read_timeout": "read=",
        "write_timeout": "write=",
        "pool_timeout": "pool=",
        "total_timeout": "total=",
        "sock_read": "read=",
        "ceil_threshold": _NOT_NEEDED,
    },
    "Limits": {
        "limit": "max_connections=",
        "pool_connections": "max_connections=",
        "pool_maxsize": "max_connections=",
        "max_keepalive": "max_keepalive_connections=",
        "max_per_host": "max_connections_per_host=",
        "limit_per_host": "max_connections_per_host=",
        "keepalive_timeout": "keepalive_expiry=",
        "ttl_dns_cache": "dns_ttl=",
        "use_dns_cache": "dns_ttl=0 to keep no names",
        "force_close": "max_keepalive_connections=0",
        "ssl": "verify= of the client",
        "verify_ssl": "verify= of the client",
        "local_addr": "local_address= of the client",
        "family": "ip_version= of the client",
        "resolver": "resolve= or doh= of the client",
    },
    "session": {
        **_ROUTES,
        "proxy": 'proxies={"http": url, "https": url}',
        "proxy_auth": 'proxies={"http": url, "https": url}, with user:password@ in the url',
        **dict.fromkeys(
            ("retry", "retries", "max_retries"),
            "curlhttp.Client().get(url, retry=3), or mount an HTTPAdapter(max_retries=3)",
        ),
        "raise_for_status": 'response.raise_for_status(), or hooks={"response": ...}',
        "middlewares": "curlhttp.Client(middleware=[...])",
        "base_url": "curlhttp.Client(base_url=...)",
        "max_response_size": "curlhttp.Client().get(url, max_response_size=...)",
        "max_redirects": "curlhttp.Client(max_redirects=...), or session.max_redirects = ...",
        "trust_env": "curlhttp.Client(trust_env=...), or session.trust_env = ...",
        "progress": "curlhttp.Client().post(url, progress=...)",
        "body": "content= for a body that is sent unchanged, data= for a form",
        "form": "data=",
        "query": "params=",
        "http2": "curlhttp.Client(http2=True)",
        "limits": "curlhttp.Client(limits=...), or mount an HTTPAdapter(pool_maxsize=...)",
        "pins": "curlhttp.Client(pins=...)",
        "fingerprint": 'curlhttp.Client(pins={"host": "sha256//..."})',
    },
    "response": {
        "status": "response.status_code",
        "body": "response.content",
        "data": "response.content",
        "code": "response.status_code",
        "method": "response.request.method",
        "host": "response.request.url.host",
        "real_url": "response.url",
        "url_obj": "response.request.url",
        "request_info": "response.request",
        "version": "response.http_version",
        "charset": "response.encoding",
        "charset_encoding": "response.encoding",
        "apparent_encoding": "response.encoding, which you can set if the server did not",
        "get_encoding": "response.encoding",
        "content_type": 'response.headers["Content-Type"]',
        "content_length": 'response.headers["Content-Length"], or len(response.content)',
        "content_disposition": 'response.headers["Content-Disposition"]',
        "raw_headers": "response.headers.multi_items()",
        "oheaders": "response.headers",
        "otrailers": "response.trailers",
        "next_request": "follow_redirects=True",
        "next": "follow_redirects=True",
        "has_redirect_location": "response.is_redirect",
        "is_permanent_redirect": "response.status_code in (301, 308)",
        "is_client_error": "400 <= response.status_code < 500, or is_error",
        "is_server_error": "response.status_code >= 500, or is_error",
        "is_informational": "response.status_code < 200, which no final response has",
        "is_stream_consumed": "response.content: the body is in memory",
        "num_bytes_downloaded": "len(response.content), which is decoded",
        "download_progress": "client.download(url, path, progress=...)",
        "upload_complete": "progress= of the request",
        "extensions": "response.http_version, response.timings and response.certificate",
        "conn_info": "response.http_version, response.timings and response.certificate",
        "connection": "response.timings.peer and response.timings.local, the addresses",
        "raw": f"{_STREAM} as response.iter_raw()",
        "stream": f"{_STREAM} as response.iter_bytes()",
        "readline": f"{_STREAM} as response.iter_lines()",
        "iter_content": f"response.iter_bytes(chunk_size); or {_STREAM}",
        "iter_lines": f"response.text.splitlines(); or, line by line as received, {_STREAM}",
        "iter_text": f"response.text; or, piece by piece as received, {_STREAM}",
        "iter_raw": f"response.content, which is decoded; or {_STREAM}",
        "aiter_lines": f"response.text.splitlines(); or async {_STREAM}",
        "aiter_text": f"response.text; or async {_STREAM}",
        "aiter_raw": f"response.content, which is decoded; or async {_STREAM}",
        "closed": "nothing: the body is in memory",
        "release": "nothing: the connection was released; close() and aclose() are for streams",
        "wait_for_close": "nothing: the connection was released",
        "get": "response.json(), and then .get()",
    },
    "headers": {
        **dict.fromkeys(("getall", "get_all", "getlist", "getheaders"), "headers.get_list(name)"),
        "getone": "headers[name]",
        "raw": "headers.multi_items()",
        "has_key": "name in headers",
        "iteritems": "headers.items()",
        "popall": "headers.pop(name)",
    },
    "module": {
        "ClientSession": "curlhttp.AsyncClient",
        "AsyncSession": "curlhttp.AsyncClient",
        "AsyncHTTPClient": "curlhttp.AsyncClient",
        "HTTPClient": "curlhttp.Client",
        "ClientResponse": "curlhttp.Response",
        "ClientTimeout": _TIMEOUT,
        "ClientWSTimeout": "client.websocket(url, close_timeout=10)",
        "ClientWebSocketResponse": "curlhttp.AsyncWebSocket",
        "TimeoutConfiguration": _TIMEOUT,
        "TCPConnector": _LIMITS,
        "BaseConnector": _LIMITS,
        "UnixConnector": "uds= of the client or the request",
        "NamedPipeConnector": "curlhttp.AsyncClient: there are no named pipes",
        "HTTPTransport": "the client's own keywords: verify=, cert=, retry=, proxies=, uds=",
        "AsyncHTTPTransport": "the client's own keywords: verify=, cert=, retry=, proxies=, uds=",
        "BaseTransport": "middleware=[...], or curlhttp.testing.ScriptedEngine",
        "AsyncBaseTransport": "middleware=[...], or curlhttp.testing.ScriptedEngine",
        "MockTransport": "curlhttp.testing.mock, or curlhttp.testing.ScriptedEngine",
        "DigestAuthMiddleware": "auth=curlhttp.DigestAuth(user, password)",
        "NetRCAuth": "trust_env=True, the default, which reads netrc",
        "HTTPBasicAuth": "curlhttp.BasicAuth, or curlhttp.auth.HTTPBasicAuth for a Session",
        "HTTPDigestAuth": "curlhttp.DigestAuth, or curlhttp.auth.HTTPDigestAuth for a Session",
        "QueryParams": "params=, a mapping or pairs",
        "FormData": "data= for fields and files= for files",
        "MultipartWriter": "data= for fields and files= for files",
        "CookieJar": "curlhttp.Cookies",
        "DummyCookieJar": "cookies=None, and a client for each user",
        "TraceConfig": 'hooks={"before_attempt": ..., "after_attempt": ...} of the client',
        "RetryConfiguration": "curlhttp.RetryPolicy",
        "Fingerprint": 'pins={"host": "sha256//..."}',
        "USE_CLIENT_DEFAULT": "nothing: a request uses the client's settings by default",
        "create_ssl_context": "verify= and cert= of the client",
        "InvalidUrlClientError": "curlhttp.InvalidURL",
        "UnsupportedProtocol": "curlhttp.InvalidSchema",
        "LocalProtocolError": "curlhttp.InvalidHeader or curlhttp.InvalidMethod",
        "HTTPStatusError": "curlhttp.HTTPError, of response.raise_for_status()",
        "ClientResponseError": "curlhttp.HTTPError, of response.raise_for_status()",
        "RequestError": "curlhttp.RequestException",
        "TransportError": "curlhttp.RequestException",
        "ClientError": "curlhttp.RequestException",
        "HTTPException": "curlhttp.RequestException",
        "NetworkError": "curlhttp.ConnectionError",
        "ConnectError": "curlhttp.ConnectionError",
        "ReadError": "curlhttp.ConnectionError, or curlhttp.ChunkedEncodingError within a body",
        "WriteError": "curlhttp.ConnectionError",
        "CloseError": "curlhttp.ConnectionError",
        "ClientConnectionError": "curlhttp.ConnectionError",
        "ClientConnectionResetError": "curlhttp.ConnectionError",
        "ClientConnectorError": "curlhttp.ConnectionError",
        "ClientConnectorDNSError": "curlhttp.ConnectionError",
        "ClientOSError": "curlhttp.ConnectionError",
        "ServerConnectionError": "curlhttp.ConnectionError",
        "ServerDisconnectedError": "curlhttp.ConnectionError",
        "ClientConnectorSSLError": "curlhttp.SSLError",
        "ClientConnectorCertificateError": "curlhttp.SSLError",
        "ClientSSLError": "curlhttp.SSLError",
        "ServerFingerprintMismatch": "curlhttp.SSLError",
        "ClientHttpProxyError": "curlhttp.ProxyError",
        "ClientProxyConnectionError": "curlhttp.ProxyError",
        "ClientPayloadError": "curlhttp.ChunkedEncodingError or curlhttp.ContentDecodingError",
        "TimeoutException": "curlhttp.Timeout",
        "TimeoutError": "curlhttp.Timeout",
        "ServerTimeoutError": "curlhttp.Timeout",
        "ConnectionTimeoutError": "curlhttp.ConnectTimeout",
        "SocketTimeoutError": "curlhttp.ReadTimeout",
        "ProtocolError": "curlhttp.RemoteProtocolError",
        "DecodingError": "curlhttp.ContentDecodingError",
        "ContentTypeError": "curlhttp.JSONDecodeError, of response.json()",
        "CookieConflict": "curlhttp.Cookies.get(name, domain=...)",
        "StreamError": "curlhttp.StreamConsumedError",
        "StreamConsumed": "curlhttp.StreamConsumedError",
        "StreamClosed": "curlhttp.StreamConsumedError",
        "ResponseNotRead": "curlhttp.StreamConsumedError",
        "RequestNotRead": "curlhttp.StreamConsumedError",
        "WSServerHandshakeError": "curlhttp.WebSocketRefused",
        "WebSocketError": "curlhttp.WebSocketClosed",
        "WSMsgType": "`async for message in ws:`, which yields str and bytes",
        "WSMessage": "`async for message in ws:`, which yields str and bytes",
        **{
            f"a{verb}": f"`await curlhttp.AsyncClient().{verb}(url)`"
            for verb in ("get", "post", "put", "patch", "delete", "head", "options", "request")
        },
    },
}
"""What to write here for a name of other libraries: by its context, then by that name."""

TABLE["streamed_response"] = {
    **TABLE["response"],
    "num_bytes_downloaded": f"a sum of len(piece) in a loop over {_PIECES.format('raw')}",
    "raw": _PIECES.format("raw"),
    **dict.fromkeys(("stream", "iter_content"), _PIECES.format("bytes")),
    "readline": _PIECES.format("lines"),
    "closed": "response.is_closed",
    **dict.fromkeys(
        ("release", "wait_for_close"), "response.close(), or response.aclose() with an AsyncClient"
    ),
}
