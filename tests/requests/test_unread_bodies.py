"""Unread bodies in the drop-in: of redirects, challenges and failed attempts.

Those of the servers here never end, or decode to far more than they are. requests reads and
decodes them whole.
"""

from __future__ import annotations

import gzip
import io
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from curlhttp import requests
from curlhttp.requests.adapters import BaseAdapter, HTTPAdapter
from tests.servers import RawConnection, RawServer, response

KEPT = 65536
STREAMED = pytest.mark.parametrize("streamed", [False, True])
PIECE = bytes(65536)
CHUNK = b"10000\r\n" + PIECE + b"\r\n"
BOMB = gzip.compress(gzip.compress(bytes(100_000_000)))
TWICE = ("Content-Encoding", "gzip, gzip")
Retry: Any = requests.packages.urllib3.util.retry.Retry
Say = Callable[[RawConnection], None]


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        yield made


def plain(*fields: tuple[str, str], body: bytes = b"there", status: str = "200 OK") -> Say:
    return lambda conn: conn.send(response(body, status, fields))


def endless(
    *fields: tuple[str, str],
    status: str = "302 Found",
    piece: bytes = PIECE,
) -> Say:
    """Return what says a body without end, until the client closes the connection."""

    def say(conn: RawConnection) -> None:
        head = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields), "", ""]
        conn.send("\r\n".join(head).encode())
        while True:
            conn.send(piece)

    return say


LENGTH = ("Content-Length", str(10**12))
CHUNKED = ("Transfer-Encoding", "chunked")
NEXT = ("Location", "/next")
KINDS = {
    "to the end of the connection": endless(NEXT),
    "with a length": endless(NEXT, LENGTH),
    "chunked": endless(NEXT, CHUNKED, piece=CHUNK),
    "coded": endless(NEXT, ("Content-Encoding", "gzip")),
    "bomb": plain(NEXT, TWICE, body=BOMB, status="302 Found"),
}
KIND = pytest.mark.parametrize("kind", KINDS)


class Script(RawServer):
    """A server that sends each request the next response, and repeats the last."""

    def __init__(self, *says: Say) -> None:
        super().__init__(self._answer)
        self._says = list(says)
        self._lock = threading.Lock()

    def _answer(self, conn: RawConnection) -> None:
        while conn.read_request()[0]:
            with self._lock:
                say = self._says.pop(0) if len(self._says) > 1 else self._says[0]
            say(conn)

    def is_left(self) -> bool:
        """Return whether no endless body is being read any more."""
        return self.wait_for(lambda: self.open_connections <= 1)


def starts(response: Any) -> list[int]:
    """Return how much of each body on the way is there."""
    return [len(hop.content) for hop in response.history]


# --- redirects ---


@STREAMED
@KIND
def test_a_redirect_is_followed_whatever_its_body_is(
    session: requests.Session, kind: str, streamed: bool
) -> None:
    with Script(KINDS[kind], KINDS[kind], plain()) as server:
        tracemalloc.start()
        with session.get(server.url, stream=streamed) as response:
            assert response.text == "there"
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert server.is_left()
    assert peak < 8_000_000
    assert [hop.status_code for hop in response.history] == [302, 302]


@STREAMED
@KIND
def test_no_more_than_64_kib_of_the_body_of_a_redirect_are_kept(
    session: requests.Session, kind: str, streamed: bool
) -> None:
    with Script(KINDS[kind], KINDS[kind], plain()) as server:
        response = session.get(server.url, stream=streamed)
        sizes = starts(response)
        assert response.text == "there"
    assert sizes == {"coded": [0, 0]}.get(kind, [KEPT, KEPT])
    assert [len(b"".join(hop.iter_content(1000))) for hop in response.history] == sizes


@STREAMED
@KIND
@pytest.mark.parametrize("read", ["content", "iter_content"])
def test_a_hook_gets_no_more_of_it_either(
    session: requests.Session, kind: str, streamed: bool, read: str
) -> None:
    seen = []

    def look(got: requests.Response, **_: Any) -> None:
        if got.is_redirect:
            seen.append(len(got.content if read == "content" else b"".join(got.iter_content(99))))

    with Script(KINDS[kind], KINDS[kind], plain()) as server:
        response = session.get(server.url, stream=streamed, hooks={"response": look})
        assert response.text == "there"
    assert seen == {"coded": [0, 0]}.get(kind, [KEPT, KEPT])


@STREAMED
def test_reading_a_redirect_is_bounded_in_raw_as_well(
    session: requests.Session, streamed: bool
) -> None:
    seen = []

    def look(got: requests.Response, **_: Any) -> None:
        seen.append(len(got.raw.read(decode_content=False)))

    with Script(KINDS["chunked"], plain()) as server:
        session.get(server.url, stream=streamed, hooks={"response": look})
    assert seen == [KEPT, 5]


@STREAMED
def test_the_last_of_too_many_redirects_is_bounded(
    session: requests.Session, streamed: bool
) -> None:
    session.max_redirects = 1
    with Script(endless(NEXT)) as server:
        with pytest.raises(requests.TooManyRedirects) as caught:
            session.get(server.url, stream=streamed)
        assert caught.value.response is not None
        assert len(caught.value.response.content) == KEPT
        assert server.is_left()


@STREAMED
def test_redirects_that_a_program_follows_are_bounded(
    session: requests.Session, streamed: bool
) -> None:
    with Script(plain(NEXT, status="302 Found"), endless(NEXT), plain()) as server:
        first = session.get(server.url, stream=streamed, allow_redirects=False)
        hops = list(session.resolve_redirects(first, first.request, stream=streamed))
        assert [hop.status_code for hop in hops] == [302, 200]
        assert [len(hop.content) for hop in (first, *hops)] == [5, KEPT, 5]


@STREAMED
def test_a_prepared_request_is_followed_as_well(session: requests.Session, streamed: bool) -> None:
    with Script(endless(NEXT), endless(NEXT), plain()) as server:
        prepared = session.prepare_request(requests.Request("POST", server.url, data=b"x"))
        with session.send(prepared, stream=streamed) as response:
            assert response.text == "there"


@STREAMED
def test_subclasses_that_send_copies_are_bounded(streamed: bool) -> None:
    class Adapter(HTTPAdapter):
        def send(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            return super().send(request.copy(), *args, **kwargs)

    class Session(requests.Session):
        def send(self, request: Any, **kwargs: Any) -> Any:
            return super().send(request.copy(), **kwargs)

    with Script(endless(NEXT), endless(NEXT), plain()) as server, Session() as session:
        session.mount("http://", Adapter())
        with session.get(server.url, stream=streamed) as response:
            assert response.text == "there"
        assert starts(response) == [KEPT, KEPT]


@STREAMED
def test_a_redirect_that_a_subclass_does_not_follow_is_bounded_as_well(streamed: bool) -> None:
    class Session(requests.Session):
        def get_redirect_target(self, resp: Any) -> None:
            return None

    with Script(endless(NEXT)) as server, Session() as session:
        response = session.get(server.url, stream=streamed)
        assert response.status_code == 302
        assert len(response.content) == KEPT


@STREAMED
@pytest.mark.parametrize("location", ["\x01", "\x7f"])
def test_a_redirect_without_location_is_a_response_with_its_whole_body(
    session: requests.Session, streamed: bool, location: str
) -> None:
    """What the session follows and what the engine bounds must be the same."""
    response = plain(("Location", location), body=bytes(300_000), status="302 Found")
    with Script(response) as server:
        found = session.get(server.url, stream=streamed)
        assert (found.status_code, len(found.content)) == (302, 300_000)


def test_a_blank_before_the_colon_hides_a_location(session: requests.Session) -> None:
    with Script(plain(("Location ", "/next"), status="302 Found")) as server:
        assert session.get(server.url).status_code == 302
    assert len(server.requests) == 1


@STREAMED
def test_a_head_that_a_hook_changed_is_followed(session: requests.Session, streamed: bool) -> None:
    def change(got: requests.Response, **_: Any) -> None:
        if got.text == "moved":
            got.status_code = 302
            got.headers["Location"] = "/next"

    with Script(plain(body=b"moved"), plain()) as server:
        response = session.get(server.url, stream=streamed, hooks={"response": change})
        assert response.text == "there"


def test_the_connection_is_reused_after_a_small_body(session: requests.Session) -> None:
    small = plain(NEXT, status="302 Found", body=bytes(60_000))
    with Script(small, plain()) as server:
        for streamed in (False, True):
            server._says[:] = [small, plain()]
            session.get(server.url, stream=streamed).close()
        assert server.connections == 1


# --- redirects that are not followed ---


def test_a_streamed_redirect_that_is_not_followed_stays_on_the_wire(
    session: requests.Session,
) -> None:
    with Script(endless(NEXT)) as server:
        with session.get(server.url, stream=True, allow_redirects=False) as response:
            assert response.next.url == server.url + "/next"
            following = session.resolve_redirects(response, response.request, yield_requests=True)
            assert next(following).url == server.url + "/next"
            assert len(response.raw.read(200_000)) == 200_000
        assert server.wait_for(lambda: server.open_connections == 0)


@STREAMED
def test_a_request_sent_by_a_hook_is_not_bounded(session: requests.Session, streamed: bool) -> None:
    large = plain(NEXT, body=bytes(300_000), status="302 Found")
    seen: list[int] = []

    def send_again(got: requests.Response, **_: Any) -> None:
        if got.url.endswith("/first"):
            again = session.get(server.url + "/second", allow_redirects=False, stream=streamed)
            seen.append(len(again.content))

    with Script(plain(), large, plain()) as server:
        session.get(server.url + "/first", hooks={"response": send_again})
    assert seen == [300_000]


def test_an_adapter_without_a_session_returns_the_whole_body(session: requests.Session) -> None:
    large = plain(NEXT, body=bytes(300_000), status="302 Found")
    with Script(large, plain(), large) as server:
        response = session.get(server.url)
        prepared = response.history[0].request
        assert len(session.get_adapter(server.url).send(prepared).content) == 300_000


# --- other adapters ---


@pytest.mark.parametrize("kind", ["file", "urllib3"])
def test_bodies_of_a_custom_adapter_are_bounded(session: requests.Session, kind: str) -> None:
    class Endless(io.RawIOBase):
        given = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.given += len(buffer)
            return len(buffer)

    body = Endless()

    class Adapter(BaseAdapter):
        def send(self, request: Any, *_: Any, **__: Any) -> Any:
            response = requests.Response()
            is_first = request.url.endswith("/first")
            response.status_code = 302 if is_first else 200
            response.headers["Location"] = "/second"
            response.url, response.request = request.url, request
            response.raw = body if is_first else io.BytesIO(b"there")
            if kind == "urllib3":
                made: Any = requests.packages.urllib3.HTTPResponse
                response.raw = made(body=response.raw, preload_content=False)
            return response

        def close(self) -> None:
            pass

    session.mount("http://own/", Adapter())
    response = session.get("http://own/first")
    assert response.text == "there"
    assert starts(response) == [KEPT]
    assert body.given <= 2 * KEPT


@STREAMED
@KIND
def test_bodies_through_pools_of_urllib3_are_bounded(
    session: requests.Session, kind: str, streamed: bool
) -> None:
    import urllib3

    class Adapter(HTTPAdapter):
        def get_connection_with_tls_context(self, request: Any, *_: Any, **__: Any) -> Any:
            return pools.connection_from_url(request.url)

    with Script(KINDS[kind], KINDS[kind], plain()) as server, urllib3.PoolManager() as pools:
        session.mount("http://", Adapter())
        with session.get(server.url, stream=streamed) as response:
            assert response.text == "there"
        assert starts(response) == {"coded": [0, 0]}.get(kind, [KEPT, KEPT])
        assert server.is_left()


# --- challenges and failed attempts ---


CHALLENGE = ("WWW-Authenticate", 'Digest realm="r", nonce="n", qop="auth"')


def test_a_challenge_is_met_whatever_its_body_is(session: requests.Session) -> None:
    challenge = endless(CHALLENGE, status="401 Unauthorized")
    with Script(challenge, endless(NEXT), plain()) as server:
        auth = requests.auth.HTTPDigestAuth("u", "p")
        with session.get(server.url, auth=auth, stream=True) as response:
            assert response.text == "there"
        assert [hop.status_code for hop in response.history] == [302]
        assert server.is_left()


@STREAMED
def test_the_body_of_a_challenge_is_not_decoded_further_than_64_kib(
    session: requests.Session, streamed: bool
) -> None:
    challenge = plain(CHALLENGE, TWICE, body=BOMB, status="401 Unauthorized")
    with Script(challenge, plain()) as server:
        auth = requests.auth.HTTPDigestAuth("u", "p")
        with session.get(server.url, auth=auth, stream=streamed) as response:
            assert response.text == "there"
        assert starts(response) == [KEPT]


@pytest.mark.parametrize(
    "failing",
    [
        endless(status="503 Unavailable"),
        endless(CHUNKED, status="503 Unavailable", piece=CHUNK),
        lambda conn: (conn.send(b"HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nabc"), conn.close()),
        lambda conn: (
            conn.send(b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
            conn.close(),
        ),
    ],
    ids=["endless", "chunked", "cut", "broken"],
)
@pytest.mark.parametrize("total", [2, 1])
def test_a_stream_is_retried_whatever_the_body_of_a_failure_is(
    session: requests.Session, failing: Say, total: int
) -> None:
    retry = Retry(total=total, status_forcelist=[503], backoff_factor=0)
    session.mount("http://", HTTPAdapter(max_retries=retry))
    with Script(failing, failing, plain()) as server:
        if total == 2:
            with session.get(server.url, stream=True) as response:
                assert response.text == "there"
        else:
            with pytest.raises(requests.exceptions.RetryError):
                session.get(server.url, stream=True)
        assert server.is_left()
