"""`failure_reason` says in one word why a request failed, for each kind of fault."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any, get_args

import pytest

import curlhttp
from curlhttp import Timeout, failure_reason
from curlhttp import exceptions as e
from curlhttp.types import FailureReason
from tests.servers import (
    AppServer,
    BlackHole,
    Certs,
    RawConnection,
    RawServer,
    refused_port,
    respond_and_close,
    respond_and_reset,
    respond_and_stall,
)
from tests.support.colours import IS_WINE, WITHOUT_UVLOOP, AnyClient

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


async def failed(client: AnyClient, url: str, **options: Any) -> e.RequestException:
    with pytest.raises(e.RequestException) as caught:
        await client.get(url, **options)
    return caught.value


def close_after_request(conn: RawConnection) -> None:
    conn.read_request()


CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
NO_GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"
LONG_HEAD = b"HTTP/1.1 200 OK\r\nX: " + b"a" * 400_000 + b"\r\n\r\n"


@pytest.mark.parametrize(
    ("handler", "reason", "is_lasting"),
    [
        (close_after_request, "empty", False),
        (respond_and_reset(b""), "reset", False),
        (respond_and_close(CUT), "incomplete", False),
        (respond_and_close(b"nonsense\r\n\r\n"), "protocol", False),
        (respond_and_close(NO_GZIP), "decoding", False),
        (respond_and_close(LONG_HEAD), "too_large", True),
    ],
    ids=["empty", "reset", "incomplete", "protocol", "decoding", "head too large"],
)
async def test_the_reason_is_what_the_server_did(
    make_client: MakeClient, handler: Any, reason: str, is_lasting: bool
) -> None:
    with RawServer(handler) as server:
        error = await failed(make_client(), server.url)
    assert (failure_reason(error), error.is_lasting) == (reason, is_lasting)
    assert error.request_sent
    assert failure_reason(pickle.loads(pickle.dumps(error))) == reason


async def test_the_reason_is_why_there_is_no_connection(make_client: MakeClient) -> None:
    client = make_client(timeout=Timeout(connect=0.2, read=30))
    with refused_port() as port:
        refused = await failed(client, f"http://127.0.0.1:{port}/")
    unresolved = await failed(client, "http://nobody.invalid/")
    with refused_port() as port:
        proxied = await failed(make_client(proxy=f"http://127.0.0.1:{port}"), "http://a.test/")
    errors = [refused, unresolved, proxied]
    assert [failure_reason(error) for error in errors] == ["refused", "dns", "proxy"]
    assert not any(error.request_sent or error.is_lasting for error in errors)
    if not IS_WINE:  # where the backlog is never full
        with BlackHole() as hole:
            error = await failed(client, hole.url)
        assert failure_reason(error) == "connect_timeout"


@pytest.mark.parametrize(
    ("timeout", "reason"),
    [
        (Timeout(connect=30, read=0.2), "read_timeout"),
        (Timeout(connect=30, total=0.2), "total_timeout"),
    ],
    ids=["read", "total"],
)
async def test_the_reason_is_the_phase_that_took_too_long(
    make_client: MakeClient, timeout: Timeout, reason: str
) -> None:
    with RawServer(respond_and_stall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")) as server:
        error = await failed(make_client(timeout=timeout), server.url)
    assert (failure_reason(error), error.is_lasting) == (reason, False)


async def test_the_reason_is_a_limit_or_a_rule_of_the_client(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_response_size=10, max_redirects=1)
    large = await failed(client, app.url + "/bytes/100")
    redirects = await failed(client, app.url + "/redirect/3")
    blocked = await failed(make_client(guard=curlhttp.PublicOnly()), app.url)
    invalid = [await failed(client, url) for url in ("ftp://a.test/", "http://", "word")]
    invalid.append(await failed(client, app.url, headers={"X": "a\nb"}))
    errors = [large, redirects, blocked, *invalid]
    found = [failure_reason(error) for error in errors]
    assert found == ["too_large", "redirects", "blocked", *["invalid"] * 4]
    assert all(error.is_lasting for error in invalid)


@pytest.mark.parametrize("context", ["expired", "wrong_host", "unknown_ca", "client_auth"])
async def test_an_error_of_a_certificate_lasts(
    make_client: MakeClient, certs: Certs, context: str
) -> None:
    with AppServer(getattr(certs, f"{context}_context")()) as app:
        error = await failed(make_client(verify=str(certs.ca_path)), app.url)
    assert (failure_reason(error), error.is_lasting) == ("tls", True)


async def test_an_error_of_a_server_without_tls_lasts(make_client: MakeClient) -> None:
    with RawServer(lambda conn: conn.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        error = await failed(make_client(), server.url.replace("http:", "https:"))
    assert (failure_reason(error), error.is_lasting) == ("tls", True)


async def test_the_reason_is_that_of_the_hop_that_failed(
    make_client: MakeClient, app: AppServer
) -> None:
    with refused_port() as port:
        there = f"http://127.0.0.1:{port}/there"
        error = await failed(make_client(), f"{app.url}/redirect-to?url={there}")
    assert failure_reason(error) == "refused"
    assert str(error.request.url) == there


def test_the_drop_in_has_the_reason_of_a_body_that_stalls() -> None:
    """requests raises ConnectionError for it, which alone would mean a broken connection."""
    with RawServer(respond_and_stall(CUT)) as server:
        with pytest.raises(e.ConnectionError) as caught:
            curlhttp.requests.get(server.url, timeout=0.2)
    assert failure_reason(caught.value) == "read_timeout"


EXCEPTIONS = [
    kind
    for kind in map(vars(e).__getitem__, e.__all__)
    if inspect.isclass(kind) and issubclass(kind, e.RequestException)
]


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_each_exception_has_a_reason(kind: type[e.RequestException]) -> None:
    arguments = ("message", "", 0) if issubclass(kind, e.JSONDecodeError) else ("message",)
    reason = failure_reason(kind(*arguments))
    assert reason in get_args(FailureReason)
    assert (reason == "other") == (kind is e.RequestException)


def test_other_exceptions_have_a_reason_as_well() -> None:
    errors = [
        ValueError(),
        TypeError(),
        OSError(),
        KeyError(),
        UnicodeEncodeError("a", "", 0, 0, ""),
    ]
    found = [failure_reason(error) for error in errors]
    assert found == ["invalid", "invalid", "local", "other", "invalid"]
