"""tweepy: OAuth 1 signatures, media uploads, a session that trusts a private CA, streams."""

from __future__ import annotations

import io
from typing import Any

import pytest
import tweepy

from tests.ecosystem.fakes import (
    in_turn,
    json_response,
    naps,
    parts,
    reply_json,
    sent_json,
    tls_app,
)
from tests.ecosystem.scenarios._oauth1 import verify_signature
from tests.servers import AppConnection, AppServer, Record

KEYS = ("ck", "c s", "at", "a&s")
SECRETS = (KEYS[1], KEYS[3])


def _api(url: str, ca: str, **settings: Any) -> Any:
    host = url.removeprefix("https://")
    auth: Any = tweepy.OAuth1UserHandler(*KEYS)
    api: Any = tweepy.API(auth, host=host, upload_host=host, **settings)
    api.session.verify = ca
    return api


def posts_and_pages(app: AppServer) -> None:
    def timeline(record: Record, conn: AppConnection) -> None:
        first = int(record.query("max_id", "6"))
        found = [
            {"id": n, "id_str": str(n), "text": "é"} for n in range(first, max(first - 2, 0), -1)
        ]
        reply_json(conn, found)

    with tls_app() as (tls, ca, _):
        tls.route("/1.1/statuses/update.json", json_response({"id": 1, "text": "a & é"}))
        tls.route("/1.1/statuses/home_timeline.json", timeline)
        api = _api(tls.url, ca)
        assert api.update_status("a & é", media_ids=[1, 2]).text == "a & é"
        cursor: Any = tweepy.Cursor(api.home_timeline, count=2)
        assert [status.id for status in cursor.items()] == [6, 5, 4, 3, 2, 1]
        for record in tls.requests:
            verify_signature(record, tls.url, SECRETS)
        assert tls.connections == 5  # tweepy closes its session after each call, and continues


def uploads_media(app: AppServer) -> None:
    with tls_app() as (tls, ca, _):
        tls.route("/1.1/media/upload.json", json_response({"media_id": 5, "media_id_string": "5"}))
        api = _api(tls.url, ca)
        content = b"GIF89a" + bytes(range(256)) * 100
        media = api.simple_upload("a.gif", file=io.BytesIO(content), media_category="tweet_image")
        assert media.media_id == 5
        api.chunked_upload_append(5, ("blob", io.BytesIO(content), "application/octet-stream"), 0)
        simple, chunk = tls.requests
        assert parts(simple)["media"] == ("a.gif", None, content)
        assert parts(simple)["media_category"].content == b"tweet_image"
        assert parts(chunk)["media"] == ("blob", "application/octet-stream", content)
        for record in tls.requests:
            verify_signature(record, tls.url, SECRETS)


def waits_for_the_rate_limit_and_tells_errors(app: AppServer) -> None:
    with tls_app() as (tls, ca, _):
        busy = json_response({}, 429, [("Retry-After", "5")])
        error = json_response({"errors": [{"code": 34, "message": "gone"}]}, 404)
        tls.route("/1.1/users/show.json", in_turn(busy, json_response({"id": 3}), error))
        api = _api(tls.url, ca, wait_on_rate_limit=True, retry_count=2)
        with naps() as slept:
            assert api.get_user(screen_name="x").id == 3
            assert slept == [5]
            with pytest.raises(tweepy.NotFound) as caught:
                api.get_user(screen_name="x")
            failed: Any = caught.value
            assert failed.api_codes == [34]
            assert failed.response.status_code == 404


def refuses_a_stranger(app: AppServer) -> None:
    with tls_app() as (tls, _, certs):
        api = _api(tls.url, str(certs.other_ca_path.resolve()))
        with pytest.raises(tweepy.TweepyException) as caught:
            api.get_user(screen_name="x")
        error: Any = caught.value
        assert "certificate" in str(error).lower()


def uses_the_second_api(app: AppServer) -> None:
    client: Any = tweepy.Client(
        consumer_key=KEYS[0],
        consumer_secret=KEYS[1],
        access_token=KEYS[2],
        access_token_secret=KEYS[3],
    )
    app.route("/2/tweets", json_response({"data": {"id": "8", "text": "é"}}, 201))
    host = app.url
    send = client.session.request
    client.session.request = lambda method, url, **kw: send(
        method, url.replace("https://api.twitter.com", host), **kw
    )
    response = client.create_tweet(text="é", user_auth=True)
    assert response.data["id"] == "8"
    assert sent_json(app.requests[0]) == {"text": "é"}
    verify_signature(app.requests[0], app.url, SECRETS)


def reads_a_stream(app: AppServer) -> None:
    def stream(record: Record, conn: AppConnection) -> None:
        if conn.begin(200, [("Transfer-Encoding", "chunked")]):
            for piece in (
                b'{"data": {"id": "1", "te',
                b'xt": "a"}}\r\n',
                b"\r\n",
                b"left\r\n",
                b"",
            ):
                conn.chunk(piece)

    seen: list[Any] = []

    def on_data(raw_data: bytes) -> None:
        seen.append(raw_data)
        if raw_data == b"left":
            reader.disconnect()

    app.route("/2/tweets/search/stream", stream)
    reader: Any = tweepy.StreamingClient("bearer")
    reader.on_data, reader.on_keep_alive = on_data, lambda: seen.append(None)
    send = reader.session.request
    reader.session.request = lambda method, url, **kw: send(
        method, url.replace("https://api.twitter.com", app.url), **kw
    )
    reader.filter()
    assert seen == [b'{"data": {"id": "1", "text": "a"}}', None, b"left"]
    assert app.requests[0].header("authorization") == "Bearer bearer"
