"""Trust beyond files: an SSLContext, the system's authorities, and pinned keys."""

from __future__ import annotations

import base64
import gzip
import hashlib
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import certifi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import curlhttp
from tests.servers import AppServer, Certs, H2Server
from tests.support.colours import (
    ONE_OF_EACH,
    WITHOUT_UVLOOP,
    AnyClient,
    needs_authorities,
    needs_pem_certificates,
)
from tests.support.forced import force

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]

OTHER_PIN = "sha256//" + base64.b64encode(hashlib.sha256(b"another").digest()).decode()


def pin_of(server: AppServer | H2Server) -> str:
    """Return the pin of a server's key (RFC 7469, section 2.4, as libcurl writes it)."""
    pem = ssl.get_server_certificate((server.host, server.port))
    key = x509.load_pem_x509_certificate(pem.encode()).public_key()
    info = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    server.reset_counts()
    return "sha256//" + base64.b64encode(hashlib.sha256(info).digest()).decode()


# --- a context ---


async def test_authorities_of_a_context_are_taken_over(
    make_client: MakeClient, tls_app: AppServer, certs: Certs
) -> None:
    good = ssl.create_default_context(cafile=str(certs.ca_path))
    other = ssl.create_default_context(cafile=str(certs.other_ca_path))
    assert (await make_client(verify=good).get(tls_app.url)).ok
    client = make_client(verify=other)
    with pytest.raises(curlhttp.SSLError):
        await client.get(tls_app.url)
    assert (await client.get(tls_app.url, verify=good)).ok
    with pytest.raises(curlhttp.SSLError):
        await client.get(tls_app.url)


async def test_a_context_that_checks_nothing_and_one_that_checks_no_name(
    make_client: MakeClient, certs: Certs
) -> None:
    nothing = ssl.create_default_context()
    nothing.check_hostname = False
    nothing.verify_mode = ssl.CERT_NONE
    no_name = ssl.create_default_context(cafile=str(certs.ca_path))
    no_name.check_hostname = False
    with AppServer(certs.wrong_host_context()) as server:
        assert (await make_client(verify=nothing).get(server.url)).ok
        assert (await make_client(verify=no_name).get(server.url)).ok
    with AppServer(certs.unknown_ca_context()) as server:
        assert (await make_client(verify=nothing).get(server.url)).ok
        with pytest.raises(curlhttp.SSLError):
            await make_client(verify=no_name).get(server.url)


async def test_versions_of_a_context_are_taken_over(
    make_client: MakeClient, tls_app: AppServer, certs: Certs
) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca_path))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert (await make_client(verify=context).get(tls_app.url)).ok
    assert tls_app.handshakes[-1].version == "TLSv1.2"


@needs_pem_certificates
async def test_a_client_certificate_may_accompany_a_context(
    make_client: MakeClient, certs: Certs
) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca_path))
    with AppServer(certs.client_auth_context()) as server:
        client = make_client(verify=context, cert=str(certs.client_cert_path("A")))
        assert (await client.get(server.url)).ok
        assert server.handshakes[-1].peer


@ONE_OF_EACH
async def test_a_context_that_checks_revocation_is_refused(
    make_client: MakeClient, tls_app: AppServer
) -> None:
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    with pytest.raises(ValueError, match="revocation lists"):
        make_client(verify=context)
    with pytest.raises(ValueError, match="revocation lists"):
        await make_client().get(tls_app.url, verify=context)
    assert not tls_app.connections


# --- certifi ---


async def test_certifi_is_asked_at_the_first_url_with_tls(
    make_client: MakeClient,
    app: AppServer,
    tls_app: AppServer,
    certs: Certs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def where() -> str:
        asked.append(str(certs.ca_path))
        return asked[-1]

    monkeypatch.setattr(certifi, "where", where)
    client = make_client(verify=True, trust_env=False, max_connections=1)
    assert (await client.get(app.url)).ok
    assert not asked
    for _ in range(2):
        assert (await client.get(tls_app.url)).ok
        assert (await client.get(app.url)).ok
    assert asked
    with pytest.raises(curlhttp.SSLError):
        await client.get(tls_app.url, verify=str(certs.other_ca_path))


# --- the machine ---


@needs_authorities
async def test_the_authorities_of_the_machine_are_trusted(
    make_client: MakeClient, tls_app: AppServer, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "the authorities of the system", lambda: str(certs.ca_path))
    assert (await make_client(verify="system").get(tls_app.url)).ok
    assert (await make_client(verify=True).get(tls_app.url, verify="system")).ok
    force(monkeypatch, "the authorities of the system", lambda: str(certs.other_ca_path))
    with pytest.raises(curlhttp.SSLError):
        await make_client(verify="system").get(tls_app.url)


@ONE_OF_EACH
async def test_a_machine_without_authorities_is_an_error(
    make_client: MakeClient, tls_app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "the authorities of the system", lambda: None)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(OSError, match="OpenSSL finds no CA certificates"):
        make_client(verify="system")
    with pytest.raises(OSError, match="OpenSSL finds no CA certificates"):
        await make_client().get(tls_app.url, verify="system")


# --- pins ---


@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_a_server_with_the_pinned_key_is_trusted(
    make_client: MakeClient, tls_app: AppServer, h2_app: H2Server, version: str
) -> None:
    server = tls_app if version == "1.1" else h2_app
    pin = pin_of(server)
    for pins in (pin, [OTHER_PIN, pin], (pin,)):
        client = make_client(pins={"LOCALHOST": pins})
        for _ in range(2):
            assert (await client.get(server.at("localhost"))).ok
        assert (await client.get(server.at("localhost."))).ok


@pytest.mark.parametrize("verify", [True, False])
async def test_a_server_with_another_key_gets_nothing(
    make_client: MakeClient, tls_app: AppServer, certs: Certs, verify: bool
) -> None:
    client = make_client(
        verify=certs.ca_path if verify else False, pins={"localhost": OTHER_PIN}, retry=3
    )
    for name in ("localhost", "localhost."):
        with pytest.raises(curlhttp.SSLError, match="not one of those in pins=") as caught:
            await client.post(tls_app.at(name), content=b"secret")
        assert not caught.value.request_sent
        assert caught.value.curl_code == 90
    assert not tls_app.requests
    assert tls_app.connections == 2


async def test_a_connection_without_pins_is_not_taken_for_one_with_them(
    make_client: MakeClient, tls_app: AppServer, h2_app: H2Server
) -> None:
    client = make_client()
    for server in (tls_app, h2_app):
        url = server.at("localhost")
        for _ in range(2):
            assert (await client.get(url)).ok
            with pytest.raises(curlhttp.SSLError):
                await client.get(url, pins={"localhost": OTHER_PIN})


async def test_a_redirect_to_another_host_is_held_to_its_own_pins(
    make_client: MakeClient, tls_app: AppServer, certs: Certs
) -> None:
    with AppServer(certs.server_context("elsewhere.example")) as other:
        pin = pin_of(tls_app)
        moved = [("Location", other.url + "/")]
        tls_app.route("/hop", lambda record, out: out.reply(302, b"", moved))
        url = tls_app.at("localhost") + "/hop"
        assert (await make_client(pins={"localhost": pin}).get(url)).content == b"hello"
        strict = make_client(pins={"localhost": pin, "127.0.0.1": OTHER_PIN})
        requests = len(other.requests)
        with pytest.raises(curlhttp.SSLError):
            await strict.get(url)
        assert len(other.requests) == requests


_NO_PINS: dict[str, Any] = {
    "hexadecimal": {"a": "sha256//" + "ab" * 32},
    "no hash": {"a": base64.b64encode(bytes(32)).decode()},
    "sha1": {"a": "sha1//" + base64.b64encode(bytes(20)).decode()},
    "too short": {"a": "sha256//" + base64.b64encode(bytes(31)).decode()},
    "two in one": {"a": f"{OTHER_PIN};{OTHER_PIN}"},
    "a file": {"a": "/etc/passwd"},
    "none": {"a": []},
    "no text": {"a": [None]},
    "a port": {"a:8443": OTHER_PIN},
    "a URL": {"https://a/": OTHER_PIN},
    "no host": {"": OTHER_PIN},
}


@ONE_OF_EACH
@pytest.mark.parametrize("what", _NO_PINS)
async def test_invalid_pins_are_refused_before_anything_is_sent(
    make_client: MakeClient, tls_app: AppServer, what: str
) -> None:
    with pytest.raises(ValueError, match="pin"):
        make_client(pins=_NO_PINS[what])
    with pytest.raises(ValueError, match="pin"):
        await make_client().get(tls_app.url, pins=_NO_PINS[what])
    assert not tls_app.connections


async def test_a_path_named_system_is_written_as_a_path(
    make_client: MakeClient,
    tls_app: AppServer,
    certs: Certs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "system").write_bytes(certs.ca_pem)
    monkeypatch.chdir(tmp_path)
    assert (await make_client(verify="./system").get(tls_app.url)).ok


# --- the certificate of the server ---


def certificate_of(server: AppServer | H2Server) -> str:
    pem = ssl.get_server_certificate((server.host, server.port))
    server.reset_counts()
    return pem.strip()


async def test_responses_have_the_certificate_on_request(
    make_client: MakeClient, tls_app: AppServer, h2_app: H2Server, app: AppServer
) -> None:
    client = make_client(certificates=True)
    for server in (tls_app, h2_app):
        pem = certificate_of(server)
        for _ in range(3):  # the connection is the same one
            response = await client.get(server.url)
            assert response.content == b"hello"
            assert (response.certificate or "").strip() == pem
            assert not response.request.stream
        async with await client.stream("GET", server.url) as stream:
            assert stream.real.certificate.strip() == pem
        (result,) = [result async for result in client.map([server.url])]
        assert result.certificate.strip() == pem
        assert server.connections <= 2  # a map of the blocking client has its own
    assert (await client.get(app.url)).certificate is None


async def test_responses_have_no_certificate_by_default(
    client: AnyClient, tls_app: AppServer
) -> None:
    assert (await client.get(tls_app.url)).certificate is None


async def test_bodies_are_unchanged_when_certificates_are_requested(
    make_client: MakeClient, tls_app: AppServer
) -> None:
    client = make_client(certificates=True, max_response_size=100_000, retry=2)
    coded = gzip.compress(b"coded" * 100)
    tls_app.route(
        "/gzip", lambda record, out: out.reply(200, coded, [("Content-Encoding", "gzip")])
    )
    bomb = gzip.compress(bytes(1_000_000))
    tls_app.route("/bomb", lambda record, out: out.reply(200, bomb, [("Content-Encoding", "gzip")]))
    tls_app.route("/hop", lambda record, out: out.reply(302, b"", [("Location", "/gzip")]))
    for path in ("/gzip", "/hop"):
        response = await client.get(tls_app.url + path)
        assert response.content == b"coded" * 100
        assert response.certificate
    with pytest.raises(curlhttp.ResponseTooLarge):
        await client.get(tls_app.url + "/bomb")
    responses = await client.gather(10, "GET", tls_app.url + "/gzip")
    assert {response.content for response in responses} == {b"coded" * 100}
    assert all(response.certificate for response in responses)
