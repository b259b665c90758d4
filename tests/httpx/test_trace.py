"""The trace extension: which events are reported, in which order, and failing functions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.httpx.clients import AnyHTTPX, Make
from tests.servers import AppServer, Certs
from tests.support.colours import WITHOUT_UVLOOP

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

CONNECTED = ["connection.connect_tcp.started", "connection.connect_tcp.complete"]
EXCHANGED = [
    f"{{}}.{step}.{state}"
    for step in (
        "send_request_headers",
        "send_request_body",
        "receive_response_headers",
        "receive_response_body",
        "response_closed",
    )
    for state in ("started", "complete")
]


class TraceRecorder:
    """A function for the trace extension, of the colour of its client."""

    def __init__(self, client: AnyHTTPX, fails_at: str = "") -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._fails_at = fails_at
        self.function: Any = self._record if client.is_blocking else self._record_async

    def _record(self, name: str, facts: dict[str, Any]) -> None:
        self.events.append((name, facts))
        if name == self._fails_at:
            raise ZeroDivisionError

    async def _record_async(self, name: str, facts: dict[str, Any]) -> None:
        self._record(name, facts)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]


async def test_events_are_reported_in_order(app: AppServer, httpx_client: AnyHTTPX) -> None:
    expected = [name.format("http11") for name in EXCHANGED]
    for new in (CONNECTED, []):
        recorder = TraceRecorder(httpx_client)
        await httpx_client.get(f"{app.url}/echo", extensions={"trace": recorder.function})
        assert recorder.names == new + expected
    facts = dict(recorder.events)
    request = facts["http11.send_request_headers.started"]["request"]
    assert (request.method, request.url.target) == (b"GET", b"/echo")
    version, status, reason, headers = facts["http11.receive_response_headers.complete"][
        "return_value"
    ]
    assert (version, status, reason) == (b"HTTP/1.1", 200, b"OK")
    assert (b"Content-Type", b"application/json") in headers


async def test_events_of_http2_have_their_own_names(
    h2_app: AppServer, make_httpx: Make, certs: Certs
) -> None:
    client = make_httpx(transport={"http2": True, "verify": str(certs.ca_path)})
    recorder = TraceRecorder(client)
    await client.get(h2_app.url, extensions={"trace": recorder.function})
    assert recorder.names == CONNECTED + [name.format("http2") for name in EXCHANGED]
    status, _ = dict(recorder.events)["http2.receive_response_headers.complete"]["return_value"]
    assert status == 200


async def test_failures_are_reported(
    library: Any, app: AppServer, httpx_client: AnyHTTPX, refused: int
) -> None:
    recorder = TraceRecorder(httpx_client)
    with pytest.raises(library.ConnectError):
        await httpx_client.get(
            f"http://127.0.0.1:{refused}/", extensions={"trace": recorder.function}
        )
    assert recorder.names == ["connection.connect_tcp.started", "connection.connect_tcp.failed"]
    recorder = TraceRecorder(httpx_client)
    with pytest.raises(library.RemoteProtocolError):
        await httpx_client.get(f"{app.url}/truncated", extensions={"trace": recorder.function})
    assert recorder.names[-3] == "http11.receive_response_body.failed"


@pytest.mark.parametrize(
    "name", ["http11.send_request_headers.started", "http11.receive_response_body.complete"]
)
async def test_an_exception_of_a_trace_function_is_raised_and_leaves_nothing(
    library: Any, app: AppServer, make_httpx: Make, name: str
) -> None:
    limits = library.Limits(max_connections=1)
    client = make_httpx(transport={"limits": limits}, timeout=library.Timeout(30))
    recorder = TraceRecorder(client, fails_at=name)
    with pytest.raises(ZeroDivisionError):
        await client.get(f"{app.url}/bytes/9", extensions={"trace": recorder.function})
    assert (await client.get(app.url)).content == b"hello"


async def test_a_trace_function_of_the_other_kind_is_refused(
    app: AppServer, httpx_client: AnyHTTPX
) -> None:
    recorder = TraceRecorder(httpx_client)
    other = recorder._record_async if httpx_client.is_blocking else recorder._record
    with pytest.raises(TypeError, match=r"must (?:not )?be async here"):
        await httpx_client.get(app.url, extensions={"trace": other})
    assert (await httpx_client.get(app.url)).content == b"hello"
