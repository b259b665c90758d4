"""msal: discovery, tokens and device codes through a session that verifies with a private CA."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import msal
import requests

from tests.ecosystem.fakes import form, in_turn, json_response, naps, tls_app
from tests.servers import AppServer

METADATA = "/tenant/v2.0/.well-known/openid-configuration"
TOKEN = {"access_token": "one", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r"}


def _serve(tls: AppServer) -> None:
    base = tls.url + "/tenant"
    metadata = {
        "issuer": base + "/v2.0",
        "authorization_endpoint": base + "/authorize",
        "token_endpoint": base + "/token",
        "device_authorization_endpoint": base + "/devicecode",
    }
    tls.route(METADATA, json_response(metadata))


def _application(kind: Any, tls: AppServer, ca: str, **settings: Any) -> Any:
    return kind("client", oidc_authority=tls.url + "/tenant/v2.0", verify=ca, timeout=5, **settings)


def acquires_a_token_by_a_secret(app: AppServer) -> None:
    with tls_app() as (tls, ca, _):
        _serve(tls)
        tls.route("/tenant/token", json_response(TOKEN))
        client = _application(
            msal.ConfidentialClientApplication, tls, ca, client_credential="s&cret"
        )
        for _ in range(2):
            result = client.acquire_token_for_client(["scope/.default"])
            assert result["access_token"] == "one", result
        assert [record.path for record in tls.requests] == [METADATA, "/tenant/token"]
        sent = form(tls.requests[1])
        assert sent["client_secret"] == "s&cret"
        assert sent["grant_type"] == "client_credentials"
        assert sent["scope"] == "scope/.default"


def polls_for_a_device_code(app: AppServer) -> None:
    with tls_app() as (tls, ca, _):
        _serve(tls)
        flow = {
            "device_code": "d",
            "user_code": "u",
            "verification_uri": "v",
            "interval": 5,
            "expires_in": 900,
        }
        tls.route("/tenant/devicecode", json_response(flow))
        pending = json_response({"error": "authorization_pending"}, 400)
        tls.route("/tenant/token", in_turn(pending, pending, json_response(TOKEN)))
        client = _application(msal.PublicClientApplication, tls, ca)
        started = client.initiate_device_flow(["scope"])
        with naps() as slept, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks at the clock
            result = client.acquire_token_by_device_flow(started)
        assert result["access_token"] == "one", result
        assert sum(slept) >= 10
        assert form(tls.requests[-1])["device_code"] == "d"


def uses_the_session_it_is_given(app: AppServer) -> None:
    with tls_app() as (tls, ca, _), requests.Session() as session:
        session.verify = ca
        session.headers["X-Mine"] = "yes"
        _serve(tls)
        tls.route("/tenant/token", json_response({"error": "invalid_client"}, 401))
        client: Any = msal.ConfidentialClientApplication(
            "client",
            oidc_authority=tls.url + "/tenant/v2.0",
            client_credential="s",
            http_client=session,
        )
        assert client.acquire_token_for_client(["s"])["error"] == "invalid_client"
        assert {record.header("x-mine") for record in tls.requests} == {"yes"}


def asks_a_managed_identity(app: AppServer) -> None:
    app.route(
        "/msi/token",
        json_response({"access_token": "m", "expires_on": str(int(time.time()) + 3600)}),
    )
    os.environ["IDENTITY_ENDPOINT"] = app.url + "/msi/token"
    os.environ["IDENTITY_HEADER"] = "secret"
    try:
        with requests.Session() as session:
            identity: Any = msal.SystemAssignedManagedIdentity()
            client: Any = msal.ManagedIdentityClient(identity, http_client=session)
            result = client.acquire_token_for_client(resource="res")
    finally:
        del os.environ["IDENTITY_ENDPOINT"], os.environ["IDENTITY_HEADER"]
    assert result.get("access_token") == "m", result
    assert app.requests[0].header("x-identity-header") == "secret"
    assert app.requests[0].query("resource") == "res"
