"""The options that all commands share: how to connect, what every request carries, how long.

They are checked when they are given, and become one `ConnectionOptions`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from curlhttp.cli.exits import CommandFailed
from curlhttp.cli.numbers import count, seconds
from curlhttp.cli.terminal import color_option

if TYPE_CHECKING:
    from curlhttp._client import Client
    from curlhttp._models.timeout import Timeout
    from curlhttp._policy.guard import PublicOnly

__all__ = ["ConnectionOptions", "with_connection"]

_T = TypeVar("_T")

_FILE = click.Path(exists=True, dir_okay=False, readable=True)
_CA_ERROR = 77  # CURLE_SSL_CACERT_BADFILE


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """What the shared options say; see their help."""

    header: tuple[tuple[str, str | None], ...]
    user_agent: str | None
    user: str | None
    follow: bool
    timeout: float | None
    connect_timeout: float | None
    max_time: float | None
    retry: int
    version: str | None
    proxy: str | None
    resolve: dict[str, list[str]]
    unix_socket: str | None
    insecure: bool
    cacert: str | None
    cert: str | None
    key: str | None
    public_only: bool

    def client(self, **settings: Any) -> Client:  # Any: see settings
        """Return a client with these options.

        Args:
            settings: further arguments of Client.

        Raises:
            CommandFailed: the options, or what the environment says, are no good.
        """
        from curlhttp._client import Client
        from curlhttp.exceptions import RequestException

        try:
            return Client(**{**self.settings(), **settings})
        except RequestException:  # which is an OSError, and some are a ValueError
            raise
        except ValueError as error:
            raise CommandFailed(str(error), 2) from None
        except OSError as error:
            raise CommandFailed(str(error), _CA_ERROR) from None

    def settings(self) -> dict[str, Any]:  # Any: of each keyword of Client its own type
        """Return the arguments of Client that the options mean."""
        agent = [("User-Agent", self.user_agent)] if self.user_agent is not None else []
        return {
            "headers": [*agent, *self.header],
            "auth": _credentials(self.user),
            "timeout": self._timeout(),
            "retry": self.retry,
            "follow_redirects": self.follow,
            "http2": "prior-knowledge" if self.version == "prior" else self.version == "2",
            "http3": self.version == "3",
            "verify": False if self.insecure else self.cacert or True,
            "cert": (self.cert, self.key) if self.cert and self.key else self.cert,
            "proxies": self.proxy,
            "resolve": self.resolve,
            "uds": self.unix_socket,
            "guard": _guard() if self.public_only else None,
        }

    def with_password(self) -> ConnectionOptions:
        """Return these options with the password of --user, which is asked for if it is missing."""
        found = _credentials(self.user)
        return self if found is None else replace(self, user=":".join(found))

    def _timeout(self) -> Timeout:
        from curlhttp._models.timeout import Timeout

        limits = {"total": self.max_time}
        if self.timeout is not None:
            limits |= {"connect": self.timeout, "read": self.timeout}
        if self.connect_timeout is not None:
            limits["connect"] = self.connect_timeout
        return Timeout(**limits)


def _guard() -> PublicOnly:
    from curlhttp._policy.guard import PublicOnly

    return PublicOnly()


def _credentials(user: str | None) -> tuple[str, str] | None:
    if user is None:
        return None
    name, colon, password = user.partition(":")
    if not colon:
        password = click.prompt(f"Password of {name}", hide_input=True, err=True)
    return name, password


def _headers(
    _: click.Context, __: click.Parameter, lines: tuple[str, ...]
) -> list[tuple[str, str | None]]:
    """Read -H as curl does: "Name: value"; "Name:" takes one away, "Name;" sends it empty."""
    found: list[tuple[str, str | None]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            found.append((name, value.strip() or None))
        elif name.endswith(";"):
            found.append((name[:-1], ""))
        else:  # what it is may be a secret: it is not shown
            raise click.BadParameter("a header is 'Name: value'")
    return found


def _addresses(
    _: click.Context, __: click.Parameter, lines: tuple[str, ...]
) -> dict[str, list[str]]:
    """Read --resolve as curl does: HOST:PORT:ADDRESS[,ADDRESS]."""
    found: dict[str, list[str]] = {}
    for line in lines:
        host, port, listed = (*line.split(":", 2), "", "")[:3]
        if not (host and port.isdigit() and listed):
            raise click.BadParameter(f"{line!r} is not HOST:PORT:ADDRESS[,ADDRESS]")
        found[f"{host}:{port}"] = [address.strip("[]") for address in listed.split(",")]
    return found


_OPTIONS = (
    click.option("-H", "--header", multiple=True, callback=_headers, metavar="'NAME: VALUE'",
                 help="Send a header; 'Name:' leaves one of ours out. May be repeated."),
    click.option("-A", "--user-agent", metavar="TEXT", help="Send this as User-Agent."),
    click.option("-u", "--user", metavar="NAME:PASSWORD",
                 help="Authenticate; without the password it is asked for."),
    click.option("--follow/--no-follow", "-L/", "--location/", "follow", default=True,
                 show_default=True, help="Follow redirects."),
    click.option("--timeout", type=seconds, metavar="SECONDS",
                 help="For connecting, and for silence.  [default: 10 and 60]"),
    click.option("--connect-timeout", type=seconds, metavar="SECONDS",
                 help="For connecting alone."),
    click.option("-m", "--max-time", type=seconds, metavar="SECONDS",
                 help="For all of a request: waits, redirects, retries, the body."),
    click.option("--retry", type=count(0, 100), default=0, metavar="N",
                 help="Send again up to N times what may safely be sent again."),
    click.option("--http1.1", "version", flag_value="1.1", default=True,
                 help="Speak HTTP/1.1, which is the default."),
    click.option("--http2", "version", flag_value="2",
                 help="Offer HTTP/2 on TLS."),
    click.option("--http2-prior-knowledge", "version", flag_value="prior",
                 help="Speak HTTP/2 at once, also without TLS."),
    click.option("--http3", "version", flag_value="3", help="Try HTTP/3, else what there is."),
    click.option("-x", "--proxy", metavar="URL",
                 help="Go through a proxy; it beats the variables HTTP_PROXY and so on."),
    click.option("--resolve", multiple=True, callback=_addresses,
                 metavar="HOST:PORT:ADDRESS[,ADDRESS]",
                 help="Connect to this address, without a look-up. May be repeated."),
    click.option("--unix-socket", metavar="PATH",
                 help="Connect to this socket, whatever the URL."),
    click.option("--public-only", is_flag=True,
                 help="Refuse addresses that are not on the public Internet, on each hop."),
    click.option("-k", "--insecure", is_flag=True, help="Do not check certificates."),
    click.option("--cacert", type=click.Path(exists=True), metavar="FILE",
                 help="Trust these authorities (PEM) in place of certifi's."),
    click.option("--cert", type=_FILE, metavar="FILE", help="A client certificate (PEM)."),
    click.option("--key", type=_FILE, metavar="FILE", help="Its key, if that is apart."),
    color_option,
)  # fmt: skip


def with_connection(command: Callable[..., _T]) -> Callable[..., _T]:
    """Give a command the shared options; it gets them as one argument, `connection`."""
    names = [field.name for field in fields(ConnectionOptions)]

    @functools.wraps(command)
    def wrapped(**options: Any) -> _T:  # Any: what click made of them
        if options["key"] and not options["cert"]:
            raise click.UsageError("--key needs --cert")
        chosen = {name: options.pop(name) for name in names}
        return command(connection=ConnectionOptions(**chosen), **options)

    decorated: Callable[..., _T] = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
