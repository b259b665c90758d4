"""The types of what a client returns, as a type checker sees them.

Nothing runs this; test_results.py has mypy and pyright read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from typing_extensions import Unpack, assert_type

import curlhttp
from curlhttp.testing import Answer, Sent
from curlhttp.types import BodyOptions, RequestOptions


@dataclass
class Price:
    amount: int


def blocking(client: curlhttp.Client, streams: bool) -> None:
    streamed = client.build_request("POST", "https://a.test/", stream=True, json={"a": 1})
    assert_type(client.send(streamed), curlhttp.StreamedResponse)
    assert_type(
        client.send(client.build_request("GET", "https://a.test/", retry=2)), curlhttp.Response
    )
    made = client.build_request("GET", "https://a.test/", stream=streams)
    assert_type(made, curlhttp.ClientRequest)
    assert_type(client.send(made), curlhttp.Response)
    with client.stream("GET", "https://a.test/") as response:
        assert_type(response, curlhttp.StreamedResponse)
        for event in response.iter_events():
            assert_type(event.json(type=Price), Price)
            assert_type(event.json(), Any)
    with client.send(streamed) as response:
        assert_type(response, curlhttp.StreamedResponse)


async def awaiting(client: curlhttp.AsyncClient) -> None:
    streamed = client.build_request("GET", "https://a.test/", stream=True)
    response = await client.send(streamed)
    assert_type(response, curlhttp.AsyncStreamedResponse)
    async for event in response.aiter_events(max_event_size=None):
        assert_type(event, curlhttp.types.ServerSentEvent)
    async with client.stream("GET", "https://a.test/") as opened:
        assert_type(opened, curlhttp.AsyncStreamedResponse)


def wrapper(client: curlhttp.Client, **options: Unpack[RequestOptions]) -> curlhttp.ClientRequest:
    return client.build_request("GET", "https://a.test/", **options)


def wrapper_of_streams(client: curlhttp.Client, **options: Unpack[BodyOptions]) -> None:
    request = client.build_request("GET", "https://a.test/", stream=True, **options)
    with client.send(request) as response:
        assert_type(response, curlhttp.StreamedResponse)
    client.post("https://a.test/", **options | {"json": {"a": 1}})


def wrapper_of_anything(client: curlhttp.Client, **options: Any) -> curlhttp.ClientRequest:
    return client.build_request("GET", "https://a.test/", stream=False, **options)


def positions(response: curlhttp.StreamedResponse, later: curlhttp.AsyncStreamedResponse) -> None:
    events, awaited = response.iter_events(), later.aiter_events()
    assert_type(events.last_event_id, str)
    assert_type(awaited.retry, int | None)


def respond(sent: Sent) -> Answer:
    return Answer(json={"page": int(sent.params["page"]), "name": sent.form["name"].title()})
