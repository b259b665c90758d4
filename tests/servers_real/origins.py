"""Web servers and application servers, and their configuration for what `program` describes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.servers_real.program import Program

_APPS = Path(__file__).parent / "apps"
_ROOT = Path(__file__).parents[2]
_IS_ROOT = os.geteuid() == 0


class Nginx(Program):
    """nginx, with its own files, and the tests' server behind it."""

    name = "nginx"
    role = "serves files, and is a reverse proxy for the tests' server"
    executable = "nginx"
    version_command = ("nginx", "-v")
    can = frozenset(
        {"static", "gzip", "trailers", "events", "ws", "expect", "short", "mtls", "reload"}
    )

    def prepare(self) -> None:
        port, back = self.port, self.around.backend.port
        common = f"""
            ssl_certificate {self.cert}; ssl_certificate_key {self.cert};
            location /static/ {{ root {self.files}; }}
            location /trailers {{ proxy_pass http://back; add_trailer X-Checksum of-nginx; }}
            location / {{ proxy_pass http://back; }}"""
        (self.folder / "nginx.conf").write_text(f"""
            daemon off; worker_processes 2; pid pid; error_log error.log notice;
            {"user root;" if _IS_ROOT else ""}
            events {{ worker_connections 1024; }}
            http {{
              access_log off; client_body_temp_path temp; proxy_temp_path temp;
              fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;
              types {{ text/plain txt; }} default_type application/octet-stream;
              gzip on; gzip_types text/plain; client_max_body_size 0;
              map $http_upgrade $upgrade_or_not {{ default upgrade; '' ''; }}
              upstream back {{ server 127.0.0.1:{back}; keepalive 8; }}
              proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;
              proxy_set_header Connection $upgrade_or_not;
              server {{
                listen 127.0.0.1:{port("plain")}; listen 127.0.0.1:{port("tls")} ssl http2; {common}
              }}
              server {{
                listen 127.0.0.1:{port("short")}; listen 127.0.0.1:{port("short tls")} ssl http2;
                keepalive_requests 2; {common}
              }}
              server {{
                listen 127.0.0.1:{port("mtls")} ssl http2; ssl_verify_client on;
                ssl_client_certificate {self.ca}; {common}
              }}
            }}""")

    def command(self) -> Sequence[str]:
        return ["nginx", "-p", str(self.folder), "-e", "error.log", "-c", "nginx.conf"]

    def is_up(self) -> bool:
        # It listens first, then sets its signal handlers, then writes its pid.
        return (self.folder / "pid").exists() and super().is_up()

    def reload(self) -> None:
        self.signal(signal.SIGHUP)


class Apache(Program):
    """Apache httpd, with its own files, and the tests' server behind it."""

    name = "apache"
    role = "serves files, and is a reverse proxy for the tests' server"
    executable = "apache2"
    version_command = ("apache2", "-v")
    can = frozenset({"static", "gzip", "br", "events", "ws", "expect", "short", "mtls", "reload"})

    def prepare(self) -> None:
        modules = (
            *("mpm_event", "authz_core", "unixd", "mime", "filter", "deflate", "brotli", "ssl"),
            *("socache_shmcb", "http2", "proxy", "proxy_http", "proxy_wstunnel", "setenvif"),
        )
        load = "\n".join(
            f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so"
            for name in modules
            if Path(f"/usr/lib/apache2/modules/mod_{name}.so").exists()  # else it is built in
        )
        tls = f"SSLEngine on\nSSLCertificateFile {self.cert}\n"
        hosts = {
            "plain": "",
            "tls": tls,
            "short": "MaxKeepAliveRequests 2\n",
            "mtls": f"{tls}SSLCACertificateFile {self.ca}\nSSLVerifyClient require\n",
        }
        back = f"http://127.0.0.1:{self.around.backend.port}"
        servers = "\n".join(
            f"Listen 127.0.0.1:{self.port(name)}\n"
            f"<VirtualHost 127.0.0.1:{self.port(name)}>\n{text}\n"
            "ProxyPass /static !\n"
            f"ProxyPass /ws {back}/ws upgrade=websocket\n"
            f"ProxyPass / {back}/\n"
            "</VirtualHost>"
            for name, text in hosts.items()
        )
        (self.folder / "httpd.conf").write_text(f"""{load}
ServerRoot {self.folder}
ServerName localhost
PidFile {self.folder}/pid
DefaultRuntimeDir {self.folder}
ErrorLog {self.folder}/error.log
{"User www-data" if _IS_ROOT else ""}
{"Group www-data" if _IS_ROOT else ""}
StartServers 1
ThreadsPerChild 25
MaxKeepAliveRequests 1000
KeepAliveTimeout 60
Protocols h2 http/1.1
TypesConfig /dev/null
AddType text/plain .txt
AddOutputFilterByType BROTLI_COMPRESS;DEFLATE text/plain
DocumentRoot {self.files}
<Directory {self.files}>
  Require all granted
</Directory>
{servers}
""")

    def command(self) -> Sequence[str]:
        return ["apache2", "-DFOREGROUND", "-f", str(self.folder / "httpd.conf")]

    def is_up(self) -> bool:
        return (self.folder / "pid").exists() and super().is_up()

    def reload(self) -> None:
        self.signal(signal.SIGUSR1)  # what `apachectl graceful` sends


class Caddy(Program):
    """Caddy, with its own files, and the tests' server behind it."""

    name = "caddy"
    role = "serves files, and is a reverse proxy for the tests' server"
    executable = "caddy"
    version_command = ("caddy", "version")
    endpoints = ("plain", "tls", "h2", "h3")
    # quic-go took such a body for none until 0.47: https://github.com/quic-go/quic-go/issues/4622
    needs_length = ("h3",)
    can = frozenset({"static", "gzip", "events", "ws", "expect", "mtls", "reload"})

    def prepare(self) -> None:
        port = self.port
        common = f"""
  bind 127.0.0.1
  encode gzip
  handle /static/* {{
    root * {self.files}
    file_server
  }}
  handle {{
    reverse_proxy 127.0.0.1:{self.around.backend.port}
  }}
"""
        (self.folder / "Caddyfile").write_text(f"""{{
  admin 127.0.0.1:{port("admin")}
  auto_https off
  default_sni localhost
  storage file_system {self.folder}
}}
http://127.0.0.1:{port("plain")} {{{common}}}
https://localhost:{port("tls")} {{
  tls {self.cert} {self.cert}{common}}}
https://localhost:{port("mtls")} {{
  tls {self.cert} {self.cert} {{
    client_auth {{
      mode require_and_verify
      trusted_ca_cert_file {self.ca}
    }}
  }}{common}}}
""")

    def command(self) -> Sequence[str]:
        return ["caddy", "run", "--config", "Caddyfile"]

    def reload(self) -> None:
        address = f"127.0.0.1:{self.port('admin')}"
        command = ["caddy", "reload", "--force", "--config", "Caddyfile", "--address", address]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)


class Lighttpd(Program):
    """lighttpd, with its own files, and the tests' server behind it."""

    name = "lighttpd"
    role = "serves files, and is a reverse proxy for the tests' server"
    executable = "lighttpd"
    version_command = ("lighttpd", "-v")
    needs_length = ("h2",)  # as a proxy it responds 411 (Length Required) otherwise
    can = frozenset({"static", "gzip", "events", "ws", "expect", "short", "mtls", "reload"})

    def prepare(self) -> None:
        port = self.port
        (self.folder / "lighttpd.conf").write_text(f"""
server.modules = ("mod_openssl", "mod_proxy", "mod_deflate")
server.document-root = "{self.files}"
server.bind = "127.0.0.1"
server.port = {port("plain")}
server.errorlog = "{self.folder}/error.log"
server.pid-file = "{self.folder}/pid"
server.upload-dirs = ("{self.folder}")
server.max-keep-alive-requests = 1000
server.max-keep-alive-idle = 60
server.stream-response-body = 1
mimetype.assign = (".txt" => "text/plain", "" => "application/octet-stream")
deflate.mimetypes = ("text/plain")
deflate.allowed-encodings = ("gzip")
$HTTP["url"] !~ "^/static/" {{
  proxy.server = ("" => (("host" => "127.0.0.1", "port" => {self.around.backend.port})))
  proxy.header = ("upgrade" => "enable")
}}
$SERVER["socket"] == "127.0.0.1:{port("tls")}" {{
  ssl.engine = "enable"
  ssl.pemfile = "{self.cert}"
}}
$SERVER["socket"] == "127.0.0.1:{port("mtls")}" {{
  ssl.engine = "enable"
  ssl.pemfile = "{self.cert}"
  ssl.verifyclient.activate = "enable"
  ssl.verifyclient.enforce = "enable"
  ssl.verifyclient.ca-file = "{self.ca}"
}}
$SERVER["socket"] == "127.0.0.1:{port("short")}" {{ server.max-keep-alive-requests = 2 }}
""")

    def command(self) -> Sequence[str]:
        return ["lighttpd", "-D", "-f", str(self.folder / "lighttpd.conf")]

    def reload(self) -> None:
        self.signal(signal.SIGUSR1)


class Node(Program):
    """Node's http, https and http2."""

    name = "node"
    role = "application server"
    executable = "node"
    version_command = ("node", "--version")
    can = frozenset({"gzip", "br", "trailers", "events", "expect", "short", "mtls"})

    def prepare(self) -> None:
        shutil.copy(_APPS / "app.js", self.folder)
        shutil.copy(self.files / "static" / "text.txt", self.folder)
        self.seen_path.touch()

    def command(self) -> Sequence[str]:
        ports = [str(self.port(name)) for name in ("plain", "tls", "short", "mtls")]
        return ["node", "app.js", str(self.folder), str(self.seen_path), *ports]


class Go(Program):
    """Go's net/http, compiled here."""

    name = "go"
    role = "application server"
    executable = "go"
    version_command = ("go", "version")
    can = frozenset({"static", "trailers", "events", "expect", "mtls"})

    def prepare(self) -> None:
        command = ["go", "build", "-o", str(self.folder / "app"), str(_APPS / "main.go")]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr
        self.seen_path.touch()

    def command(self) -> Sequence[str]:
        ports = [str(self.port(name)) for name in ("plain", "tls", "mtls")]
        app = str(self.folder / "app")
        return [app, str(self.files), str(self.folder), str(self.seen_path), *ports]


_BOTH = """
import signal, subprocess, sys
cut = sys.argv.index("--and")
parts = sys.argv[1:cut], sys.argv[cut + 1 :]
both = [subprocess.Popen([sys.executable, "-m", *part]) for part in parts]
signal.signal(signal.SIGTERM, lambda *_: [one.terminate() for one in both])
for one in both:
    one.wait()
"""


class _Python(Program):
    """A server in Python, which is a module of this environment, with the application in ASGI."""

    module: str
    role = "application server"
    can = frozenset({"static", "gzip", "events", "ws", "expect"})

    def prepare(self) -> None:
        pytest.importorskip(self.module, reason=f"{self.module} is not installed")
        self.seen_path.touch()

    def environment(self) -> Mapping[str, str]:
        return {
            "PYTHONPATH": str(_ROOT),
            "CURLHTTP_SEEN": str(self.seen_path),
            "CURLHTTP_FILES": str(self.files / "static"),
        }

    def both(self, plain: Sequence[str], tls: Sequence[str]) -> Sequence[str]:
        """Return a command that runs two, because one has but one port."""
        return [sys.executable, "-c", _BOTH, *plain, "--and", *tls]


class Hypercorn(_Python):
    """hypercorn, on asyncio."""

    name = "hypercorn"
    module = "hypercorn"
    executable = sys.executable
    version_command = (sys.executable, "-m", "pip", "show", "hypercorn")
    endpoints = ("plain", "tls", "h2", "h3")

    def command(self) -> Sequence[str]:
        return [
            *(sys.executable, "-m", "hypercorn", "--access-logfile", "/dev/null"),
            *("--insecure-bind", f"127.0.0.1:{self.port('plain')}"),
            *("--bind", f"127.0.0.1:{self.port('tls')}"),
            *("--quic-bind", f"127.0.0.1:{self.port('tls')}"),
            *("--certfile", str(self.cert), "--keyfile", str(self.cert)),
            *("--keep-alive", "60", "tests.servers_real.apps.asgi:app"),
        ]


class Granian(_Python):
    """granian, on hyper."""

    name = "granian"
    module = "granian"
    executable = sys.executable
    version_command = (sys.executable, "-m", "pip", "show", "granian")
    can = _Python.can - {"gzip"}  # it sends files on its own, past the application's codings

    def command(self) -> Sequence[str]:
        app = ["tests.servers_real.apps.asgi:app", "--interface", "asgi", "--no-access-log"]
        tls = ["--ssl-certificate", str(self.cert), "--ssl-keyfile", str(self.cert)]
        return self.both(
            ["granian", *app, "--port", str(self.port("plain"))],
            ["granian", *app, "--port", str(self.port("tls")), *tls],
        )


class Uvicorn(_Python):
    """uvicorn, on h11 or httptools."""

    name = "uvicorn"
    module = "uvicorn"
    executable = sys.executable
    version_command = (sys.executable, "-m", "pip", "show", "uvicorn")
    endpoints = ("plain", "tls")

    def command(self) -> Sequence[str]:
        app = ["tests.servers_real.apps.asgi:app", "--no-access-log", "--timeout-keep-alive", "60"]
        tls = ["--ssl-certfile", str(self.cert), "--ssl-keyfile", str(self.cert)]
        return self.both(
            ["uvicorn", *app, "--port", str(self.port("plain"))],
            ["uvicorn", *app, "--port", str(self.port("tls")), *tls],
        )


ORIGINS: tuple[type[Program], ...] = (
    Nginx,
    Apache,
    Caddy,
    Lighttpd,
    Node,
    Go,
    Hypercorn,
    Granian,
    Uvicorn,
)
