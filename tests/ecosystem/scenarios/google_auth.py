"""google-auth: AuthorizedSession (a Session subclass) that refreshes tokens through another one."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import requests
from google.auth import exceptions
from google.auth.transport.requests import AuthorizedSession, Request, TimeoutGuard
from google.oauth2.credentials import Credentials

from tests.ecosystem.fakes import form, in_turn, json_response, reply_json
from tests.servers import AppConnection, AppServer, Record, refused_port


def _credentials(app: AppServer, **settings: Any) -> Any:
    return Credentials(
        settings.pop("token", None),
        refresh_token="r1",
        token_uri=app.url + "/token",
        client_id="id",
        client_secret="s&cret",
        **settings,
    )


def fetches_and_refreshes_tokens(app: AppServer) -> None:
    tokens = [{"access_token": f"t{n}", "expires_in": 3600} for n in (1, 2)]

    def guarded(record: Record, conn: AppConnection) -> None:
        good = record.header("authorization") == "Bearer t2"
        reply_json(conn, {"body": record.body.decode()}, 200 if good else 401)

    app.route("/token", in_turn(json_response(tokens[0]), json_response(tokens[1])))
    app.route("/guarded", guarded)
    with AuthorizedSession(_credentials(app)) as session:
        response: Any = session.post(app.url + "/guarded", data=b"body", headers={"X-A": "1"})
        assert response.json() == {"body": "body"}
        paths = [record.path for record in app.requests]
        assert paths == ["/token", "/guarded", "/token", "/guarded"]
        assert form(app.requests[0])["client_secret"] == "s&cret"
        assert app.requests[3].header("x-a") == "1"
        assert session.get(app.url + "/guarded").ok
        assert len(app.requests) == 5
        assert isinstance(session, requests.Session)


def tells_errors(app: AppServer) -> None:
    app.route("/token", json_response({"error": "invalid_grant", "error_description": "no"}, 400))
    with pytest.raises(exceptions.RefreshError) as caught:
        AuthorizedSession(_credentials(app)).get(app.url)
    assert "invalid_grant" in str(caught.value)
    with refused_port() as port:
        with pytest.raises(exceptions.TransportError) as refused:
            Request()(f"http://127.0.0.1:{port}/")
        assert isinstance(refused.value.__cause__, requests.exceptions.ConnectionError)


def is_a_transport_of_its_own(app: AppServer) -> None:
    request: Any = Request()
    response = request(app.url + "/json", method="GET", headers={"X-A": "b"}, timeout=3)
    assert response.status == 200
    assert response.headers["content-type"] == "application/json"
    assert b'"hello"' in response.data
    assert app.requests[0].header("x-a") == "b"
    copied: Any = pickle.loads(pickle.dumps(Request(requests.Session())))
    assert copied(app.url).data == b"hello"


def guards_timeouts(app: AppServer) -> None:
    with pytest.raises(requests.exceptions.Timeout):
        with TimeoutGuard(0):
            pass
    session: Any = AuthorizedSession(_credentials(app, token="t"))
    with pytest.raises(requests.exceptions.ReadTimeout):
        session.get(app.url + "/stall", timeout=0.05)
