"""A body is sent whole with each attempt, or there is no other attempt."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from curlhttp import exceptions as e
from curlhttp.testing import (
    refused,
    reset,
)
from tests.support.scripted import URL, Scripted, notes_of

pytestmark = pytest.mark.anyio


# --- bodies ---


def of_bytes() -> Any:
    return b"body"


def of_text() -> Any:
    return "body"


def of_pieces() -> Any:
    return [b"bo", b"dy"]


def of_file() -> Any:
    file = io.BytesIO(b"skipped body")
    file.seek(8)
    return file


def of_factory() -> Any:
    return lambda: (piece for piece in (b"bo", b"dy"))


@pytest.mark.parametrize("make", [of_bytes, of_text, of_pieces, of_file, of_factory])
async def test_a_body_that_can_be_replayed_is_sent_whole_each_time(
    scripted: Scripted, make: Callable[[], Any]
) -> None:
    client, engine = scripted([reset(), 503, 200], retry=2)
    assert (await client.request("PUT", URL, content=make())).status_code == 200
    assert [sent.body for sent in engine.sent] == [b"body"] * 3


async def test_a_form_is_sent_whole_each_time(scripted: Scripted) -> None:
    client, engine = scripted([503, 200], retry=1)
    await client.request("PUT", URL, data={"a": "b"}, files={"f": io.BytesIO(b"file")})
    first, second = engine.sent
    assert first.body == second.body
    assert b"file" in first.body


async def test_a_file_is_rewound_to_its_start_position(scripted: Scripted) -> None:
    file = io.BytesIO(b"0123456789")
    file.seek(4)
    client, engine = scripted([reset(), 200], retry=1)
    await client.request("PUT", URL, content=file)
    assert [sent.body for sent in engine.sent] == [b"456789"] * 2


class NoSeek(io.RawIOBase):
    """A file that cannot seek, as a pipe or a socket."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(size)

    def readable(self) -> bool:
        return True


def spent_iterator() -> Any:
    return iter([b"bo", b"dy"])


def spent_generator() -> Any:
    return (piece for piece in (b"bo", b"dy"))


@pytest.mark.parametrize(
    "make", [spent_iterator, spent_generator, lambda: NoSeek(b"body")], ids=["iter", "gen", "file"]
)
async def test_with_a_consumed_body_the_original_error_is_raised(
    scripted: Scripted, make: Callable[[], Any]
) -> None:
    client, engine = scripted([reset(), 200], retry=3)
    with pytest.raises(e.ConnectionError, match="broke before the response") as caught:
        await client.request("PUT", URL, content=make())
    assert [sent.body for sent in engine.sent] == [b"body"]
    assert engine.sleeps == []
    (note,) = notes_of(caught.value)
    assert "cannot" in note
    assert "sent again" in note


async def test_an_unread_body_need_not_be_replayable(scripted: Scripted) -> None:
    client, engine = scripted([refused(), refused(), 200], retry=2)
    assert (await client.post(URL, content=spent_generator())).status_code == 200
    assert [sent.body for sent in engine.sent] == [b"", b"", b"body"]


async def test_a_response_to_a_consumed_body_is_returned(scripted: Scripted) -> None:
    client, _ = scripted([503, 200], retry=2)
    found = await client.request("PUT", URL, content=spent_generator())
    assert found.status_code == 503
    assert len(found.attempts) == 1


async def test_an_async_factory_makes_a_body_each_time(scripted: Scripted) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"bo"
        yield b"dy"

    client, engine = scripted([reset(), 200], retry=2)
    if client.is_blocking:
        return
    await client.request("PUT", URL, content=pieces)
    assert [sent.body for sent in engine.sent] == [b"body"] * 2


async def test_an_exception_of_a_factory_reaches_the_caller(scripted: Scripted) -> None:
    made: list[int] = []

    def make() -> Iterator[bytes]:
        if made:
            raise FileNotFoundError("gone")
        made.append(1)
        return iter([b"body"])

    client, _ = scripted([reset(), 200], retry=2)
    with pytest.raises(FileNotFoundError, match="gone"):
        await client.request("PUT", URL, content=make)
