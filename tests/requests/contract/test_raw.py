"""`response.raw`, as code in the wild uses it."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import shutil
import socket
import tarfile
import threading
import zipfile
import zlib
from typing import Any

import pytest
import urllib3

from tests.servers import (
    AppConnection,
    AppServer,
    RawConnection,
    RawServer,
    Record,
    payload,
    respond_and_close,
)


def stream(requests: Any, url: str, **kwargs: Any) -> Any:
    return requests.get(url, stream=True, **kwargs)


def serve(app: AppServer, body: bytes, *headers: tuple[str, str], status: int = 200) -> str:
    def route(record: Record, conn: AppConnection) -> None:
        conn.reply(status, body, headers)

    app.route("/raw", route)
    return app.url + "/raw"


# -- reading


@pytest.mark.parametrize("path", ["/bytes/100000", "/chunked/100000", "/until-close?size=100000"])
def test_copyfileobj_copies_the_body(requests: Any, app: AppServer, path: str) -> None:
    target = io.BytesIO()
    with stream(requests, app.url + path) as answer:
        shutil.copyfileobj(answer.raw, target)
    assert target.getvalue() == payload(100000)


def test_read_without_arguments_reads_all_of_it(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/5000") as answer:
        assert answer.raw.read() == payload(5000)
        assert answer.raw.read() == b""
        assert answer.raw.read(10) == b""


def test_read_reads_as_much_as_asked(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/5000") as answer:
        assert answer.raw.read(7) == payload(5000)[:7]
        assert answer.raw.read(0) == b""
        assert answer.raw.read(4000) == payload(5000)[7:4007]
        assert answer.raw.read(4000) == payload(5000)[4007:]
        assert answer.raw.read(4000) == b""


@pytest.mark.parametrize("path", ["/bytes/5000", "/chunked/5000"])
def test_less_than_zero_bytes_are_all_of_them(requests: Any, app: AppServer, path: str) -> None:
    with stream(requests, app.url + path) as answer:
        assert answer.raw.read(-1) == payload(5000)
    with stream(requests, app.url + path) as answer:
        assert answer.raw.read1(0) == b""
        found = b""
        while piece := answer.raw.read1(-1):
            found += piece
        assert found == payload(5000)


@pytest.mark.parametrize(
    "cut",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 50,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n32\r\n" + b"x" * 50 + b"\r\n",
    ],
)
def test_a_cut_body_does_not_look_like_a_whole_one(requests: Any, cut: bytes) -> None:
    with RawServer(respond_and_close(cut)) as server, stream(requests, server.url) as answer:
        found = b""
        with pytest.raises(urllib3.exceptions.ProtocolError, match="Connection broken"):
            while not answer.raw.closed:
                found += answer.raw.read(64)
        assert found in (b"x" * 50, b"")  # requests loses a chunk whose end is missing


def test_a_body_that_is_cut_off_by_its_socket_is_an_error(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10000000") as answer:
        pieces = answer.iter_content(10)
        next(pieces)
        answer.raw._fp.fp.raw._sock.shutdown(socket.SHUT_RDWR)
        with pytest.raises(requests.exceptions.RequestException):
            for _ in pieces:
                pass


def test_read_reads_as_much_as_asked_across_chunks(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/chunked/7000") as answer:
        pieces = list(iter(lambda: answer.raw.read(3000), b""))
    assert b"".join(pieces) == payload(7000)


def test_raw_is_coded_unless_told_otherwise(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/gzip?size=500") as answer:
        assert gzip.decompress(answer.raw.read()) == payload(500)


def test_read_decodes_when_asked(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/gzip?size=500") as answer:
        assert answer.raw.read(decode_content=True) == payload(500)
    with stream(requests, app.url + "/gzip?size=500") as answer:
        assert answer.raw.read(100, decode_content=True) == payload(500)[:100]
        assert answer.raw.read(1000, decode_content=True) == payload(500)[100:]


class Decoder:
    """Note what came coded, and undo it, as a decoder of urllib3's kind."""

    def __init__(self) -> None:
        self.seen = b""
        self._object = zlib.decompressobj(31)

    @property
    def has_unconsumed_tail(self) -> bool:
        return bool(self._object.unconsumed_tail)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        self.seen += data
        return self._object.decompress(self._object.unconsumed_tail + data, max(max_length, 0))

    def flush(self) -> bytes:
        return b"the end"


@pytest.mark.parametrize("size", [500, 5_000_000])
@pytest.mark.parametrize("piece", [100, 1_000_000])
def test_the_decoder_can_be_replaced(requests: Any, app: AppServer, size: int, piece: int) -> None:
    coded = gzip.compress(b"x" * size)
    url = serve(app, coded, ("Content-Encoding", "gzip"))
    with stream(requests, url) as answer:
        decoder = answer.raw._decoder = Decoder()
        body = b"".join(answer.iter_content(piece))
    assert body.removesuffix(b"the end") == b"x" * size
    assert decoder.seen == coded


def test_a_decoder_in_place_may_keep_bytes_until_the_end(requests: Any, app: AppServer) -> None:
    url = serve(app, gzip.compress(b"x"), ("Content-Encoding", "gzip"))
    with stream(requests, url) as answer:
        answer.raw._decoder = Decoder()
        assert answer.raw.read(decode_content=True) == b"xthe end"


def test_a_decoder_in_place_that_fails_is_an_error_of_the_coding(
    requests: Any, app: AppServer
) -> None:
    url = serve(app, b"not gzip", ("Content-Encoding", "gzip"))
    with stream(requests, url) as answer:
        answer.raw._decoder = Decoder()
        with pytest.raises(requests.exceptions.ContentDecodingError):
            list(answer.iter_content(100))


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip-chunked"])
def test_decode_content_can_be_set(requests: Any, app: AppServer, coding: str) -> None:
    target = io.BytesIO()
    with stream(requests, app.url + f"/{coding}?size=50000") as answer:
        answer.raw.decode_content = True
        shutil.copyfileobj(answer.raw, target)
    assert target.getvalue() == payload(50000)


def test_read_can_be_replaced_by_a_partial(requests: Any, app: AppServer) -> None:
    target = io.BytesIO()
    with stream(requests, app.url + "/gzip?size=50000") as answer:
        answer.raw.read = functools.partial(answer.raw.read, decode_content=True)
        shutil.copyfileobj(answer.raw, target)
    assert target.getvalue() == payload(50000)


def test_a_gzip_file_can_wrap_raw(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/gzip?size=50000") as answer:
        with gzip.GzipFile(fileobj=answer.raw) as file:
            assert file.read() == payload(50000)


def test_stream_yields_pieces(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10000") as answer:
        pieces = list(answer.raw.stream(3000))
    assert [len(piece) for piece in pieces] == [3000, 3000, 3000, 1000]
    assert b"".join(pieces) == payload(10000)


def test_stream_decodes_when_asked(requests: Any, app: AppServer) -> None:
    for path in ("/gzip?size=10000", "/gzip-chunked?size=10000"):
        with stream(requests, app.url + path) as answer:
            assert b"".join(answer.raw.stream(3000, decode_content=True)) == payload(10000)
        with stream(requests, app.url + path) as answer:
            coded = b"".join(answer.raw.stream(3000, decode_content=False))
        assert gzip.decompress(coded) == payload(10000)


def test_read_chunked_reads_chunks(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/chunked/7000") as answer:
        assert b"".join(answer.raw.read_chunked()) == payload(7000)


def test_lines_can_be_read(requests: Any, app: AppServer) -> None:
    with stream(requests, serve(app, b"one\ntwo\nthree")) as answer:
        assert answer.raw.readline() == b"one\n"
        assert answer.raw.readline() == b"two\n"
        assert answer.raw.readline() == b"three"
        assert answer.raw.readline() == b""


def test_raw_can_be_iterated(requests: Any, app: AppServer) -> None:
    with stream(requests, serve(app, b"one\ntwo\nthree")) as answer:
        assert list(answer.raw) == [b"one\n", b"two\n", b"three"]
    with stream(requests, serve(app, b"one\ntwo\nthree")) as answer:
        assert answer.raw.readlines() == [b"one\n", b"two\n", b"three"]


def test_a_buffered_reader_can_wrap_raw(requests: Any, app: AppServer) -> None:
    with stream(requests, serve(app, b"one\ntwo\nthree")) as answer:
        reader = io.BufferedReader(answer.raw)
        assert reader.peek(3)[:3] == b"one"
        assert reader.readline() == b"one\n"
        assert reader.read() == b"two\nthree"


def test_a_text_wrapper_can_read_raw(requests: Any, app: AppServer) -> None:
    with stream(requests, serve(app, "a,é\nb,ü\n".encode())) as answer:
        answer.raw.auto_close = False
        rows = list(csv.reader(io.TextIOWrapper(answer.raw, encoding="utf-8")))
    assert rows == [["a", "é"], ["b", "ü"]]


def test_readinto_fills_a_buffer(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/100") as answer:
        buffer = bytearray(60)
        assert answer.raw.readinto(buffer) == 60
        assert bytes(buffer) == payload(100)[:60]
        assert answer.raw.readinto(buffer) == 40
        assert answer.raw.readinto(buffer) == 0


def test_json_can_load_raw(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/json") as answer:
        assert json.load(answer.raw)["hello"] == "world"


def test_tar_can_stream_from_raw(requests: Any, app: AppServer) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        info = tarfile.TarInfo("name")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"hello"))
    with stream(requests, serve(app, file.getvalue())) as answer:
        with tarfile.open(fileobj=answer.raw, mode="r|gz") as archive:
            member = archive.next()
            assert member is not None
            extracted = archive.extractfile(member)
            assert extracted is not None
            assert extracted.read() == b"hello"


def test_zip_reads_the_content(requests: Any, app: AppServer) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("name", "hello")
    answer = requests.get(serve(app, file.getvalue()))
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.read("name") == b"hello"


def test_raw_can_be_the_body_of_another_request(
    requests: Any, app: AppServer, other_app: AppServer
) -> None:
    with stream(requests, app.url + "/bytes/3000") as answer:
        told = requests.post(other_app.url + "/echo", data=answer.raw).json()
    assert told["length"] == 3000
    assert other_app.requests[0].body == payload(3000)


@pytest.mark.parametrize("path", ["/gzip?size=50000", "/gzip-chunked?size=50000"])
def test_lines_of_raw_have_no_content_coding(requests: Any, app: AppServer, path: str) -> None:
    with stream(requests, app.url + path) as answer:
        assert b"".join(answer.raw) == payload(50000)


# -- what users put in place


class Tee:
    """Keep what is read from a file, as a cache does."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.seen = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def read(self, amt: int | None = None) -> bytes:
        data: bytes = self.file.read(amt)
        self.seen += data
        return data


@pytest.mark.parametrize("path", ["/bytes/50000", "/chunked/50000", "/bytes/0"])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_file_around_fp_sees_the_body(
    requests: Any, app: AppServer, path: str, streamed: bool
) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def build_response(self, request: Any, raw: Any) -> Any:
            raw._fp = self.tee = Tee(raw._fp)
            raw._fp._safe_read = lambda size: self.tee.read(size)
            if raw.chunked:  # urllib3 takes chunks apart below read()
                raw.chunked = False
            return super().build_response(request, raw)

    with requests.Session() as session:
        adapter = Adapter()
        session.mount("http://", adapter)
        with session.get(app.url + path, stream=streamed) as answer:
            body = answer.content
    assert adapter.tee.seen == body == payload(int(path.rpartition("/")[2]))


def test_what_is_put_in_place_of_read_gives_the_content(requests: Any, app: AppServer) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def build_response(self, request: Any, raw: Any) -> Any:
            read = raw.read
            seen: list[bytes] = []
            self.seen = seen

            def spy(*args: Any, **kwargs: Any) -> bytes:
                data: bytes = read(*args, **kwargs)
                seen.append(data)
                return b"" if len(seen) == 1 else data

            raw.read = spy
            return super().build_response(request, raw)

    with requests.Session() as session:
        adapter = Adapter()
        session.mount("http://", adapter)
        content = session.get(app.url + "/bytes/50000").content
    assert b"".join(adapter.seen) == payload(50000)
    assert content == payload(50000)[len(adapter.seen[0]) :]


@pytest.mark.parametrize("path", ["/bytes/3000", "/gzip?size=3000"])
def test_a_body_can_be_read_and_put_back(requests: Any, app: AppServer, path: str) -> None:
    with stream(requests, app.url + path) as answer:
        raw = answer.raw
        body = raw.read(decode_content=False)
        raw._fp_bytes_read = 0
        raw._fp = io.BytesIO(body)
        raw.length_remaining = len(body)
        assert (raw.tell(), raw.length_remaining) == (0, len(body))
        assert not raw.closed
        assert answer.content == payload(3000)
        assert raw.closed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("_original_response", None),
        ("chunked", True),
        ("headers", {"a": "1"}),
        ("msg", None),
        ("reason", "Because"),
        ("status", 204),
        ("url", "/other"),
        ("version", 9),
        ("version_string", "HTTP/0.9"),
    ],
)
def test_what_raw_knows_can_be_set(requests: Any, app: AppServer, name: str, value: object) -> None:
    with stream(requests, app.url + "/bytes/10") as answer:
        setattr(answer.raw, name, value)
        assert getattr(answer.raw, name) == value
        assert answer.status_code == 200


@pytest.mark.parametrize("streamed", [True, False])
def test_a_response_has_what_an_adapter_changed(
    requests: Any, app: AppServer, streamed: bool
) -> None:
    class Adapter(requests.adapters.HTTPAdapter):  # type: ignore[misc]
        def build_response(self, request: Any, raw: Any) -> Any:
            raw.headers["X-Mine"] = "1"
            raw.headers.update({"Content-Type": "text/plain; charset=koi8-r"})
            raw.reason = "Because"
            response = super().build_response(request, raw)
            raw.headers["X-Late"] = "1"
            return response

    with requests.Session() as session:
        session.mount("http://", Adapter())
        with session.get(app.url + "/bytes/10", stream=streamed) as answer:
            assert answer.headers["x-mine"] == "1"
            assert answer.encoding == "koi8-r"
            assert (answer.status_code, answer.reason) == (200, "Because")
            assert "x-late" not in answer.headers
            assert answer.content == payload(10)


# -- where it stands


def test_tell_counts_the_bytes_that_were_received(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/100") as answer:
        assert answer.raw.tell() == 0
        answer.raw.read(30)
        assert answer.raw.tell() == 30
        answer.raw.read()
        assert answer.raw.tell() == 100


def test_tell_counts_coded_bytes(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/gzip?size=1000&zeros=1") as answer:
        assert len(answer.raw.read(decode_content=True)) == 1000
        assert answer.raw.tell() == int(answer.headers["Content-Length"])


@pytest.mark.parametrize("first", [0, 30])
def test_tell_counts_what_became_the_content(requests: Any, app: AppServer, first: int) -> None:
    answer = requests.get(app.url + "/bytes/100")
    assert (answer.raw.tell(), answer.raw.length_remaining) == (100, 0)
    with stream(requests, app.url + "/bytes/100") as answer:
        answer.raw.read(first)
        assert len(answer.content) == 100 - first
        assert (answer.raw.tell(), answer.raw.length_remaining) == (100, 0)


def test_progress_by_tell_while_iterating(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10000") as answer:
        seen = [answer.raw.tell() for _ in answer.iter_content(2500)]
    assert seen[-1] == 10000
    assert seen == sorted(seen)


def test_raw_is_closed_at_its_end(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/100") as answer:
        raw = answer.raw
        before = (raw.closed, raw.isclosed())
        raw.read(100)
        assert raw.read() == b""
        assert before == (False, False)
        assert (raw.closed, raw.isclosed()) == (True, True)


def test_raw_is_closed_by_close(requests: Any, app: AppServer) -> None:
    answer = stream(requests, app.url + "/stall-after")
    answer.raw.close()
    assert answer.raw.closed
    assert app.wait_for(lambda: app.open_connections == 0)
    answer.close()


def test_raw_of_a_buffered_response_is_read(requests: Any, app: AppServer) -> None:
    raw = requests.get(app.url + "/bytes/10").raw
    assert (raw.status, raw.reason, raw.read()) == (200, "OK", b"")
    assert raw.closed
    assert raw.headers["content-length"] == "10"


def test_raw_says_what_a_file_can(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10") as answer:
        assert answer.raw.readable() is True
        assert answer.raw.writable() is False
        assert answer.raw.seekable() is False
        assert isinstance(answer.raw, io.IOBase)


# -- facts


def test_facts_of_raw(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/status/404?reason=Nope") as answer:
        assert (answer.raw.status, answer.raw.reason, answer.raw.version) == (404, "Nope", 11)
        assert answer.raw.version_string == "HTTP/1.1"
    with stream(requests, app.url + "/bytes/10?seed=1") as answer:
        assert answer.raw.length_remaining == 10
        assert answer.raw.chunked is False
        assert answer.raw.decode_content is False
    with stream(requests, app.url + "/chunked/10") as answer:
        assert answer.raw.chunked is True


def test_geturl_is_what_was_asked_for(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10?seed=1#part") as answer:
        assert answer.raw.geturl() == "/bytes/10?seed=1"


def test_raw_answers_for_headers(requests: Any, app: AppServer) -> None:
    url = serve(app, b"x", ("X-A", "1"), ("X-A", "2"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"))
    with stream(requests, url) as answer:
        headers = answer.raw.headers
        assert headers.getlist("x-a") == ["1", "2"]
        assert headers.getlist("set-cookie") == ["a=1", "b=2"]
        assert headers.getlist("missing") == []
        assert headers["x-a"] == headers.get("X-a") == "1, 2"
        assert headers.get("missing") is None
        assert "X-A" in headers
        assert dict(headers)["X-A"] == "1, 2"
        assert next(iter(headers.items())) == ("X-A", "1")
        assert list(headers.iteritems())[1] == ("X-A", "2")
        assert dict(headers.itermerged())["X-A"] == "1, 2"
        assert answer.raw.getheader("X-A") == "1, 2"
        assert answer.raw.getheader("missing") is None
        assert answer.raw.getheader("missing", "x") == "x"
        assert answer.raw.getheaders()["X-A"] == "1, 2"
        assert answer.raw.info()["X-A"] == "1, 2"


@pytest.mark.parametrize("streamed", [True, False])
def test_the_original_response_has_the_header_fields_apart(
    requests: Any, app: AppServer, streamed: bool
) -> None:
    url = serve(app, b"x", ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-A", "1"))
    with requests.get(url, stream=streamed) as answer:
        message = answer.raw._original_response.msg
        assert message.get_all("Set-Cookie") == ["a=1", "b=2"]
        assert message.get_all("missing") is None
        assert message["x-a"] == "1"
        assert answer.raw._original_response.version == 11


def test_fp_and_the_original_response_are_those_of_http_client(
    requests: Any, app: AppServer
) -> None:
    url = serve(app, b"x", ("X-A", "1"), ("X-A", "2"), status=404)
    with stream(requests, url) as answer:
        for original in (answer.raw._fp, answer.raw._original_response):
            assert (original.status, original.reason, original.version) == (404, "Not Found", 11)
            assert original.chunked is False
            assert original.headers is original.msg
            assert original.getheader("x-a") == "1, 2"
            assert original.getheader("missing", "none") == "none"
            assert [item for item in original.getheaders() if item[0] == "X-A"] == [
                ("X-A", "1"),
                ("X-A", "2"),
            ]
        assert answer.raw._fp is answer.raw._original_response
        answer.raw.read()
        assert (original.isclosed(), original.closed, original.fp) == (True, False, None)


def test_the_retries_of_raw_are_a_retry(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10") as answer:
        assert answer.raw.retries.history == ()
        assert answer.raw.retries.total == 0


@pytest.mark.parametrize(
    ("framing", "data"),
    [
        ("Transfer-Encoding: chunked", b"5\r\nfirst\r\n"),
        ("Content-Length: 10", b"first"),
        ("Connection: close", b"first"),
    ],
)
def test_bytes_are_read_before_the_next_ones_come(session: Any, framing: str, data: bytes) -> None:
    goes_on = threading.Event()

    def serve(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode() + data)
        if goes_on.wait(30):
            end = b"0\r\n\r\n" if "chunked" in framing else b""
            conn.send(data.replace(b"first", b"after") + end)

    with RawServer(serve) as server, stream(session, server.url) as answer:
        assert answer.raw.read(1) == b"f"
        assert answer.raw._fp.read(4) == b"irst"
        goes_on.set()
        assert answer.raw.read() == b"after"


# -- the connection below


def test_the_socket_tells_its_addresses(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10") as answer:
        raw = answer.raw
        assert raw._connection.sock.getpeername() == ("127.0.0.1", app.port)
        assert raw._connection.sock.getpeername()[0] == "127.0.0.1"
        assert raw.connection.sock.getpeername()[1] == app.port
        host, port = raw._original_response.fp.raw._sock.getsockname()
        assert host == "127.0.0.1"
        assert port not in {0, app.port}
        assert raw._fp.fp.raw._sock.getpeername() == ("127.0.0.1", app.port)
        assert raw._connection.sock.getsockname() == (host, port)


def test_the_connection_is_gone_when_the_body_is_read(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10") as answer:
        answer.raw.read()
        assert answer.raw._connection is None
        assert answer.raw.connection is None
    assert requests.get(app.url).raw._connection is None


def test_the_socket_of_a_tls_connection_has_the_certificate(
    requests: Any, tls_app: AppServer, certs: Any
) -> None:
    with stream(requests, tls_app.url + "/bytes/10", verify=str(certs.ca_path)) as answer:
        sock = answer.raw._connection.sock
        assert sock.getpeername() == ("127.0.0.1", tls_app.port)
        names = {value for _, value in sock.getpeercert()["subjectAltName"]}
        assert {"localhost", "127.0.0.1"} <= names
        assert sock.getpeercert(binary_form=True)[:1] == b"\x30"


def test_release_conn_gives_the_connection_back(session: Any, app: AppServer) -> None:
    answer = session.get(app.url + "/bytes/10", stream=True)
    assert answer.raw.read(10) == payload(10)
    answer.raw.read()
    answer.raw.release_conn()
    answer.raw.release_conn()
    assert session.get(app.url, stream=True).content == b"hello"
    assert app.connections == 1


def test_drain_conn_makes_the_connection_usable_again(session: Any, app: AppServer) -> None:
    answer = session.get(app.url + "/bytes/1000", stream=True)
    answer.raw.drain_conn()
    answer.close()
    assert session.get(app.url, stream=True).content == b"hello"
    assert app.connections == 1


# -- together with the response


def test_iter_content_goes_on_where_raw_stopped(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10") as answer:
        assert answer.raw.read(4) == payload(10)[:4]
        assert b"".join(answer.iter_content(3)) == payload(10)[4:]


def test_content_goes_on_where_raw_stopped(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10") as answer:
        assert answer.raw.read(4) == payload(10)[:4]
        assert answer.content == payload(10)[4:]


def test_content_after_raw_was_read_is_empty(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10") as answer:
        answer.raw.read()
        assert answer.content == b""


def test_raw_can_be_replaced(requests: Any, app: AppServer) -> None:
    with stream(requests, app.url + "/bytes/10") as answer:
        answer.raw.close()
        answer.raw = io.BytesIO(b"another")
        assert answer.content == b"another"


def test_a_truncated_body_is_an_error_of_the_transport(requests: Any, app: AppServer) -> None:
    errors = requests.packages.urllib3.exceptions
    with stream(requests, app.url + "/truncated") as answer:
        with pytest.raises(errors.ProtocolError):
            answer.raw.read()
    with stream(requests, app.url + "/truncated") as answer:
        with pytest.raises(errors.HTTPError):
            list(answer.raw.stream(10))


def test_silence_is_a_timeout_of_the_transport(requests: Any, app: AppServer) -> None:
    errors = requests.packages.urllib3.exceptions
    with stream(requests, app.url + "/stall-after", timeout=(30, 0.05)) as answer:
        with pytest.raises(errors.ReadTimeoutError):
            answer.raw.read()


def test_a_head_response_has_an_empty_raw(requests: Any, app: AppServer) -> None:
    with requests.head(app.url + "/bytes/10", stream=True) as answer:
        assert answer.raw.read() == b""
