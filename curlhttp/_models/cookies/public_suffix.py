"""Domains below which anybody may have a name: a cookie for all of them would be nobody's own.

With the extra `psl` the Public Suffix List decides, which publicsuffixlist brings along; without it
a rule of thumb: top-level domains, the usual second levels of countries, and the hosting platforms
that most programs meet. It opens that one file, once, and nothing else.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

__all__ = ["is_public_suffix", "site_of"]

# Below the domain of any country. Some countries have them as names like others: a cookie lost.
_SECOND_LEVELS = frozenset({"ac", "co", "com", "edu", "gov", "mil", "net", "org"})
_OF_COUNTRIES = {
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
def _list() -> Any:  # Any: publicsuffixlist may not be there
    """Return the Public Suffix List, or None without the extra."""
    try:
        from publicsuffixlist import PublicSuffixList
    except ImportError:
        return None
    return PublicSuffixList(accept_encoded_idn=False)  # half as long; see _in_unicode


@lru_cache(4096)
def is_public_suffix(domain: str) -> bool:
    """Return whether anybody may have a name right below a domain.

    Args:
        domain: lower case, in A-labels, without a dot at either end; no address.
    """
    listed = _list()
    if listed is not None:
        return bool(listed.is_public(_in_unicode(domain)))
    name, _, top = domain.rpartition(".")
    if not name or domain in _PLATFORMS:
        return True
    is_usual = len(top) == 2 and name in _SECOND_LEVELS
    return is_usual or name in _OF_COUNTRIES.get(top, "").split()


def _in_unicode(domain: str) -> str:
    if "xn--" not in domain:
        return domain
    try:
        return domain.encode("ascii").decode("idna")
    except UnicodeError:
        return domain


@lru_cache(4096)
def site_of(domain: str) -> str:
    """Return the domain that somebody registered: the name right below its public suffix.

    Args:
        domain: of a cookie: with a dot in front or not, an address, or empty.
    """
    site = domain.lstrip(".")
    if ":" in site or site.rpartition(".")[2].isdigit():
        return site
    while (parent := site.partition(".")[2]) and not is_public_suffix(parent):
        site = parent
    return site
