"""Several endpoints of one service: choose one for each attempt, and eject those that fail.

Pure: it reads no clock and sends nothing. The rules of ejection are those of Envoy's outlier
detection: failures in a row, a time that grows with each ejection, and a maximum of ejected ones.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from curlhttp._models.errors import Unpicklable
from curlhttp._models.fork import register
from curlhttp._models.redaction import display_url
from curlhttp._models.url import URL, parse_url
from curlhttp._policy.breaker.circuit import Outcome

Choose: TypeAlias = Literal["least_pending", "round_robin", "p2c"]
URLs: TypeAlias = Iterable["str | URL"]
ListEndpoints: TypeAlias = "Callable[[], URLs | Awaitable[URLs]]"

_MAX_GROWTH = 10  # times eject_for
_LEAST_SHARE = 0.1  # of its usual requests, when an endpoint comes back
# Where requests go as long as an async function has not listed the endpoints.
_UNKNOWN = "http://endpoints.invalid/"


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


class Endpoints(Unpicklable):
    """Spread the requests of a client over several servers of one service.

        endpoints = curlhttp.Endpoints(["https://a.example.org", "https://b.example.org"])
        client = curlhttp.Client(base_url=endpoints, retry=2)

    Each attempt goes to one of them. A retry or a hedge goes to a different endpoint than the
    attempts before it. An endpoint that fails is ejected for a while. Clients, threads and event
    loops may share one object.

    Args:
        urls: the base URLs, or a function without arguments that returns them. It may be a
            coroutine function in AsyncClient.
        choose: "least_pending" for the one with the fewest attempts under way, "round_robin", or
            "p2c" for the better one of two chosen at random.
        eject_after: failures in a row after which one is ejected: no connection, a broken
            connection, a timeout, or status 500, 502, 503 or 504.
        eject_for: seconds of the first ejection. The second one in a row takes twice as long, the
            third one three times, up to ten times. When it comes back, its share of the requests
            grows from a tenth to the usual one within eject_for.
        max_ejected: how many of them may be ejected, as a share from 0 to 1, rounded down. If all
            are ejected, all are used.
        refresh: seconds after which the function is called again; None for never.

    Raises:
        ValueError: a number is out of range, there is no URL, or two are equal or of different
            schemes, or one has credentials, a query or a fragment.
        TypeError: `urls` is one string, or `refresh` is given without a function.

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
        if isinstance(eject_after, bool) or not (isinstance(eject_after, int) and eject_after >= 1):
            raise ValueError(f"eject_after must be a whole number from 1 on, not {eject_after!r}")
        if not 0 < eject_for < float("inf"):
            raise ValueError(f"eject_for must be a number of seconds above 0, not {eject_for!r}")
        if not 0 <= max_ejected <= 1:
            raise ValueError(f"max_ejected must be a share from 0 to 1, not {max_ejected!r}")
        if refresh is not None and not callable(urls):
            raise TypeError("refresh needs a function: Endpoints(list_urls, refresh=30)")
        if refresh is not None and not refresh > 0:
            raise ValueError(f"refresh must be a number of seconds above 0, not {refresh!r}")
        self.list_urls: ListEndpoints | None = urls if callable(urls) else None
        self.refresh_after: float | None = refresh
        self.due: float = float("-inf")  # when list_urls is called next, monotonic
        self._choose = choose
        self._eject_after = eject_after
        self._eject_for = eject_for
        self._max_ejected = max_ejected
        self._random = random.Random()  # not for secrets
        self._members: tuple[_Member, ...] = ()
        self._after_fork()
        self.canonical: URL = parse_url(_UNKNOWN)
        if self.list_urls is None:
            self.replace(cast("URLs", urls))
            self.canonical = self.urls[0]
        register(self)

    def after_fork_in_child(self) -> None:
        """Forget the parent's attempts, because a thread of it may have held the lock."""
        self._after_fork()
        for member in self._members:
            member.pending = 0

    def _after_fork(self) -> None:
        # Reentrant, because a finalizer may end an attempt while its thread chooses an endpoint.
        self._lock = threading.RLock()

    # the list

    @property
    def urls(self) -> tuple[URL, ...]:
        """Return the base URLs."""
        return tuple(member.url for member in self._members)

    def replace(self, urls: URLs) -> None:
        """Replace the list; endpoints that stay keep their state.

        Args:
            urls: the base URLs.

        Raises:
            ValueError, TypeError: see the class.
        """
        made = _parse(urls)
        with self._lock:
            known = {member.url: member for member in self._members}
            self._members = tuple(known.get(url) or _Member(url) for url in made)

    def to_canonical(self, url: URL) -> URL:
        """Return the URL below the canonical base URL for one below any of the endpoints.

        Above the layer that chooses endpoints, all of them have this URL, so that they share
        cookies, credentials and the cache.
        """
        for base in (self.canonical, *(member.url for member in self._members)):
            rest = _get_rest(url, base)
            if rest is not None:
                return url if base is self.canonical else _move(rest, self.canonical)
        return url

    # choosing

    def choose(self, tried: Sequence[URL], now: float) -> Turn:
        """Choose an endpoint for an attempt, and count it as pending.

        Args:
            tried: those of earlier attempts of the same request, which come last.
            now: monotonic seconds.
        """
        with self._lock:
            members = self._members
            usable = [each for each in members if each.ejected_until <= now] or list(members)
            fresh = [each for each in usable if each.url not in tried]
            member = self._pick(fresh or usable, now)
            member.pending += 1
        return Turn(self, member)

    def _pick(self, members: list[_Member], now: float) -> _Member:
        if len(members) == 1:
            return members[0]
        shares = {each: self._share(each, now) for each in members}
        if self._choose == "p2c":
            members = self._random.sample(members, 2)
        if self._choose != "round_robin":
            least = min((each.pending + 1) / shares[each] for each in members)
            members = [each for each in members if (each.pending + 1) / shares[each] <= least]
        # Smooth weighted round robin: among equals, each in turn.
        for each in members:
            each.credit += shares[each]
        best = max(members, key=lambda each: each.credit)
        best.credit -= sum(shares[each] for each in members)
        return best

    def _share(self, member: _Member, now: float) -> float:
        if not member.ejections:
            return 1.0
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
        return f"Endpoints({urls or self.list_urls!r}, choose={self._choose!r})"


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

    Attributes:
        turn: of the latest attempt.
    """

    __slots__ = ("_endpoints", "_rest", "_tried", "_url", "turn")

    def __init__(self, endpoints: Endpoints, url: URL) -> None:
        self._endpoints = endpoints
        self._url = url
        self._rest = _get_rest(url, endpoints.canonical) or ""
        self._tried: list[URL] = []
        self.turn: Turn | None = None

    def has_more(self) -> bool:
        """Return whether there is an endpoint that none of the attempts went to."""
        return any(url not in self._tried for url in self._endpoints.urls)

    def next(self, now: float) -> tuple[Turn, URL]:
        """Choose the endpoint of one more attempt; return its turn and the URL there.

        Args:
            now: monotonic seconds.
        """
        turn = self._endpoints.choose(self._tried, now)
        self._tried.append(turn.base)
        return turn, _move(self._rest, turn.base, self._url.fragment)


def covers(endpoints: Endpoints, url: URL) -> bool:
    """Return whether a canonical URL is one of the endpoints'."""
    return _get_rest(url, endpoints.canonical) is not None


def _get_rest(url: URL, base: URL) -> str | None:
    """Return what follows the base in a URL, None if it is not below the base."""
    if url.origin != base.origin:
        return None
    path = base.path.rstrip("/")
    rest = url.target[len(path) :]
    return rest if url.target.startswith(path) and rest[:1] in ("", "/", "?") else None


def _move(rest: str, base: URL, fragment: str = "") -> URL:
    return base._with((base.path.rstrip("/") + rest) or "/", fragment)


def _parse(urls: URLs) -> list[URL]:
    if isinstance(urls, (str, bytes, URL)):
        raise TypeError(f"Endpoints takes a list of URLs, or a function, not {type(urls).__name__}")
    made = [parse_url(url) for url in urls]
    if not made:
        raise ValueError("Endpoints needs at least one URL")
    for url in made:
        if url.username is not None or "?" in url.target or url.fragment:
            raise ValueError(
                f"an endpoint cannot have credentials, a query or a fragment: {display_url(url)}; "
                "pass credentials in auth="
            )
    if len(set(made)) < len(made):
        raise ValueError("two of the endpoints are equal")
    if len({url.scheme for url in made}) > 1:
        raise ValueError("endpoints must all be https or all http, because retries go to others")
    return made
