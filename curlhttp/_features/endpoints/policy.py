"""Several endpoints of one service: choose one for each attempt, and eject those that fail.

Pure: it reads no clock and sends nothing. The rules of ejection are those of Envoy's outlier
detection: failures in a row, a time that grows with each ejection, and a maximum of ejected ones.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast, get_args

from curlhttp._features.auth.token_auth import TokenCache
from curlhttp._features.breaker.circuit import Outcome
from curlhttp._http.cookies import LazyCookieJar
from curlhttp._http.errors import Unpicklable, check_number
from curlhttp._http.fork import register
from curlhttp._http.redaction import display_url
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.url import URL, parse_url

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

    from curlhttp._http.inputs import CookiesInput

Choose: TypeAlias = Literal["least_pending", "round_robin", "p2c"]
URLs: TypeAlias = Iterable["str | URL"]
ListEndpoints: TypeAlias = "Callable[[], URLs | Awaitable[URLs]]"

_NEVER = float("inf")
_MAX_GROWTH = 10  # times eject_for
_LEAST_SHARE = 0.1  # of its usual requests, when an endpoint comes back


class EndpointState(NamedTuple):
    """The state of one endpoint.

    Attributes:
        url: its base URL.
        pending: the number of attempts that are under way.
        failures: the number of consecutive failures.
        ejected_for: seconds until it is used again, 0.0 if it is in use.
    """

    url: str
    pending: int
    failures: int
    ejected_for: float


class _Member:
    __slots__ = ("credit", "ejected_until", "ejections", "failures", "pending", "url")

    def __init__(self, url: URL) -> None:
        self.url: URL = url
        self.pending: int = 0
        self.failures: int = 0
        self.ejections: int = 0
        self.ejected_until: float = float("-inf")  # and when it came back
        self.credit: float = 0.0


_get_pending = attrgetter("pending")
_get_credit = attrgetter("credit")


@with_suggestions("Endpoints")
class Endpoints(Unpicklable):
    """Spread the requests of a client over several servers of one service.

        endpoints = curlhttp.Endpoints(["https://a.example.org", "https://b.example.org"])
        client = curlhttp.Client(base_url=endpoints, retry=2)

    Each attempt goes to one of them. A retry or a hedge goes to a different endpoint than the
    attempts before it. An endpoint that fails is ejected for a while. Clients, threads and event
    loops may share one object.

    Args:
        urls: the base URLs, or a function without arguments that returns them. In AsyncClient, it
            may be a coroutine function. Until it has returned once, the first request calls it, and
            requests that come meanwhile wait for its list or its error.
        choose: "least_pending" for the endpoint with the fewest attempts under way, "round_robin",
            or "p2c" for the better of two that are chosen at random.
        eject_after: the number of consecutive failures after which an endpoint is ejected. A failed
            or broken connection, a timeout, and status 500, 502, 503 or 504 are failures.
        eject_for: the seconds of the first ejection. The second one in a row takes twice as long,
            the third one three times as long, and so on, up to ten times. When an endpoint comes
            back, its share of the requests grows from a tenth to the full share within eject_for.
        max_ejected: the share of endpoints that may be ejected, from 0 to 1, rounded down. If all
            are ejected, all are used.
        refresh: the seconds after which the function is called again; None for never.

    Raises:
        ValueError: a number is out of range, there is no URL, two URLs are equal or have different
            schemes, or a URL has credentials, a query or a fragment.
        TypeError: `urls` is one string, `refresh` is given without a function, or an argument is
            not a number.

    Source: https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/outlier
    """

    _why_not = "it knows the requests that are under way; make a new one where it is needed"

    def __init__(
        self,
        urls: URLs | ListEndpoints,
        *,
        choose: Choose = "least_pending",
        eject_after: int = 5,
        eject_for: float = 30.0,
        max_ejected: float = 0.5,
        refresh: float | None = None,
    ) -> None:
        if choose not in get_args(Choose):
            raise ValueError(f"choose must be one of {get_args(Choose)}, not {choose!r}")
        check_number("eject_after", eject_after, least=1, whole=True)
        check_number("eject_for", eject_for, above=0, unit="seconds")
        check_number("max_ejected", max_ejected, most=1)
        if refresh is not None and not callable(urls):
            raise TypeError("refresh needs a function: Endpoints(list_urls, refresh=30)")
        check_number("refresh", refresh, above=0, unit="seconds", optional=True)
        self._list_urls: ListEndpoints | None = urls if callable(urls) else None
        self._refresh_after: float | None = refresh
        self._due: float = -_NEVER  # when list_urls is called next, monotonic
        self._is_refreshing = False
        # The queue of requests that wait for the first list.
        self._first_list: TokenCache = TokenCache()
        self._choose = choose
        self._eject_after = eject_after
        self._eject_for = eject_for
        self._max_ejected = max_ejected
        self._random = random.Random()  # not for secrets
        self._members: tuple[_Member, ...] = ()
        self._bases: tuple[URL, ...] = ()  # has been canonical
        self._after_fork()
        if self._list_urls is None:
            self._replace(cast("URLs", urls))
            self._canonical: URL = self.urls[0]
        else:
            # Of this object alone, because services that share a cache or a jar must not share
            # responses and cookies.
            self._canonical = parse_url(f"http://endpoints-{secrets.token_hex(8)}.invalid/")
        self._bases = (self._canonical,)
        register(self)

    def _after_fork_in_child(self) -> None:
        """Forget the parent's attempts, because a thread of it may have held the lock."""
        self._after_fork()
        for member in self._members:
            member.pending = 0
        if self._is_refreshing:
            self._end_refresh(None)

    def _after_fork(self) -> None:
        # Reentrant, because a finalizer may end an attempt while its thread chooses an endpoint.
        self._lock = threading.RLock()

    # the list

    @property
    def urls(self) -> tuple[URL, ...]:
        """Return the base URLs."""
        return tuple(member.url for member in self._members)

    def _replace(self, urls: URLs) -> None:
        """Replace the list; endpoints that stay keep their state.

        Args:
            urls: the base URLs.

        Raises:
            ValueError, TypeError: see the class.
        """
        made = _parse(urls)
        with self._lock:
            known = {member.url: member for member in self._members}
            if known and made[0].scheme != self._members[0].url.scheme:
                raise ValueError(
                    f"the endpoints were all {self._members[0].url.scheme}, so {made[0]} cannot "
                    "replace them: cookies and credentials belong to the scheme"
                )
            self._members = tuple(known.get(url) or _Member(url) for url in made)
            if self._list_urls is not None and self._canonical.scheme != made[0].scheme:
                # The first list tells the scheme, which decides about Secure cookies.
                canonical = URL(f"{made[0].scheme}://{self._canonical.host}/", raw=made[0].is_raw)
                self._bases = (canonical, *self._bases)  # before another thread uses it
                self._canonical = canonical

    def _take_refresh(self, now: float) -> bool:
        """Return whether the caller has to list the endpoints again, and call `_end_refresh` then.

        Until then, all others use the old list.

        Args:
            now: monotonic seconds.
        """
        if self._list_urls is None or self._due > now:
            return False
        with self._lock:
            is_due = self._due <= now
            if is_due:
                self._due, self._is_refreshing = _NEVER, True
            return is_due

    def _end_refresh(self, begun: float | None) -> None:
        """End what _take_refresh began.

        Args:
            begun: when, in monotonic seconds; None if it was cancelled, so that the next request
                lists the endpoints.
        """
        self._is_refreshing = False
        self._due = -_NEVER if begun is None else begun + (self._refresh_after or _NEVER)

    def _covers(self, url: URL) -> bool:
        """Return whether a canonical URL is one of the endpoints'."""
        return self._get_rest(url) is not None

    def _get_rest(self, url: URL) -> str | None:
        """Return what follows the base in a canonical URL, None if it is not the endpoints'."""
        found = _find_base(url, self._bases)
        return None if found is None else found[1]

    def _to_canonical(self, url: URL) -> URL:
        """Return the URL below the canonical base URL for one below any of the endpoints.

        Above the layer that chooses endpoints, all of them have this URL, so that they share
        cookies, credentials and the cache.
        """
        found = self._find_base(url)
        if found is None or found[0] is self._canonical:
            return url
        return _move(found[1], self._canonical, url)

    def _find_base(self, url: URL) -> tuple[URL, str] | None:
        """Return the base of a URL and what follows it, None if it is not the endpoints'."""
        return _find_base(url, self._bases + self.urls)

    def _make_jar(self, cookies: CookiesInput | None) -> LazyCookieJar:
        """Return the jar of a client, whose cookies the endpoints share."""
        return _MemberJar(self, cookies)

    def _localize_cookie(self, line: str, url: URL) -> str:
        """Return a Set-Cookie value as if the canonical endpoint had sent it.

        Args:
            line: the value.
            url: where the response came from.
        """
        found = self._find_base(url)
        if found is None or found[0] is self._canonical:
            return line
        old, new = found[0].path.rstrip("/"), self._canonical.path.rstrip("/")
        pair, *attributes = line.split(";")
        kept = [pair]
        for attribute in attributes:
            name, _, value = (part.strip() for part in attribute.partition("="))
            if name.lower() == "domain":
                if _spans(value, url.host) and not _spans(value, self._canonical.host):
                    continue  # host-only, because the canonical host cannot set it
            elif name.lower() == "path" and f"{value}/".startswith(f"{old}/"):
                attribute = f" Path={new + value[len(old) :] or '/'}"
            kept.append(attribute)
        return ";".join(kept)

    # choosing

    def choose(self, tried: Sequence[URL], now: float, wanted: URL | None = None) -> Turn:
        """Choose an endpoint for an attempt, and count it as pending.

        Args:
            tried: those of earlier attempts of the same request, which come last.
            now: monotonic seconds.
            wanted: a URL of the one to choose as long as it is in the list, or None.
        """
        with self._lock:
            members = self._members
            if wanted is not None:
                found = [each for each in members if _get_rest(wanted, each.url) is not None]
                members = tuple(found) or members
            usable = [each for each in members if each.ejected_until <= now] or list(members)
            fresh = [each for each in usable if each.url not in tried] if tried else usable
            member = self._pick(fresh or usable, now)
            member.pending += 1
        return Turn(self, member)

    def _has_more(self, tried: Sequence[URL], now: float) -> bool:
        """Return whether an attempt would go to another endpoint than those.

        Args:
            tried: those of earlier attempts.
            now: monotonic seconds.
        """
        with self._lock:
            usable = [each for each in self._members if each.ejected_until <= now]
            return any(each.url not in tried for each in usable or self._members)

    def _pick(self, members: list[_Member], now: float) -> _Member:
        if len(members) == 1:
            return members[0]
        shares = {each: self._share(each, now) for each in members if each.ejections}
        if self._choose != "round_robin":
            returned = {each: share for each, share in shares.items() if share < 1}
            steady = [each for each in members if each not in returned]
            if returned and steady:
                found = self._pick_returned(returned, steady)
                if found is not None:
                    return found
                members = steady
            shares = {}
            if self._choose == "p2c" and len(members) > 2:
                members = self._random.sample(members, 2)
            least = min(map(_get_pending, members))
            members = [each for each in members if each.pending == least]
        # Smooth weighted round robin: among equals, each in turn.
        total = 0.0
        for each in members:
            share = shares.get(each, 1.0)
            each.credit += share
            total += share
        best = max(members, key=_get_credit)
        best.credit -= total
        return best

    def _pick_returned(
        self, returned: dict[_Member, float], steady: list[_Member]
    ) -> _Member | None:
        """Return one that came back, with the probability of its share, or None."""
        # Idle ones would otherwise get most of the requests, because they have the fewest.
        total = len(steady) + sum(returned.values())
        busy = min(map(_get_pending, steady)) + 1
        for each, share in returned.items():
            if self._random.random() * total < share and each.pending <= share * busy:
                return each
        return None

    def _share(self, member: _Member, now: float) -> float:
        since = now - member.ejected_until
        return max(_LEAST_SHARE, min(1.0, since / self._eject_for))

    def _end(self, member: _Member, outcome: Outcome | None, now: float) -> None:
        with self._lock:
            member.pending = max(0, member.pending - 1)
            if outcome is Outcome.SUCCESS:
                member.failures = 0
            elif outcome is Outcome.FAILURE:
                member.failures += 1
                if member.failures >= self._eject_after and member.ejected_until <= now:
                    self._eject(member, now)

    def _eject(self, member: _Member, now: float) -> None:
        ejected = sum(each.ejected_until > now for each in self._members)
        if ejected + 1 > int(self._max_ejected * len(self._members)):
            return
        # One that was well for a while has paid for an earlier ejection.
        well = now - member.ejected_until
        forgiven = int(well / self._eject_for) if member.ejections else 0
        member.ejections = min(_MAX_GROWTH, max(0, member.ejections - forgiven) + 1)
        member.ejected_until = now + self._eject_for * member.ejections
        member.failures = 0

    def states(self, now: float) -> tuple[EndpointState, ...]:
        """Return the state of each endpoint.

        Args:
            now: monotonic seconds, such as time.monotonic().
        """
        with self._lock:
            return tuple(
                EndpointState(
                    str(each.url), each.pending, each.failures, max(0.0, each.ejected_until - now)
                )
                for each in self._members
            )

    def __repr__(self) -> str:
        urls = [str(member.url) for member in self._members]
        return f"Endpoints({urls or self._list_urls!r}, choose={self._choose!r})"


class Turn:
    """One attempt at an endpoint, which is pending until it ends.

    Args:
        endpoints: that chose it.
        member: the endpoint.
    """

    __slots__ = ("_endpoints", "_member", "base")

    def __init__(self, endpoints: Endpoints, member: _Member) -> None:
        self._endpoints = endpoints
        self._member: _Member | None = member
        self.base: URL = member.url

    def end(self, outcome: Outcome | None, now: float) -> None:
        """Count the outcome; only the first call does something.

        Args:
            outcome: None if nothing is known, such as after a cancellation.
            now: monotonic seconds.
        """
        member, self._member = self._member, None
        if member is not None:
            self._endpoints._end(member, outcome, now)

    def __del__(self) -> None:
        self.end(None, 0.0)


class Rotation:
    """The endpoints that the attempts of one request went to.

    Args:
        endpoints: to choose from.
        url: of the request, canonical.
        challenger: the URL that sent the challenge which the request answers, or None.

    Attributes:
        turn: of the latest attempt.
    """

    __slots__ = ("_challenger", "_endpoints", "_rest", "_tried", "_url", "turn")

    def __init__(self, endpoints: Endpoints, url: URL, challenger: URL | None = None) -> None:
        self._endpoints = endpoints
        self._url = url
        self._rest = endpoints._get_rest(url) or ""
        self._tried: list[URL] = []
        self._challenger = challenger
        self.turn: Turn | None = None

    def has_more(self, now: float) -> bool:
        """Return whether the next attempt would go to an endpoint that had none.

        Args:
            now: monotonic seconds.
        """
        return self._endpoints._has_more(self._tried, now)

    def next(self, now: float) -> tuple[Turn, URL]:
        """Choose the endpoint of one more attempt; return its turn and the URL there.

        Args:
            now: monotonic seconds.
        """
        turn = self._endpoints.choose(self._tried, now, self._challenger)
        self._challenger = None
        self._tried.append(turn.base)
        return turn, _move(self._rest, turn.base, self._url)

    def get_origin(self, url: URL) -> str:
        """Return the origin of a response: that of the request, if an endpoint sent it."""
        return url.origin if self._endpoints._find_base(url) is None else self._url.origin

    def give_back(self, turn: Turn) -> None:
        """End the turn of an attempt that was not made, so that a later one may go there."""
        turn.end(None, 0.0)
        self._tried.remove(turn.base)


class _MemberJar(LazyCookieJar):
    """The cookies of a client with endpoints.

    All endpoints have the cookies of the canonical one. Other URLs do not get the cookies that the
    program set for every host.
    """

    __slots__ = ("_endpoints",)

    def __init__(self, endpoints: Endpoints, cookies: CookiesInput | None) -> None:
        super().__init__(cookies)
        self._endpoints = endpoints

    def header(self, url: URL, own: CookieJar | None = None) -> str | None:
        """Return the Cookie header for a URL; see LazyCookieJar."""
        ours = self.cookies
        if ours is None or self._endpoints._covers(url) or all(each.domain for each in ours):
            return super().header(url, own)
        others = LazyCookieJar({})
        for cookie in ours:
            if cookie.domain:
                others.open().set_cookie(cookie)
        return others.header(url, own)

    def store(self, url: URL, values: Sequence[str]) -> None:
        """Store the cookies that a response sets; see LazyCookieJar."""
        found = [self._endpoints._localize_cookie(value, url) for value in values]
        super().store(self._endpoints._to_canonical(url), found)


def _get_rest(url: URL, base: URL) -> str | None:
    """Return what follows the base in a URL, None if it is not below the base."""
    if url.origin != base.origin:
        return None
    path = base.path.rstrip("/")
    rest = url.target[len(path) :]
    return rest if url.target.startswith(path) and rest[:1] in ("", "/", "?") else None


def _find_base(url: URL, bases: Iterable[URL]) -> tuple[URL, str] | None:
    """Return the first base that a URL is below, and what follows it, or None."""
    for base in bases:
        rest = _get_rest(url, base)
        if rest is not None:
            return base, rest
    return None


def _spans(domain: str, host: str) -> bool:
    """Return whether the Domain of a cookie includes a host."""
    return f".{host}".endswith(f".{domain.removeprefix('.').lower()}")


def _move(rest: str, base: URL, url: URL) -> URL:
    """Return the URL below a base with what follows the base in another URL."""
    return url._with_origin(base._origin, (base.path.rstrip("/") + rest) or "/", url.fragment)


def _parse(urls: URLs) -> list[URL]:
    if isinstance(urls, (str, bytes)) or not isinstance(urls, Iterable):
        raise TypeError(
            f"Endpoints takes a list of URLs, or a function, not {type(urls).__name__}: "
            'Endpoints(["https://a.example.org", "https://b.example.org"])'
        )
    made = [parse_url(url) for url in urls]
    if not made:
        raise ValueError("Endpoints needs at least one URL")
    for url in made:
        if url.username is not None or "?" in url.target or url.fragment:
            raise ValueError(
                f"an endpoint cannot have credentials, a query or a fragment: {display_url(url)}; "
                "pass credentials in auth="
            )
    if len({(url.origin, url.path.rstrip("/")) for url in made}) < len(made):
        raise ValueError("two of the endpoints are equal")
    if len({url.scheme for url in made}) > 1:
        raise ValueError("endpoints must all be https or all http, because retries go to others")
    return made
