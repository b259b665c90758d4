"""How the settings of a request, of its session and of the environment come together."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import curlhttp.requests._environment as _environment
from curlhttp.requests.__version__ import __version__
from curlhttp.requests._header_check import are_known
from curlhttp.requests._header_values import headers_of
from curlhttp.requests._late_jar import JarOnDemand
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from curlhttp._models.inputs import Text
    from curlhttp.requests import _types as t
    from curlhttp.requests._prepared import PreparedRequest
    from curlhttp.requests.cookies import RequestsCookieJar

__all__ = ["SessionSettings", "first_headers", "merge_hooks", "merge_setting"]


def merge_setting(
    request_setting: Any, session_setting: Any, dict_class: type = OrderedDict
) -> Any:
    """Return the setting of a request with the session's behind it.

    Args:
        request_setting: it wins; None in a mapping takes a key away.
        session_setting: what holds where the request says nothing.
        dict_class: what to make of two mappings.
    """
    if session_setting is None:
        return request_setting
    if request_setting is None:
        return session_setting
    if not (isinstance(session_setting, Mapping) and isinstance(request_setting, Mapping)):
        return request_setting
    merged = dict_class(session_setting.items())
    merged.update(request_setting.items())
    for key in [key for key, value in merged.items() if value is None]:
        del merged[key]
    return merged


def merge_hooks(
    request_hooks: t.HooksInput, session_hooks: t.HooksInput, dict_class: type = OrderedDict
) -> t.HooksInput:
    """Return the hooks of a request, or the session's where it has none."""
    if session_hooks is None or not session_hooks.get("response"):
        return request_hooks
    if request_hooks is None or not request_hooks.get("response"):
        return session_hooks
    merged: t.HooksInput = merge_setting(request_hooks, session_hooks, dict_class)
    return merged


def first_headers() -> MutableMapping[str, Text | None]:
    """Return the headers that a session begins with."""
    # A program puts another agent there. What another thread is just loading has no name yet.
    make: Any = getattr(sys.modules.get("curlhttp.requests.utils"), "default_headers", None)
    made = headers_of(f"python-requests/{__version__}") if make is None else make()
    return cast("MutableMapping[str, Text | None]", made)


class SessionSettings:
    """Put a session's settings, and the environment's, behind those of a request."""

    if TYPE_CHECKING:  # not for programs that evaluate the types of a session
        headers: MutableMapping[str, Text | None]
        cookies: Any  # RequestsCookieJar, or any jar that the program puts there
        proxies: MutableMapping[str, str | None]
        stream: bool
        verify: t.VerifyInput
        cert: t.CertInput
        trust_env: bool

    def _merged_headers(self, headers: t.HeadersInput) -> t.HeadersInput:
        own = self.headers
        if headers or type(own) is not CaseInsensitiveDict or not are_known(own._store.values()):
            merged: t.HeadersInput = merge_setting(headers, own, CaseInsensitiveDict)
            return merged
        return own  # as they are: none of them is None

    def _merged_cookies(self, cookies: t.CookiesInput) -> RequestsCookieJar | None:
        """Return a jar of the session's cookies and a request's; None for no cookies at all."""
        has_jar = "cookies" in self.__dict__ or not isinstance(type(self).cookies, JarOnDemand)
        if not cookies and (not has_jar or not getattr(self.cookies, "_cookies", True)):
            return None
        from http.cookiejar import CookieJar

        from curlhttp.requests.cookies import RequestsCookieJar, cookiejar_from_dict, merge_cookies

        cookies = cookies or {}
        if not isinstance(cookies, CookieJar):
            cookies = cookiejar_from_dict(cookies)
        return merge_cookies(merge_cookies(RequestsCookieJar(), self.cookies), cookies)

    def _resolved_proxies(self, request: PreparedRequest) -> dict[str, str | None]:
        if not self.trust_env or not _environment.may_have_proxies():
            return dict(self.proxies)
        from curlhttp.requests.utils import resolve_proxies

        return resolve_proxies(request, self.proxies, self.trust_env)

    def merge_environment_settings(
        self,
        url: str,
        proxies: t.ProxiesInput,
        stream: bool | None,
        verify: t.VerifyInput,
        cert: t.CertInput,
    ) -> t.RouteOptions:
        """Return the settings of a request with the session's and the environment's behind them.

        Args:
            url: where the request goes.
            proxies: its own, like all that follow.
            stream: leave the body on the wire.
            verify: True, False, or a path of authorities.
            cert: a client certificate.
        """
        proxies = {**self.proxies, **(proxies or {})} if self.proxies else dict(proxies or ())
        if self.trust_env and _environment.speaks():
            if _environment.may_have_proxies():
                proxies = self._with_environment(url, proxies)
            # An explicit False or path is never overruled; requests has its own opinion there.
            if verify is True or (verify is None and self.verify is True):
                verify = _environment.ca_bundle() or verify
        if proxies and None in proxies.values():  # which has kept the environment's away
            proxies = {key: proxy for key, proxy in proxies.items() if proxy is not None}
        return {
            "proxies": proxies,
            "stream": self.stream if stream is None else stream,
            "verify": self.verify if verify is None else verify,
            "cert": self.cert if cert is None else cert,
        }

    @staticmethod
    def _with_environment(url: str, proxies: Mapping[str, str | None]) -> dict[str, str | None]:
        """Add the environment's proxies to those that the program names."""
        from curlhttp.requests.utils import get_environ_proxies

        found = get_environ_proxies(url, no_proxy=proxies.get("no_proxy"))
        return {**found, **proxies}
