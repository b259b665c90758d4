"""stripe: its RequestsClient, with retries, idempotency keys, multipart uploads, streams."""

from __future__ import annotations

import io
from typing import Any

import pytest
import stripe

from tests.ecosystem.fakes import form, in_turn, json_response, naps, parts, reply_json
from tests.servers import AppConnection, AppServer, Record, refused_port


def _client(url: str, **settings: Any) -> Any:
    addresses: Any = {"api": url, "files": url}
    http: Any = stripe.RequestsClient(**settings)
    return stripe.StripeClient(
        "sk_test_1", http_client=http, base_addresses=addresses, max_network_retries=2
    )


def creates_and_lists(app: AppServer) -> None:
    def customers(record: Record, conn: AppConnection) -> None:
        after = record.query("starting_after")
        ids = ["c3"] if after == "c2" else ["c1", "c2"]
        data = [{"id": name, "object": "customer"} for name in ids]
        page = {"object": "list", "data": data, "has_more": not after, "url": "/v1/customers"}
        reply_json(conn, {"id": "c1", "object": "customer"} if record.method == "POST" else page)

    app.route("/v1/customers", customers)
    client = _client(app.url)
    params = {"email": "a+b@é.test", "metadata": {"k": "v"}, "preferred_locales": ["de", "en"]}
    assert client.v1.customers.create(params).id == "c1"
    found = client.v1.customers.list({"limit": 2})
    assert [customer.id for customer in found.auto_paging_iter()] == ["c1", "c2", "c3"]
    sent = form(app.requests[0])
    assert sent["email"] == "a+b@é.test"
    assert sent["metadata[k]"] == "v"
    assert sent["preferred_locales[1]"] == "en"
    assert app.requests[0].header("authorization") == "Bearer sk_test_1"
    assert app.requests[0].header("idempotency-key")
    assert app.connections == 1


def retries_with_one_idempotency_key(app: AppServer) -> None:
    def leave(record: Record, conn: AppConnection) -> None:
        conn.closing = True
        conn.close()

    app.route(
        "/v1/charges",
        in_turn(leave, json_response({}, 503), json_response({"id": "ch", "object": "charge"})),
    )
    with naps() as slept:
        charge = _client(app.url).v1.charges.create({"amount": 1, "currency": "eur"})
    assert charge.id == "ch"
    assert len(slept) == 2
    assert len({record.header("idempotency-key") for record in app.requests}) == 1
    assert {record.body for record in app.requests} == {b"amount=1&currency=eur"}


def uploads_and_streams(app: AppServer) -> None:
    def pdf(record: Record, conn: AppConnection) -> None:
        conn.reply(200, b"%PDF" * 5000, [("Content-Type", "application/pdf")])

    app.route("/v1/files", json_response({"id": "file", "object": "file"}))
    app.route("/v1/quotes/q/pdf", pdf)
    client = _client(app.url)
    client.v1.files.create({"purpose": "dispute_evidence", "file": io.BytesIO(b"\x00\xff")})
    assert parts(app.requests[0])["file"].content == b"\x00\xff"
    stream = client.v1.quotes.pdf("q")
    assert stream.io.read(4) == b"%PDF"
    assert len(stream.io.read()) == 19996


def tells_errors(app: AppServer) -> None:
    error = {"error": {"type": "card_error", "code": "card_declined", "message": "no"}}
    app.route("/v1/charges", json_response(error, 402, [("Request-Id", "req_1")]))
    with pytest.raises(stripe.CardError) as caught:
        _client(app.url).v1.charges.create({"amount": 1, "currency": "eur"})
    failed: Any = caught.value
    assert failed.code == "card_declined"
    assert failed.request_id == "req_1"
    assert failed.http_status == 402
    with refused_port() as port, naps() as slept:
        with pytest.raises(stripe.APIConnectionError) as refused:
            _client(f"http://127.0.0.1:{port}").v1.charges.list()
        assert refused.value.should_retry
        assert "ConnectionError" in str(refused.value)
        assert len(slept) == 2
    with pytest.raises(stripe.APIConnectionError) as late:
        _client(app.url, timeout=0.05).raw_request("get", "/stall")
    assert "ReadTimeout" in str(late.value)
