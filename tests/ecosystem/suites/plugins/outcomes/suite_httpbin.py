"""A pytest plugin: httpbin.org is on this machine, on http and https, and requests trust it."""

from __future__ import annotations

import os
import ssl
import threading
from pathlib import Path

import pytest
import trustme
from httpbin import app
from werkzeug.serving import make_server


def pytest_configure(config: pytest.Config) -> None:
    """Start the servers; they end with the process."""
    authority = trustme.CA()
    bundle = Path(os.environ["SUITE_OUTCOMES"]).with_name("httpbin.pem")
    authority.cert_pem.write_to_path(str(bundle))
    os.environ["REQUESTS_CA_BUNDLE"] = str(bundle)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("httpbin.org").configure_cert(context)
    for port, tls in ((80, None), (443, context)):
        server = make_server("127.0.0.1", port, app, threaded=True, ssl_context=tls)
        threading.Thread(target=server.serve_forever, daemon=True).start()
