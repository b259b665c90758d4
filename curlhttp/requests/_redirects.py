"""How a session follows redirects, by requests' rules; each step can be overridden."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlparse

from curlhttp._engine.network import network
from curlhttp._models.redaction import display_url
from curlhttp._models.url import parse_url
from curlhttp.exceptions import InvalidURL, TooManyRedirects
from curlhttp.requests._aside import expect_hop, expect_no_more, set_aside
from curlhttp.requests._environment import get_netrc_auth
from curlhttp.requests._prepared import PreparedRequest
from curlhttp.requests._response import Response

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp.requests import _types as t

__all__ = ["SessionRedirectMixin"]

_KEEPS_BODY = (307, 308)
_OF_THE_BODY = ("Content-Length", "Content-Type", "Transfer-Encoding")


class SessionRedirectMixin:
    """Follow redirects, by requests' rules; each step can be overridden."""

    max_redirects: int
    trust_env: bool
    cookies: Any

    def send(self, request: PreparedRequest, **kwargs: Unpack[t.SendOptions]) -> Response:
        """Send a prepared request."""
        raise NotImplementedError

    def _netrc_auth(self, url: str) -> tuple[str, str] | None:
        return get_netrc_auth(url)

    def get_redirect_target(self, resp: Response) -> str | None:
        """Return the Location of a response that redirects, else None."""
        if not (resp._leads_on if isinstance(resp, Response) else resp.is_redirect):
            return None
        location: str = resp.headers["location"]
        try:
            # Fields are read as Latin-1; servers write UTF-8.
            return location.encode("latin-1").decode("utf-8")
        except UnicodeError:
            return location

    def should_strip_auth(self, old_url: str, new_url: str) -> bool:
        """Return whether credentials for one URL must not go to another."""
        from curlhttp._policy.redirect import may_keep_credentials

        try:
            return not may_keep_credentials(parse_url(old_url), parse_url(new_url))
        except ValueError:
            return True

    def resolve_redirects(
        self,
        resp: Response,
        req: PreparedRequest,
        stream: bool = False,
        timeout: t.TimeoutInput = None,
        verify: t.VerifyInput = True,
        cert: t.CertInput = None,
        proxies: t.ProxiesInput = None,
        yield_requests: bool = False,
        **adapter_kwargs: Any,
    ) -> Iterator[Any]:
        """Give the responses that a redirect leads to, one after the other.

        Args:
            resp: the response that redirects.
            req: what it answers.
            stream: as in send, like all up to proxies.
            timeout: seconds, or (connect, read).
            verify: True, False, or a path of authorities.
            cert: a client certificate.
            proxies: proxy URLs by scheme.
            yield_requests: give the requests instead, and send none.
            adapter_kwargs: passed on to send.

        Raises:
            TooManyRedirects: there are more than max_redirects.
            UnrewindableBodyError: the body must be sent again and cannot be.
        """
        from curlhttp.requests._timeouts import what_is_left

        left = what_is_left(timeout, getattr(resp, "timings", None))
        followed: list[Response] = []
        fragment = urlparse(str(req.url)).fragment
        url = self.get_redirect_target(resp)
        while url:
            resp.history = followed[:]
            followed.append(resp)
            if not yield_requests:  # else it stays the caller's
                set_aside(resp)
            if len(resp.history) >= self.max_redirects:
                raise TooManyRedirects(f"Exceeded {self.max_redirects} redirects.", response=resp)
            url, fragment = _located(url, str(resp.url), fragment)
            req = self._redirected(req, resp, url)
            proxies = self.rebuild_proxies(req, proxies)
            self.rebuild_auth(req, resp)
            _rewind(req)
            if yield_requests:
                yield req
                continue
            expected = expect_hop()
            try:
                resp = self.send(
                    req,
                    stream=stream,
                    timeout=left(),
                    verify=verify,
                    cert=cert,
                    proxies=proxies,
                    allow_redirects=False,
                    **adapter_kwargs,
                )
            finally:
                expect_no_more(expected)
            if resp.sets_cookies:
                from curlhttp.requests.cookies import extract_cookies_to_jar

                extract_cookies_to_jar(self.cookies, req, resp.raw)
            url = self.get_redirect_target(resp)
            yield resp

    def _redirected(self, req: PreparedRequest, resp: Response, url: str) -> PreparedRequest:
        """Return the request for the next hop, without proxies and credentials."""
        from curlhttp.requests._jar import remove_unbound
        from curlhttp.requests.cookies import extract_cookies_to_jar, merge_cookies

        prepared = req.copy()
        prepared.url = url
        self.rebuild_method(prepared, resp)
        headers = prepared.headers
        if resp.status_code not in _KEEPS_BODY:
            for name in _OF_THE_BODY:
                headers.pop(name, None)
            prepared.body = None
        headers.pop("Cookie", None)  # the jar knows what the next host may see
        jar = prepared._cookies
        if urlparse(str(req.url)).hostname != urlparse(url).hostname:
            # The name of another host; the jar goes by it, and would give that host's cookies away.
            headers.pop("Host", None)
            remove_unbound(jar)  # the request's own are for the host that it named
        extract_cookies_to_jar(jar, req, resp.raw)
        merge_cookies(jar, self.cookies)
        prepared.prepare_cookies(jar)
        if network.numbers_sends:
            from curlhttp.requests._numbers import hand_numbers_on

            hand_numbers_on(resp, prepared)
        return prepared

    def rebuild_auth(self, prepared_request: PreparedRequest, response: Response) -> None:
        """Take credentials off a request to another origin; put on what netrc has for it."""
        headers = prepared_request.headers
        url = str(prepared_request.url)
        if (
            "Authorization" in headers or prepared_request.hooks.get("response")
        ) and self.should_strip_auth(str(response.request.url), url):
            from curlhttp.requests.auth import leave_behind

            headers.pop("Authorization", None)
            leave_behind(prepared_request)
        if self.trust_env:
            found = self._netrc_auth(url)
            if found is not None:
                prepared_request.prepare_auth(found)

    def rebuild_proxies(
        self, prepared_request: PreparedRequest, proxies: t.ProxiesInput
    ) -> dict[str, str | None]:
        """Return the proxies for the next hop, and fit Proxy-Authorization to them."""
        from curlhttp.requests._url import get_auth_from_url
        from curlhttp.requests.auth import _basic_auth_str
        from curlhttp.requests.utils import resolve_proxies

        found = resolve_proxies(prepared_request, proxies, self.trust_env)
        headers = prepared_request.headers
        headers.pop("Proxy-Authorization", None)
        scheme = urlparse(str(prepared_request.url)).scheme
        username, password = get_auth_from_url(found.get(scheme) or "")
        # A tunnel's credentials go to the proxy alone, by the adapter.
        if username and password and not scheme.startswith("https"):
            headers["Proxy-Authorization"] = _basic_auth_str(username, password)
        return found

    def rebuild_method(self, prepared_request: PreparedRequest, response: Response) -> None:
        """Set the method of the next hop, as browsers have it."""
        from curlhttp._policy.redirect import redirect_method

        prepared_request.method = redirect_method(
            str(prepared_request.method), response.status_code
        )


def _located(location: str, base: str, fragment: str) -> tuple[str, str]:
    """Return the URL that a Location stands for, and the fragment that goes on from there."""
    from curlhttp.requests._url import requote_uri

    if location.startswith("//"):
        location = f"{urlparse(base).scheme}:{location}"
    try:
        parts = urlparse(location)
    except ValueError:
        raise InvalidURL(f"Invalid URL {display_url(location)!r}") from None
    if parts.fragment:
        fragment = parts.fragment
    elif fragment:
        parts = parts._replace(fragment=fragment)
    url = requote_uri(parts.geturl())
    return url if parts.netloc else urljoin(base, url), fragment


def _rewind(request: PreparedRequest) -> None:
    headers = request.headers
    if request._body_position is not None and (
        "Content-Length" in headers or "Transfer-Encoding" in headers
    ):
        from curlhttp.requests._files import rewind_body

        rewind_body(request)
