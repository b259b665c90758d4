"""Certificates for the loopback servers: one CA for the session, valid and invalid leaves.

Only makes files and contexts; opens no socket.
"""

from __future__ import annotations

import datetime
import shutil
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import trustme

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
HTTP1: tuple[str, ...] = ("http/1.1",)
HTTP2: tuple[str, ...] = ("h2", "http/1.1")


class Certs:
    """A certificate authority and everything signed (or wrongly signed) by it.

    Args:
        directory: an existing directory for the PEM files.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ca = trustme.CA()
        self._other_ca = trustme.CA()
        self._leaves: dict[tuple[str, ...], trustme.LeafCert] = {}
        self.ca_pem: bytes = self._ca.cert_pem.bytes()
        self.ca_path = self._write("ca.pem", self.ca_pem)
        self.other_ca_path = self._write("other-ca.pem", self._other_ca.cert_pem.bytes())
        self._clients = {name: self._client(name) for name in "AB"}

    def server_context(self, *names: str, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        """Return a context valid for localhost, 127.0.0.1, ::1 and the extra `names`."""
        names = (*LOCAL_NAMES, *names)
        if names not in self._leaves:
            self._leaves[names] = self._ca.issue_cert(*names)
        return _context(self._leaves[names], alpn)

    def wrong_host_context(self, *, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        """Return a context whose certificate names wrong.example only."""
        return _context(self._ca.issue_cert("wrong.example"), alpn)

    def common_name_context(self, host: str, *names: str) -> ssl.SSLContext:
        """Return a context whose certificate has the host as its common name, and these names."""
        leaf = self._ca.issue_cert(*names, common_name=host)
        return _context(leaf, HTTP1)

    def expired_context(self, *, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        """Return a context whose certificate ended yesterday."""
        return _context(self._issue_between(-30, -1), alpn)

    def not_yet_valid_context(self, *, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        """Return a context whose certificate starts in a month."""
        return _context(self._issue_between(30, 60), alpn)

    def unknown_ca_context(self, *, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        """Return a context signed by the other CA (`other_ca_path`)."""
        return _context(self._other_ca.issue_cert(*LOCAL_NAMES), alpn)

    def tls12_context(self, *, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        """Return a good context that offers at most TLS 1.2."""
        context = self.server_context(alpn=alpn)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        return context

    def client_auth_context(self, *, alpn: Sequence[str] = HTTP1) -> ssl.SSLContext:
        """Return a good context that requires a client certificate signed by the CA."""
        context = self.server_context(alpn=alpn)
        self._ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_cert_path(self, name: str = "A") -> Path:
        """Return one PEM file with the key and certificate of client "A" or "B".

        Its common name, as `Handshake.peer` shows it, is "client A" or "client B".
        """
        return self._clients[name]

    def client_cert_pair(self, name: str = "A") -> tuple[Path, Path]:
        """Return the same client as two files: (certificate, key)."""
        return self.directory / f"client-{name}.crt", self.directory / f"client-{name}.key"

    def server_pem(self) -> bytes:
        """Return key and certificate of a server for localhost, 127.0.0.1 and ::1, as PEM."""
        leaf = self._ca.issue_cert(*LOCAL_NAMES)
        chain = [leaf.private_key_pem, *leaf.cert_chain_pems]
        return b"".join(pem.bytes() for pem in chain)

    def ca_with_key_pem(self) -> bytes:
        """Return the authority with its private key, for what issues certificates on its own."""
        return self._ca.private_key_pem.bytes() + self.ca_pem

    def client_context(self) -> ssl.SSLContext:
        """Return a client's context that trusts the CA (for the standard library's clients)."""
        return ssl.create_default_context(cafile=str(self.ca_path))

    def _issue_between(self, first_day: int, last_day: int) -> trustme.LeafCert:
        now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
        return self._ca.issue_cert(
            *LOCAL_NAMES,
            not_before=now + datetime.timedelta(days=first_day),
            not_after=now + datetime.timedelta(days=last_day),
        )

    def _client(self, name: str) -> Path:
        leaf = self._ca.issue_cert(f"{name.lower()}@example.test", common_name=f"client {name}")
        certificate, key = leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()
        self._write(f"client-{name}.crt", certificate)
        self._write(f"client-{name}.key", key)
        return self._write(f"client-{name}.pem", key + certificate)

    def make_hashed_folder(self, folder: Path, path: Path | None = None) -> str:
        """Make a folder as `openssl rehash` does, with one file of a CA, by default ours."""
        path = path or self.ca_path
        openssl = shutil.which("openssl")
        if openssl is None:
            pytest.skip("only the openssl command knows what to call the files")
        command = [openssl, "x509", "-hash", "-noout", "-in", str(path)]
        found = subprocess.run(command, capture_output=True, check=True)
        folder.mkdir()
        (folder / f"{found.stdout.decode().strip()}.0").write_bytes(path.read_bytes())
        return str(folder)

    def _write(self, name: str, content: bytes) -> Path:
        path = self.directory / name
        path.write_bytes(content)
        return path


def _context(leaf: trustme.LeafCert, alpn: Sequence[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    context.sni_callback = _keep_server_name
    return context


def _keep_server_name(
    sock: ssl.SSLSocket | ssl.SSLObject, name: str | None, _: ssl.SSLContext
) -> None:
    # SSLSocket does not keep the name the client asked for; `Handshake.sni` reads it back.
    sock.requested_name = name  # type: ignore[union-attr]
