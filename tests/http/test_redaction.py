"""No message, repr or log of the clients and the drop-in shows a secret."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import curlhttp
from curlhttp import ClientRequest, Headers, requests
from curlhttp._http.redaction import (
    HeadRedactor,
    display_url,
    escape_bytes,
    redact_field,
    redact_log_line,
    redact_text,
    redact_url,
    strip_userinfo,
)
from curlhttp._http.url import parse_url
from tests.servers import (
    AppServer,
    BlackHole,
    RawServer,
    close_at_once,
    refused_port,
    reset_at_once,
    respond,
    respond_and_close,
    respond_and_reset,
    respond_and_stall,
    response,
)
from tests.support.colours import AnyClient

MakeClient = Callable[..., AnyClient]

# --- text ---


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/path?a=1&b=2", "/path?a=1&b=2"),
        ("/path?token=x", "/path?token=***"),
        ("/path?a=1;api_key=x;b=2", "/path?a=1;api_key=***;b=2"),
        ("/path?%74oken=x", "/path?%74oken=***"),
        ("/path?a=1#access_token=x&b=2", "/path?a=1#access_token=***&b=2"),
        ("/path;jsessionid=x?a=1", "/path;jsessionid=***"),
        ("/path?token=x?y=z", "/path?token=***"),
        ("/path?next=/x?token=y", "/path?next=/x?token=***"),
        ("/path?next=%2Fx%3Ftoken%3Dy&a=1", "/path?next=***&a=1"),
        ("/path?next=%252Fx%253Ftoken%253Dy", "/path?next=***"),
        ("/path?next=%2Fx%3Fa%3Dy", "/path?next=%2Fx%3Fa%3Dy"),
        ("/path?next=http://u:p@h/&a=1", "/path?next=http://***@h/&a=1"),
        ("/path?next=http%3A%2F%2Fu%3Ap%40h%2F&a=1", "/path?next=***&a=1"),
        ("/path?token=a;b&c=d", "/path?token=***&c=d"),
        ("/path?token=a;b=c", "/path?token=***;b=c"),
        ('/path?v={"password":"x"}&a=1', "/path?v=***&a=1"),
        ("/path?v=%7B%22password%22%3A%22x%22%7D&a=1", "/path?v=***&a=1"),
        ("/path?v=%7B%22password%22%3A%22x", "/path?v=***"),
        (r'/path?v="{\"token\":[\"x"', "/path?v=***"),
        ('/path?v={"max_tokens":5}', '/path?v={"max_tokens":5}'),
        ("see https://u:p@h/", "see https://***@h/"),
        ("https://u:p@h/?token=x", "https://***@h/?token=***"),
        ("/path?token", "/path?token"),
        ("/token/x", "/token/x"),
        ("=x", "=x"),
        ("", ""),
    ],
)
def test_the_values_of_secret_parameters_are_masked_wherever_they_stand(
    text: str, shown: str
) -> None:
    assert redact_text(text) == shown
    assert redact_text(shown) == shown


@given(st.text(st.sampled_from("tokenapi_key=&;?#%25/3D6:@ \n"), max_size=60))
def test_any_text_can_be_scrubbed(text: str) -> None:
    assert "=" in text or redact_text(text) == text or "%" in text or "://" in text
    assert "s3cret" not in redact_text(f"{text}&token=s3cret")
    assert "s3cret" not in display_url(f"https://h.test/?{text}&token=s3cret")


def test_scrubbing_is_linear_in_text_that_is_escaped_over_and_over() -> None:
    assert redact_text("%25" * 100_000) == "%25" * 100_000
    assert redact_text("a?" * 100_000 + "=") == "a?" * 100_000 + "="


def test_a_url_is_shown_without_userinfo_and_fragment() -> None:
    url = parse_url("https://user:s3cret@h.test/x?token=s3cret#s3cret")
    assert redact_url(url) == display_url(url) == "https://h.test/x?token=***"
    assert repr(url) == "URL('https://h.test/x?token=***#s3cret')"
    assert display_url(parse_url("http://h/" + "x" * 500)) == "http://h/" + "x" * 191 + "..."


def test_an_invalid_url_is_shown_without_a_possible_password() -> None:
    assert display_url("http://user:s3/cret@h:99999/?key=s3cret") == "http://***@h:99999/?key=***"
    assert display_url("h\n\x00?token=s3cret") == "h??" + "?token=***"


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("http://u:p@h/x?y=@#@", "http://h/x?y=@#@"),
        ("http+unix://u@h", "http+unix://h"),
        ("http://h/u:p@x", "http://h/u:p@x"),
        ("mailto:me@h", "mailto:me@h"),
    ],
)
def test_userinfo_is_taken_off_and_nothing_else(url: str, bare: str) -> None:
    assert strip_userinfo(url) == bare


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("Authorization", "Bearer s3cret", "[secret]"),
        ("Set-Cookie", "a=s3cret", "[secret]"),
        ("X-Api-Key", "s3cret", "[secret]"),
        ("X-Auth-Token", "s3cret", "[secret]"),
        ("X-Passwd", "s3cret", "[secret]"),
        ("X-Proxy-Pass", "s3cret", "[secret]"),
        ("OK-ACCESS-PASSPHRASE", "s3cret", "[secret]"),
        ("Cf-Access-Jwt-Assertion", "s3cret", "[secret]"),
        ("X-Bypass-Cache", "1", "1"),
        ("Location", "https://u:p@h/?a=1&code=x", "https://***@h/?a=1&code=***"),
        ("Link", "</x?token=x>; rel=next", "</x?token=***; rel=next"),
        ("Destination", "https://u:p@h/?token=x", "https://***@h/?token=***"),
        ("X-Context", '{"a": 1, "password": "s3cret"}', "[secret]"),
        ("X-Context", '{"a": 1}', '{"a": 1}'),
        ("Access-Control-Allow-Origin", "*", "*"),
        ("Cache-Control", "max-age=5", "max-age=5"),
        ("WWW-Authenticate", 'Basic realm="x"', 'Basic realm="x"'),
    ],
)
def test_a_field_is_shown_without_its_secrets(name: str, value: str, shown: str) -> None:
    assert redact_field(name, value) == shown
    assert repr(Headers([(name, value)])) == f"Headers({[(name, shown)]!r})"


# --- reprs ---


def test_headers_that_were_called_sensitive_are_not_shown() -> None:
    headers = Headers({"X-Tenant": "s3cret", "X": "y"}, sensitive=["X-TENANT", "x-later"])
    for twin in (
        headers,
        headers.copy(),
        headers.merged({"X-Later": "s3cret"}),
        Headers().merged(headers),
        Headers(headers),
    ):
        assert "s3cret" not in repr(twin)
        assert "X-Tenant" in repr(twin)
    assert headers["x-tenant"] == "s3cret"


@pytest.mark.anyio
async def test_a_clients_sensitive_headers_are_shown_nowhere(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(sensitive_headers=["X-Tenant"], headers={"X-Tenant": "s3cret"})
    app.route("/own", lambda record, out: out.reply(200, b"", [("X-Tenant", "s3cret")]))
    found = await client.get(app.url + "/redirect-to?url=/own", headers={"x-tenant": "s3cret-2"})
    for headers in (client.real.headers, found.request.headers, found.headers):
        assert "tenant" in repr(headers).lower()
        assert "s3cret" not in repr(headers)
    assert [record.header("x-tenant") for record in app.requests] == ["s3cret-2"] * 2
    client.real.headers = {"X-Tenant": "s3cret"}
    assert "s3cret" not in repr(client.real.headers)
    found.request.headers = {"X-Tenant": "s3cret"}
    assert "s3cret" not in repr(found.request.headers)


def test_requests_and_clients_show_their_url_without_its_secrets() -> None:
    with curlhttp.Client(base_url="http://u:s3cret@h.test/") as client:
        assert repr(client) == "<curlhttp.Client http://h.test/>"
        request = client.build_request("GET", "/?a=1&api_key=s3cret")
    assert str(request) == "GET http://h.test/?a=1&api_key=***"
    assert repr(request).startswith("<ClientRequest [GET http://h.test/?a=1&api_key=***] headers=[")
    assert "s3cret" not in repr(request)
    assert repr(ClientRequest("GET", "http://h.test/?token=s3cret").url) == (
        "URL('http://h.test/?token=***')"
    )


# --- messages and logs ---

SECRET = "?a=1&token=s3cret-1&X-Amz-Signature=s3cret-2#access_token=s3cret-3"


def shown_of(error: BaseException, logged: str = "") -> str:
    """Return all that a report of an error would show, and the log."""
    reprs: list[str] = []
    found: Any = error
    while found is not None:
        reprs += [repr(found), repr(getattr(found, "request", "")), repr(found.args)]
        found = found.__cause__ or found.__context__
    return "\n".join([*traceback.format_exception(error), *reprs, logged])


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


FAULTS: dict[str, Any] = {
    "close": close_at_once,
    "reset": reset_at_once,
    "cut head": respond_and_close(b"HTTP/1.1 200 OK\r\nX: y\r\n"),
    "no HTTP": respond_and_close(b"SSH-2.0\r\n"),
    "cut body": respond_and_close(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
    "reset body": respond_and_reset(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
    "silence": respond_and_stall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"),
    "too large": respond(response(b"x" * 5000)),
    "coding": respond(response(b"no gzip", headers=[("Content-Encoding", "gzip")])),
    "404": respond(response(b"", status="404 Not Found")),
    "503": respond(response(b"", status="503 Service Unavailable")),
    "loop": respond(response(b"", status="302 Found", headers=[("Location", "/" + SECRET)])),
    "bad place": respond(
        response(b"", status="302 Found", headers=[("Location", "ftp://u:s3cret@h/" + SECRET)])
    ),
}


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give a URL with secrets at which something goes wrong."""
    if request.param == "refused":
        with refused_port() as port:
            yield f"http://127.0.0.1:{port}/{SECRET}"
    elif request.param == "black hole":
        with BlackHole() as hole:
            yield f"http://127.0.0.1:{hole.port}/{SECRET}"
    elif request.param == "unknown host":
        yield f"http://no-such-host.invalid/{SECRET}"
    elif request.param == "bad URL":
        yield f"http://u:s3cret@h:99999/{SECRET}"
    elif request.param == "bad scheme":
        yield f"ftp://u:s3cret@h/{SECRET}"
    else:
        with RawServer(FAULTS[request.param]) as server:
            yield server.url + "/" + SECRET


everywhere = pytest.mark.parametrize(
    "place", ["refused", "black hole", "bad URL", "bad scheme", *FAULTS], indirect=True
)
LIMITS = curlhttp.Timeout(connect=0.1, read=0.1)


@pytest.mark.anyio
@everywhere
async def test_no_error_of_a_client_shows_a_secret(
    make_client: MakeClient, place: str, log: pytest.LogCaptureFixture
) -> None:
    """No message, repr or log shows a secret."""
    client = make_client(timeout=LIMITS, max_response_size=1000, max_redirects=2, retry=1)
    with pytest.raises(curlhttp.RequestException) as caught:
        (await client.get(place)).raise_for_status()
    assert "s3cret" not in shown_of(caught.value, log.text)
    with pytest.raises(curlhttp.RequestException) as caught:
        async with await client.stream("GET", place) as stream:
            stream.real.raise_for_status()
            await stream.read()
    assert "s3cret" not in shown_of(caught.value, log.text)


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["refused", "404", "cut body", "too large"], indirect=True)
async def test_no_error_of_a_map_or_a_download_shows_a_secret(
    make_client: MakeClient, place: str, tmp_path: Any, log: pytest.LogCaptureFixture
) -> None:
    """No message, repr or log shows a secret."""
    client = make_client(timeout=LIMITS, max_response_size=1000)
    async for result in client.map([place]):
        error = result
        if not isinstance(result, BaseException):
            with pytest.raises(curlhttp.HTTPError) as refused:
                result.raise_for_status()
            error = refused.value
        assert "s3cret" not in shown_of(error, log.text) + repr(result)
    with pytest.raises(curlhttp.RequestException) as caught:
        done = client.real.download(place, tmp_path / "file")
        if not client.is_blocking:
            await done
    assert "s3cret" not in shown_of(caught.value, log.text)


@everywhere
@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("stream", [False, True])
def test_no_error_of_the_drop_in_shows_a_secret(
    place: str, retries: int, stream: bool, log: pytest.LogCaptureFixture
) -> None:
    """In the drop-in."""
    Retry: Any = requests.packages.urllib3.util.retry.Retry  # noqa: N806
    policy = Retry(retries, status_forcelist=[503], backoff_factor=0)
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=policy))
        session.max_redirects = 2
        with pytest.raises(requests.RequestException) as caught:
            with session.get(place, timeout=LIMITS, stream=stream) as response:
                response.raise_for_status()
                _ = response.content
                raise requests.RequestException  # "too large" means nothing here
    assert "s3cret" not in shown_of(caught.value, log.text)


def test_a_retry_event_has_no_secret_either() -> None:
    calls: list[Any] = []
    Retry: Any = requests.packages.urllib3.util.retry.Retry  # noqa: N806

    class Watched(Retry):  # type: ignore[misc]
        def increment(self, *args: Any, **kwargs: Any) -> Any:
            calls.append((args, kwargs))
            return super().increment(*args, **kwargs)

    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=Watched(1)))
        with refused_port() as port, pytest.raises(requests.ConnectionError):
            session.get(f"http://127.0.0.1:{port}/{SECRET}")
    assert len(calls) == 2
    assert "s3cret" not in repr(calls)


def test_a_header_value_that_is_refused_is_not_shown() -> None:
    check: Any = requests.utils.check_header_validity
    for value in ("s3cret\n", 5):
        with pytest.raises(requests.exceptions.InvalidHeader) as caught:
            check(("X-Api-Key", value))
        assert "s3cret" not in str(caught.value)
        assert "5" not in str(caught.value)


def test_a_pool_of_urllib3_itself_shows_no_secret_in_its_error() -> None:
    import urllib3

    class Adapter(requests.adapters.HTTPAdapter):
        def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
            return urllib3.HTTPConnectionPool("127.0.0.1", port)

    with requests.Session() as session, refused_port() as port:
        session.mount("http://", Adapter())
        with pytest.raises(
            requests.ConnectionError, match=r"with url: /\?a=1&token=\*\*\*"
        ) as caught:
            session.get(f"http://127.0.0.1:{port}/{SECRET}")
    assert "s3cret" not in shown_of(caught.value)
    assert "s3cret" not in repr(caught.value.args[0])


# --- lines that were on the wire ---


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"GET /a?b=1 HTTP/1.1", "GET /a?b=1 HTTP/1.1"),
        (b"GET /a?token=x&b=1 HTTP/2", "GET /a?token=***&b=1 HTTP/2"),
        (b"GET http://u:p@host/?key=x HTTP/1.1", "GET http://***@host/?key=*** HTTP/1.1"),
        (b"CONNECT host:443 HTTP/1.1", "CONNECT host:443 HTTP/1.1"),
        (b"HTTP/1.1 200 OK: fine", "HTTP/1.1 200 OK: fine"),
        (b"Authorization: Bearer x", "Authorization: [secret]"),
        (b"authorization:x", "authorization: [secret]"),
        (b"Set-Cookie : a=x", "Set-Cookie : [secret]"),
        (b"X-Mine: x", "X-Mine: [secret]"),
        (b"X-Other:  two  blanks", "X-Other:  two  blanks"),
        (b"Location: http://u:p@h/?sig=x", "Location: http://***@h/?sig=***"),
        (b" http://u:p@h/?sig=x", " http://***@h/?sig=***"),
        (b"\t&token=x", r"\x09&token=***"),
        (b"GET /?keyGET /?key=x HTTP/1.1", "GET /?keyGET /?key=***"),  # cut, and sent again
        (b"X: \x1b[2J\xff\t", r"X: \x1b[2J\xff\x09"),
        (b"", ""),
    ],
)
def test_a_line_of_a_head_is_shown_without_its_secrets(raw: bytes, shown: str) -> None:
    assert HeadRedactor({"x-mine"}).line(raw) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"Proxy auth using Basic with user 'it's me'\n", "Proxy auth using Basic with user '***'"),
        (b"HSTS => https://u:p@host/?token=x \n", "HSTS => https://***@host/?token=***"),
        (b"to 'http://h/?a='&token=x'", "to 'http://h/?a='&token=***"),
        (b"  Trying 127.0.0.1:80...\n", "  Trying 127.0.0.1:80..."),
    ],
)
def test_a_line_of_libcurls_log_is_shown_without_users_and_secrets(raw: bytes, shown: str) -> None:
    assert redact_log_line(raw) == shown


@given(st.binary())
def test_any_bytes_become_one_printable_line(raw: bytes) -> None:
    for text in (escape_bytes(raw), HeadRedactor(()).line(raw), redact_log_line(raw)):
        assert text == "" or text.isprintable()
