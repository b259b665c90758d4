"""Map libcurl's result codes to exceptions, and make those that libcurl does not report."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from sys import is_finalizing
from typing import Literal

from curlhttp import exceptions as e
from curlhttp._http.config import NetworkRoute, describe_authorities, explain_missing_authorities
from curlhttp._http.errors import describe_errno
from curlhttp._http.exiting import exit_error
from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.request import IDEMPOTENT, ClientRequest
from curlhttp._http.timeout import EARLY
from curlhttp._http.timings import Timings
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.head import has_unasked_upgrade, lacks_status_line
from curlhttp._libcurl.libcurl_log import get_stream_reset
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ConnectionError,
    RemoteProtocolError,
    RequestException,
    ResponseTooLarge,
    SSLError,
    WriteTimeout,
)

# Codes that pycurl has no name for (curl.h).
_WEIRD_SERVER_REPLY = 8
HTTP2_STREAM = 92
_HTTP3 = 95
_QUIC_CONNECT_ERROR = 96
_PROXY = 97
_SSL_CLIENTCERT = 98
_TOO_LARGE = 100

_ECONNRESET_EPIPE = (104, 32, 54, 10053, 10054)  # Linux, both, macOS, Windows


class TransferFailure(NamedTuple):
    """What is known about a transfer that failed."""

    request: ClientRequest
    code: int
    message: str
    sent: bool  # a byte of the request may have left
    has_head: bool  # the head of a final response is in
    os_errno: int
    connect_code: int  # the proxy's status for CONNECT, 0 if there was none
    timings: Timings | None
    deadline_passed: bool
    aborted_resend: bool  # we stopped libcurl from sending a request twice
    refused: bool = False  # the server said that it did not process the request
    refused_last: bool = False  # ... but nobody knows this of the first time
    lacks_status_line: bool = False  # the head that libcurl accepted has none
    is_connected: bool = True  # there was a connection to send it on
    refusal: str = ""  # why the server refused TLS, if that is known


_LASTING = frozenset({pycurl.E_INTERFACE_FAILED, _TOO_LARGE})
_TLS_FAILURES: dict[int, Literal["handshake", "untrusted"]] = {
    pycurl.E_SSL_CONNECT_ERROR: "handshake",
    # An alert; from TLS 1.3 on it comes after the handshake.
    pycurl.E_RECV_ERROR: "handshake",
    pycurl.E_SEND_ERROR: "handshake",
    pycurl.E_GOT_NOTHING: "handshake",
    pycurl.E_HTTP2: "handshake",
    HTTP2_STREAM: "handshake",
    pycurl.E_PEER_FAILED_VERIFICATION: "untrusted",
    pycurl.E_SSL_PINNEDPUBKEYNOTMATCH: "untrusted",
}

_ON_QUIC = frozenset({pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR, _HTTP3, _QUIC_CONNECT_ERROR})
_FUNCTIONS_OF_QUIC = r"\bng(?:tcp2|http3)_\w+ (?:returned error: )?"

# Codes for certificates, keys and their files: nothing changes until somebody replaces them.
_OF_CERTIFICATES = frozenset(
    {
        pycurl.E_SSL_CERTPROBLEM,
        pycurl.E_SSL_CIPHER,
        pycurl.E_PEER_FAILED_VERIFICATION,
        pycurl.E_SSL_CACERT_BADFILE,
        pycurl.E_SSL_ENGINE_NOTFOUND,
        pycurl.E_SSL_ENGINE_SETFAILED,
        pycurl.E_SSL_ENGINE_INITFAILED,
        pycurl.E_SSL_PINNEDPUBKEYNOTMATCH,
        _SSL_CLIENTCERT,
    }
)

NOT_HTTP = "the response does not begin with a status line"
_HEAD_TOO_LARGE = "the response's header block is too large"
_NO_PAIR = "the client certificate and its key do not match"
_SPEAKS_NO_TLS = "does not speak TLS on this port; maybe the URL must begin with http://"
_CUT_HANDSHAKES = ("unexpected eof", "schannel: failed to receive handshake")
_CUT_BODY = "the connection broke within the response body"

_Kind = type[e.RequestException]

# Codes that are not here mean a misuse of libcurl, a disabled protocol, an option that is never set
# or a lack of memory; or `_kind` decides by more than the code.
_TABLE: dict[int, _Kind] = {
    **dict.fromkeys(_OF_CERTIFICATES, e.SSLError),
    pycurl.E_URL_MALFORMAT: e.InvalidURL,
    pycurl.E_COULDNT_RESOLVE_PROXY: e.ProxyError,
    pycurl.E_COULDNT_RESOLVE_HOST: e.ConnectionError,
    _WEIRD_SERVER_REPLY: e.RemoteProtocolError,
    pycurl.E_PARTIAL_FILE: e.ChunkedEncodingError,
    pycurl.E_GOT_NOTHING: e.ConnectionError,
    pycurl.E_SEND_ERROR: e.ConnectionError,
    pycurl.E_BAD_CONTENT_ENCODING: e.ContentDecodingError,
    pycurl.E_SEND_FAIL_REWIND: e.ConnectionError,
    HTTP2_STREAM: e.RemoteProtocolError,
    _HTTP3: e.RemoteProtocolError,
    _QUIC_CONNECT_ERROR: e.ConnectionError,
    _PROXY: e.ProxyError,
    _TOO_LARGE: e.RemoteProtocolError,  # the header block
}


def make_error(failure: TransferFailure) -> e.RequestException:
    """Return the exception for a failed transfer."""
    kind, what = _kind(failure)
    if kind is e.ChunkedEncodingError and failure.lacks_status_line:
        kind, what = e.RemoteProtocolError, NOT_HTTP
    request = failure.request
    error = kind(
        f"{request}: {what} (curl error {failure.code}{_get_message(failure)})",
        request=request,
        curl_code=failure.code,
        request_sent=failure.sent,
        timings=failure.timings,
    )
    _note_facts(error, failure, what)
    if isinstance(error, e.SSLError):
        error.wants_certificate = what in LACKS_CERTIFICATE
    return error


def _get_message(failure: TransferFailure) -> str:
    """Return libcurl's message without names of ngtcp2 functions and nghttp2 callback errors."""
    message = re.sub(_FUNCTIONS_OF_QUIC, "QUIC: ", failure.message)
    return f": {message}" if message and not get_stream_reset(message) else ""


def _note_facts(error: e.RequestException, failure: TransferFailure, what: str) -> None:
    """Set attributes for what libcurl's code means, so that policies need not know codes."""
    code = failure.code
    error.refused = failure.refused
    if code in _LASTING or what in _LASTING_TEXTS:
        error.is_lasting, error.is_local = True, code == pycurl.E_INTERFACE_FAILED
    if what == _HEAD_TOO_LARGE:
        error._reason = "too_large"
    if code == pycurl.E_COULDNT_CONNECT and failure.os_errno:
        error.errno = failure.os_errno
    if isinstance(error, e.SSLError):
        error.tls_failure = _TLS_FAILURES.get(code)
        error.is_lasting = error.is_lasting or code in _OF_CERTIFICATES
    elif isinstance(error, e.RemoteProtocolError):
        if code == _WEIRD_SERVER_REPLY and "content-length" in failure.message.lower():
            error.broken_part = "content-length"
    elif isinstance(error, e.ProxyError) and not _broke_connect(failure):
        error.connect_status = failure.connect_code or None


def _kind(failure: TransferFailure) -> tuple[_Kind, str]:
    # In the order of certainty: our own limit, a proxy in between, what the server said, and last
    # the meaning of libcurl's code.
    code = failure.code
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return _timed_out(failure)
    if _broke_connect(failure):
        return e.ProxyError, "the proxy violated HTTP in its response to CONNECT"
    if failure.refused:
        return e.ConnectionError, "the server refused the request before it processed any of it"
    if code == pycurl.E_COULDNT_CONNECT or _lacks_connection(failure):
        return _not_connected(failure)
    why = failure.refusal or find_tls_refusal(failure.message, failure.request.route)
    if why and not _is_of_proxy(failure):
        return e.SSLError, why
    if why and any(name in failure.message for name in _ABOUT_CERTIFICATES):
        return e.SSLError, _get_refusal_of_proxy(failure.request.route)
    if code == pycurl.E_SSL_CONNECT_ERROR:
        if _WITHOUT_TLS in failure.message:
            whom = "the proxy" if _is_of_proxy(failure) else "the server"
            return e.SSLError, f"{whom} {_SPEAKS_NO_TLS}"
        return _no_handshake(failure)
    if code == pycurl.E_RECV_ERROR:
        return _cut_off(failure)
    if code == pycurl.E_HTTP2:
        return _ended(failure)
    if code == pycurl.E_UNSUPPORTED_PROTOCOL:
        if failure.sent:
            return e.RemoteProtocolError, "the response is not HTTP"
        return e.InvalidSchema, "libcurl does not support this protocol or version"
    if code == pycurl.E_BAD_FUNCTION_ARGUMENT and _BAD_HEADER in failure.message:
        return e.RemoteProtocolError, _MESSAGES[_WEIRD_SERVER_REPLY]
    if code == pycurl.E_BAD_FUNCTION_ARGUMENT and failure.request.route.sends_certificate:
        return e.SSLError, _NO_PAIR
    if failure.refused_last:
        return e.ConnectionError, _REFUSED_LAST
    if failure.aborted_resend or code == pycurl.E_SEND_FAIL_REWIND:
        # In the second case, libcurl wanted to send again; we do not let it rewind a body.
        return e.ConnectionError, _MAY_HAVE_ARRIVED if failure.sent else _NOT_SENT
    if code == pycurl.E_SEND_ERROR and failure.has_head and failure.request.body is None:
        # On HTTP/2 libcurl also sends while it reads, and may notice the broken connection there.
        return e.ChunkedEncodingError, _CUT_BODY
    if code == pycurl.E_INTERFACE_FAILED:
        return e.ConnectionError, f"{_local_end(failure.request.route)} cannot be used"
    if _is_left_unanswered(failure):
        return e.ConnectionError, _WITHOUT_RESPONSE
    kind = _TABLE.get(code, e.RequestException)
    if code == pycurl.E_PEER_FAILED_VERIFICATION:
        return kind, _untrusted(failure)
    if code == pycurl.E_SSL_CACERT_BADFILE:
        return kind, _unreadable(failure.request.route)
    if kind is e.SSLError:
        return kind, _MESSAGES.get(code, _TLS_FAILED)
    return kind, _MESSAGES.get(code, "the request failed")


_MAY_HAVE_ARRIVED = (
    "the connection broke before a response came; the request may have been processed, "
    "so it was not sent again"
)

_REFUSED_LAST = (
    "the server refused the request before it processed any of it; only the first time, on a "
    "kept-alive connection, it either refused it or ended the connection"
)
_WITHOUT_RESPONSE = (
    "the server closed the HTTP/2 connection before it responded; the request may have been "
    "processed, so it was not sent again"
)
_NOT_SENT = "the connection broke before any of the request was sent"

_WITHOUT_TLS = "wrong version number"  # OpenSSL's words for an answer that is not a TLS record
_BAD_HEADER = "response header"  # in libcurl's message for a folded trailer, for example

_TLS_FAILED = "TLS failed; check the certificate, or pass verify= or cert="
_VERIFY_RESULT = r"verify result: (.+?)(?: \(\d+\))?$"


def _untrusted(failure: TransferFailure) -> str:
    """Return what is wrong with a certificate, in OpenSSL's words, which programs look for."""
    message = failure.message
    result = re.search(_VERIFY_RESULT, message)
    why = f": {result[1]}" if result else ": Hostname mismatch" * ("subject name" in message)
    if _is_of_proxy(failure):
        advice = "check the certificate of the proxy, or pass curlhttp.Proxy(url=..., verify=...)"
    else:
        advice = "check the certificate, or pass verify= or cert="
    return f"certificate verify failed{why}; {advice}"


def _unreadable(route: NetworkRoute) -> str:
    """Return why the CA certificates could not be read."""
    path = route.tls.verify
    if not isinstance(path, str):
        return _TLS_FAILED
    missing = explain_missing_authorities(path)
    return missing or f"no CA certificates could be read from {describe_authorities(path)}"


_MESSAGES = {
    pycurl.E_SSL_PINNEDPUBKEYNOTMATCH: "the server's key is not one of those in pins=",
    pycurl.E_COULDNT_RESOLVE_HOST: "the host name could not be resolved",
    pycurl.E_COULDNT_RESOLVE_PROXY: "the proxy's name could not be resolved",
    _WEIRD_SERVER_REPLY: "the server violated HTTP in its header block",
    HTTP2_STREAM: "the server ended the HTTP/2 stream",
    pycurl.E_PARTIAL_FILE: "the response body ended early",
    pycurl.E_BAD_CONTENT_ENCODING: "the response has a transfer coding that was not requested",
    pycurl.E_GOT_NOTHING: "the server closed the connection without a response",
    pycurl.E_SEND_ERROR: "the connection broke while the request was sent",
    _TOO_LARGE: _HEAD_TOO_LARGE,
    _PROXY: "the proxy refused or failed",
}


def _is_left_unanswered(failure: TransferFailure) -> bool:
    """Return whether the server ended an HTTP/2 stream without a response, as on a reload."""
    if failure.code != HTTP2_STREAM or failure.has_head or not failure.sent:
        return False
    return get_stream_reset(failure.message) > 0


def _ended(failure: TransferFailure) -> tuple[_Kind, str]:
    """Return the error of a request whose HTTP/2 connection ended."""
    if "nghttp2" in failure.message:
        return e.RemoteProtocolError, "the server violated HTTP/2"
    if failure.has_head:
        return e.ChunkedEncodingError, _CUT_BODY
    if not failure.sent:
        return e.ConnectionError, _NOT_SENT
    if failure.request.method in IDEMPOTENT:
        return e.ConnectionError, "the HTTP/2 connection ended before a response came"
    return e.ConnectionError, _WITHOUT_RESPONSE


def _timed_out(failure: TransferFailure) -> tuple[_Kind, str]:
    request = failure.request
    # libcurl has one code for all timeouts, and the deadline may end any step.
    if failure.deadline_passed:
        return e.DeadlineExceeded, f"the total timeout of {request.timeout.total} s ran out"
    attempt = request.timeout.attempt
    took = 0.0 if failure.timings is None else failure.timings.total
    if attempt is not None and took > attempt - EARLY:
        return e.ReadTimeout if failure.sent else e.ConnectTimeout, (
            f"the attempt took longer than {attempt} s; the server may be slow, or raise "
            "timeout=Timeout(attempt=...)"
        )
    if failure.sent:
        return e.ReadTimeout, "the server did not respond in time"
    return e.ConnectTimeout, (
        f"no connection was made within {request.timeout.connect} s; the host may be down, or the "
        "timeout too short: timeout=Timeout(connect=...)"
    )


def _broke_connect(failure: TransferFailure) -> bool:
    """Return whether a proxy's response to CONNECT is invalid; then its status is ignored.

    Nothing of the request was sent, so what libcurl read can only come from the proxy.
    """
    if failure.request.route.proxy is None or failure.sent:
        return False
    code, message = failure.code, failure.message
    if code == pycurl.E_COULDNT_CONNECT:
        return "CONNECT" in message and failure.connect_code < 200
    if code == pycurl.E_RECV_ERROR:
        return "CONNECT" in message and failure.connect_code > 0  # otherwise it only hung up
    if code == pycurl.E_BAD_FUNCTION_ARGUMENT:
        return _BAD_HEADER in message
    return code in (_WEIRD_SERVER_REPLY, _TOO_LARGE)


def _local_end(route: NetworkRoute) -> str:
    """Return the configured local address, port and interface as text."""
    address, port = route.local_address or ("", 0)
    parts = [f"address {address}"] if address else []
    parts += [f"port {port}"] if port else []
    parts += [f"interface {route.interface}"] if route.interface else []
    return f"the local {' with '.join(parts) or 'address or interface'}"


def _lacks_connection(failure: TransferFailure) -> bool:
    """Return whether QUIC did not connect, which libcurl reports with codes of later phases.

    Its message shows whether it tried to connect again, after an earlier connection broke.
    """
    if failure.code not in _ON_QUIC or failure.request.route.proxy is not None:
        return False
    return not failure.is_connected or failure.message.startswith("Failed to connect")


def _not_connected(failure: TransferFailure) -> tuple[_Kind, str]:
    if failure.sent:
        return e.ConnectionError, "the connection broke, and no other one could be opened"
    if failure.request.route.proxy is None:
        reason = f": {describe_errno(failure.os_errno)}" if failure.os_errno else ""
        return e.ConnectionError, f"the connection was refused or the host is unreachable{reason}"
    if failure.connect_code:
        return e.ProxyError, f"the proxy responded to CONNECT with {failure.connect_code}"
    return e.ProxyError, "the proxy could not be reached"


_WANTS_CERTIFICATE = "the server wants a client certificate; pass cert="
_MAY_WANT_CERTIFICATE = (
    "the server ended TLS right after the handshake; "
    "most likely it wants a client certificate (cert=)"
)
# Messages for a server that got no client certificate and wants one.
LACKS_CERTIFICATE = (_WANTS_CERTIFICATE, _MAY_WANT_CERTIFICATE)
_REJECTED_CERTIFICATE = "the server rejected the client certificate"
_LASTING_TEXTS = frozenset(
    {*LACKS_CERTIFICATE, _REJECTED_CERTIFICATE, _NO_PAIR, _HEAD_TOO_LARGE}
    | {f"{whom} {_SPEAKS_NO_TLS}" for whom in ("the server", "the proxy")}
)

# In OpenSSL's names of alerts with which a server refuses a client (RFC 8446, section 6.2).
_ABOUT_CERTIFICATES = ("certificate", "unknown ca", "access denied")


def find_tls_refusal(message: str, route: NetworkRoute, is_hidden: bool = False) -> str:
    """Return why a server refused TLS, if it did; "" if not.

    In TLS 1.3 it refuses a client certificate, or the lack of one, after the client has finished
    the handshake. So the refusal may come with any of libcurl's codes and at any time.

    Args:
        message: libcurl's text for the failure, with OpenSSL's for an alert.
        route: of the request.
        is_hidden: there was an alert that libcurl did not read.
    """
    has_cert = route.tls.cert is not None
    if "SSL routines" in message and "alert" in message:
        if any(name in message for name in _ABOUT_CERTIFICATES):
            if has_cert:
                return _REJECTED_CERTIFICATE
            return _WANTS_CERTIFICATE
        if "handshake failure" in message and not has_cert:  # TLS 1.2 has no other alert for it
            return "the server refused the TLS handshake; maybe it wants a client certificate"
        return "the server refused the TLS connection"
    proxy = route.proxy
    if not is_hidden or (proxy is not None and proxy.url.startswith("https:")):
        return ""
    # Servers refuse nothing else at that time.
    if has_cert:
        return (
            "the server ended TLS right after the handshake; "
            "most likely it rejected the client certificate"
        )
    return _MAY_WANT_CERTIFICATE


def _is_of_proxy(failure: TransferFailure) -> bool:
    """Return whether a TLS error comes from an https proxy: there is no tunnel, or none is used."""
    proxy = failure.request.route.proxy
    if proxy is None or not proxy.url.startswith("https:"):
        return False
    return failure.request.url.scheme == "http" or not (failure.sent or failure.connect_code)


def _get_refusal_of_proxy(route: NetworkRoute) -> str:
    """Return why an https proxy refused TLS, after an alert about a certificate."""
    if route.proxy_tls is None or route.proxy_tls.cert is None:
        return "the proxy wants a client certificate; pass curlhttp.Proxy(url=..., cert=...)"
    return "the proxy rejected the client certificate"


def _no_handshake(failure: TransferFailure) -> tuple[_Kind, str]:
    # A broken handshake says nothing about certificates, so another attempt may succeed.
    if failure.os_errno in _ECONNRESET_EPIPE or any(
        text in failure.message for text in _CUT_HANDSHAKES
    ):
        return e.ConnectionError, "the connection broke during the TLS handshake"
    return e.SSLError, "the TLS handshake failed"


def _cut_off(failure: TransferFailure) -> tuple[_Kind, str]:
    message = failure.message
    if failure.request.route.proxy is not None and not failure.sent:
        return e.ProxyError, "the proxy broke the connection"
    # libcurl has one code for all errors while it reads; only its message says more.
    if "Too many response headers" in message or "too large" in message.lower():
        return e.RemoteProtocolError, _HEAD_TOO_LARGE
    if "nghttp2" in message:
        return e.RemoteProtocolError, "the server violated HTTP/2"
    if "chunk" in message:
        return e.ChunkedEncodingError, "the response's chunked framing broke"
    if failure.has_head:
        return e.ChunkedEncodingError, _CUT_BODY
    return e.ConnectionError, "the connection broke before the response was complete"


def unwrap_callback_error(error: BaseException) -> BaseException:
    """Return the exception that a signal handler raised in a callback of libcurl.

    libcurl may call other callbacks after it, and pycurl may return normally. Then Python wraps the
    exception in a SystemError.
    """
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return error


# --- Exceptions for responses that libcurl accepts and we reject ---


def head_error(lines: list[bytes], request: ClientRequest) -> RemoteProtocolError:
    """Return the exception for a response without a complete final head.

    Args:
        lines: of all heads and trailers so far, with their line ends.
        request: sent to the server.
    """
    # An incomplete head without a status line is not HTTP.
    is_cut = False
    if lacks_status_line(lines):
        what = NOT_HTTP
    elif has_unasked_upgrade(lines, request):
        what = "the server switches to a protocol that was not requested"
    else:
        what, is_cut = "the response ended within its header block", True
    error = RemoteProtocolError(f"{request}: {what}", curl_code=0)
    error.broken_part = "head" if is_cut else None
    return error


def body_length_error(request: ClientRequest, size: int) -> ChunkedEncodingError:
    """Return the exception for a body whose size differs from the one that its head announces."""
    return ChunkedEncodingError(
        f"{request}: the response body ended after {size} bytes, "
        "but its head announces another length",
        curl_code=0,
    )


def too_large_error(request: ClientRequest) -> ResponseTooLarge:
    """Return the exception for a body that is larger than the request's max_response_size."""
    return ResponseTooLarge(
        f"{request}: the response body is larger than "
        f"max_response_size={request.max_response_size} bytes"
    )


def endless_framing_error(request: ClientRequest) -> ResponseTooLarge:
    """Return the exception for a body with too many bytes of chunk sizes and extensions."""
    return ResponseTooLarge(
        f"{request}: the response body is small, but what frames its chunks is larger than "
        f"max_response_size={request.max_response_size} bytes"
    )


def endless_refusal_error(request: ClientRequest) -> e.ProxyError:
    """Return the exception for a 407 to CONNECT whose body does not end."""
    error = e.ProxyError(
        f"{request}: the proxy responded to CONNECT with 407 and a body that is too large",
        request=request,
    )
    error.connect_status = 407
    return error


def no_connection_error(request: ClientRequest) -> ConnectionError:
    """Return the exception for a request for which no connection stayed open long enough."""
    return ConnectionError(
        f"{request}: every connection to the server ended, or was not clean, before the request "
        "could be sent; the server may be restarting",
        request=request,
        curl_code=pycurl.E_SEND_ERROR,
    )


def early_response_error(request: ClientRequest) -> RemoteProtocolError:
    """Return the exception for a response that came before its request."""
    return RemoteProtocolError(
        f"{request}: the response came before the request was sent, "
        "so it belongs to another one; the request may have been processed",
        request=request,
        curl_code=0,
        request_sent=True,
    )


def slow_error(request: ClientRequest) -> e.ReadTimeout:
    """Return the exception for a transfer that was slower than min_speed allows."""
    assert request.timeout.min_speed is not None
    speed, seconds = request.timeout.min_speed
    return e.ReadTimeout(
        f"{request}: less than {speed:g} bytes per second arrived for {seconds:g} s; the server "
        "may be slow, or change timeout=Timeout(min_speed=...)",
        request=request,
        curl_code=pycurl.E_OPERATION_TIMEDOUT,
        request_sent=True,
    )


def write_timeout_error(request: ClientRequest) -> WriteTimeout:
    """Return the exception for a server that accepted no more of the body in the write timeout."""
    return WriteTimeout(
        f"{request}: no byte of the body went out for {request.timeout.write} s; the server may "
        "be slow to read it, or raise timeout=Timeout(write=...)",
        request=request,
        curl_code=pycurl.E_OPERATION_TIMEDOUT,
        request_sent=True,
    )


# --- Report a shortage of file descriptors, which libcurl and pycurl do not ---
#
# A connection needs a socket, its name lookup some files, and TLS the file of authorities. libcurl
# reports each failure as if the host, its name or that file were the cause.

_SHORTAGES = (errno.EMFILE, errno.ENFILE)
_MAX_CLOSED = 4  # files that a request may have had open when it failed, and has closed since
_OF_FILES = frozenset({pycurl.E_SSL_CERTPROBLEM, pycurl.E_SSL_CACERT_BADFILE})
# Codes that libcurl reports if it did not get a socket, a thread, a name or a file.
_SUSPICIOUS = _OF_FILES | {
    pycurl.E_FAILED_INIT,
    pycurl.E_COULDNT_RESOLVE_PROXY,
    pycurl.E_COULDNT_RESOLVE_HOST,
    pycurl.E_COULDNT_CONNECT,
    pycurl.E_OUT_OF_MEMORY,
}


def _find_shortage() -> str:
    """Return why no more files can be opened, "" if they can."""
    opened: list[int] = []
    try:
        while len(opened) < _MAX_CLOSED:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno in _SHORTAGES:
            return _describe_shortage(error.errno, len(opened))
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return ""


def _describe_shortage(number: int | None, left: int) -> str:
    words = f"{left or 'no'} file descriptor{'' if left == 1 else 's'} left: "
    if number == errno.ENFILE:
        return f"{words}the system has too many open files"
    try:
        import resource
    except ImportError:
        return f"{words}the process has too many open files"
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"{words}the process has too many open files, and may have {limit} (ulimit -n)"


def find_descriptor_shortage(
    request: ClientRequest, code: int, message: str, os_errno: int
) -> ConnectionError | SSLError | None:
    """Return the exception for an attempt that failed because descriptors ran out, else None.

    Args:
        request: of the attempt.
        code: libcurl's; the attempt has just ended.
        message: libcurl's text for it.
        os_errno: the system's error for connecting, 0 if there was no socket.
    """
    was_refused = code == pycurl.E_COULDNT_CONNECT and os_errno not in (0, *_SHORTAGES)
    if code not in _SUSPICIOUS or was_refused:
        return None
    lack = _find_shortage()
    if not lack:
        return None
    error = (SSLError if code in _OF_FILES else ConnectionError)(
        f"{request}: no connection could be opened, with {lack} (curl error {code}: {message})",
        curl_code=code,
    )
    error.is_local = True
    return error


def convert_driver_error(error: BaseException, request: ClientRequest | None) -> BaseException:
    """Return another exception if a function of libcurl failed, which none should.

    Args:
        error: raised when a transfer was started; one that is not pycurl's is returned.
        request: the request that it failed for.
    """
    if not isinstance(error, pycurl.error):
        return error
    if is_finalizing():  # pycurl calls no callbacks any more
        failure: RequestException = exit_error()
    else:
        failure = ConnectionError(f"{request}: libcurl failed: {error}")
        failure.is_local = True
    failure.request, failure.__cause__ = request, error
    return failure


@contextmanager
def report_descriptor_shortage() -> Iterator[None]:
    """Replace an OSError or pycurl.error by a ConnectionError that names the shortage.

    Raises:
        ConnectionError: names the shortage of descriptors, if there is one.
    """
    try:
        yield
    except RequestException:
        raise
    except (OSError, pycurl.error) as error:
        lacking = ConnectionError(f"no connection can be opened: {_find_shortage() or error}")
        lacking.is_local = True
        raise lacking from error
