"""TLS over the wire: trust and client certificates, which hold for their request only."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

import curlhttp
from tests.servers import AppConnection, AppServer, Certs, HTTPProxy, Record
from tests.servers.certs import HTTP1, HTTP2
from tests.support.colours import (
    IS_WINE,
    WITHOUT_UVLOOP,
    AnyClient,
    needs_authorities,
    needs_pem_certificates,
)
from tests.support.every_api import EVERY_API, Fetch

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]


@pytest.fixture
def hashed(certs: Certs, tmp_path: Path) -> Path:
    """Return a directory of authorities as OpenSSL looks them up: by a hash of the subject."""
    subject = x509.load_pem_x509_certificate(certs.ca_pem).subject
    lower = x509.Name([x509.NameAttribute(part.oid, str(part.value).lower()) for part in subject])
    # X509_NAME_hash: SHA-1 of the canonical name without the header of its outer sequence.
    digest = hashlib.sha1(lower.public_bytes()[2:]).digest()
    (tmp_path / f"{int.from_bytes(digest[:4], 'little'):08x}.0").write_bytes(certs.ca_pem)
    return tmp_path


# --- whom to trust ---


async def test_a_file_bytes_and_a_directory_of_authorities(
    make_client: MakeClient, tls_app: AppServer, certs: Certs, hashed: Path
) -> None:
    for verify in (certs.ca_path, str(certs.ca_path), certs.ca_pem, hashed, False):
        client = make_client(verify=verify)
        assert (await client.get(tls_app.url)).content == b"hello"
        default = make_client(verify=True)
        assert (await default.get(tls_app.url, verify=verify)).content == b"hello"


async def test_custom_authorities_replace_the_default(
    make_client: MakeClient, tls_app: AppServer, certs: Certs
) -> None:
    """The authorities of a request are its own."""
    for verify in (True, certs.other_ca_path, certs.other_ca_path.read_bytes()):
        with pytest.raises(curlhttp.SSLError):
            await make_client(verify=verify).get(tls_app.url)
    assert not tls_app.requests


@needs_authorities
@pytest.mark.parametrize(
    "kind", ("expired_context", "not_yet_valid_context", "wrong_host_context", "unknown_ca_context")
)
async def test_bad_certificates_are_refused_once(
    client: AnyClient, certs: Certs, kind: str
) -> None:
    """A certificate that does not hold is an error, once."""
    with AppServer(getattr(certs, kind)()) as server:
        with pytest.raises(curlhttp.SSLError) as caught:
            await client.get(server.url, auth=("u", "p"))
        assert caught.value.curl_code == 60
        assert not caught.value.request_sent
        assert server.connections == 1
        assert not server.requests
        assert (await client.get(server.url, verify=False)).content == b"hello"


@needs_authorities
async def test_the_requested_name_must_be_in_the_certificate(
    client: AnyClient, tls_app: AppServer, certs: Certs
) -> None:
    assert (await client.get(tls_app.at("localhost"))).ok
    assert tls_app.handshakes[-1].sni == "localhost"
    with AppServer(certs.server_context(), host="127.0.0.2") as server:
        with pytest.raises(curlhttp.SSLError):
            await client.get(server.url)


@needs_authorities
async def test_a_host_header_is_not_the_name_that_the_certificate_is_for(
    client: AnyClient, tls_app: AppServer, certs: Certs
) -> None:
    """SNI and the check of the name go by the URL, whatever a header says."""
    for host in ("wrong.example", "other.example"):
        assert (await client.get(tls_app.at("localhost"), headers={"Host": host})).ok
        assert tls_app.requests[-1].header("host") == host
    assert [handshake.sni for handshake in tls_app.handshakes] == ["localhost"]
    with AppServer(certs.wrong_host_context()) as server:
        with pytest.raises(curlhttp.SSLError):
            await client.get(server.url, headers={"Host": "wrong.example"})
        assert not server.requests


async def test_a_trailing_dot_of_a_name_is_not_compared_with_the_certificate(
    client: AnyClient, tls_app: AppServer
) -> None:
    """SNI goes out without it, and the name is checked without it (RFC 6066, section 3)."""
    assert (await client.get(tls_app.at("localhost."))).ok
    assert tls_app.handshakes[-1].sni == "localhost"


@needs_authorities
async def test_a_certificate_may_name_its_host_in_its_common_name_alone(
    client: AnyClient, certs: Certs
) -> None:
    """libcurl takes it, and there is no setting for that; the documentation says so."""
    with AppServer(certs.common_name_context("127.0.0.1")) as server:
        assert (await client.get(server.url)).ok
        with pytest.raises(curlhttp.SSLError):
            await client.get(server.at("localhost"))
    with AppServer(certs.common_name_context("127.0.0.1", "wrong.example")) as server:
        with pytest.raises(curlhttp.SSLError):  # what has names has no other one
            await client.get(server.url)


@pytest.mark.parametrize("verify", ("/nowhere/ca.pem", Path("/nowhere")))
async def test_missing_authorities_are_named_in_the_error(
    make_client: MakeClient, tls_app: AppServer, verify: Any
) -> None:
    text = "Could not find a suitable TLS CA certificate bundle, invalid path: "
    text += re.escape(str(verify))
    with pytest.raises(OSError, match=text):
        make_client(verify=verify)
    with pytest.raises(OSError, match=text):
        await make_client().get(tls_app.url, verify=verify)


async def test_invalid_authorities_are_an_error(
    make_client: MakeClient, tls_app: AppServer, tmp_path: Path
) -> None:
    garbage = tmp_path / "ca.pem"
    garbage.write_text("not a certificate")
    for verify in (garbage, b"not a certificate"):
        with pytest.raises(curlhttp.SSLError):
            await make_client(verify=verify).get(tls_app.url)
    with pytest.raises(ValueError, match="not empty"):
        make_client(verify=b"")
    assert not tls_app.requests


# --- one request's trust is not another's, with any API ---

UNVERIFIED = pytest.mark.filterwarnings("ignore:Unverified HTTPS request")  # of the drop-in


@needs_authorities
@EVERY_API
async def test_no_api_accepts_a_bad_certificate(fetch: Fetch, certs: Certs) -> None:
    """And none is tried a second time."""
    for kind in ("expired", "not_yet_valid", "wrong_host", "unknown_ca"):
        with AppServer(getattr(certs, f"{kind}_context")()) as server:
            with pytest.raises(curlhttp.SSLError) as caught:
                await fetch(server.url, auth=("u", "p"))
            assert not caught.value.request_sent
            assert server.connections == 1
            assert not server.requests
    with AppServer(_old_context(certs)) as server, pytest.raises(curlhttp.SSLError):
        await fetch(server.url)


@UNVERIFIED
@EVERY_API
async def test_no_api_trusts_a_server_because_another_request_did(
    fetch: Fetch, tls_app: AppServer, certs: Certs
) -> None:
    """Neither a kept connection nor what was learned on it."""
    for trusting in (False, str(certs.ca_path)):
        for verify in (True, str(certs.other_ca_path)):
            tls_app.reset_counts()
            assert (await fetch(tls_app.url, verify=trusting)).ok
            with pytest.raises(curlhttp.SSLError):
                await fetch(tls_app.url, verify=verify)
            assert (await fetch(tls_app.url, verify=trusting)).ok
            assert len(tls_app.requests) == 2


@UNVERIFIED
@EVERY_API
async def test_no_api_resumes_an_unverified_session(fetch: Fetch, certs: Certs) -> None:
    """After /close the next request needs a handshake, and has a session to resume."""
    for context in (certs.unknown_ca_context(), certs.tls12_context()):
        with AppServer(context) as server:
            assert (await fetch(server.url + "/close", verify=False)).ok
            with pytest.raises(curlhttp.SSLError):
                await fetch(server.url, verify=True)
            assert len(server.requests) == 1


@needs_pem_certificates
@EVERY_API
async def test_each_api_sends_the_certificate_of_its_request(fetch: Fetch, certs: Certs) -> None:
    """The certificate of a request is its own."""
    context = certs.client_auth_context()
    context.verify_mode = ssl.CERT_OPTIONAL
    with AppServer(context) as server:
        first, second = (str(certs.client_cert_path(name)) for name in "AB")
        for cert in (first, second, None, first):
            assert (await fetch(server.url, cert=cert)).ok
        peers = [server.handshakes[record.connection].peer for record in server.requests]
        assert peers == ["client A", "client B", None, "client A"]


def _old_context(certs: Certs) -> ssl.SSLContext:
    context = certs.server_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return context


async def test_an_unverified_connection_is_not_used_for_a_verified_request(
    make_client: MakeClient, tls_app: AppServer
) -> None:
    """Trust of one request is not that of the next."""
    client = make_client(verify=True)
    for _ in range(2):
        assert (await client.get(tls_app.url, verify=False)).ok
        with pytest.raises(curlhttp.SSLError):
            await client.get(tls_app.url)
    assert len(tls_app.requests) == 2


@needs_authorities
async def test_each_request_says_for_itself_whether_the_name_counts(
    client: AnyClient, certs: Certs
) -> None:
    """A connection whose name was not checked is not used where it has to be."""
    trusting = ssl.create_default_context(cafile=certs.ca_path)
    trusting.check_hostname = False
    with AppServer(certs.wrong_host_context()) as server:
        for _ in range(2):
            assert (await client.get(server.url, verify=trusting)).ok
            with pytest.raises(curlhttp.SSLError):
                await client.get(server.url)
        assert len(server.requests) == 2


async def test_each_request_has_its_own_authorities(
    make_client: MakeClient, tls_app: AppServer, certs: Certs
) -> None:
    """The authorities of a request are its own."""
    client = make_client(verify=True)
    for verify in (certs.ca_path, certs.ca_pem):
        assert (await client.get(tls_app.url, verify=verify)).ok
        for other in (True, certs.other_ca_path, certs.other_ca_path.read_bytes()):
            with pytest.raises(curlhttp.SSLError):
                await client.get(tls_app.url, verify=other)


async def test_an_unverified_session_is_not_resumed_by_a_verified_request(
    make_client: MakeClient, certs: Certs
) -> None:
    """An unverified session is not resumed."""
    for context in (certs.unknown_ca_context(), certs.tls12_context()):
        client = make_client(verify=True)
        with AppServer(context) as server:
            # /close: the next request needs a handshake, and has a session to resume.
            assert (await client.get(server.url + "/close", verify=False)).ok
            with pytest.raises(curlhttp.SSLError):
                await client.get(server.url)
            assert len(server.requests) == 1


async def test_a_proxys_tunnel_is_verified_as_well(
    client: AnyClient, tls_app: AppServer, certs: Certs
) -> None:
    from tests.servers import HTTPProxy

    with HTTPProxy() as proxy:
        assert (await client.get(tls_app.url, proxies=proxy.url, verify=False)).ok
        with pytest.raises(curlhttp.SSLError):
            await client.get(tls_app.url, proxies=proxy.url, verify=certs.other_ca_path)


# --- who we are ---


@needs_pem_certificates
async def test_a_client_certificate_of_every_form(make_client: MakeClient, certs: Certs) -> None:
    path, pair = certs.client_cert_path("A"), certs.client_cert_pair("A")
    forms = (path, str(path), path.read_bytes(), pair, tuple(part.read_bytes() for part in pair))
    for cert in forms:
        with AppServer(certs.client_auth_context()) as server:
            assert (await make_client(cert=cert).get(server.url)).ok
            assert server.handshakes[-1].peer == "client A"


@needs_pem_certificates
async def test_each_request_has_its_own_client_certificate(client: AnyClient, certs: Certs) -> None:
    """The certificate of a request is its own."""
    context = certs.client_auth_context()
    context.verify_mode = ssl.CERT_OPTIONAL
    with AppServer(context) as server:
        first, second = certs.client_cert_path("A"), certs.client_cert_path("B")
        for cert in (first, second, None, first):
            assert (await client.get(server.url, cert=cert)).ok
        connections = [record.connection for record in server.requests]
        peers = [server.handshakes[index].peer for index in connections]
        assert peers == ["client A", "client B", None, "client A"]


# In TLS 1.3 the server refuses when the client has begun to send, and its reset may hide why. So
# what libcurl makes of it is a matter of chance.
_TIMES = 12
COUNTS_BYTES = pytest.mark.skipif(
    sys.platform != "linux", reason="a hidden alert is found by TCP_INFO, which is Linux's"
)


WANTS = ("the server wants a client certificate", "most likely it wants a client certificate")


async def _refusals(send: Callable[[], Awaitable[object]], server: AppServer) -> list[str]:
    """Return what the errors say; each must be of the first and only connection."""
    said = []
    for _ in range(_TIMES):
        with pytest.raises(curlhttp.SSLError) as caught:
            await send()
        said.append(str(caught.value))
        cause = caught.value.__cause__  # of requests' exception, which has no such attributes
        error = cause if isinstance(cause, curlhttp.SSLError) else caught.value
        assert error.wants_certificate is any(words in said[-1] for words in WANTS)
    assert not server.requests
    assert server.connections == _TIMES
    return said


@COUNTS_BYTES
@EVERY_API
async def test_no_api_mistakes_a_missing_certificate_for_a_broken_connection(
    fetch: Fetch, certs: Certs
) -> None:
    for alpn in (HTTP2, HTTP1):
        with AppServer(certs.client_auth_context(alpn=alpn)) as server:
            for said in await _refusals(partial(fetch, server.url), server):
                assert "wants a client certificate" in said
    with AppServer(certs.client_auth_context()) as server:
        assert (await fetch(server.url, cert=str(certs.client_cert_path()))).ok


@COUNTS_BYTES
@pytest.mark.parametrize("alpn", [HTTP2, HTTP1])
async def test_a_refused_certificate_is_not_sent_again(
    make_client: MakeClient, certs: Certs, tmp_path: Path, alpn: tuple[str, ...]
) -> None:
    stranger = Certs(tmp_path).client_cert_path()
    client = make_client(http2=True, retry=2, cert=stranger)
    with HTTPProxy() as proxy:
        for proxies in (None, proxy.url):
            with AppServer(certs.client_auth_context(alpn=alpn)) as server:
                post = partial(client.post, server.url, content=b"abc", proxies=proxies)
                for said in await _refusals(post, server):
                    assert "rejected the client certificate" in said


@COUNTS_BYTES
async def test_each_request_on_a_connection_that_is_refused_says_why(
    make_client: MakeClient, certs: Certs
) -> None:
    for _ in range(4):
        with AppServer(certs.client_auth_context(alpn=HTTP2)) as server:
            client = make_client(http2=True, retry=2)
            results = [result async for result in client.map([server.url] * 20, concurrency=20)]
            assert [type(result) for result in results] == [curlhttp.SSLError] * 20
            assert all("client certificate" in str(result) for result in results)
            errors = [attempt.error for result in results for attempt in result.attempts]
            assert len(errors) == 20, errors


@pytest.mark.skipif(IS_WINE, reason="wine does not tell which alert a server sent")
async def test_tls_1_2_refuses_in_the_handshake(client: AnyClient, certs: Certs) -> None:
    context = certs.client_auth_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with AppServer(context) as server:
        for said in await _refusals(lambda: client.post(server.url), server):
            assert "wants a client certificate" in said


@COUNTS_BYTES
async def test_a_websocket_error_says_that_a_client_certificate_is_required(
    make_client: MakeClient, certs: Certs
) -> None:
    client = make_client(retry=2)
    with AppServer(certs.client_auth_context()) as server:
        url = server.url.replace("https", "wss")
        for said in await _refusals(lambda: client.websocket(url), server):
            assert "wants a client certificate" in said


async def test_a_reset_after_the_handshake_alone_is_a_broken_connection(
    make_client: MakeClient, certs: Certs
) -> None:
    """It may happen by chance: it is tried again."""

    def reset(record: Record, conn: AppConnection) -> None:
        conn.reset()

    with AppServer(certs.server_context()) as server:
        server.route("/reset", reset)
        with pytest.raises(curlhttp.ConnectionError) as caught:
            await make_client(retry=1).get(server.url + "/reset")
        assert not isinstance(caught.value, curlhttp.SSLError)
        assert server.connections == 2


async def test_a_missing_client_certificate_is_named_in_the_error(
    make_client: MakeClient, tls_app: AppServer, certs: Certs
) -> None:
    for cert, what in (
        ("/nowhere/a.pem", "certificate"),
        ((certs.client_cert_path(), "/nowhere/a.key"), "key"),
    ):
        with pytest.raises(OSError, match=f"Could not find the TLS {what} file.*/nowhere"):
            await make_client().get(tls_app.url, cert=cert)


@needs_pem_certificates
async def test_a_key_that_does_not_fit_is_an_error(
    client: AnyClient, tls_app: AppServer, certs: Certs
) -> None:
    certificate, key = certs.client_cert_pair("A")[0], certs.client_cert_pair("B")[1]
    for pair in ((certificate, key), (certificate.read_bytes(), key.read_bytes())):
        with pytest.raises(curlhttp.SSLError):
            await client.get(tls_app.url, cert=pair)


@needs_pem_certificates
async def test_keys_and_passwords_are_in_no_repr(client: AnyClient, certs: Certs) -> None:
    """No message, repr or log shows a secret."""
    certificate, key = certs.client_cert_pair("A")
    cert = (certificate, key.read_bytes(), "s3cret")
    request = client.real.build_request("GET", "https://h.test/", cert=cert, verify=certs.ca_pem)
    shown = repr(request.route) + repr(request)
    assert "s3cret" not in shown
    assert "KEY" not in shown


# --- versions ---


async def test_tls_1_2_works(client: AnyClient, certs: Certs) -> None:
    with AppServer(certs.tls12_context()) as server:
        assert (await client.get(server.url)).ok
        assert server.handshakes[0].version == "TLSv1.2"


async def test_tls_1_1_is_not(client: AnyClient, certs: Certs) -> None:
    """Not even unverified."""
    with AppServer(_old_context(certs)) as server:
        for verify in (certs.ca_path, False):
            with pytest.raises(curlhttp.SSLError):
                await client.get(server.url, verify=verify)


# --- a port of libcurl's own environment ---

_KEYS = """
import os, sys
url, ca, log, when = sys.argv[1:]
if when == "before":
    os.environ["SSLKEYLOGFILE"] = log
import curlhttp
with curlhttp.Client(verify=ca, trust_env=False) as client:
    assert client.get(url).ok
    os.environ["SSLKEYLOGFILE"] = log
    assert client.get(url).ok
print(os.path.exists(log))
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ("before", "after"))
def test_libcurl_reads_sslkeylogfile_with_the_first_request(
    tls_app: AppServer, certs: Certs, tmp_path: Path, when: str
) -> None:
    """The documented truth: no setting of a client can switch it off."""
    done = subprocess.run(
        [sys.executable, "-c", _KEYS, tls_app.url, str(certs.ca_path), str(tmp_path / "k"), when],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={name: value for name, value in os.environ.items() if name != "SSLKEYLOGFILE"},
    )
    assert done.stdout.strip() == str(when == "before")
