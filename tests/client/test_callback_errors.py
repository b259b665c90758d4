"""What a body, file or hook raises reaches the caller, and nothing is printed to stderr."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import curlhttp
from curlhttp import exceptions as e
from tests.servers import AppServer
from tests.support.colours import WITHOUT_UVLOOP, AnyClient

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


def pieces(*parts: bytes) -> Iterator[bytes]:
    yield from parts


async def read(client: AnyClient, url: str, streams: bool, **options: Any) -> bytes:
    if not streams:
        body: bytes = (await client.get(url, **options)).content
        return body
    async with await client.stream("GET", url, **options) as stream:
        return await stream.read()


class Boom(Exception):
    """An exception of the caller's own code."""


class Deadly(BaseException):
    """A BaseException that is no Exception, like KeyboardInterrupt."""


def broken(error: BaseException, after: int) -> Iterator[bytes]:
    for _ in range(after):
        yield b"x" * 1000
    raise error


async def broken_async(error: BaseException, after: int) -> AsyncIterator[bytes]:
    for part in broken(error, after):
        yield part


class BrokenFile(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        raise Boom("the file")


class NoBytes(io.BytesIO):
    def read(self, size: int | None = -1) -> Any:
        return "text"


@pytest.mark.parametrize("after", [0, 1, 100])
async def test_an_exception_of_a_body_reaches_the_caller_unchanged(
    after: int, client: AnyClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    boom = Boom("the iterator")
    with pytest.raises(Boom) as caught:
        await client.post(app.url + "/upload", content=broken(boom, after))
    assert caught.value is boom
    with pytest.raises(Boom):
        await client.stream("PUT", app.url + "/upload", content=broken(Boom(), after))
    assert (await client.get(app.url + "/")).content == b"hello"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("after", [0, 1, 100])
async def test_an_exception_of_an_async_body_reaches_the_caller_unchanged(
    after: int, client: AnyClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    boom = Boom("the iterator")
    expected: type[Exception] = TypeError if client.is_blocking else Boom
    with pytest.raises(expected) as caught:
        await client.post(app.url + "/upload", content=broken_async(boom, after))
    assert client.is_blocking or caught.value is boom
    assert (await client.get(app.url + "/")).content == b"hello"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (BrokenFile, Boom),
        (NoBytes, TypeError),
        (lambda: iter(["text"]), TypeError),
        (lambda: iter([b"a", None]), TypeError),
        (lambda: pieces, Boom),
    ],
    ids=["file", "file of text", "iterator of text", "iterator of None", "factory"],
)
async def test_a_broken_body_is_an_error_and_no_traceback(
    make: Callable[[], Any],
    expected: type[Exception],
    client: AnyClient,
    app: AppServer,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def factory() -> Any:
        raise Boom("the factory")

    content = make()
    with pytest.raises(expected):
        await client.post(app.url + "/upload", content=factory if content is pieces else content)
    assert (await client.get(app.url + "/")).content == b"hello"
    assert capfd.readouterr().err == ""


async def test_a_body_may_raise_a_base_exception(
    app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """A KeyboardInterrupt between two pieces, say."""
    with curlhttp.Client() as client:
        with pytest.raises(Deadly):
            client.post(app.url + "/upload", content=broken(Deadly(), 1))
        assert client.get(app.url + "/").content == b"hello"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("length", [3, 10])
async def test_a_body_of_another_length_than_announced_is_an_error(
    length: int, client: AnyClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """A body of another length is an error."""
    with pytest.raises(e.RequestException, match="were announced"):
        await client.post(
            app.url + "/upload",
            content=pieces(b"abc", b"de"),
            headers={"Content-Length": str(length)},
        )
    assert (await client.get(app.url + "/")).content == b"hello"
    assert app.connections == 2
    assert capfd.readouterr().err == ""


async def test_a_hook_that_raises_reaches_the_caller(
    make_client: MakeClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    def hook(subject: Any) -> None:
        raise Boom("the hook")

    for event in ("request", "response"):
        client = make_client(hooks={event: hook})
        with pytest.raises(Boom):
            await client.get(app.url + "/")
    assert capfd.readouterr().err == ""


async def test_a_response_too_large_is_an_error_without_a_traceback(
    client: AnyClient, app: AppServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for streams in (False, True):
        with pytest.raises(e.ResponseTooLarge):
            await read(client, app.url + "/bytes/5000", streams, max_response_size=4999)
        assert (
            len(await read(client, app.url + "/bytes/5000", streams, max_response_size=5000))
            == 5000
        )
    assert capfd.readouterr().err == ""
