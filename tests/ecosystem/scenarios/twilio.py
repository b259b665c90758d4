"""twilio: prepares, merges the environment and sends on its own; pages; request hooks."""

from __future__ import annotations

from typing import Any

import pytest
from twilio.base.exceptions import TwilioRestException
from twilio.http.http_client import TwilioHttpClient
from twilio.rest import Client

from tests.ecosystem.fakes import form, json_response, reply_json
from tests.servers import AppConnection, AppServer, Record

MESSAGES = "/2010-04-01/Accounts/AC1/Messages.json"


def _client(app: AppServer, **settings: Any) -> Any:
    client: Any = Client("AC1", "secret", http_client=TwilioHttpClient(timeout=5, **settings))
    client.api.base_url = app.url
    return client


def creates_and_pages(app: AppServer) -> None:
    def messages(record: Record, conn: AppConnection) -> None:
        if record.method == "POST":
            return reply_json(conn, {"sid": "SM1", "body": form(record)["Body"]}, 201)
        page = int(record.query("Page", "0"))
        more = f"{MESSAGES}?Page={page + 1}" if page < 2 else None
        found = [{"sid": f"SM{page}{n}"} for n in range(2)]
        return reply_json(conn, {"messages": found, "next_page_uri": more})

    app.route(MESSAGES, messages)
    client = _client(app)
    message = client.messages.create(to="+1", from_="+2", body="é & ü", media_url=["a", "b"])
    assert (message.sid, message.body) == ("SM1", "é & ü")
    assert app.requests[0].body.count(b"MediaUrl=") == 2
    assert app.requests[0].header("authorization") == "Basic QUMxOnNlY3JldA=="
    assert len(client.messages.list(page_size=2)) == 6
    assert app.connections == 1


def runs_hooks_and_tells_errors(app: AppServer) -> None:
    seen: list[int] = []

    def hook(response: Any, *args: Any, **kwargs: Any) -> None:
        seen.append(response.status_code)

    error = {"code": 20404, "message": "not found", "more_info": "x"}
    app.route("/2010-04-01/Accounts/AC1/Messages/SM9.json", json_response(error, 404))
    client = _client(app, request_hooks={"response": hook}, max_retries=1)
    with pytest.raises(TwilioRestException) as caught:
        client.messages("SM9").fetch()
    failed: Any = caught.value
    assert (failed.status, failed.code) == (404, 20404)
    assert seen == [404]


def works_without_a_pool_and_does_not_follow(app: AppServer) -> None:
    def moved(record: Record, conn: AppConnection) -> None:
        conn.reply(307, b"", [("Location", "/elsewhere")])

    app.route(MESSAGES, moved)
    client = _client(app, pool_connections=False)
    with pytest.raises(TwilioRestException) as caught:
        client.messages.create(to="+1", from_="+2", body="x")
    failed: Any = caught.value
    assert failed.status == 307
    assert len(app.requests) == 1


def goes_through_its_proxy(app: AppServer) -> None:
    app.route("/2010-04-01/Accounts/AC1.json", json_response({"sid": "AC1"}))
    client = _client(app, proxy={"http": app.url})
    client.api.base_url = "http://api.twilio.test"
    assert client.api.accounts("AC1").fetch().sid == "AC1"
    assert app.requests[0].target.startswith("http://api.twilio.test/2010-04-01/")
