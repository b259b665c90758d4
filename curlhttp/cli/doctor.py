"""The command `curlhttp doctor`: what there is to work with, and what is wrong with it."""

from __future__ import annotations

import json
import os
import platform
import sys
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from curlhttp._version import __version__
from curlhttp.cli.terminal import color_option, console, printable

if TYPE_CHECKING:
    from curlhttp._config import Proxy

__all__ = ["doctor"]

_EPILOG = """\b
Exit status: 0, or 1 with a warning.

\b
Examples:
  curlhttp doctor
  curlhttp doctor --json | jq .libcurl
"""


@click.command(help="Show versions, certificates, proxies and limits in force.", epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@color_option
def doctor(as_json: bool) -> int:
    """Show what there is."""
    concerns: list[str] = []
    found = {
        "curlhttp": __version__,
        "python": f"{platform.python_version()} ({sys.platform})",
        **_libcurl(concerns),
        "codings": _codings(),
        "ca_bundle": _authorities(concerns),
        **_proxies(concerns),
        "open_files": _open_files(concerns),
        "event_loops": ["asyncio", *filter(find_spec, ("uvloop", "trio"))],
        "warnings": concerns,
    }
    if as_json:
        click.echo(json.dumps(found))
    else:
        _print(found)
    return 1 if concerns else 0


def _libcurl(concerns: list[str]) -> dict[str, object]:
    from curlhttp._curl.version import check_libcurl, has_http3, libcurl_version

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_libcurl()
    concerns += [str(warning.message) for warning in caught]
    # "PycURL/7.47.0 libcurl/8.23.0 OpenSSL/3.6.5 ...": TLS is what follows libcurl.
    parts = dict(part.partition("/")[::2] for part in libcurl_version().split())
    tls = next((f"{name} {version}" for name, version in list(parts.items())[2:3]), "none")
    return {
        "pycurl": parts.pop("PycURL", "unknown"),
        "libcurl": parts.pop("libcurl", "unknown"),
        "tls": tls,
        "libraries": parts,
        "http2": "nghttp2" in parts,
        "http3": has_http3(),
    }


def _codings() -> list[str]:
    from curlhttp._models.decoding import ACCEPT_ENCODING

    return ACCEPT_ENCODING.split(", ")


def _authorities(concerns: list[str]) -> dict[str, str]:
    from curlhttp._policy.environment import ca_bundle

    path = ca_bundle()
    if path is None:
        import certifi

        return {"path": certifi.where(), "from": "certifi"}
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
    name = next(name for name in names if os.environ.get(name) == path)
    if not os.path.exists(path):
        concerns.append(f"{name} is {path}, which does not exist: no client can be made")
    return {"path": path, "from": name}


def _proxies(concerns: list[str]) -> dict[str, object]:
    from curlhttp._config import Proxy
    from curlhttp._models.url import parse_url
    from curlhttp._policy.environment import proxy_for
    from curlhttp.exceptions import InvalidProxyURL

    found: dict[str, str | None] = {}
    for scheme in ("http", "https"):
        # .invalid is no host (RFC 2606), so that hardly a NO_PROXY covers it.
        proxy = proxy_for(parse_url(f"{scheme}://proxy-check.invalid/"))
        try:
            found[scheme] = _shown_proxy(Proxy.parse(proxy)) if proxy else None
        except InvalidProxyURL as error:
            found[scheme] = "invalid"
            concerns.append(f"the proxy for {scheme} cannot be used: {error}")
    exceptions = os.environ.get("no_proxy", os.environ.get("NO_PROXY"))
    return {"proxies": found, "no_proxy": exceptions}


def _shown_proxy(proxy: Proxy) -> str:
    return f"{proxy.url} (with credentials)" if proxy.username is not None else proxy.url


def _open_files(concerns: list[str]) -> dict[str, int | None] | None:
    try:
        import resource
    except ImportError:
        return None
    from curlhttp._config import Limits
    from curlhttp._curl.slots import open_files_bound

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = open_files_bound(2**31)
    default = Limits().max_connections
    if most < default:
        concerns.append(
            f"only {soft} files may be open: a client has {most} connections at most, "
            f"not {default}; see ulimit -n"
        )
    infinite = resource.RLIM_INFINITY
    return {
        "limit": None if soft == infinite else soft,
        "hard_limit": None if hard == infinite else hard,
        "max_connections": None if soft == infinite else most,
    }


def _print(found: dict[str, Any]) -> None:  # Any: what --json shows
    proxies, files, bundle = found["proxies"], found["open_files"], found["ca_bundle"]
    libraries = " ".join(f"{name}/{version}" for name, version in found["libraries"].items())
    rows = [
        ("curlhttp", found["curlhttp"]),
        ("Python", found["python"]),
        ("libcurl", f"{found['libcurl']} (pycurl {found['pycurl']}, {found['tls']})"),
        ("", libraries),
        ("HTTP/2", "yes" if found["http2"] else "no"),
        ("HTTP/3", "yes" if found["http3"] else "no"),
        ("codings", ", ".join(found["codings"])),
        ("CA bundle", f"{bundle['path']} (from {bundle['from']})"),
        *((f"{scheme} proxy", proxy or "none") for scheme, proxy in proxies.items()),
        ("no proxy", found["no_proxy"] or "none"),
        ("open files", _files_in_words(files)),
        ("event loops", ", ".join(found["event_loops"])),
    ]
    out = console()
    for name, text in rows:
        out.print(f"{name:<13}{printable(str(text))}", soft_wrap=True)
    for concern in found["warnings"]:
        out.print(f"warning: {printable(concern)}", style="yellow", soft_wrap=True)


def _files_in_words(files: dict[str, int | None] | None) -> str:
    if files is None or files["limit"] is None:
        return "no limit"
    return f"{files['limit']:,}, so that max_connections is {files['max_connections']:,} at most"
