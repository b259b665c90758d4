"""A pytest plugin: $SUITE_ASKS is on this machine, on http and https, and clients trust it."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import trustme
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

_LIMITS = {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "59", "X-RateLimit-Reset": "9999"}


@Request.application
def _github(request: Request) -> Response:
    """Answer as GitHub does to `GET /rate_limit`, and refuse what has a body."""
    body, status = ('{"rate": {}}', 200) if request.method == "GET" else ('{"message": ""}', 400)
    return Response(body, status, _LIMITS, content_type="application/json; charset=utf-8")


def _httpbin() -> Any:
    return import_module("httpbin").app


_APPS: dict[str, Callable[[], Any]] = {"httpbin.org": _httpbin, "api.github.com": lambda: _github}


def pytest_configure(config: pytest.Config) -> None:
    """Start the servers; they end with the process."""
    name = os.environ["SUITE_ASKS"]
    authority = trustme.CA()
    bundle = str(Path(os.environ["SUITE_OUTCOMES"]).with_name("internet.pem"))
    authority.cert_pem.write_to_path(bundle)
    os.environ.update(REQUESTS_CA_BUNDLE=bundle, SSL_CERT_FILE=bundle)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    for port, tls in ((80, None), (443, context)):
        app = _APPS[name]()
        server = make_server("127.0.0.1", port, app, threaded=True, ssl_context=tls)
        threading.Thread(target=server.serve_forever, daemon=True).start()
