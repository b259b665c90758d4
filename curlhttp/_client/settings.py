"""The settings of a client: one table, of which constructors, errors and signatures are made.

A new setting needs a line here, its type in ClientOptions, a sentence in the docstring of Client,
the feature that uses it, and, if a request cannot have it, a line in suggestions.ini ([request]).
"""

from __future__ import annotations

from collections.abc import Mapping

from curlhttp._client.chain import Settings
from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.unset import UNSET


class Setting(NamedTuple):
    """A setting of a client.

    Attributes:
        default: its value if it is not given; UNSET for the default of a class: Timeout, Limits.
        feature: whose setting it is, a name of `_features`; "" for the core. With a name, the chain
            of a client gets the setting if it is not the default.
        is_flag: it must be True or False.
    """

    default: object
    feature: str = ""
    is_flag: bool = False


SETTINGS: dict[str, Setting] = {
    "base_url": Setting(""),
    "headers": Setting(None),
    "params": Setting(None),
    "cookies": Setting(None),
    "auth": Setting(None, "auth"),
    "timeout": Setting(UNSET),
    "limits": Setting(None),
    "max_connections": Setting(UNSET),
    "max_connections_per_host": Setting(UNSET),
    "max_keepalive_connections": Setting(UNSET),
    "keepalive_expiry": Setting(UNSET),
    "max_connection_lifetime": Setting(UNSET),
    "dns_ttl": Setting(UNSET),
    "keepalive": Setting(UNSET),
    "http2": Setting(None),
    "http3": Setting(False),
    "verify": Setting(True),
    "cert": Setting(None),
    "pins": Setting(None),
    "proxies": Setting(None),
    "proxy": Setting(None),
    "uds": Setting(None),
    "resolve": Setting(None),
    "connect_to": Setting(None),
    "local_address": Setting(None),
    "interface": Setting(None),
    "doh": Setting(None),
    "ip_version": Setting(None),
    "happy_eyeballs_timeout": Setting(None),
    "max_send_rate": Setting(None),
    "max_receive_rate": Setting(None),
    "hsts": Setting(None, "hsts"),
    "certificates": Setting(False, "certificates", is_flag=True),
    "trust_env": Setting(True, is_flag=True),
    "follow_redirects": Setting(True, "redirects", is_flag=True),
    "max_redirects": Setting(30, "redirects"),
    "max_response_size": Setting(None),
    "sensitive_headers": Setting((), "redirects"),
    "middleware": Setting((), "middleware"),
    "attempt_middleware": Setting((), "attempt_middleware"),
    "hooks": Setting(None),
    "retry": Setting(None, "retry"),
    "retry_after": Setting("request", "retry_after"),
    "rate_limit": Setting(None, "limits"),
    "concurrency_limit": Setting(None, "limits"),
    "breaker": Setting(None, "breaker"),
    "hedge": Setting(None, "hedge"),
    "guard": Setting(None, "guard"),
    "robots": Setting(None, "robots"),
    "fallback": Setting(None, "fallback"),
    "coalesce": Setting(False, "coalesce", is_flag=True),
    "json": Setting(None),
    "default_encoding": Setting(None),
    "raise_for_status": Setting(False, "raise_for_status", is_flag=True),
    "cache": Setting(None, "cache"),
    "transport": Setting(None),
}


def complete_settings(given: Mapping[str, object], subject: str) -> Settings:
    """Return all settings, with the defaults of those that are not given.

    Args:
        given: by name.
        subject: what was called, for errors, such as "Client()".

    Raises:
        TypeError: there is no such setting.
    """
    for name in given:
        if name not in SETTINGS:
            from curlhttp._http.suggestions import no_keyword

            raise no_keyword("client", subject, name, SETTINGS)
    return {
        name: default if (value := given.get(name, UNSET)) is UNSET else value
        for name, (default, _, _) in SETTINGS.items()
    }
