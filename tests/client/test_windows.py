"""What is different on Windows, as far as it can be seen everywhere; see also .ci/windows."""

from __future__ import annotations

import errno
import ssl
import sys
from pathlib import Path
from typing import Any

import pycurl
import pytest

import curlhttp
from curlhttp import Proxy
from curlhttp._features.download.file_names import make_windows_name, sanitize_name
from curlhttp._http.config import TLS, NetworkRoute, make_tls
from curlhttp._http.errors import describe_errno
from curlhttp._libcurl import handle, options
from curlhttp._libcurl.options import check_tls, get_trust_flags
from tests.servers import AppServer, Certs
from tests.support.forced import force

# --- error texts ---


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (10061, "Connection refused (WSAECONNREFUSED)"),
        (10054, "Connection reset by peer (WSAECONNRESET)"),
        (10065, "No route to host (WSAEHOSTUNREACH)"),
        (10999, "Windows socket error 10999"),
    ],
)
def test_windows_error_numbers_have_a_text(number: int, text: str) -> None:
    assert describe_errno(number) == text


def test_error_numbers_of_this_system_have_a_text() -> None:
    assert "nknown" not in describe_errno(errno.ECONNREFUSED)


# --- file names ---


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("con", "_con"),
        ("AUX.txt", "_AUX.txt"),
        ("nul.tar.gz", "_nul.tar.gz"),
        ("com1", "_com1"),
        ("lpt².log", "_lpt².log"),
        ("CONOUT$", "_CONOUT$"),
        ("console.txt", "console.txt"),
        ("com10", "com10"),
        ("a:b", "a_b"),
        ('a<b>c"d|e?f*g', "a_b_c_d_e_f_g"),
        ("name.txt. .", "name.txt"),
        ("...", ""),
        ("aux .txt", "_aux .txt"),
    ],
)
def test_a_file_name_means_the_same_file_on_windows(name: str, safe: str) -> None:
    assert make_windows_name(name) == safe


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("../../evil", "evil"),
        ("..\\..\\evil", "evil"),
        ("a\0b\x1b[31m\n", "a_b_[31m_"),
        ("photo\u202egpj.exe", "photo_gpj.exe"),
        ("..", None),
        (" . ", None),
    ],
)
def test_a_name_from_anywhere_has_no_folders_and_no_controls(text: str, name: str | None) -> None:
    assert sanitize_name(text, for_windows=True) == name


# --- TLS by Schannel ---


def test_schannel_refuses_what_it_cannot_do(certs: Certs, tmp_path: Path) -> None:
    pem = Path(certs.ca_path).read_bytes()
    for tls, reason in (
        (TLS(verify=str(tmp_path)), "cannot be a folder"),
        (TLS(ciphers="ECDHE+AESGCM"), "cipher suites of Windows"),
        (TLS(cert=pem), "PKCS#12"),
        (TLS(cert=str(certs.ca_path)), "PKCS#12"),
    ):
        with pytest.raises(ValueError, match=reason):
            check_tls(tls, is_schannel=True)
        check_tls(tls, is_schannel=False)


def test_schannel_takes_the_rest(certs: Certs, tmp_path: Path) -> None:
    store = tmp_path / "cert.p12"
    store.write_bytes(b"\x30\x82\x01\x02")
    for tls in (
        TLS(),
        TLS(verify=str(certs.ca_path)),
        TLS(verify=Path(certs.ca_path).read_bytes()),
        TLS(verify="system"),
        TLS(verify=False, versions=("1.2", None)),
        TLS(cert=(str(store), str(store), "password")),
        TLS(cert=store.read_bytes()),
    ):
        check_tls(tls, is_schannel=True)


def test_schannel_without_tls_1_3_refuses_no_other_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(options, "knows_tls_1_3", lambda: False)
    with pytest.raises(ValueError, match="Windows 11"):
        check_tls(TLS(versions=("1.3", None)), is_schannel=True)
    for versions in ((None, "1.3"), ("1.2", "1.3"), ("1.2", "1.2")):
        check_tls(TLS(versions=versions), is_schannel=True)


@pytest.mark.parametrize("versions", [(None, "1.3"), ("1.2", "1.3")])
def test_tls_1_3_as_the_highest_version_is_not_named_to_schannel(
    versions: tuple[str | None, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """libcurl refuses it by name on a Windows without it."""
    monkeypatch.setattr(options, "USES_SCHANNEL", True)
    found = dict(options.route_options(NetworkRoute(tls=TLS(versions=versions))))
    assert found.get(pycurl.SSLVERSION, 0) in (0, pycurl.SSLVERSION_TLSv1_2)


@pytest.mark.parametrize("verify", [True, "system", "file", "bytes"])
def test_schannel_accepts_authorities_without_a_list_of_revoked_certificates(
    verify: Any, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "USES_SCHANNEL", True)
    chosen: Any = {"file": certs.ca_path, "bytes": Path(certs.ca_path).read_bytes()}
    transport = NetworkRoute(
        tls=TLS(verify=chosen.get(verify, verify)), proxy=Proxy.parse("https://proxy.test")
    )
    found = dict(options.route_options(transport))
    for option in (pycurl.SSL_OPTIONS, pycurl.PROXY_SSL_OPTIONS):
        flags: Any = found[option]
        assert flags & pycurl.SSLOPT_REVOKE_BEST_EFFORT
        assert bool(flags & pycurl.SSLOPT_NATIVE_CA) is (verify == "system")


def test_generations_of_connections_trust_the_same_certificates() -> None:
    trust = get_trust_flags("system") | pycurl.SSLOPT_NO_PARTIALCHAIN
    assert not any(bit & trust for bit in handle._UNUSED_OPTIONS)


@pytest.mark.parametrize("by_context", [False, True])
def test_a_certificate_is_checked_when_the_client_is_made(
    by_context: bool, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certs.ca_path))

    def check(tls: TLS) -> None:
        assert tls.cert is not None
        raise ValueError("checked")

    monkeypatch.setattr(options, "check_tls", check)
    verify = ssl.create_default_context() if by_context else True
    with pytest.raises(ValueError, match="checked"):
        curlhttp.Client(verify=verify, cert=certs.client_cert_path())


@pytest.mark.parametrize("key", ["all", "https", "https://a.test"])
def test_a_certificate_for_a_proxy_is_checked_when_the_client_is_made(
    key: str, certs: Certs, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = curlhttp.Proxy(url="https://proxy.test", cert=certs.client_cert_path())

    def check(tls: TLS) -> None:
        assert tls.cert is not None
        raise ValueError("checked")

    monkeypatch.setattr(options, "check_tls", check)
    for make in (curlhttp.Client, curlhttp.AsyncClient):
        with pytest.raises(ValueError, match="checked"):
            make(proxies={key: proxy})


@pytest.mark.skipif(sys.platform != "win32", reason="Schannel is the TLS of Windows")
def test_a_request_may_allow_a_tls_version_that_windows_lacks(tls_app: AppServer) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    with curlhttp.Client(verify=context) as client:
        assert client.get(tls_app.url + "/bytes/3").status_code == 200


@pytest.mark.skipif(sys.platform != "win32", reason="Schannel is the TLS of Windows")
@pytest.mark.parametrize("make", [curlhttp.Client, curlhttp.AsyncClient])
def test_a_client_that_cannot_work_on_windows_is_not_made(
    make: type[curlhttp.Client], certs: Certs, tmp_path: Path
) -> None:
    for settings, reason in (
        ({"verify": str(tmp_path)}, "folder"),
        ({"cert": str(certs.ca_path)}, "PKCS#12"),
        ({"http3": True}, "HTTP/3"),
    ):
        with pytest.raises(ValueError, match=reason):
            make(**settings)


def test_a_unix_socket_is_refused_without_support(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, "the flag of Unix sockets", 0)
    with pytest.raises(ValueError, match="built without Unix sockets"):
        curlhttp.Client(uds="/tmp/socket")


def test_macos_and_windows_use_the_system_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux does not show the effect: only check that CURLSSLOPT_NATIVE_CA is set, and no file."""
    monkeypatch.setattr(sys, "platform", "win32")
    tls = make_tls("system", None)
    found = dict(options.route_options(NetworkRoute(tls=tls)))
    flags: Any = found[pycurl.SSL_OPTIONS]
    assert flags & pycurl.SSLOPT_NATIVE_CA
    assert found[pycurl.CAINFO] is None
    assert found[pycurl.SSL_VERIFYPEER] == 1
    others: Any = dict(options.route_options(NetworkRoute(tls=TLS()))).get(pycurl.SSL_OPTIONS, 0)
    assert not others & pycurl.SSLOPT_NATIVE_CA
