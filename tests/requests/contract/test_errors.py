"""Which error each fault becomes, buffered and streamed."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Any

import pytest

from tests.servers import (
    AppServer,
    BlackHole,
    Certs,
    HTTPProxy,
    RawConnection,
    RawServer,
    close_at_once,
    refused_port,
    reset_at_once,
    respond_and_close,
    respond_and_reset,
)
from tests.support.pace import paced

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
STREAMED = pytest.mark.parametrize("streamed", [False, True])


def fails(requests: Any, name: str, url: str, streamed: bool = False, **kwargs: Any) -> Any:
    """Get a URL and its body; return the error, which must be of exactly that class."""
    kwargs.setdefault("timeout", 5)
    with pytest.raises(requests.RequestException) as caught:
        with requests.get(url, stream=streamed, **kwargs) as answer:
            _ = answer.content
    # A subclass of ours may say more; what requests' tree says of it must be the same.
    expected = getattr(requests.exceptions, name)
    assert isinstance(caught.value, expected)
    known = [cls for cls in type(caught.value).__mro__ if cls.__name__ in KNOWN]
    assert known[0] is expected
    return caught.value


KNOWN = [
    "RequestException",
    "HTTPError",
    "ConnectionError",
    "ProxyError",
    "SSLError",
    "Timeout",
    "ConnectTimeout",
    "ReadTimeout",
    "URLRequired",
    "TooManyRedirects",
    "MissingSchema",
    "InvalidSchema",
    "InvalidURL",
    "InvalidHeader",
    "InvalidProxyURL",
    "ChunkedEncodingError",
    "ContentDecodingError",
    "StreamConsumedError",
    "RetryError",
    "UnrewindableBodyError",
    "InvalidJSONError",
    "JSONDecodeError",
]


# -- before there is an answer


@STREAMED
def test_a_refused_connection(requests: Any, streamed: bool) -> None:
    with refused_port() as port:
        url = f"http://127.0.0.1:{port}/"
        error = fails(requests, "ConnectionError", url, streamed)
    assert error.request.url == url
    assert error.response is None
    assert isinstance(_first_of_the_chain(error), ConnectionRefusedError)
    assert f"[Errno {errno.ECONNREFUSED}]" in str(error)


@STREAMED
def test_an_unknown_host(requests: Any, streamed: bool) -> None:
    error = fails(requests, "ConnectionError", "http://no-such-host.invalid/", streamed)
    assert "no-such-host.invalid" in str(error)
    assert isinstance(_first_of_the_chain(error), socket.gaierror)


def _first_of_the_chain(error: Any) -> Any:
    while error.__context__ is not None:
        error = error.__context__
    return error


@pytest.mark.parametrize("timeout", [0.05, (0.05, None), (0.05, 9)])
def test_a_host_that_does_not_answer_is_a_connect_timeout(requests: Any, timeout: Any) -> None:
    with BlackHole() as hole:
        error = fails(requests, "ConnectTimeout", hole.url, timeout=timeout)
    assert isinstance(error, requests.ConnectionError)
    assert isinstance(error, requests.Timeout)
    assert error.request.url == hole.url + "/"


@STREAMED
@pytest.mark.parametrize("timeout", [0.05, (30, 0.05), (None, 0.05)])
def test_a_server_that_does_not_answer_is_a_read_timeout(
    requests: Any, app: AppServer, timeout: Any, streamed: bool
) -> None:
    if isinstance(timeout, float):  # it bounds connecting, too
        timeout = paced(timeout)
    error = fails(requests, "ReadTimeout", app.url + "/stall", streamed, timeout=timeout)
    assert isinstance(error, requests.Timeout)
    assert not isinstance(error, requests.ConnectionError)
    assert error.request.url == app.url + "/stall"


def test_a_head_that_stops_is_a_read_timeout(requests: Any, app: AppServer) -> None:
    fails(requests, "ReadTimeout", app.url + "/stall-in-head", timeout=(30, 0.05))


@pytest.mark.parametrize("handler", [close_at_once, reset_at_once, respond_and_close(b"")])
def test_a_connection_that_ends_without_an_answer(requests: Any, handler: Any) -> None:
    with RawServer(handler) as server:
        fails(requests, "ConnectionError", server.url)


@pytest.mark.parametrize("text", [b"hello\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\0\1\2\r\n\r\n"])
def test_an_answer_that_is_not_http(requests: Any, text: bytes) -> None:
    with RawServer(respond_and_close(text)) as server:
        fails(requests, "ConnectionError", server.url)


def test_http_where_tls_is_expected(requests: Any) -> None:
    def handler(conn: RawConnection) -> None:
        conn.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        conn.finish_and_close()

    with RawServer(handler) as server:
        error = fails(requests, "SSLError", server.url.replace("http:", "https:"))
    cause = error.args[0].reason.args[0]
    assert isinstance(cause, ssl.SSLError)
    assert not isinstance(cause, ssl.SSLCertVerificationError)
    assert cause.library == "SSL"
    assert f"[SSL: {cause.reason}]" in str(error)


@STREAMED
def test_an_unknown_authority(requests: Any, tls_app: AppServer, streamed: bool) -> None:
    """S56: in the drop-in."""
    error = fails(requests, "SSLError", tls_app.url, streamed)
    assert isinstance(error, requests.ConnectionError)
    assert error.request.url == tls_app.url + "/"
    does_not_trust(error)


def test_a_certificate_of_another_host(requests: Any, certs: Certs) -> None:
    """S56: in the drop-in."""
    with AppServer(certs.wrong_host_context()) as server:
        does_not_trust(fails(requests, "SSLError", server.url, verify=str(certs.ca_path)))


def test_an_expired_certificate(requests: Any, certs: Certs) -> None:
    """S56: in the drop-in."""
    with AppServer(certs.expired_context()) as server:
        does_not_trust(fails(requests, "SSLError", server.url, verify=str(certs.ca_path)))


def does_not_trust(error: Any) -> None:
    cause = error.args[0].reason.args[0]
    assert isinstance(cause, ssl.SSLCertVerificationError)
    assert cause.reason == "CERTIFICATE_VERIFY_FAILED"
    assert "[SSL: CERTIFICATE_VERIFY_FAILED]" in str(error)
    assert isinstance(_first_of_the_chain(error), ssl.SSLCertVerificationError)


# -- while the body comes


@STREAMED
def test_a_body_that_ends_early(requests: Any, app: AppServer, streamed: bool) -> None:
    fails(requests, "ChunkedEncodingError", app.url + "/truncated", streamed)


@STREAMED
@pytest.mark.parametrize("body", [b"5\r\nabc", b"5\r\nhello\r\n", b"zz\r\nabc", b"-1\r\nabc"])
def test_chunks_that_are_cut_or_broken(requests: Any, body: bytes, streamed: bool) -> None:
    with RawServer(respond_and_close(CHUNKED + body)) as server:
        fails(requests, "ChunkedEncodingError", server.url, streamed)


@STREAMED
def test_a_head_that_is_cut_where_chunks_were_to_come(requests: Any, streamed: bool) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
    with RawServer(respond_and_close(head)) as server:
        fails(requests, "ChunkedEncodingError", server.url, streamed)


@STREAMED
def test_lengths_that_contradict_each_other(requests: Any, session: Any, streamed: bool) -> None:
    retry = requests.packages.urllib3.util.retry.Retry(total=3, backoff_factor=0)
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"
    with RawServer(respond_and_close(head)) as server:
        for get in (requests.get, session.get):
            with pytest.raises(requests.exceptions.InvalidHeader) as caught:
                get(server.url, stream=streamed)
            errors = requests.packages.urllib3.exceptions
            assert isinstance(caught.value.args[0], errors.InvalidHeader)
            assert caught.value.request.url == server.url + "/"
        assert len(server.requests) == 2


@STREAMED
def test_a_connection_that_is_reset_in_the_body(requests: Any, streamed: bool) -> None:
    text = HEAD + b"Content-Length: 9\r\n\r\nabc"
    with RawServer(respond_and_reset(text)) as server:
        with pytest.raises(
            (requests.exceptions.ChunkedEncodingError, requests.ConnectionError)
        ) as caught:
            with requests.get(server.url, stream=streamed) as answer:
                _ = answer.content
    assert not isinstance(caught.value, requests.Timeout)


@STREAMED
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
def test_a_body_that_is_not_coded_as_it_says(requests: Any, coding: str, streamed: bool) -> None:
    text = HEAD + b"Content-Encoding: %b\r\nContent-Length: 7\r\n\r\n\xffgarbage"[:-1]
    with RawServer(respond_and_close(text % coding.encode())) as server:
        fails(requests, "ContentDecodingError", server.url, streamed)


@STREAMED
def test_silence_in_the_body_is_a_connection_error(
    requests: Any, app: AppServer, streamed: bool
) -> None:
    error = fails(
        requests, "ConnectionError", app.url + "/stall-after", streamed, timeout=(30, 0.05)
    )
    assert not isinstance(error, requests.Timeout)


def test_what_came_before_the_error_can_be_used(requests: Any, app: AppServer) -> None:
    seen = b""
    with requests.get(app.url + "/truncated?sent=100", stream=True) as answer:
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            for piece in answer.iter_content(10):
                seen += piece
    assert len(seen) == 100


def test_iter_lines_raises_like_iter_content(requests: Any, app: AppServer) -> None:
    with requests.get(app.url + "/truncated", stream=True) as answer:
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            list(answer.iter_lines())


def test_a_slow_body_is_no_timeout(requests: Any, app: AppServer) -> None:
    url = app.url + f"/drip?n=6&interval={paced(0.04)}"
    answer = requests.get(url, timeout=paced(0.16))
    assert answer.content == b"xxxxxx"


def test_a_session_works_after_an_error(requests: Any, session: Any, app: AppServer) -> None:
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        session.get(app.url + "/truncated")
    with pytest.raises(requests.ReadTimeout):
        session.get(app.url + "/stall", timeout=(30, 0.05))
    assert session.get(app.url).text == "hello"


# -- errors of proxies


def test_a_proxy_that_refuses_the_connection(requests: Any, app: AppServer) -> None:
    with refused_port() as port:
        proxies = {"http": f"http://127.0.0.1:{port}", "https": f"http://127.0.0.1:{port}"}
        fails(requests, "ProxyError", app.url, proxies=proxies)
        fails(requests, "ProxyError", "https://127.0.0.1:1/", proxies=proxies)


def test_an_unknown_proxy(requests: Any, app: AppServer) -> None:
    fails(requests, "ProxyError", app.url, proxies={"http": "http://no-such-host.invalid:1"})


@pytest.mark.parametrize("url", ["http:///", "http://:8080", "http:/broken:3128", "http://"])
def test_a_proxy_url_without_a_host(requests: Any, app: AppServer, url: str) -> None:
    fails(requests, "InvalidProxyURL", app.url, proxies={"http": url})


def test_a_proxy_that_refuses_a_request_is_an_answer(requests: Any, app: AppServer) -> None:
    with HTTPProxy(("u", "p")) as proxy:
        assert requests.get(app.url, proxies={"http": proxy.url}).status_code == 407


def test_a_proxy_that_refuses_a_tunnel_is_an_error(requests: Any) -> None:
    """S64: in the drop-in."""
    with HTTPProxy(("u", "p")) as proxy:
        error = fails(requests, "ProxyError", "https://127.0.0.1:1/", proxies={"https": proxy.url})
        assert "407" in str(error)
        proxy.connect_status, proxy.credentials = 503, None
        error = fails(requests, "ProxyError", "https://127.0.0.1:1/", proxies={"https": proxy.url})
        assert "503" in str(error)


# -- what is wrong before anything is sent


@pytest.mark.parametrize(
    ("url", "name", "text"),
    [
        (
            "foo",
            "MissingSchema",
            "Invalid URL 'foo': No scheme supplied. Perhaps you meant https://foo?",
        ),
        ("", "MissingSchema", "Invalid URL '': No scheme supplied. Perhaps you meant https://?"),
        (
            "example.com/path",
            "MissingSchema",
            "Invalid URL 'example.com/path': No scheme supplied. "
            "Perhaps you meant https://example.com/path?",
        ),
        (
            None,
            "MissingSchema",
            "Invalid URL 'None': No scheme supplied. Perhaps you meant https://None?",
        ),
        ("http://", "InvalidURL", "Invalid URL 'http://': No host supplied"),
        ("http:///path", "InvalidURL", "Invalid URL 'http:///path': No host supplied"),
        ("http://*example.com", "InvalidURL", "URL has an invalid label."),
        ("http://.example.com", "InvalidURL", "URL has an invalid label."),
        ("http://host:port/", "InvalidURL", None),
        ("http://host:99999/", "InvalidURL", None),
        ("http://[::1/", "InvalidURL", None),
        ("http://two words/", "InvalidURL", None),
        ("ftp://host/", "InvalidSchema", "No connection adapters were found for 'ftp://host/'"),
        ("mailto:a@b", "InvalidSchema", "No connection adapters were found for 'mailto:a@b'"),
        (
            "localhost:8000/x",
            "InvalidSchema",
            "No connection adapters were found for 'localhost:8000/x'",
        ),
    ],
)
def test_a_url_that_cannot_be_sent(
    requests: Any, session: Any, url: Any, name: str, text: str | None
) -> None:
    with pytest.raises(getattr(requests.exceptions, name)) as caught:
        session.get(url)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, requests.RequestException)
    assert text is None or str(caught.value) == text


@pytest.mark.parametrize("timeout", [(1,), (1, 2, 3), ()])
def test_a_timeout_that_is_no_pair(requests: Any, app: AppServer, timeout: Any) -> None:
    with pytest.raises(ValueError) as caught:
        requests.get(app.url, timeout=timeout)
    assert str(caught.value) == (
        f"Invalid timeout {timeout}. Pass a (connect, read) timeout tuple, "
        "or a single float to set both timeouts to the same value."
    )


@pytest.mark.parametrize(
    ("timeout", "text"),
    [
        ("a", "Timeout value connect was a, but it must be an int, float or None."),
        (True, "Timeout cannot be a boolean value. It must be an int, float or None."),
        (
            0,
            "Attempted to set connect timeout to 0, but the timeout cannot be set to a value "
            "less than or equal to 0.",
        ),
        (
            -1,
            "Attempted to set connect timeout to -1, but the timeout cannot be set to a value "
            "less than or equal to 0.",
        ),
    ],
)
def test_a_timeout_that_is_no_time(requests: Any, app: AppServer, timeout: Any, text: str) -> None:
    requests.get(app.url, timeout=1)  # which True equals
    with pytest.raises(ValueError) as caught:
        requests.get(app.url, timeout=timeout)
    assert str(caught.value) == text


@pytest.mark.parametrize("timeout", [None, 5, 5.5, (5, 5), (None, None), (5, None), (None, 5.5)])
def test_timeouts_that_are_right(requests: Any, app: AppServer, timeout: Any) -> None:
    assert requests.get(app.url, timeout=timeout).status_code == 200


def test_a_timeout_of_the_transport_is_accepted(requests: Any, app: AppServer) -> None:
    kind = requests.packages.urllib3.util.timeout.Timeout
    assert requests.get(app.url, timeout=kind(connect=30, read=30)).status_code == 200
    fails(requests, "ReadTimeout", app.url + "/stall", timeout=kind(connect=30, read=0.05))


@pytest.mark.parametrize(
    "headers",
    [{"X": 1}, {"X": None, "Y": 1.5}, {"X": "a\r\nb"}, {"X": " a"}, {"X\n": "a"}, {"": "a"}],
)
def test_a_header_that_cannot_be_sent(
    requests: Any, app: AppServer, headers: dict[str, Any]
) -> None:
    with pytest.raises(requests.exceptions.InvalidHeader) as caught:
        requests.get(app.url, headers=headers)
    assert isinstance(caught.value, ValueError)
    assert app.requests == []


# -- what the errors hold


@pytest.mark.parametrize("fault", ["refused", "unknown", "timeout"])
def test_the_first_argument_has_the_reason(requests: Any, fault: str) -> None:
    errors = requests.packages.urllib3.exceptions
    if fault == "refused":
        with refused_port() as port:
            error = fails(requests, "ConnectionError", f"http://127.0.0.1:{port}/")
        expected = errors.NewConnectionError
    elif fault == "unknown":
        error = fails(requests, "ConnectionError", "http://no-such-host.invalid/")
        expected = errors.NewConnectionError
    else:
        with BlackHole() as hole:
            error = fails(requests, "ConnectTimeout", hole.url, timeout=0.05)
        expected = errors.ConnectTimeoutError
    assert isinstance(error.args[0], errors.MaxRetryError)
    assert isinstance(error.args[0].reason, expected)


def test_the_first_argument_of_a_read_timeout_is_one(requests: Any, app: AppServer) -> None:
    errors = requests.packages.urllib3.exceptions
    error = fails(requests, "ReadTimeout", app.url + "/stall", timeout=(30, 0.05))
    assert isinstance(error.args[0], errors.ReadTimeoutError)


def test_texts_that_code_looks_for(requests: Any, app: AppServer) -> None:
    with refused_port() as port:
        error = fails(requests, "ConnectionError", f"http://127.0.0.1:{port}/")
    assert "Max retries exceeded with url" in str(error)
    assert "Connection refused" in str(error)
    error = fails(requests, "ReadTimeout", app.url + "/stall", timeout=(30, 0.05))
    assert "Read timed out" in str(error)
    error = fails(requests, "ConnectionError", app.url + "/stall-after", timeout=(30, 0.05))
    assert "Read timed out" in str(error)
    with RawServer(respond_and_close(b"")) as server:
        error = fails(requests, "ConnectionError", server.url)
    assert "Connection aborted" in str(error)


@STREAMED
def test_a_body_that_ends_early_tells_how_much_of_it_came(
    requests: Any, app: AppServer, streamed: bool
) -> None:
    errors = requests.packages.urllib3.exceptions
    error = fails(requests, "ChunkedEncodingError", app.url + "/truncated?sent=100", streamed)
    assert "Connection broken: IncompleteRead(100 bytes read, 900 more expected)" in str(error)
    reason = error.args[0].args[1]
    assert isinstance(reason, errors.IncompleteRead)
    assert (reason.partial, reason.expected) == (100, 900)
    with RawServer(respond_and_close(CHUNKED + b"5\r\nabc")) as server:
        error = fails(requests, "ChunkedEncodingError", server.url, streamed)
    assert "Connection broken: IncompleteRead(3 bytes read" in str(error)


def test_errors_of_hooks_and_auth_come_through(requests: Any, app: AppServer) -> None:
    class Mine(Exception):
        pass

    def fail(*_: Any, **__: Any) -> Any:
        raise Mine

    with pytest.raises(Mine):
        requests.get(app.url, auth=fail)
    with pytest.raises(Mine):
        requests.get(app.url, hooks={"response": fail})
    with pytest.raises(Mine):
        requests.post(app.url + "/echo", data=(fail() for _ in range(1)))
