"""The options that several commands share: for connections, and their parsers.

Values are validated while the command line is parsed. A command receives the connection options as
one `ConnectionOptions`.
"""

from __future__ import annotations

import functools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click

from curlhttp._http.credentials import encode_credential
from curlhttp.cli.errors import CommandFailed, needing_package, reading
from curlhttp.cli.files import open_file
from curlhttp.cli.terminal import color_option

if TYPE_CHECKING:
    from ssl import SSLContext

    from curlhttp._api.async_client import AsyncClient
    from curlhttp._api.client import Client
    from curlhttp._features.guard.policy import PublicOnly
    from curlhttp._features.retry.policy import RetryPolicy
    from curlhttp._http.config import Proxy
    from curlhttp._http.inputs import AuthInput
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.timeout import Timeout
    from curlhttp._http.url import URL

ARGUMENTS = "curlhttp.arguments"  # key in click's meta of the command line as it was typed
_T = TypeVar("_T")

_FILE = click.Path(exists=True, dir_okay=False, readable=True)
_CA_ERROR = 77  # CURLE_SSL_CACERT_BADFILE
_PERIODS = {"s": 1, "m": 60, "h": 3600}
_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


# --- numbers ---


def integer(least: int = 1, most: int = 1_000_000) -> Callable[[str], int]:
    """Return a parser of integers.

    Args:
        least: the smallest valid number.
        most: the largest valid number.
    """

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise click.BadParameter(f"{text!r} is not a number from {least:,} to {most:,}")
        return number

    return parse


def parse_seconds(text: str) -> float:
    """Parse a number of seconds greater than 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise click.BadParameter(f"{text!r} is not a number greater than 0")
    return number


def parse_rate(text: str) -> float:
    """Parse requests per second: "50", "50/s", "600/m" or "1000/h"."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/([smh]))?", text, re.ASCII)
    if not match or not float(match[1]):
        raise click.BadParameter(f"{text!r} is not a rate such as 50, 50/s, 600/m or 1000/h")
    return float(match[1]) / _PERIODS[match[2] or "s"]


def parse_size(text: str) -> int:
    """Parse bytes: "1000", "64k", "10M" or "1G"."""
    match = re.fullmatch(r"(\d+)([kmg]?)", text.lower(), re.ASCII)
    if not match:
        raise click.BadParameter(f"{text!r} is not a size such as 1000, 64k, 10M or 1G")
    return int(match[1]) * _SIZES[match[2]]


# --- how to connect and send ---


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """The values of the connection options. Their help texts describe them."""

    header: tuple[tuple[str, str | None], ...]
    user_agent: str | None
    user: str | None
    follow: bool
    timeout: float | None
    connect_timeout: float | None
    max_time: float | None
    speed_limit: int | None
    speed_time: float | None
    retry: int
    version: str | None
    proxy: str | None
    resolve: dict[str, list[str]]
    unix_socket: str | None
    insecure: bool
    cacert: str | None
    cert: tuple[str, str | None] | None
    key: str | None
    key_password: str | None
    public_only: bool
    ip_version: int | None
    interface: str | None
    connect_to: dict[str, str]
    limit_rate: int | None
    noproxy: str | None
    proxy_user: str | None
    proxy_insecure: bool
    proxy_cacert: str | None
    proxy_cert: tuple[str, str | None] | None
    proxy_key: str | None
    proxy_key_password: str | None
    socks5: str | None
    socks5_hostname: str | None
    path_as_is: bool
    max_redirs: int | None
    doh_url: str | None
    scheme: str | None
    oauth2_bearer: str | None
    aws_sigv4: tuple[str, str] | None
    lowest_tls: str | None
    highest_tls: str | None
    retry_all_errors: bool

    def client(self, **settings: Any) -> Client:  # Any: see settings
        """Create a client with these options.

        Args:
            settings: further arguments of Client.

        Raises:
            CommandFailed: the options or environment variables are invalid.
        """
        from curlhttp._api.client import Client
        from curlhttp.exceptions import RequestException

        options = self.with_password()
        try:
            client = Client(**{**options.settings(), **settings})
        except RequestException:  # is an OSError, and some subclasses are also a ValueError
            raise
        except (ImportError, ValueError) as error:  # the former names the extra
            raise CommandFailed(str(error), 2) from None
        except OSError as error:
            raise CommandFailed(str(error), _CA_ERROR) from None
        options.prepare(client)
        return client

    def prepare(self, client: Client | AsyncClient) -> None:
        """Let a client do with URLs, credentials in them, and -H Host:, what curl does.

        Args:
            client: has the settings of these options.
        """
        from curlhttp._http.auth import to_auth
        from curlhttp._http.headers import WITHOUT_HOST

        auth = to_auth(self._auth())
        names = [name.lower() for name, _ in self.header]
        has_no_host = names.count("host") == 1 and self.header[names.index("host")][1] is None

        def change(request: ClientRequest, url: URL) -> None:
            if url.username is not None:
                credentials = url.username, url.password or ""
                if auth is None or (self.user is None and self.aws_sigv4 is not None):
                    request.auth = to_auth(self._make_auth(credentials))
                else:
                    request.auth = auth
            elif auth is None and self.scheme == "digest":
                raise click.UsageError("--digest needs -u NAME:PASSWORD")
            if has_no_host:
                request._extend(WITHOUT_HOST, request.url.authority)

        client._add_build_step(change)
        if self.path_as_is:
            client._parse = _parse_raw_url

    def settings(self) -> dict[str, Any]:  # Any: each keyword of Client has its own type
        """Return the arguments of Client for these options."""
        agent = [("User-Agent", self.user_agent)] if self.user_agent is not None else []
        return {
            "headers": [*agent, *self.header],
            "auth": self._auth(),
            "timeout": self._timeout(),
            "retry": self._retry_policy() if self.retry_all_errors else self.retry,
            "follow_redirects": self.follow,
            "http2": "prior-knowledge" if self.version == "prior" else self.version == "2",
            "http3": self.version == "3",
            "verify": self._verify(),
            "cert": _join_cert(self.cert, self.key, self.key_password),
            "proxies": self._proxies(),
            "resolve": self.resolve,
            "connect_to": self.connect_to,
            "uds": self.unix_socket,
            "guard": _create_guard() if self.public_only else None,
            "ip_version": self.ip_version,
            **_get_local_end(self.interface),
            "max_send_rate": self.limit_rate or None,  # 0 is no limit, as in curl
            "max_receive_rate": self.limit_rate or None,
            "doh": self.doh_url,
            **({} if self.max_redirs is None else {"max_redirects": self.max_redirs}),
        }

    def _auth(self) -> AuthInput | None:
        """Return how to authenticate without the credentials in a URL, or None."""
        if any(name.lower() == "authorization" for name, _ in self.header):
            from curlhttp._http.auth import NO_AUTH

            return NO_AUTH
        if self.oauth2_bearer is not None:
            from curlhttp._features.auth.token_auth import BearerAuth

            return BearerAuth(self.oauth2_bearer)
        if self.scheme == "negotiate":
            from curlhttp._features.auth.negotiate import Negotiate

            return Negotiate()
        credentials = _get_credentials(self.user)
        if credentials is None and self.aws_sigv4 is None:
            return None
        return self._make_auth(credentials)

    def _make_auth(self, credentials: tuple[str, str] | None) -> AuthInput | None:
        if self.aws_sigv4 is not None:
            return _create_aws_auth(*self.aws_sigv4, credentials)
        if self.scheme == "digest" and credentials is not None:
            from curlhttp._features.auth.digest import DigestAuth

            return DigestAuth(*credentials)
        return credentials

    def _retry_policy(self) -> RetryPolicy:
        from curlhttp._features.retry.policy import RetryPolicy

        return RetryPolicy(self.retry, retry_non_idempotent=True)

    def _verify(self) -> bool | str | SSLContext:
        if self.lowest_tls is None and self.highest_tls is None:
            return False if self.insecure else self.cacert or True
        return _create_context(self.cacert, self.insecure, self.lowest_tls, self.highest_tls)

    def _proxies(self) -> str | dict[str, str | None] | dict[str, str | Proxy | None] | None:
        proxies = self._find_proxies()
        verify = False if self.proxy_insecure else self.proxy_cacert
        cert = _join_cert(self.proxy_cert, self.proxy_key, self.proxy_key_password)
        if verify is None and cert is None:
            return proxies
        from curlhttp._client.environment import find_excluded_hosts, find_proxies
        from curlhttp._http.config import Proxy

        if proxies is None:
            proxies = {**find_proxies(), "no_proxy": find_excluded_hosts()}
        elif not isinstance(proxies, dict):
            proxies = {"all": proxies}
        return {
            name: Proxy(url=value, verify=verify, cert=cert)
            if value and name != "no_proxy"
            else value
            for name, value in proxies.items()
        }

    def _find_proxies(self) -> str | dict[str, str | None] | None:
        proxy = self.socks5_hostname or self.socks5 or self.proxy
        if proxy is not None and self.proxy_user is not None:
            scheme, _, rest = proxy.rpartition("://")
            name, _, password = self.proxy_user.partition(":")
            user = ":".join(quote(encode_credential(part), safe="") for part in (name, password))
            proxy = f"{scheme or 'http'}://{user}@{rest}"
        if self.noproxy is None:
            return proxy
        if proxy is not None:
            return {"all": proxy, "no_proxy": self.noproxy}
        from curlhttp._client.environment import find_proxies

        # These are passed explicitly, so that NO_PROXY does not apply to them.
        return {**find_proxies(), "no_proxy": self.noproxy}

    def with_password(self) -> ConnectionOptions:
        """Return these options with a password in `user`, and prompt for it if it is missing."""
        credentials = _get_credentials(self.user)
        return self if credentials is None else replace(self, user=":".join(credentials))

    def _timeout(self) -> Timeout:
        from curlhttp._http.timeout import Timeout

        return Timeout(total=self.max_time, min_speed=self._min_speed(), **self._phases())

    def attempt_timeout(self) -> Timeout:
        """Return the timeout of the requests of a list, whose waits for each other do not count."""
        from curlhttp._http.timeout import ATTEMPT_SECONDS, MIN_SPEED, Timeout

        return Timeout(
            attempt=self.max_time or ATTEMPT_SECONDS,
            min_speed=self._min_speed() or MIN_SPEED,
            **self._phases(),
        )

    def _min_speed(self) -> tuple[float, float] | None:
        if self.speed_limit is None and self.speed_time is None:
            return None
        return self.speed_limit or 1, self.speed_time or 30.0  # as curl does

    def _phases(self) -> dict[str, float]:
        limits: dict[str, float] = {}
        if self.timeout is not None:
            limits |= {"connect": self.timeout, "read": self.timeout}
        if self.connect_timeout is not None:
            limits["connect"] = self.connect_timeout
        return limits


def _join_cert(
    cert: tuple[str, str | None] | None, key: str | None, key_password: str | None
) -> tuple[str, str, str | None] | None:
    """Return the argument `cert` of a client for --cert, --key and --pass, or those of a proxy."""
    if cert is None:
        return None
    path, password = cert
    return path, key or path, password if key_password is None else key_password


def _parse_raw_url(url: str | bytes | URL) -> URL:
    from curlhttp._http.url import URL

    return url if isinstance(url, URL) else URL(url, raw=True)


def _create_context(
    cacert: str | None, insecure: bool, lowest: str | None, highest: str | None
) -> SSLContext:
    """Return a context with these versions of TLS, which also workers can receive."""
    import ssl

    import certifi

    from curlhttp._client.environment import find_ca_bundle
    from curlhttp._http.config import explain_missing_authorities, names_folders

    class Context(ssl.SSLContext):
        def __reduce__(self) -> tuple[Callable[..., SSLContext], tuple[object, ...]]:
            return _create_context, (cacert, insecure, lowest, highest)

    context: SSLContext = Context(ssl.PROTOCOL_TLS_CLIENT)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        file = cacert or find_ca_bundle() or certifi.where()
        if names_folders(file):
            raise click.UsageError("--tlsv1.2 and similar options need a file as --cacert")
        if missing := explain_missing_authorities(file):
            raise click.UsageError(missing)
        context.load_verify_locations(file)
    if lowest is not None:
        context.minimum_version = ssl.TLSVersion[f"TLSv1_{lowest[2:]}"]
    if highest is not None:
        context.maximum_version = ssl.TLSVersion[f"TLSv1_{highest[2:]}"]
    return context


def _create_aws_auth(region: str, service: str, credentials: tuple[str, str] | None) -> AuthInput:
    from curlhttp._features.auth.aws import AWSSigV4

    with needing_package():
        return AWSSigV4(region, service, credentials)


def _get_local_end(text: str | None) -> dict[str, str]:
    """Return the setting for --interface, which is a name or an address."""
    if text is None:
        return {}
    try:
        ip_address(text)
    except ValueError:
        return {"interface": text}
    return {"local_address": text}


def _create_guard() -> PublicOnly:
    from curlhttp._features.guard.policy import PublicOnly

    return PublicOnly()


def _get_credentials(user: str | None) -> tuple[str, str] | None:
    if user is None:
        return None
    name, colon, password = user.partition(":")
    if not colon:
        if not sys.stdin.isatty():
            raise click.UsageError(
                f"-u {name} has no password, and there is no terminal to ask for it: use "
                "NAME:PASSWORD, or NAME: for none"
            )
        password = click.prompt(f"Password of {name}", hide_input=True, err=True)
    return name, password


def _parse_socks(scheme: str) -> Callable[[str], str]:
    return lambda value: value if "://" in value else f"{scheme}://{value}"


def _parse_aws(value: str) -> tuple[str, str]:
    """Parse --aws-sigv4 as curl does: PROVIDER1:PROVIDER2:REGION:SERVICE."""
    *provider, region, service = ("", "", *value.split(":"))[-4:]
    if provider != ["aws", "amz"] or not (region and service):
        raise click.BadParameter(f"{value!r} is not aws:amz:REGION:SERVICE")
    return region, service


def _parse_headers(
    _: click.Context, __: click.Parameter, lines: tuple[str, ...]
) -> list[tuple[str, str | None]]:
    """Parse -H as curl does: "Name: value" adds a header, "Name:" removes, "Name;" empties it."""
    headers: list[tuple[str, str | None]] = []
    for line in _read_header_files(lines):
        name, colon, value = line.partition(":")
        if colon:
            headers.append((name, value.strip() or None))
        elif name.endswith(";"):
            headers.append((name[:-1], ""))
        else:  # the message does not show it, because it may be a secret
            raise click.BadParameter("a header must look like 'Name: value'")
    # "Name:" removes default headers only, whatever the order.
    return sorted(headers, key=lambda header: header[1] is not None)


def _read_header_files(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, those of a file instead of @FILE."""
    for line in lines:
        if not line.startswith("@"):
            yield line
            continue
        with reading(line[1:]), ExitStack() as files:
            text = open_file(line[1:], files).read().decode()
        yield from filter(None, map(str.strip, text.split("\n")))


def _parse_cert(value: str) -> tuple[str, str | None]:
    """Parse --cert as curl does: FILE or FILE:PASSWORD, where a backslash escapes a colon.

    The colon after a drive of Windows belongs to FILE. No message shows the password.
    """
    if value.lower().startswith("pkcs11:"):
        raise click.BadParameter("PKCS#11 is not supported: give a PEM file")
    drive = r"[A-Za-z]:(?=[\\/])" if os.name == "nt" else ""
    match = re.fullmatch(rf"((?:{drive})?(?:\\[\\:]|[^:])*)(?::(.*))?", value, re.DOTALL)
    assert match is not None
    path = re.sub(r"\\([\\:])", r"\1", match[1])
    if not os.path.isfile(path):
        raise click.BadParameter(f"{path!r} is not a file")
    return path, match[2]


def _parse_addresses(
    _: click.Context, __: click.Parameter, lines: tuple[str, ...]
) -> dict[str, list[str]]:
    """Parse --resolve as curl does: HOST:PORT:ADDRESS[,ADDRESS]."""
    addresses: dict[str, list[str]] = {}
    for line in lines:
        host, port, listed = (*line.split(":", 2), "", "")[:3]
        if not (host and port.isdigit() and listed):
            raise click.BadParameter(f"{line!r} is not HOST:PORT:ADDRESS[,ADDRESS]")
        addresses[f"{host}:{port}"] = [address.strip("[]") for address in listed.split(",")]
    return addresses


def _parse_detours(_: click.Context, __: click.Parameter, lines: tuple[str, ...]) -> dict[str, str]:
    """Parse --connect-to as curl does: HOST1:PORT1:HOST2:PORT2, where parts may be empty."""
    detours: dict[str, str] = {}
    for line in lines:
        match = re.fullmatch(r"(\[.*?\]|[^:]*):(\d*):(\[.*?\]|[^:]*):(\d*)", line)
        if match is None or not (match[3] or (match[1] and match[4])):
            raise click.BadParameter(f"{line!r} is not HOST1:PORT1:HOST2:PORT2")
        host, port, other, other_port = match.groups()
        host = host or "*"
        detours[f"{host}:{port}" if port else host] = (
            f"{other or host}:{other_port}" if other_port else other
        )
    return detours


_OPTIONS = (
    click.option("-H", "--header", multiple=True, callback=_parse_headers, metavar="'NAME: VALUE'",
                 help="Add a header. 'Name:' removes a default header, 'Name;' sends one without a "
                 "value. May be repeated."),
    click.option("-A", "--user-agent", metavar="TEXT", help="Set the User-Agent header."),
    click.option("-u", "--user", metavar="NAME:PASSWORD",
                 help="Log in with Basic authentication. Prompts for a missing password."),
    click.option("--follow/--no-follow", "-L/", "--location/", "follow", default=True,
                 show_default=True, help="Follow redirects."),
    click.option("--timeout", type=parse_seconds, metavar="SECONDS",
                 help="Maximum time to connect, and to wait for data.  [default: 10 and 60]"),
    click.option("--connect-timeout", type=parse_seconds, metavar="SECONDS",
                 help="Maximum time to connect. Overrides --timeout."),
    click.option("-m", "--max-time", type=parse_seconds, metavar="SECONDS",
                 help="Maximum time for everything: waits, redirects, retries and the body. With "
                 "fetch: for each attempt, from when it is sent.  [default with fetch: 300]"),
    click.option("-Y", "--speed-limit", type=parse_size, metavar="BYTES",
                 help="Minimum speed of a response, in bytes per second, for --speed-time.  "
                 "[default with fetch: 100]"),
    click.option("-y", "--speed-time", type=parse_seconds, metavar="SECONDS",
                 help="How long a response may be slower than --speed-limit.  [default: 30]"),
    click.option("--retry", type=integer(0, 100), default=0, metavar="N",
                 help="Retry a failed request up to N times, if repeating it is safe."),
    click.option("--retry-all-errors", is_flag=True,
                 help="With --retry: also retry if it may not be safe, such as a POST."),
    click.option("--http1.1", "version", flag_value="1.1", default=True,
                 help="Use HTTP/1.1. This is the default."),
    click.option("--http2", "version", flag_value="2",
                 help="Use HTTP/2 if the server supports it over TLS."),
    click.option("--http2-prior-knowledge", "version", flag_value="prior",
                 help="Use HTTP/2 without negotiating it, with or without TLS."),
    click.option("--http3", "version", flag_value="3",
                 help="Try HTTP/3, and fall back to older versions."),
    click.option("-x", "--proxy", metavar="URL",
                 help="Use this proxy. Overrides HTTP_PROXY and similar variables."),
    click.option("--resolve", multiple=True, callback=_parse_addresses,
                 metavar="HOST:PORT:ADDRESS[,ADDRESS]",
                 help="Connect to ADDRESS instead of looking up HOST. May be repeated."),
    click.option("--unix-socket", metavar="PATH",
                 help="Connect to this Unix socket instead of the host in the URL."),
    click.option("--public-only", is_flag=True,
                 help="Connect only to addresses on the public Internet, also after a redirect."),
    click.option("-4", "--ipv4", "ip_version", flag_value=4, type=int,
                 help="Connect to IPv4 addresses only."),
    click.option("-6", "--ipv6", "ip_version", flag_value=6, type=int,
                 help="Connect to IPv6 addresses only."),
    click.option("--interface", metavar="NAME|ADDRESS",
                 help="Connect from this network interface, or from this address."),
    click.option("--connect-to", multiple=True, callback=_parse_detours,
                 metavar="HOST1:PORT1:HOST2:PORT2",
                 help="Connect to HOST2:PORT2 for requests to HOST1:PORT1. May be repeated."),
    click.option("--doh-url", metavar="URL", help="Look up names with DNS over HTTPS."),
    click.option("--limit-rate", type=parse_size, metavar="SIZE",
                 help="Send and receive at most SIZE bytes per second, such as 200k."),
    click.option("--path-as-is", is_flag=True,
                 help="Send path and query byte for byte: keep '.' and '..' in the path, and do "
                 "not change escapes. This also holds for redirects."),
    click.option("--max-redirs", type=integer(0, 10_000), metavar="N",
                 help="Follow at most N redirects.  [default: 30]"),
    click.option("--noproxy", metavar="HOSTS",
                 help="Hosts to connect to without a proxy, separated by commas."),
    click.option("--proxy-user", metavar="NAME:PASSWORD", help="Credentials for the proxy."),
    click.option("--socks5", type=_parse_socks("socks5"), metavar="HOST[:PORT]",
                 help="Use this SOCKS5 proxy, and look up names on this machine."),
    click.option("--socks5-hostname", type=_parse_socks("socks5h"),
                 metavar="HOST[:PORT]",
                 help="Use this SOCKS5 proxy, which also looks up names."),
    click.option("--digest", "scheme", flag_value="digest",
                 help="Log in with Digest authentication and the name and password of -u."),
    click.option("--negotiate", "scheme", flag_value="negotiate",
                 help="Log in with your Kerberos ticket."),
    click.option("--oauth2-bearer", metavar="TOKEN", help="Send TOKEN as a bearer token."),
    click.option("--aws-sigv4", type=_parse_aws, metavar="aws:amz:REGION:SERVICE",
                 help="Sign the request for AWS. -u takes the access key and the secret key. "
                 "Without it, they are found as AWS' own tools find them."),
    click.option("--tlsv1.2", "lowest_tls", flag_value="1.2", help="Use TLS 1.2 or newer."),
    click.option("--tlsv1.3", "lowest_tls", flag_value="1.3", help="Use TLS 1.3 or newer."),
    click.option("--tls-max", "highest_tls", type=click.Choice(["1.2", "1.3"]),
                 help="Use TLS up to this version."),
    # What these ask for is the default.
    click.option("--basic", is_flag=True, hidden=True, expose_value=False),
    click.option("--retry-connrefused", is_flag=True, hidden=True, expose_value=False),
    click.option("--tlsv1", is_flag=True, hidden=True, expose_value=False),
    click.option("-g", "--globoff", is_flag=True, hidden=True, expose_value=False),
    click.option("-k", "--insecure", is_flag=True, help="Do not verify the server's certificate."),
    click.option("--cacert", type=click.Path(exists=True), metavar="FILE",
                 help="Trust the CA certificates in this PEM file instead of certifi's."),
    click.option("-E", "--cert", type=_parse_cert, metavar="FILE[:PASSWORD]",
                 help="Client certificate (PEM), and the password of its key. Write \\: "
                 "for a colon in FILE."),
    click.option("--key", type=_FILE, metavar="FILE",
                 help="Private key of the client certificate, if it is in a separate file."),
    click.option("--pass", "key_password", metavar="PASSWORD",
                 help="Password of the private key."),
    click.option("--proxy-insecure", is_flag=True,
                 help="Do not verify the certificate of an https proxy."),
    click.option("--proxy-cacert", type=click.Path(exists=True), metavar="FILE",
                 help="Trust the CA certificates in this PEM file for an https proxy."),
    click.option("--proxy-cert", type=_parse_cert, metavar="FILE[:PASSWORD]",
                 help="Client certificate for an https proxy."),
    click.option("--proxy-key", type=_FILE, metavar="FILE",
                 help="Private key of --proxy-cert, if it is in a separate file."),
    click.option("--proxy-pass", "proxy_key_password", metavar="PASSWORD",
                 help="Password of the private key for the proxy."),
    click.option("-K", "--config", multiple=True, expose_value=False, metavar="FILE",
                 help="Read options from FILE, one per line as in curl. '-' is stdin."),
    color_option,
)  # fmt: skip


def add_options(
    options: Sequence[Callable[[Callable[..., _T]], Callable[..., _T]]],
) -> Callable[[Callable[..., _T]], Callable[..., _T]]:
    """Return a decorator that adds options to a command. The help lists them in this order."""
    return lambda command: functools.reduce(
        lambda decorated, option: option(decorated), reversed(options), command
    )


def connection_options(command: Callable[..., _T]) -> Callable[..., _T]:
    """Add the connection options to a command, which receives them as the argument `connection`."""
    names = [field.name for field in fields(ConnectionOptions)]

    @functools.wraps(command)
    def wrapped(**options: Any) -> _T:  # Any: the values that click parsed
        for prefix in ("", "proxy_"):
            if options[f"{prefix}key"] and not options[f"{prefix}cert"]:
                name = f"--{prefix}key".replace("_", "-")
                raise click.UsageError(f"{name} needs {name.replace('key', 'cert')}")
        values = {name: options.pop(name) for name in names}
        return command(connection=ConnectionOptions(**values), **options)

    return add_options(_OPTIONS)(wrapped)
