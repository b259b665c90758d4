"""urllib3.util.request: header fields from keywords."""

from __future__ import annotations

from base64 import b64encode

from curlhttp._models.decoders import ACCEPT_ENCODING as _ACCEPT_ENCODING

__all__ = ["SKIPPABLE_HEADERS", "SKIP_HEADER", "make_headers"]

SKIP_HEADER = "@@@SKIP_HEADER@@@"
SKIPPABLE_HEADERS = frozenset({"accept-encoding", "host", "user-agent"})
ACCEPT_ENCODING = _ACCEPT_ENCODING.replace(" ", "")


def make_headers(
    keep_alive: bool | None = None,
    accept_encoding: bool | list[str] | str | None = None,
    user_agent: str | None = None,
    basic_auth: str | None = None,
    proxy_basic_auth: str | None = None,
    disable_cache: bool | None = None,
    *,
    basic_auth_encoding: str = "latin-1",
    proxy_basic_auth_encoding: str = "latin-1",
) -> dict[str, str]:
    """Return header fields.

    Args:
        keep_alive: add "connection: keep-alive".
        accept_encoding: True for all codings that can be undone, or their names.
        user_agent: the User-Agent.
        basic_auth: "user:password" for the server.
        proxy_basic_auth: "user:password" for the proxy.
        disable_cache: add "cache-control: no-cache".
        basic_auth_encoding: the charset of basic_auth.
        proxy_basic_auth_encoding: the charset of proxy_basic_auth.
    """
    headers: dict[str, str] = {}
    if accept_encoding:
        if accept_encoding is True:
            accept_encoding = ACCEPT_ENCODING
        elif isinstance(accept_encoding, list):
            accept_encoding = ",".join(accept_encoding)
        headers["accept-encoding"] = accept_encoding
    if user_agent:
        headers["user-agent"] = user_agent
    if keep_alive:
        headers["connection"] = "keep-alive"
    if basic_auth:
        headers["authorization"] = _basic(basic_auth, basic_auth_encoding)
    if proxy_basic_auth:
        headers["proxy-authorization"] = _basic(proxy_basic_auth, proxy_basic_auth_encoding)
    if disable_cache:
        headers["cache-control"] = "no-cache"
    return headers


def _basic(credentials: str, charset: str) -> str:
    return f"Basic {b64encode(credentials.encode(charset)).decode()}"
