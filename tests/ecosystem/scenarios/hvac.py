"""hvac: a session with cert, verify and proxies, its own methods such as LIST."""

from __future__ import annotations

from typing import Any

import hvac
import pytest

from tests.ecosystem.fakes import in_turn, json_response, sent_json, tls_app
from tests.servers import AppServer


def logs_in_and_reads_secrets(app: AppServer) -> None:
    app.route("/v1/auth/approle/login", json_response({"auth": {"client_token": "s.new"}}))
    secret = {"data": {"data": {"password": "é"}, "metadata": {"version": 2}}}
    app.route("/v1/secret/data/app", json_response(secret))
    app.route("/v1/secret/metadata/app", json_response({"data": {"keys": ["a", "b/"]}}))
    client = hvac.Client(url=app.url, namespace="team")
    client.auth.approle.login(role_id="r", secret_id="s")
    assert client.token == "s.new"
    read = client.secrets.kv.v2.read_secret_version(path="app", raise_on_deleted_version=True)
    assert read["data"]["data"] == {"password": "é"}
    assert client.secrets.kv.v2.list_secrets(path="app")["data"]["keys"] == ["a", "b/"]
    login, get, listing = app.requests
    assert sent_json(login) == {"role_id": "r", "secret_id": "s"}
    assert get.header("x-vault-token") == "s.new"
    assert get.header("x-vault-namespace") == "team"
    assert listing.method == "LIST"
    assert app.connections == 1


def writes_and_tells_errors(app: AppServer) -> None:
    app.route("/v1/secret/data/app", json_response({"data": {"version": 1}}))
    app.route("/v1/sys/health", in_turn(json_response({"sealed": True}, 503)))
    app.route("/v1/auth/token/lookup-self", json_response({"errors": ["permission denied"]}, 403))
    client = hvac.Client(url=app.url, token="t")
    client.secrets.kv.v2.create_or_update_secret(path="app", secret={"a": 1}, cas=0)
    assert sent_json(app.requests[0]) == {"options": {"cas": 0}, "data": {"a": 1}}
    health = client.sys.read_health_status(method="GET")
    assert health.status_code == 503
    assert app.requests[1].method == "GET"
    assert client.sys.read_health_status().status_code == 503  # HEAD
    assert app.requests[2].method == "HEAD"
    assert not client.is_authenticated()
    with pytest.raises(hvac.exceptions.Forbidden) as caught:
        client.lookup_token()
    error: Any = caught.value
    assert error.errors == ["permission denied"]
    assert error.url == app.url + "/v1/auth/token/lookup-self"


def shows_a_client_certificate(app: AppServer) -> None:
    with tls_app() as (_, ca, certs):
        from tests.servers import AppServer as Server

        with Server(certs.client_auth_context()) as tls:
            tls.route("/v1/auth/cert/login", json_response({"auth": {"client_token": "c"}}))
            pair = tuple(str(path.resolve()) for path in certs.client_cert_pair())
            client = hvac.Client(url=tls.url, cert=pair, verify=ca)
            client.auth.cert.login()
            assert client.token == "c"
            assert tls.handshakes[0].peer == "client A"
