"""Parse Set-Cookie values, and decide who may set and who gets a cookie (RFC 6265).

Nothing is stored here: jar.py does that. Import it only with a jar, because http.cookiejar is
slow to import.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import cache, lru_cache
from http.cookiejar import (  # type: ignore[attr-defined]
    Cookie,
    DefaultCookiePolicy,
    time2netscape,
)
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from curlhttp._http.url import bracketed

if TYPE_CHECKING:
    from urllib.request import Request as UrllibRequest

    from curlhttp._http.url import URL

# --- dates of Expires ---

_DELIMITERS = re.compile(r"[\t -/;-@\[-`{-~]+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Each token may be the time, the day, the month or the year: the first match in this order wins.
# Any text may follow the digits, except another digit.
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?![0-9])").match
_DAY = re.compile(r"([0-9]{1,2})(?![0-9])").match
_YEAR = re.compile(r"([0-9]{2,4})(?![0-9])").match


def parse_cookie_date(text: str) -> int | None:
    """Return the date of Expires in seconds since 1970, None if it is not a date.

    It is parsed by RFC 6265, section 5.1.1, which accepts any text.

    Args:
        text: such as "Wed, 21 Oct 2026 07:28:00 GMT"; the time zone is ignored.
    """
    time = day = year = month = None
    for token in _DELIMITERS.split(text):
        if time is None and (found := _TIME(token)):
            time = found.groups()
        elif day is None and (found := _DAY(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR(token)):
            year = int(found[1])
    if time is None or day is None or month is None or year is None:
        return None
    return _seconds(_full_year(year), month, day, time)


def _full_year(year: int) -> int:
    if 70 <= year <= 99:
        return year + 1900
    return year + 2000 if year <= 69 else year


def _seconds(year: int, month: int, day: int, time: tuple[str, ...]) -> int | None:
    if year < 1601:
        return None
    hour, minute, second = map(int, time)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:  # such as the 31st of February
        return None
    return int(moment.timestamp())


# --- public suffixes ---

# Usual suffixes below a country's domain. In some countries, anybody may register such a name, and
# then the site that has it loses its cookies.
_SECOND_LEVELS = frozenset({"ac", "co", "com", "edu", "gov", "mil", "net", "org"})
_COUNTRY_SUFFIXES = {
    "ar": "gob int tur",
    "at": "gv or",
    "au": "asn id",
    "br": "adm adv art blog eco eng gov ind inf jus leg med nom tv wiki",
    "cr": "ed fi go or sa",
    "es": "gob nom",
    "fr": "asso gouv nom prd tm",
    "hu": "info",
    "id": "desa go my or sch web",
    "il": "idf k12 muni",
    "in": "firm gen ind nic res",
    "jp": "ad ed go gr lg ne or",
    "ke": "go info me mobi ne or sc",
    "kr": "es go hs kg ms ne or pe re sc",
    "mx": "gob",
    "nz": "cri geek gen govt iwi kiwi maori school",
    "pe": "gob nom",
    "pl": "biz info",
    "th": "go in mi or",
    "tr": "av bel bbs biz dr gen info k12 name pol tel tv web",
    "tw": "club game idv",
    "tz": "go me mobi ne or sc",
    "ug": "go ne or sc",
    "uk": "ltd me nhs plc police sch",
    "za": "law nom school web",
}
_PLATFORM_NAMES = """
a.run.app amplifyapp.com appspot.com awsapprunner.com azurecontainer.io azurestaticapps.net
azurewebsites.net blob.core.windows.net blogspot.com cloudapp.net cloudfront.net
cloudfunctions.net codeberg.page co.com csb.app ddns.net de.com deno.dev duckdns.org eu.com
firebaseapp.com fly.dev framer.app framer.website github.io githubusercontent.com gitlab.io
herokuapp.com hf.space lovable.app myshopify.com netlify.app ngrok-free.app ngrok.app
ngrok.io ondigitalocean.app onrender.com pages.dev pantheonsite.io pythonanywhere.com
readthedocs.io repl.co replit.app replit.dev run.app s3.amazonaws.com streamlit.app
supabase.co surge.sh trafficmanager.net trycloudflare.com uk.com up.railway.app us.com
vercel.app web.app webflow.io wixsite.com workers.dev za.com
"""
_PLATFORMS = frozenset(_PLATFORM_NAMES.split())


@cache
def _load_suffix_list() -> Any:  # Any: publicsuffixlist may not be installed
    """Return the Public Suffix List, or None without the extra."""
    try:
        from publicsuffixlist import PublicSuffixList
    except ImportError:
        return None
    return PublicSuffixList(accept_encoded_idn=False)  # half as many names; see _to_unicode


@lru_cache(4096)
def is_public_suffix(domain: str) -> bool:
    """Return whether anybody may register a name right below a domain.

    A cookie for such a domain would be sent to sites of different owners. With the extra `psl` the
    Public Suffix List of publicsuffixlist decides, else a rule of thumb: top-level domains, the
    usual second levels of countries, and common hosting platforms.

    Args:
        domain: lower case, in A-labels, without a dot at either end; not an address.
    """
    listed = _load_suffix_list()
    if listed is not None:
        return bool(listed.is_public(_to_unicode(domain)))
    name, _, top = domain.rpartition(".")
    if not name or domain in _PLATFORMS:
        return True
    is_usual = len(top) == 2 and name in _SECOND_LEVELS
    return is_usual or name in _COUNTRY_SUFFIXES.get(top, "").split()


def _to_unicode(domain: str) -> str:
    if "xn--" not in domain:
        return domain
    try:
        return domain.encode("ascii").decode("idna")
    except UnicodeError:
        return domain


@lru_cache(4096)
def get_site(domain: str) -> str:
    """Return the registered domain: the name right below the public suffix.

    Args:
        domain: of a cookie: with or without a leading dot, an address, or empty.
    """
    site = domain.lstrip(".")
    if ":" in site or site.rpartition(".")[2].isdigit():
        return site
    while (parent := site.partition(".")[2]) and not is_public_suffix(parent):
        site = parent
    return site


MAX_COOKIE_SIZE = 4096  # RFC 6265bis: name and value together
MAX_LINE_SIZE = 8192
MAX_AGE = 400 * 24 * 3600  # seconds; RFC 6265bis, section 5.5

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CONTROL_BUT_TAB = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DELTA_SECONDS = re.compile(r"(-?)0*([0-9]+)", re.ASCII)
_STANDARD = frozenset({"domain", "path", "secure", "expires", "max-age", "version", "port"})


# --- hosts, domains and paths ---


def bare_host(host: str) -> str:
    """Return the host as in cookies: lower case, no brackets, no trailing dot."""
    return host.strip("[]").rstrip(".").lower()


def _is_ip(host: str) -> bool:
    # URLs are canonical here: an IPv4 address ends in a number, a DNS name does not.
    return ":" in host or host.rpartition(".")[2].isdigit()


@lru_cache(maxsize=1024)
def matching_domains(host: str) -> tuple[str, ...]:
    """Return each Cookie.domain whose cookies the host may get, RFC 6265 section 5.1.3."""
    domains = ["", host]  # "": a cookie that the program set for every host
    if "." not in host:
        domains.append(_local(host))
    if _is_ip(host):
        return tuple(domains)
    domains.append(f".{host}")
    parent = host.partition(".")[2]
    while parent:
        domains += (parent, f".{parent}")
        parent = parent.partition(".")[2]
    return tuple(domains)


def host_allowed(cookie: Cookie, host: str) -> bool:
    """Return whether the host may get a cookie of a matching domain, which may be host-only."""
    return cookie.domain_specified or cookie.domain in ("", host, _local(host))


def _local(host: str) -> str:
    """Return the domain under which the stdlib stores a name without dots, or IPv6."""
    return f"[{host}].local" if ":" in host else f"{host}.local"


def path_matches(path: str, cookie_path: str) -> bool:
    """Return whether a path lies at or below the cookie's, RFC 6265 section 5.1.4."""
    if not path.startswith(cookie_path):
        return False
    return path == cookie_path or cookie_path[-1:] == "/" or path[len(cookie_path)] == "/"


# --- requests and responses as http.cookiejar expects them ---


class HasURL(Protocol):
    """A request whose URL is read here: a CookieRequest, or one like urllib's."""

    def get_full_url(self) -> str:
        """Return the URL."""


class CookieRequest:
    """Adapt a URL to the urllib request that http.cookiejar expects."""

    __slots__ = ("cookie", "host", "origin_req_host", "type", "url")

    unverifiable = False

    def __init__(self, url: URL) -> None:
        self.url = url
        self.type = url.scheme
        self.host = self.origin_req_host = bare_host(url.host)
        self.cookie: str | None = None

    def get_full_url(self) -> str:
        """Return the URL with the host as in cookies."""
        return f"{self.type}://{bracketed(self.host)}:{self.url.port}{self.url.path or '/'}"

    def has_header(self, name: str) -> bool:
        """Return False: the flow has already looked for a Cookie header."""
        return False

    def get_header(self, name: str, default: str | None = None) -> str | None:
        """Return the default."""
        return default

    def header_items(self) -> list[tuple[str, str]]:
        """Return no headers."""
        return []

    def add_unredirected_header(self, name: str, value: str) -> None:
        """Keep the Cookie header that the jar built."""
        if name == "Cookie":
            self.cookie = value


class SetCookies:
    """Adapt Set-Cookie values to the response that http.cookiejar expects."""

    __slots__ = ("_values",)

    def __init__(self, values: Sequence[str]) -> None:
        self._values = values

    def info(self) -> SetCookies:
        """Return the headers: this object itself."""
        return self

    def get_all(self, name: str, default: Sequence[str] = ()) -> Sequence[str]:
        """Return the values of the header."""
        return self._values if name.lower() == "set-cookie" else default


def get_host_and_path(request: HasURL) -> tuple[str, str]:
    """Return host and path of a CookieRequest, or of a request like urllib's."""
    if isinstance(request, CookieRequest):
        return request.host, request.url.path or "/"
    host, path = _split_url(request)
    return bare_host(host), path


def _split_url(request: HasURL) -> tuple[str, str]:
    try:
        parts = urlsplit(request.get_full_url())
    except ValueError:  # an invalid Host header
        return "", "/"
    return parts.hostname or "", parts.path or "/"


# --- the rules ---


class CookieRules(DefaultCookiePolicy):
    """Apply RFC 6265's rules where the stdlib's policy is more lenient.

    Host-only cookies stay on their host, Secure cookies are neither set nor sent without TLS, and
    no cookie is accepted for a public suffix (.com, .co.uk, .github.io): the Public Suffix List
    decides with the extra `psl`, a rule of thumb without it.
    """

    def set_ok(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Return whether the response to the request may set the cookie."""
        if cookie.secure and request.type not in ("https", "wss"):
            return False
        return super().set_ok(cookie, request)

    def set_ok_domain(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Return whether the request's host may set cookies for the cookie's domain."""
        host, _ = get_host_and_path(request)
        if cookie.domain not in matching_domains(host) or not host_allowed(cookie, host):
            return False
        if cookie.domain_specified and is_public_suffix(cookie.domain.lstrip(".")):
            return False
        return super().set_ok_domain(cookie, request)

    def domain_return_ok(self, domain: str, request: UrllibRequest) -> bool:
        """Return whether the request's host may get any cookie of the domain."""
        host, _ = get_host_and_path(request)
        return domain in matching_domains(host) and self.domain_allowed(domain)

    def domain_allowed(self, domain: str) -> bool:
        """Return whether the user's block and allow lists permit the domain's cookies."""
        return not (self.is_blocked(domain) or self.is_not_allowed(domain))

    def path_return_ok(self, path: str, request: UrllibRequest) -> bool:
        """Return whether the request's path lies below the cookie's."""
        return path_matches(get_host_and_path(request)[1], path)

    def return_ok_domain(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Return whether the request's host may get this cookie."""
        return host_allowed(cookie, get_host_and_path(request)[0])

    def return_ok(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Return whether the cookie may be sent with the request."""
        return is_clean(cookie) and super().return_ok(cookie, request)


def is_clean(cookie: Cookie) -> bool:
    """Return whether name and value have no control characters."""
    return not CONTROL.search(f"{cookie.name}{cookie.value or ''}")


# --- Set-Cookie ---


def parse_cookie(line: str, request: HasURL, now: int) -> Cookie | None:
    """Parse one Set-Cookie value by RFC 6265, section 5.2; None when it must be ignored."""
    if len(line) > MAX_LINE_SIZE or _CONTROL_BUT_TAB.search(line):
        return None
    pair, *items = line.split(";")
    name, equals, value = (part.strip(" \t") for part in pair.partition("="))
    if not equals or not name or len(name) + len(value) > MAX_COOKIE_SIZE:
        return None
    if "\t" in name or "\t" in value:
        return None
    attributes = [_parse_attribute(item) for item in items]
    return _build_cookie(name, value, attributes, request, now)


def lines_for_stdlib(lines: Sequence[str], request: HasURL) -> list[str]:
    """Return the Set-Cookie values that a jar of the standard library can parse.

    Its parser fails at an invalid date, and then drops the other cookies as well.
    """
    return [_with_valid_date(line) for line in lines if parse_cookie(line, request, 0)]


def _with_valid_date(line: str) -> str:
    kept, moment = [], None
    for item in line.split(";"):
        key, value = _parse_attribute(item)
        if key.lower() == "expires":
            moment = parse_cookie_date(value)
        else:
            kept.append(item)
    if moment is not None:
        kept.append(f"Expires={time2netscape(moment)}")
    return ";".join(kept)


def _parse_attribute(item: str) -> tuple[str, str]:
    key, _, value = item.partition("=")
    return key.strip(" \t"), value.strip(" \t")


def _build_cookie(
    name: str, value: str, attributes: list[tuple[str, str]], request: HasURL, now: int
) -> Cookie | None:
    known = {key.lower(): text for key, text in attributes}
    host, request_path = get_host_and_path(request)
    wanted = known.get("domain", "")
    if wanted.endswith(".") and wanted != "." and not _has_final_dot(request):
        return None  # the domain of no host (RFC 6265, section 5.1.3)
    scope = _parse_domain(wanted, host)
    if scope is None or not host or not _is_prefix_valid(name.lower(), known):
        return None
    domain, domain_specified = scope
    path = known.get("path", "")
    path_specified = path.startswith("/")
    cookie = new_cookie(
        name,
        value,
        domain,
        domain_specified,
        path if path_specified else request_path[: request_path.rfind("/")] or "/",
        "secure" in known,
        _parse_expiry(known, now),
    )
    cookie.path_specified = path_specified
    for key, text in attributes:
        if key.lower() not in _STANDARD:
            cookie.set_nonstandard_attr(key, text)
    return cookie


def new_cookie(
    name: str,
    value: str,
    domain: str,
    domain_specified: bool,
    path: str,
    secure: bool,
    expires: float | None,
) -> Cookie:
    """Return a cookie; it lives as long as the jar if `expires` (epoch seconds) is None."""
    return Cookie(
        version=0,
        name=name,
        value=value,
        port=None,
        port_specified=False,
        domain=domain,
        domain_specified=domain_specified,
        domain_initial_dot=domain.startswith("."),
        path=path,
        path_specified=True,
        secure=secure,
        expires=expires,
        discard=expires is None,
        comment=None,
        comment_url=None,
        rest={},
    )


def _has_final_dot(request: HasURL) -> bool:
    """Return whether the host of a request ends in a dot, which bare_host() removes."""
    if isinstance(request, CookieRequest):
        return request.url.host.endswith(".")
    return _split_url(request)[0].endswith(".")


def _parse_domain(attribute: str, host: str) -> tuple[str, bool] | None:
    """Return (domain, whether it spans sub-domains) for Domain, None for another site's."""
    wanted = bare_host(attribute.removeprefix("."))
    alone = _is_ip(host) or "." not in host
    if not wanted or (alone and wanted == host):
        return host, False
    if alone or not f".{host}".endswith(f".{wanted}"):
        return None
    if is_public_suffix(wanted):  # RFC 6265, section 5.3, step 5
        return (host, False) if wanted == host else None
    return f".{wanted}", True


def _is_prefix_valid(name: str, known: Mapping[str, str]) -> bool:
    """Return whether a __Secure- or __Host- name is allowed, RFC 6265bis section 4.1.3."""
    if name.startswith("__host-"):
        return "secure" in known and known.get("path") == "/" and not known.get("domain")
    return not name.startswith("__secure-") or "secure" in known


def _parse_expiry(known: Mapping[str, str], now: int) -> int | None:
    """Return when the cookie expires (epoch seconds); Max-Age takes precedence over Expires."""
    age = _DELTA_SECONDS.fullmatch(known.get("max-age", ""))
    if age is not None:
        # Cut to 12 digits, which is still far beyond MAX_AGE: int() refuses 4300 digits.
        return now + min(int(age[1] + age[2][:12]), MAX_AGE)
    moment = parse_cookie_date(known.get("expires", ""))
    return None if moment is None else min(moment, now + MAX_AGE)
