"""progress= of uploads, in every client and with every kind of body, and the progress bar."""

from __future__ import annotations

import inspect
import io
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import exceptions as e
from curlhttp.testing import reset
from tests.servers import AppConnection, AppServer, Record, payload
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.scripted import URL, Scripted, steady

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

SIZE = 300_000


class Reports(list[tuple[int, "int | None"]]):
    """The calls of a progress function."""

    def __call__(self, done: int, total: int | None) -> None:
        self.append((done, total))


@pytest.fixture
def reports() -> Reports:
    return Reports()


def pieces() -> Iterator[bytes]:
    data = payload(SIZE)
    return (data[at : at + 70_000] for at in range(0, SIZE, 70_000))


KINDS: dict[str, Callable[[], dict[str, Any]]] = {
    "bytes": lambda: {"content": payload(SIZE)},
    "file": lambda: {"content": io.BytesIO(payload(SIZE))},
    "iterator": lambda: {"content": pieces()},
    "factory": lambda: {"content": pieces},
    "list": lambda: {"content": list(pieces())},
    "data": lambda: {"data": payload(SIZE)},
    "json": lambda: {"json": "x" * (SIZE - 2)},
    "form": lambda: {"data": {"x": "x" * (SIZE - 2)}},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_body_reports_progress(
    client: AnyClient, app: AppServer, reports: Reports, kind: str
) -> None:
    response = await client.post(app.url + "/echo", progress=reports, **KINDS[kind]())
    assert response.status_code == 200
    has_length = kind not in ("iterator", "factory", "list")
    assert reports[0] == (0, SIZE if has_length else None)
    assert reports[-1] == (SIZE, SIZE)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert app.requests[0].chunked is not has_length
    assert len(app.requests[0].body) == SIZE


async def test_a_form_with_files_reports_progress(
    client: AnyClient, app: AppServer, reports: Reports
) -> None:
    await client.post(app.url + "/echo", files={"f": io.BytesIO(payload(SIZE))}, progress=reports)
    length = len(app.requests[0].body)
    assert (reports[0], reports[-1]) == ((0, length), (length, length))
    assert length > SIZE


async def test_an_async_iterator_reports_progress(
    client: AnyClient, app: AppServer, reports: Reports
) -> None:
    async def give() -> AsyncIterator[bytes]:
        for piece in pieces():
            yield piece

    if client.is_blocking:
        with pytest.raises(TypeError, match="needs AsyncClient"):
            await client.post(app.url + "/echo", content=give(), progress=reports)
        return
    await client.post(app.url + "/echo", content=give(), progress=reports)
    assert (reports[0], reports[-1]) == ((0, None), (SIZE, SIZE))
    assert app.requests[0].body == payload(SIZE)


async def test_a_large_body_in_memory_reports_steps_in_between(
    client: AnyClient, app: AppServer, reports: Reports
) -> None:
    size = 20_000_000

    def slowly(record: Record, conn: AppConnection) -> None:
        read = 0
        for piece in conn.iter_body(record.raw):
            read += len(piece)
            if read > 1_000_000 and reports[-1][0] != size:  # the system buffers 10 MB
                conn.server.stopping.wait(0.002)
        conn.reply(200, str(read).encode())

    app.route("/slow", slowly, read_body=False)
    response = await client.post(app.url + "/slow", content=bytes(size), progress=reports)
    assert response.content == str(size).encode()
    assert any(0 < done < size for done, _ in reports)
    assert reports == sorted(set(reports))
    assert app.requests[0].header("content-length") == str(size)


async def test_a_redirect_restarts_progress(
    client: AnyClient, app: AppServer, reports: Reports
) -> None:
    url = f"{app.url}/redirect-to?status=307&url=/echo"
    await client.post(url, content=b"body", progress=reports)
    assert reports == [(0, 4), (4, 4)] * 2


async def test_a_retry_restarts_progress(scripted: Scripted, reports: Reports) -> None:
    client, engine = scripted([reset(), 503, 200], retry=steady())
    await client.request("PUT", URL, content=b"body", progress=reports)
    assert [sent.body for sent in engine.sent] == [b"body"] * 3
    assert reports == [(0, 4), (4, 4)] * 3


async def test_a_hedge_does_not_send_a_body_that_is_watched(
    scripted: Scripted, reports: Reports
) -> None:
    response = curlhttp.testing.Answer(200, delay=5)
    client, engine = scripted([response], hedge=curlhttp.Hedge(after=1))
    await client.request("PUT", URL, content=b"body", progress=reports)
    assert len(engine.sent) == 1


async def test_an_exception_of_the_function_ends_the_request(
    client: AnyClient, app: AppServer
) -> None:
    def report(done: int, total: int | None) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        await client.post(app.url + "/echo", content=payload(SIZE), progress=report)
    assert (await client.get(app.url)).status_code == 200


async def test_the_function_is_called_in_the_thread_that_sends(
    client: AnyClient, app: AppServer
) -> None:
    import threading

    seen: set[int] = set()
    await client.post(
        app.url + "/echo",
        content=io.BytesIO(payload(SIZE)),
        progress=lambda done, total: seen.add(threading.get_ident()),
    )
    assert seen == {threading.get_ident()}


async def test_a_request_without_a_body_has_no_progress(
    client: AnyClient, app: AppServer, reports: Reports
) -> None:
    with pytest.raises(ValueError, match="the request has none"):
        await client.get(app.url, progress=reports)
    assert app.connections == 0


@pytest.mark.parametrize("report", [3, "f"])
async def test_progress_must_be_callable(client: AnyClient, report: Any) -> None:
    with pytest.raises(TypeError, match="plain function"):
        await client.post(URL, content=b"x", progress=report)


async def test_a_coroutine_function_is_no_progress(client: AnyClient) -> None:
    async def report(done: int, total: int | None) -> None: ...

    assert inspect.iscoroutinefunction(report)
    with pytest.raises(TypeError, match="plain function"):
        await client.post(URL, content=b"x", progress=report)


async def test_the_given_length_is_enforced(
    client: AnyClient, app: AppServer, reports: Reports
) -> None:
    with pytest.raises(e.RequestException, match="only 300000 bytes"):
        await client.post(
            app.url + "/echo",
            content=pieces(),
            headers={"Content-Length": str(SIZE + 1)},
            progress=reports,
        )
    assert reports[0] == (0, SIZE + 1)


async def test_progress_is_reported_twenty_times_a_second(
    client: AnyClient, app: AppServer, reports: Reports
) -> None:
    size = 20_000_000  # in more than a thousand pieces
    began = time.monotonic()
    await client.post(app.url + "/bytes/1", content=bytes(size), progress=reports)
    assert len(reports) <= 3 + 20 * (time.monotonic() - began)
    assert reports[-1] == (size, size)


# --- the bar ---


def test_the_bar_shows_how_far_it_is() -> None:
    console = pytest.importorskip("rich.console")
    out = io.StringIO()
    shown = console.Console(file=out, force_terminal=True, width=100, color_system=None)
    with curlhttp.progress.bar("a [file]", console=shown) as report:
        report(0, None)
        report(1_000_000, 2_000_000)
        report(2_000_000, 2_000_000)
    last = next(line for line in reversed(out.getvalue().splitlines()) if "file" in line)
    assert "a [file]" in last
    assert "2.0/2.0 MB" in last


def test_the_bar_without_rich_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    with (
        pytest.raises(ImportError, match=r"pip install 'curlhttp\[cli\]'"),
        curlhttp.progress.bar(),
    ):
        pass


async def test_the_bar_shows_uploads_and_downloads(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    console = pytest.importorskip("rich.console")
    shown = console.Console(file=io.StringIO(), force_terminal=True, width=100)
    with curlhttp.progress.bar("up", console=shown) as report:
        await client.post(app.url + "/echo", content=payload(SIZE), progress=report)
    with curlhttp.progress.bar("down", console=shown) as report:
        found = client.real.download(app.url + "/bytes/300000", tmp_path / "f", progress=report)
        if not client.is_blocking:
            with anyio.fail_after(30):
                await found
    assert (tmp_path / "f").read_bytes() == payload(SIZE)
