"""Present a client certificate, and trust your own CA (mutual TLS): run it.

The server is on loopback, in this program. trustme (pip install trustme) creates the certificates
for this example. In production, you get them from your administrators.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme

import curlhttp

# --- what this example shows ---


def main(url: str, folder: Path) -> None:
    with curlhttp.Client(
        base_url=url,
        verify=str(folder / "ca.pem"),  # the CA that we trust
        cert=(str(folder / "client.pem"), str(folder / "client.key")),  # our own certificate
    ) as client:
        print("known     ", client.get("/").text)

    with curlhttp.Client(base_url=url, verify=str(folder / "ca.pem")) as client:
        try:
            client.get("/")
        except curlhttp.RequestException as error:
            print("unknown   ", isinstance(error, curlhttp.ConnectionError))

    with curlhttp.Client(base_url=url) as client:
        try:
            client.get("/")
        except curlhttp.SSLError as error:
            print("untrusted ", type(error).__name__, f"request_sent={error.request_sent}")


# --- the server, which requires a certificate ---


class Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        subject = self.connection.getpeercert()["subject"]
        body = f"hello, {dict(pair[0] for pair in subject)['commonName']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Server(ThreadingHTTPServer):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), Hello)
        self.context = context

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Do the handshake in the thread of the connection."""
        try:
            with self.context.wrap_socket(request, server_side=True) as secure:
                super().finish_request(secure, client_address)
        except OSError:  # there is no certificate, or it is not trusted
            pass


def make_certificates(folder: Path) -> ssl.SSLContext:
    """Write the files that the client needs, and return those for the server."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    ours = authority.issue_cert("ada@example.org", common_name="Ada")
    ours.cert_chain_pems[0].write_to_path(folder / "client.pem")
    ours.private_key_pem.write_to_path(folder / "client.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


if __name__ == "__main__":
    os.environ["no_proxy"] = "127.0.0.1"  # no request leaves this machine, even with a proxy set
    with tempfile.TemporaryDirectory() as name, Server(make_certificates(Path(name))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        main(f"https://127.0.0.1:{server.server_port}", Path(name))
        server.shutdown()
