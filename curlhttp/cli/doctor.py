"""The command `curlhttp doctor`: check the environment, and warn about problems."""

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
    from curlhttp._http.config import Proxy

_EPILOG = """\b
Exit status: 0 if there are no warnings, 1 if there are.

\b
Examples:
  curlhttp doctor
  curlhttp doctor --json | jq .libcurl
"""


@click.command(help="Check versions, advisories, certificates, proxies and limits.", epilog=_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@color_option
def doctor(as_json: bool) -> int:
    """Print the report."""
    problems: list[str] = []
    libcurl = _check_libcurl(problems)
    report = {
        "curlhttp": __version__,
        "python": f"{platform.python_version()} ({sys.platform})",
        **libcurl,
        "advisories": _list_advisories(str(libcurl["libcurl"])),
        "codings": _get_codings(),
        "ca_bundle": _check_ca_bundle(problems),
        **_check_proxies(problems),
        "open_files": _check_open_files(problems),
        "event_loops": ["asyncio", *filter(find_spec, ("uvloop", "trio"))],
        "warnings": problems,
    }
    if as_json:
        click.echo(json.dumps(report))
    else:
        _print(report)
    return 1 if problems else 0


def _check_libcurl(problems: list[str]) -> dict[str, object]:
    from curlhttp._libcurl import check_libcurl, has_http3, libcurl_version

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_libcurl()
    problems += [str(warning.message) for warning in caught]
    # "PycURL/7.47.0 libcurl/8.23.0 OpenSSL/3.6.5 ...": the TLS library follows libcurl.
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


def _list_advisories(version: str) -> dict[str, object]:
    from curlhttp.cli.advisories import AS_OF, advisories_for

    return {
        "as_of": AS_OF,
        "apply": [
            {
                "id": each.cve,
                "title": each.title,
                "url": each.url,
                "touches": each.touches or None,
                "touches_nothing_because": each.spared or None,
            }
            for each in (advisories_for(version) if version != "unknown" else ())
        ],
    }


def _get_codings() -> list[str]:
    from curlhttp._http.decoding import ACCEPT_ENCODING

    return ACCEPT_ENCODING.split(", ")


def _check_ca_bundle(problems: list[str]) -> dict[str, str]:
    from curlhttp._client.environment import find_ca_bundle
    from curlhttp._http.config import CA_VARIABLES, explain_missing_authorities

    path = find_ca_bundle()
    if path is None:
        import certifi

        return {"path": certifi.where(), "from": "certifi"}
    name = next(name for name in CA_VARIABLES if os.environ.get(name) == path)
    if explain_missing_authorities(path):
        problems.append(f"{name} is {path}, which does not exist: https requests fail")
    return {"path": path, "from": name}


def _check_proxies(problems: list[str]) -> dict[str, object]:
    from curlhttp._client.environment import find_proxy
    from curlhttp._http.config import Proxy
    from curlhttp._http.url import parse_url
    from curlhttp.exceptions import InvalidProxyURL

    proxies: dict[str, str | None] = {}
    for scheme in ("http", "https"):
        # A host below .invalid (RFC 2606), because NO_PROXY is unlikely to list it.
        proxy = find_proxy(parse_url(f"{scheme}://proxy-check.invalid/"))
        try:
            proxies[scheme] = _format_proxy(Proxy.parse(proxy)) if proxy else None
        except InvalidProxyURL as error:
            proxies[scheme] = "invalid"
            problems.append(f"the proxy for {scheme} is invalid: {error}")
    no_proxy = os.environ.get("no_proxy", os.environ.get("NO_PROXY"))
    return {"proxies": proxies, "no_proxy": no_proxy}


def _format_proxy(proxy: Proxy) -> str:
    return f"{proxy.url} (with credentials)" if proxy.username is not None else proxy.url


def _check_open_files(problems: list[str]) -> dict[str, int | None] | None:
    try:
        import resource
    except ImportError:
        return None
    from curlhttp._http.config import Limits
    from curlhttp._libcurl.slots import limit_by_open_files

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = limit_by_open_files(2**31)
    default = Limits().max_connections
    if most < default:
        problems.append(
            f"the limit on open files is {soft}, so a client has at most {most} connections "
            f"instead of {default}; raise it with ulimit -n"
        )
    infinite = resource.RLIM_INFINITY
    return {
        "limit": None if soft == infinite else soft,
        "hard_limit": None if hard == infinite else hard,
        "max_connections": None if soft == infinite else most,
    }


def _print(report: dict[str, Any]) -> None:  # Any: JSON
    proxies, files, bundle = report["proxies"], report["open_files"], report["ca_bundle"]
    libraries = " ".join(f"{name}/{version}" for name, version in report["libraries"].items())
    rows = [
        ("curlhttp", report["curlhttp"]),
        ("Python", report["python"]),
        ("libcurl", f"{report['libcurl']} (pycurl {report['pycurl']}, {report['tls']})"),
        ("", libraries),
        ("HTTP/2", "yes" if report["http2"] else "no"),
        ("HTTP/3", "yes" if report["http3"] else "no"),
        ("codings", ", ".join(report["codings"])),
        ("CA bundle", f"{bundle['path']} (from {bundle['from']})"),
        *((f"{scheme} proxy", proxy or "none") for scheme, proxy in proxies.items()),
        ("no proxy", report["no_proxy"] or "none"),
        ("open files", _format_files(files)),
        ("event loops", ", ".join(report["event_loops"])),
    ]
    advisories = report["advisories"]
    rows[4:4] = [
        ("advisories", f"{len(advisories['apply']) or 'none'} (known on {advisories['as_of']})"),
        *(("", _format_advisory(each)) for each in advisories["apply"]),
    ]
    out = console()
    for name, text in rows:
        out.print(f"{name:<13}{printable(str(text))}", soft_wrap=True)
    for problem in report["warnings"]:
        out.print(f"warning: {printable(problem)}", style="yellow", soft_wrap=True)


def _format_advisory(advisory: dict[str, str | None]) -> str:
    touches = advisory["touches"]
    verdict = f"touches {touches}" if touches else advisory["touches_nothing_because"]
    return f"{advisory['id']} {advisory['title']}: {verdict}"


def _format_files(files: dict[str, int | None] | None) -> str:
    if files is None or files["limit"] is None:
        return "no limit"
    return f"{files['limit']:,}, so max_connections is at most {files['max_connections']:,}"
