"""URLs as people type them on a command line, and write them into lists: without a scheme."""

from __future__ import annotations

import re

# Compiled when they are first used, because most programs have complete URLs.
_TYPED_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*://"
_MISTYPED_SCHEME = r"(?i:https?|wss?|ftps?|file):(?!\d)"  # with one slash or none
# Schemes of URLs without a host, which would look like a user name before a colon.
_WITHOUT_HOST = (
    r"(?i:about|bitcoin|blob|callto|cid|data|facetime|feed|geo|intent|javascript|magnet|mailto|mid|"
    r"news|sips?|skype|sms|tel|urn|vbscript|view-source|webcal|whatsapp|xmpp):(?!\d+(?:[/?#]|$))"
)
_ANY_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:(?!//|\d+(?:[/?#]|$))"
_TYPED_HOST = r"(?:[^/?#@]*@)?(?P<host>\[[^]]*\]|[^:/?#]*)(?::(?P<port>\d+))?(?=[/?#]|$)"
_HTTPS_PORT = "443"


def add_scheme(url: str, *, secure: str = "https", plain: str = "http") -> str:
    """Return a URL with a scheme: its own, or else `plain` for local hosts, `secure` for others.

    "http:/x" is returned as it is, because it names no host: "http" is not one. So is
    "mailto:ada@example.org".

    A host is local if it is a loopback or private address, or a name without a dot or below
    "localhost" or "local", unless the port is 443. ":8000/x" means port 8000 of localhost.

    Args:
        url: as it was typed.
        secure: the scheme for hosts that are not local.
        plain: the scheme for local hosts.
    """
    if not url or re.match(f"{_TYPED_SCHEME}|{_MISTYPED_SCHEME}|{_WITHOUT_HOST}", url):
        return url
    if url.startswith(":") and url[1:2].isdigit():
        url = f"localhost{url}"
    url = url.removeprefix("//")
    match = re.match(_TYPED_HOST, url)
    is_plain = match is not None and match["port"] != _HTTPS_PORT and _is_local(match["host"])
    return f"{plain if is_plain else secure}://{url}"


def looks_like_url(text: str) -> bool:
    """Return whether a text is a URL, perhaps without a scheme, and not just a word."""
    return text == "localhost" or any(mark in text for mark in ".:/")


def complete_url(text: str) -> str:
    """Return the text of a list's line with a scheme if it is a URL, or else unchanged.

    A line that begins with a name and a colon, but no port, is unchanged, because a list of links
    has URLs such as "mailto:ada@example.org", and no user names without a scheme.
    """
    if not looks_like_url(text) or re.match(_ANY_SCHEME, text):
        return text
    return add_scheme(text)


def _is_local(host: str) -> bool:
    from ipaddress import ip_address  # slow to load

    host = host.strip("[]").lower().rstrip(".")
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local"))
