"""azure-core: a pipeline over RequestsTransport, its policies, streams, and its own errors."""

from __future__ import annotations

import gzip
import time
from typing import Any

import pytest
import requests
from azure.core import PipelineClient
from azure.core.credentials import AccessToken
from azure.core.exceptions import (
    DecodeError,
    IncompleteReadError,
    ResourceNotFoundError,
    ServiceRequestError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
    map_error,
)
from azure.core.pipeline import Pipeline
from azure.core.pipeline.policies import (
    BearerTokenCredentialPolicy,
    HeadersPolicy,
    RedirectPolicy,
    RetryPolicy,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest

from tests.ecosystem.fakes import in_turn, json_response, parts, sent_json
from tests.servers import AppConnection, AppServer, Record, refused_port

CONTENT = bytes(range(256)) * 1000


def _client(app: AppServer, *policies: Any, **settings: Any) -> Any:
    return PipelineClient(
        app.url, policies=list(policies), transport=RequestsTransport(), **settings
    )


class _Credential:
    def get_token(self, *scopes: str, **kwargs: Any) -> AccessToken:
        return AccessToken("token", int(time.time()) + 3600)


def sends_what_it_is_given(app: AppServer) -> None:
    with _client(app, HeadersPolicy({"X-A": "1"})) as client:
        client.send_request(
            HttpRequest("PUT", app.url + "/echo", json={"a": 1}, params={"q": "a b"})
        )
        client.send_request(HttpRequest("POST", app.url + "/echo", files={"f": ("n.txt", b"data")}))
        client.send_request(HttpRequest("POST", app.url + "/echo", content=iter([b"a", b"b"])))
        response = client.send_request(HttpRequest("GET", app.url + "/json"))
    assert response.json()["hello"] == "world", response.json()
    put, posted, chunked, _ = app.requests
    assert (sent_json(put), put.query("q"), put.header("x-a")) == ({"a": 1}, "a b", "1")
    assert parts(posted)["f"].content == b"data"
    assert (chunked.body, chunked.chunked) == (b"ab", True)
    assert app.connections == 1


def streams_a_download(app: AppServer) -> None:
    def respond(record: Record, conn: AppConnection) -> None:
        conn.reply(200, gzip.compress(CONTENT), [("Content-Encoding", "gzip")])

    app.route("/coded", respond)
    with _client(app) as client:
        response = client.send_request(HttpRequest("GET", app.url + "/coded"), stream=True)
        assert b"".join(response.iter_bytes()) == CONTENT
        response = client.send_request(HttpRequest("GET", app.url + "/coded"), stream=True)
        assert gzip.decompress(b"".join(response.iter_raw())) == CONTENT
        response = client.send_request(HttpRequest("GET", app.url + "/coded"), stream=True)
        assert response.read() == CONTENT
        old = client._pipeline.run(client.get(app.url + "/coded"), stream=True).http_response
        assert b"".join(old.stream_download(client._pipeline)) == CONTENT


def tries_again(app: AppServer) -> None:
    busy = json_response({}, 503, [("Retry-After", "0")])
    app.route("/busy", in_turn(busy, busy, json_response({"ok": True})))
    with _client(app, RetryPolicy(retry_total=3, retry_backoff_factor=0)) as client:
        response = client.send_request(HttpRequest("PUT", app.url + "/busy", content=b"body"))
        assert response.json() == {"ok": True}
        assert [record.body for record in app.requests] == [b"body"] * 3
        with refused_port() as port, pytest.raises(ServiceRequestError) as caught:
            client.send_request(HttpRequest("GET", f"http://127.0.0.1:{port}/"))
    assert "Failed to establish a new connection" in str(caught.value)


def follows_redirects_by_itself(app: AppServer) -> None:
    with _client(app, RedirectPolicy()) as client:
        response = client.send_request(HttpRequest("GET", app.url + "/redirect/2"))
    assert response.status_code == 200
    assert len(app.requests) == 3


def authenticates(app: AppServer) -> None:
    credential: Any = _Credential()
    policy = BearerTokenCredentialPolicy(credential, "scope", enforce_https=False)
    transport: Any = RequestsTransport()
    with Pipeline(transport, [policy]) as pipeline:
        pipeline.run(HttpRequest("GET", app.url + "/json"), enforce_https=False)
    assert app.requests[0].header("authorization") == "Bearer token"


def uses_the_session_it_is_given(app: AppServer) -> None:
    with requests.Session() as session:
        session.headers["X-Mine"] = "yes"
        transport: Any = RequestsTransport(session=session, session_owner=False)
        with transport:
            assert transport.send(HttpRequest("GET", app.url)).status_code == 200
        assert session.get(app.url).ok
    assert {record.header("x-mine") for record in app.requests} == {"yes"}


def tells_errors(app: AppServer) -> None:
    app.route(
        "/bad", lambda record, conn: conn.reply(200, b"not gzip", [("Content-Encoding", "gzip")])
    )
    with _client(app) as client:
        with pytest.raises(ResourceNotFoundError):
            response = client.send_request(HttpRequest("GET", app.url + "/404"))
            map_error(response.status_code, response, {404: ResourceNotFoundError})
        with pytest.raises(IncompleteReadError):
            client.send_request(HttpRequest("GET", app.url + "/truncated"))
        with pytest.raises(IncompleteReadError):
            list(
                client.send_request(
                    HttpRequest("GET", app.url + "/truncated"), stream=True
                ).iter_bytes()
            )
        with pytest.raises(ServiceResponseError):
            list(
                client.send_request(
                    HttpRequest("GET", app.url + "/truncated"), stream=True
                ).iter_raw()
            )
        with pytest.raises(DecodeError):
            list(
                client.send_request(HttpRequest("GET", app.url + "/bad"), stream=True).iter_bytes()
            )
        with pytest.raises(ServiceResponseTimeoutError):
            client.send_request(HttpRequest("GET", app.url + "/stall"), read_timeout=0.05)
        for read in ("iter_bytes", "iter_raw"):
            request = HttpRequest("GET", app.url + "/stall-after")
            response = client.send_request(request, stream=True, read_timeout=0.05)
            with pytest.raises(ServiceResponseTimeoutError):
                list(getattr(response, read)())
