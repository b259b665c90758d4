"""spotipy: Retry of real urllib3 on mounted adapters, client credentials, paging."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import spotipy
from spotipy.cache_handler import MemoryCacheHandler
from spotipy.oauth2 import SpotifyClientCredentials, SpotifyOauthError

from tests.ecosystem.fakes import form, in_turn, json_response, naps, reply_json, sent_json
from tests.servers import AppConnection, AppServer, Record

logging.disable(logging.CRITICAL)
ID = "0" * 22


def _client(app: AppServer, **settings: Any) -> Any:
    client: Any = spotipy.Spotify(auth="t0ken", **settings)
    client.prefix = app.url + "/v1/"
    return client


def _with_credentials(app: AppServer, *, session: bool) -> Any:
    manager: Any = SpotifyClientCredentials(
        "id", "secret", cache_handler=MemoryCacheHandler(), requests_session=session
    )
    manager.OAUTH_TOKEN_URL = app.url + "/token"
    client: Any = spotipy.Spotify(auth_manager=manager)
    client.prefix = app.url + "/v1/"
    return client


def gets_a_token_by_credentials(app: AppServer) -> None:
    token = {"access_token": "one", "token_type": "Bearer", "expires_in": 3600}
    error = json_response({"error": "invalid_client", "error_description": "no"}, 400)
    app.route("/token", in_turn(json_response(token), error))
    app.route("/v1/artists/" + ID, json_response({"name": "Á"}))
    client = _with_credentials(app, session=True)
    assert client.artist(ID)["name"] == "Á"
    client = _with_credentials(app, session=False)  # goes by requests.api
    with pytest.raises(SpotifyOauthError) as caught:
        client.artist(ID)
    assert caught.value.error == "invalid_client"
    assert app.requests[0].header("authorization") == "Basic aWQ6c2VjcmV0"
    assert form(app.requests[0]) == {"grant_type": "client_credentials"}
    assert app.requests[1].header("authorization") == "Bearer one"


def follows_pages(app: AppServer) -> None:
    def tracks(record: Record, conn: AppConnection) -> None:
        offset = int(record.query("offset", "0"))
        more = f"{app.url}/v1/playlists/p/items?offset={offset + 2}" if offset < 4 else None
        reply_json(conn, {"items": [offset, offset + 1], "next": more})

    app.route("/v1/playlists/p/items", tracks)
    client = _client(app)
    page, found = client._get("playlists/p/items", limit=2, market=None), []
    while page:
        found += page["items"]
        page = client.next(page)
    assert found == [0, 1, 2, 3, 4, 5]
    assert app.requests[0].target == "/v1/playlists/p/items?limit=2"  # None is not sent
    assert app.connections == 1


def retries_on_status_and_gives_up(app: AppServer) -> None:
    busy = json_response({}, 429, [("Retry-After", "4")])
    app.route(
        "/v1/artists/" + ID, in_turn(busy, json_response({}, 502), json_response({"name": "n"}))
    )
    app.route("/v1/albums/" + ID, json_response({}, 503))
    client = _client(app, retries=3, status_retries=3, backoff_factor=0.3)
    with naps() as slept:
        assert client.artist(ID)["name"] == "n"
        assert slept[0] == 4
        assert len(slept) == 2
        app.requests.clear()
        with pytest.raises(spotipy.SpotifyException) as caught:
            client.album(ID)
        error: Any = caught.value
        assert error.http_status == 429
        assert error.msg.endswith("Max Retries")
        assert "too many 503 error responses" in str(error.reason)
        assert "/v1/albums/" in error.msg
        assert len(app.requests) == 4


def writes_and_tells_errors(app: AppServer) -> None:
    app.route("/v1/me/player", json_response(None, 204))
    app.route(
        "/v1/users/u/playlists",
        json_response({"error": {"status": 403, "message": "not yours"}}, 403),
    )
    client = _client(app)
    assert client._put("me/player", payload={"device_ids": ["d"], "play": True}) is None
    assert sent_json(app.requests[0]) == {"device_ids": ["d"], "play": True}
    with pytest.raises(spotipy.SpotifyException) as caught:
        client._post("users/u/playlists", payload={"name": "é"})
    error: Any = caught.value
    assert error.http_status == 403
    assert "not yours" in error.msg
    assert error.headers["content-type"] == "application/json"
