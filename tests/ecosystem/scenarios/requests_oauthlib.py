"""requests-oauthlib: an auth object that signs what is prepared, and sessions that get tokens."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
import requests
from oauthlib.oauth2 import BackendApplicationClient, InvalidGrantError
from requests_oauthlib import OAuth1, OAuth1Session, OAuth2, OAuth2Session

from tests.ecosystem.fakes import Answer, form, in_turn, json_response, parts, reply_json
from tests.ecosystem.scenarios._oauth1 import verify_signature
from tests.servers import AppConnection, AppServer, Record

os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"
SECRETS = ("client secret", "token&secret")
KEYS = ("client key", SECRETS[0], "token", SECRETS[1])
TOKEN = {"access_token": "one", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r1"}


def signs_with_oauth1(app: AppServer) -> None:
    auth: Any = OAuth1(*KEYS)
    session = requests.Session()
    session.auth = auth
    assert session.get(app.url + "/echo", params={"q": "a b", "é": "+&"}).ok
    assert session.post(app.url + "/echo", data={"status": "é & ü", "x": "1"}).ok
    assert session.post(app.url + "/echo", json={"a": 1}).ok
    assert session.put(app.url + "/echo", data=b"\x00\xff").ok
    assert session.post(app.url + "/echo", files={"f": ("n.txt", b"content")}).ok
    for record in app.requests:
        fields = verify_signature(record, app.url, SECRETS)
        assert fields["oauth_consumer_key"] == "client key"
        assert fields["oauth_token"] == "token"
    assert app.requests[1].header("content-length") == str(len(app.requests[1].body))
    assert app.requests[2].body == b'{"a": 1}'
    assert app.requests[3].body == b"\x00\xff"
    assert parts(app.requests[4])["f"].content == b"content"


def signs_each_hop_of_a_redirect_once(app: AppServer) -> None:
    session: Any = OAuth1Session(*KEYS)
    response = session.get(app.url + "/redirect/1")
    assert response.text == "hello"
    verify_signature(app.requests[0], app.url, SECRETS)
    assert len(app.requests[1].values("authorization")) == 1


def signs_in_query_and_body(app: AppServer) -> None:
    in_query: Any = OAuth1(*KEYS, signature_type="query")
    requests.get(app.url + "/echo?a=1", auth=in_query, timeout=3)
    assert app.requests[0].query("a") == "1"
    assert app.requests[0].query("oauth_signature")
    in_body: Any = OAuth1(*KEYS, signature_type="body")
    requests.post(app.url + "/echo", data={"a": "1"}, auth=in_body, timeout=3)
    sent = form(app.requests[1])
    assert sent["a"] == "1"
    assert sent["oauth_token"] == "token"
    assert app.requests[1].header("content-length") == str(len(app.requests[1].body))


def dances_for_an_oauth1_token(app: AppServer) -> None:
    def respond(record: Record, conn: AppConnection) -> None:
        kind = ("Content-Type", "application/x-www-form-urlencoded")
        conn.reply(200, b"oauth_token=t1&oauth_token_secret=s1", [kind])

    app.route("/token", respond)
    session: Any = OAuth1Session(KEYS[0], SECRETS[0], callback_uri="http://client.test/cb")
    assert session.fetch_request_token(app.url + "/token")["oauth_token"] == "t1"
    assert session.authorization_url(app.url + "/authorize").endswith("?oauth_token=t1")
    session.parse_authorization_response("http://client.test/cb?oauth_token=t1&oauth_verifier=v")
    assert session.fetch_access_token(app.url + "/token")["oauth_token_secret"] == "s1"
    first = verify_signature(app.requests[0], app.url, (SECRETS[0], ""))
    assert first["oauth_callback"] == "http://client.test/cb"
    second = verify_signature(app.requests[1], app.url, (SECRETS[0], "s1"))
    assert second["oauth_verifier"] == "v"


def fetches_an_oauth2_token(app: AppServer) -> None:
    app.route("/token", json_response(TOKEN))
    session: Any = OAuth2Session(client=BackendApplicationClient(client_id="id"))
    token = session.fetch_token(app.url + "/token", client_secret="s&cret", auth=("id", "s&cret"))
    assert token["access_token"] == "one"
    assert app.requests[0].header("authorization") == "Basic aWQ6cyZjcmV0"
    assert form(app.requests[0]) == {"grant_type": "client_credentials"}
    assert session.get(app.url + "/echo").ok
    assert app.requests[1].values("authorization") == ["Bearer one"]


def trades_a_code_and_tells_errors(app: AppServer) -> None:
    app.route(
        "/token", in_turn(json_response(TOKEN), json_response({"error": "invalid_grant"}, 400))
    )
    session: Any = OAuth2Session("id", redirect_uri="http://client.test/cb", pkce="S256")
    url, state = session.authorization_url(app.url + "/authorize")
    assert "code_challenge=" in url
    found = f"http://client.test/cb?code=c0de&state={state}"
    hooked = []

    def hook(response: Any) -> Any:
        hooked.append(response.status_code)
        return response

    session.register_compliance_hook("access_token_response", hook)
    fetch: dict[str, Any] = {
        "authorization_response": found,
        "include_client_id": True,
        "client_secret": "secret",
    }
    session.fetch_token(app.url + "/token", **fetch)
    sent = form(app.requests[0])
    assert (sent["code"], sent["client_id"], sent["client_secret"]) == ("c0de", "id", "secret")
    with pytest.raises(InvalidGrantError):
        session.fetch_token(app.url + "/token", **fetch)
    assert hooked == [200, 400]


def refreshes_an_expired_token(app: AppServer) -> None:
    app.route("/token", _fresh_token({**TOKEN, "access_token": "two"}))
    kept: list[Any] = []
    session: Any = OAuth2Session(
        "id",
        token={**TOKEN, "expires_at": time.time() - 10},
        auto_refresh_url=app.url + "/token",
        auto_refresh_kwargs={"client_id": "id"},
        token_updater=kept.append,
    )
    assert session.get(app.url + "/echo").ok
    assert form(app.requests[0])["refresh_token"] == "r1"
    assert app.requests[0].header("authorization") is None
    assert app.requests[1].header("authorization") == "Bearer two"
    assert [token["access_token"] for token in kept] == ["two"]


def uses_a_token_as_auth_of_plain_requests(app: AppServer) -> None:
    auth: Any = OAuth2(token=TOKEN)
    requests.get(app.url + "/echo", auth=auth, timeout=3)
    assert app.requests[0].header("authorization") == "Bearer one"
    in_query: Any = OAuth2(token=TOKEN)
    in_query._client.default_token_placement = "query"
    requests.get(app.url + "/echo?a=1", auth=in_query, timeout=3)
    assert app.requests[1].pairs == [("a", "1"), ("access_token", "one")]


def _fresh_token(token: dict[str, Any]) -> Answer:
    def respond(record: Record, conn: AppConnection) -> None:
        assert form(record)["grant_type"] == "refresh_token"
        reply_json(conn, token)

    return respond
