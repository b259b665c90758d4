"""Authentication with a token that one request fetches for all (single flight).

Requests that need the token at the same time queue. The first one fetches it, in its own thread or
event loop, and all of them get the result, or the error. If that request is cancelled, the next one
in the queue fetches. `BearerAuth` and OAuth 2.0 (oauth2.py) are built on this.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from curlhttp._models.errors import Unpicklable
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.auth import Auth, AuthFlow
from curlhttp._policy.limits import Limit, Wake
from curlhttp._policy.store import Answer, Store, StoreCommand, StoreLease, micros
from curlhttp.exceptions import InvalidHeader, Timeout

if TYPE_CHECKING:
    from curlhttp._policy.limits import ConcurrencyLimit

__all__ = [
    "BearerAuth",
    "CachedToken",
    "Function",
    "Shared",
    "SharedLease",
    "Steps",
    "TokenAuth",
    "TokenRequest",
    "TokenWaiter",
    "Value",
    "bearer_refused",
    "is_token",
    "pause",
]


_REFUSED_AT_ONCE = 4  # in a row, before there is a rest: of 1 second, 2, 4, ...
_LONGEST_REST = 60.0

Value: TypeAlias = Any  # the Auth knows


class CachedToken(NamedTuple):
    """What was obtained.

    Attributes:
        value: what requests need, as the Auth knows it.
        expires_at: when it is good no more, on the engine's clock; None when nobody knows.
        is_kept: later requests have it, too; otherwise it is for those alone that waited for it.
    """

    value: Value
    expires_at: float | None = None
    is_kept: bool = True


class TokenRequest(NamedTuple):
    """Ask whoever runs the steps to call a function, and for what it returns.

    Attributes:
        function: without arguments; in AsyncClient it may be a coroutine function.
        blocks: it may take a while, and is called where that holds up nobody.
    """

    function: Callable[[], object]
    blocks: bool = False


Function: TypeAlias = Callable[..., object]

# What comes back is a Response for a Request, and the result for a Call.
Steps: TypeAlias = Generator["Request | TokenRequest", Value, CachedToken]


class TokenWaiter:
    """A request in line.

    Attributes:
        wake: lets it go on.
        patience: its time limits.
        outcome: the outcome of the fetch that it waited for, or None.
        is_first: it has to fetch.
    """

    __slots__ = ("is_first", "outcome", "patience", "wake")

    def __init__(self, wake: Wake, patience: object = None) -> None:
        self.wake: Wake = wake
        self.patience: object = patience
        self.outcome: CachedToken | Exception | None = None
        self.is_first: bool = False


class Shared(Limit[TokenWaiter]):
    """What was obtained last, and the line of those who wait for the next."""

    def __init__(self) -> None:
        self.latest: CachedToken | None = None
        self._refused_in_row = 0
        self._rests_until = -inf
        super().__init__(None)

    def _clear(self) -> None:
        super()._clear()
        self._line: OrderedDict[TokenWaiter, None] = OrderedDict()

    def join(self, place: TokenWaiter, is_usable: Callable[[CachedToken], bool]) -> None:
        """Put a request into the line; whatever happens, finish() or leave() takes it out.

        Args:
            place: a new one. It is the caller's before, so that Ctrl-C cannot come in between.
            is_usable: tells whether something is good still: it may have come meanwhile.
        """
        with self._lock:
            latest = self.latest
            if latest is not None and is_usable(latest):
                place.outcome = latest
            else:
                place.is_first = not self._line
                self._line[place] = None
        self._release_leavers()

    def finish(self, place: TokenWaiter, outcome: CachedToken | Exception) -> None:
        """Tell the others in line the outcome of the fetch of the first.

        A server that was too slow for its time limits may do for those of others: the next one
        that has others fetches.
        """
        with self._lock:
            if place not in self._line:  # in a forked child
                return
            if isinstance(outcome, CachedToken):
                self.latest = outcome if outcome.is_kept else None
            del self._line[place]
            woken = list(self._line)
            if isinstance(outcome, Timeout):
                woken = [each for each in woken if each.patience == place.patience]
            for each in woken:
                each.outcome = outcome
                del self._line[each]
            if (following := next(iter(self._line), None)) is not None:
                following.is_first = True
                woken.append(following)
        for each in woken:
            each.wake()
        self._release_leavers()

    def pass_over_ended(self, place: TokenWaiter) -> None:
        """Take the first out of the line if its event loop ended without it.

        A loop that is closed by hand cancels no task, so that nobody else would tell.

        Args:
            place: of who looks, which does so if it is the next one.
        """
        with self._lock:
            first, following = [*islice(self._line, 2), None, None][:2]
        if first is not None and following is place and first.wake() is False:
            self.leave(first)

    def leave(self, place: TokenWaiter) -> None:
        """Leave the line, which takes no lock that this thread may have."""
        self._leave(place)

    def _remove(self, place: TokenWaiter, wakes: list[Wake]) -> None:
        if place not in self._line:
            return
        del self._line[place]
        if place.is_first and self._line:
            following = next(iter(self._line))
            following.is_first = True
            wakes.append(following.wake)

    def refuse(self, value: object, now: float) -> bool:
        """Drop what a server refused, unless there is something newer.

        A server that refuses whatever is obtained would have each request obtain another: the
        token server would be flooded, and lock the user out. So after some in a row, what was
        refused is kept for a while.

        Args:
            value: what was obtained.
            now: in monotonic seconds.

        Returns:
            whether it is worth to obtain another.
        """
        with self._lock:
            if self.latest is not None and self.latest.value is value:
                if now < self._rests_until:
                    return False
                self.latest = None
                self._refused_in_row += 1
                more = self._refused_in_row - _REFUSED_AT_ONCE
                if more >= 0:
                    self._rests_until = now + min(2.0**more, _LONGEST_REST)
        self._release_leavers()
        return True

    def accept(self) -> None:
        """Note that a server took what was obtained."""
        if self._refused_in_row:
            self._refused_in_row, self._rests_until = 0, -inf


class TokenAuth(Unpicklable, Auth):
    """Authenticate by what is obtained first, and shared by all requests."""

    __slots__ = ("shared",)

    _why_not = (
        "it holds credentials, and what its requests share; make a new one where it is needed"
    )

    obtains = True

    def __init__(self) -> None:
        self.shared: Shared = Shared()

    @property
    def functions(self) -> tuple[Function, ...]:
        """Return the user's functions that it calls, which may be async."""
        return ()

    def steps(self, now: Callable[[], float]) -> Steps:
        """Yield the requests and calls of which comes what is to be obtained, and return it.

        Args:
            now: gives monotonic seconds.
        """
        raise NotImplementedError

    def is_usable(self, obtained: CachedToken, now: float) -> bool:
        """Return whether what was obtained is good still."""
        return obtained.expires_at is None or now < obtained.expires_at

    def apply(self, request: Request, value: Value) -> Request:
        """Return a request with what authenticates it.

        Args:
            request: a copy, which may be changed.
            value: what was obtained.
        """
        raise NotImplementedError

    def refuses(self, response: Response) -> bool:
        """Return whether a response says that what was obtained is not good any more."""
        return False

    def auth_flow(self, request: Request) -> AuthFlow:
        """Refuse: a generator alone cannot do this, because requests wait for each other."""
        raise TypeError(f"{type(self).__name__} is for clients, and not to be called by a flow")


# --- A place among the requests at once of all processes, which ends when its holder dies ---

_LASTS = 5.0  # seconds for which a place is held without being renewed
_RENEWED = 1.5  # seconds from one time to the next
_IN_LINE = 2.0  # seconds for which a place in the line is kept without being asked for
_SOONEST, _LATEST = 0.005, 0.25  # seconds until it is asked for again
_PART = 8  # of the time that the line stood still: what the next wait may add to it


def pause(before: int, stood: float) -> float:
    """Return the seconds after which to ask again: later the more stand before, or the longer.

    Args:
        before: how many stand before.
        stood: seconds for which the line has not moved.
    """
    return min(_LATEST, max(_SOONEST * (1 + before), stood / _PART))


class SharedLease:
    """One request's place at a store.

    Args:
        limit: whose place it is.
        store: where it is.
        origin: whom the request goes to.
    """

    __slots__ = ("_held", "_is_given", "_key", "_limit", "_name", "_store")

    def __init__(self, limit: ConcurrencyLimit, store: Store, origin: str) -> None:
        self._limit = limit
        self._store = store
        self._key, self._name = limit.shared_place(origin)
        self._held: StoreLease | None = None
        self._is_given = False

    def taking(self, *, joins: bool) -> StoreCommand:
        """Return what asks for it.

        Args:
            joins: it stands in line, if there is no place now.
        """

        def undo(answer: Answer) -> StoreCommand:
            return self._question("leave")

        return self._question("take", int(joins))._replace(undo=undo)

    def start(self) -> None:
        """Keep it from now on, because it was granted."""
        self._held = self._store.hold(self._question("keep"), _RENEWED)

    def give(self) -> None:
        """Give it back, or leave the line; a second time is nothing. Safe in finalizers."""
        if not self._is_given:
            self._is_given = True
            if not self._limit.is_own(self._name):
                return  # a forked child's copy: the place is the parent's
            if self._held is not None:
                self._held.end()
            self._store.tell(self._question("leave"))

    def end(self, error: BaseException | None) -> None:
        """Give it back at the end of a body."""
        self.give()

    def __del__(self) -> None:
        self.give()  # the request that had it ended without giving it back

    def _question(self, step: str, joins: int = 0) -> StoreCommand:
        times = (micros(_LASTS), micros(_IN_LINE))
        return StoreCommand(
            "lease", self._key, (step, self._name, self._limit.limit, *times, joins)
        )


# --- Bearer tokens (RFC 6750): given, or fetched by a function ---

_VISIBLE = re.compile(r"[\x21-\x7e]+")
# RFC 6750, section 3; any other error is nothing that a new token would change.
_ERROR = re.compile(r"""\bbearer\b.*?\berror\s*=\s*"?([^",\s]*)""", re.IGNORECASE | re.DOTALL)

_GetToken: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]


class BearerAuth(TokenAuth):
    """Send a bearer token with every request (RFC 6750).

    A function is called for each request, and once for all requests that wait for it at the same
    time; with `expires`, what it returned is kept for that long, or until a 401 says that it is
    good no more: then it is called again, and the request is sent a second time.

    Args:
        token: the token, or a function that returns the one to use now; in AsyncClient it may be
            a coroutine function.
        expires: seconds for which a token of the function is good, or None.

    Raises:
        InvalidHeader: the token is empty or not visible ASCII.
        TypeError: the token is neither; of a request in Client: the function is async.
        ValueError: `expires` is not more than 0, or there is no function.
    """

    __slots__ = ("_expires", "_function", "_value")

    def __init__(self, token: str | _GetToken, *, expires: float | None = None) -> None:
        if expires is not None and not (expires > 0 and callable(token)):
            raise ValueError("expires is more than 0 seconds, and for a function")
        super().__init__()
        self._function = token if callable(token) else None
        self._value = "" if callable(token) else f"Bearer {checked_token(token)}"
        self._expires = expires

    @property
    def obtains(self) -> bool:  # type: ignore[override]  # else an attribute of the class
        """Return whether a function has to be called."""
        return self._function is not None

    def known_header(self) -> str | None:
        """Return the Authorization, None where a function gives it."""
        return self._value or None

    @property
    def functions(self) -> tuple[Function, ...]:
        """Return the function that gives tokens."""
        return () if self._function is None else (self._function,)

    def auth_flow(self, request: Request) -> AuthFlow:
        """Yield the request with its Authorization."""
        value = self._value
        if self._function is not None:  # in the flow of somebody's own
            value = f"Bearer {checked_token(self._function())}"
        request.headers["Authorization"] = value
        yield request

    def steps(self, now: Callable[[], float]) -> Steps:
        """Call the function."""
        assert self._function is not None
        begun = now()
        token = checked_token((yield TokenRequest(self._function)))
        expires = self._expires
        if expires is None:
            return CachedToken(token, is_kept=False)
        return CachedToken(token, begun + expires)

    def apply(self, request: Request, value: Value) -> Request:
        """Return the request with its Authorization."""
        request.headers["Authorization"] = f"Bearer {value}"
        return request

    def refuses(self, response: Response) -> bool:
        """Return whether the response says that the token is not valid."""
        return bearer_refused(response)


def bearer_refused(response: Response) -> bool:
    """Return whether a response says that its request's token is not valid.

    A 401 does, unless it names another error. RFC 6750, section 3.1.
    """
    if response.status_code != 401:
        return False
    found = _ERROR.search(", ".join(response.headers.get_list("www-authenticate"))[:4096])
    return found is None or found[1].lower() in ("", "invalid_token")


def is_token(token: object) -> bool:
    """Return whether something may be sent as a token: visible ASCII."""
    return isinstance(token, str) and _VISIBLE.fullmatch(token) is not None


def checked_token(token: object) -> str:
    """Return a token.

    Raises:
        TypeError: it is no str.
        InvalidHeader: it is empty, or not visible ASCII.
    """
    if not isinstance(token, str):
        raise TypeError(f"a bearer token is a str, not {type(token).__name__}")
    if not is_token(token):
        raise InvalidHeader("A bearer token must be visible ASCII without blanks")
    return token
