"""Authentication with a token that one request fetches for all (single flight).

Requests that need a token at the same time queue. The first one fetches it, in its own thread or
event loop, and all of them get the token, or the error. If that request is cancelled, the next one
in the queue fetches. BearerAuth, OAuth 2.0 (oauth2.py) and AWSSigV4 (aws.py) are built on this.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from itertools import islice
from math import inf
from typing import Any, NamedTuple, TypeAlias

from curlhttp._features.limits.policy import Limit, Wake
from curlhttp._http.auth import Auth, AuthFlow
from curlhttp._http.errors import Unpicklable, check_number
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.suggestions import with_suggestions
from curlhttp.exceptions import InvalidHeader, Timeout

# Rejections in a row after which a rejected token is kept: for 1 second, then 2, 4, ...
_FREE_REJECTIONS = 4
_MAX_KEEP_SECONDS = 60.0

Value: TypeAlias = Any  # only the Auth knows its type


class CachedToken(NamedTuple):
    """A token that was fetched.

    Attributes:
        value: the token, of a type that the Auth knows.
        expires_at: when it expires, in monotonic seconds; None if unknown.
        is_cached: later requests use it, too; otherwise only those that waited for it.
    """

    value: Value
    expires_at: float | None = None
    is_cached: bool = True


class FunctionCall(NamedTuple):
    """Yielded by `steps()` to have a function called and its result sent back.

    Attributes:
        function: without arguments; in AsyncClient it may be a coroutine function.
        blocks: the function may block, so AsyncClient calls it in a thread.
    """

    function: Callable[[], object]
    blocks: bool = False


Function: TypeAlias = Callable[..., object]

# Sends back a Response for a ClientRequest, and the result for a FunctionCall.
Steps: TypeAlias = Generator["ClientRequest | FunctionCall", Value, CachedToken]


class TokenWaiter:
    """A request in the queue for a token.

    Attributes:
        wake: wakes the request.
        timeout: its time limits.
        outcome: the token or the error of the fetch that it waited for, or None.
        is_first: the request has to fetch the token itself.
    """

    __slots__ = ("is_first", "outcome", "timeout", "wake")

    def __init__(self, wake: Wake, timeout: object = None) -> None:
        self.wake: Wake = wake
        self.timeout: object = timeout
        self.outcome: CachedToken | Exception | None = None
        self.is_first: bool = False


class TokenCache(Limit[TokenWaiter]):
    """The latest token, and the queue of requests that wait for the next one."""

    def __init__(self) -> None:
        self.latest: CachedToken | None = None
        self._rejections_in_row = 0
        self._keep_until = -inf
        super().__init__(None)

    def _clear(self) -> None:
        super()._clear()
        self._queue: OrderedDict[TokenWaiter, None] = OrderedDict()

    def join(self, queued: TokenWaiter, is_usable: Callable[[CachedToken], bool]) -> None:
        """Queue a request; finish() or leave() always removes it.

        Args:
            queued: a new one. The caller creates it, so that Ctrl-C cannot lose it in between.
            is_usable: returns whether a token is still valid: another request may have fetched it.
        """
        with self._lock:
            latest = self.latest
            if latest is not None and is_usable(latest):
                queued.outcome = latest
            else:
                queued.is_first = not self._queue
                self._queue[queued] = None
        self._remove_leaving()

    def finish(self, queued: TokenWaiter, outcome: CachedToken | Exception) -> None:
        """Pass the outcome of a fetch to the other requests in the queue.

        A timeout is passed only to requests with the same time limits, because the server may be
        fast enough for others. The next of those fetches.
        """
        with self._lock:
            if queued not in self._queue:  # in a forked child
                return
            if isinstance(outcome, CachedToken):
                self.latest = outcome if outcome.is_cached else None
            del self._queue[queued]
            woken = list(self._queue)
            if isinstance(outcome, Timeout):
                woken = [each for each in woken if each.timeout == queued.timeout]
            for each in woken:
                each.outcome = outcome
                del self._queue[each]
            if (following := next(iter(self._queue), None)) is not None:
                following.is_first = True
                woken.append(following)
        for each in woken:
            each.wake()
        self._remove_leaving()

    def skip_ended(self, queued: TokenWaiter) -> None:
        """Remove the first request if its event loop was closed.

        Closing a loop does not cancel its tasks, so nothing else would remove it.

        Args:
            queued: the caller's, which checks only if it is the next one.
        """
        with self._lock:
            first, following = [*islice(self._queue, 2), None, None][:2]
        if first is not None and following is queued and first.wake() is False:
            self.leave(first)

    def leave(self, queued: TokenWaiter) -> None:
        """Leave the queue, without waiting for a lock that this thread may hold."""
        self._remove_later(queued)

    def _remove(self, queued: TokenWaiter, wakes: list[Wake]) -> None:
        if queued not in self._queue:
            return
        del self._queue[queued]
        if queued.is_first and self._queue:
            following = next(iter(self._queue))
            following.is_first = True
            wakes.append(following.wake)

    def discard(self, value: object, now: float) -> bool:
        """Discard a token that a server rejected, unless there is a newer one.

        If the server rejects every token, each request would fetch another, which floods the token
        server and may lock the user out. So after some rejections in a row, the token is kept for a
        while.

        Args:
            value: the token.
            now: monotonic seconds.

        Returns:
            whether to fetch another token.
        """
        with self._lock:
            if self.latest is not None and self.latest.value is value:
                if now < self._keep_until:
                    return False
                self.latest = None
                self._rejections_in_row += 1
                more = self._rejections_in_row - _FREE_REJECTIONS
                if more >= 0:
                    self._keep_until = now + min(2.0**more, _MAX_KEEP_SECONDS)
        self._remove_leaving()
        return True

    def note_accepted(self) -> None:
        """Note that a server accepted the token."""
        if self._rejections_in_row:
            self._rejections_in_row, self._keep_until = 0, -inf


class TokenAuth(Unpicklable, Auth):
    """Authenticate with a token that is fetched first and shared by all requests."""

    __slots__ = ("_cache",)

    _why_not = (
        "it holds credentials, and a token that its requests share; create one where you need it"
    )

    _fetches_token = True

    def __init__(self) -> None:
        self._cache: TokenCache = TokenCache()

    @property
    def functions(self) -> tuple[Function, ...]:
        """Return the user's functions that `steps()` calls, which may be async."""
        return ()

    def steps(self, now: Callable[[], float]) -> Steps:
        """Yield the requests and function calls that fetch a token, and return the token.

        Args:
            now: returns monotonic seconds.
        """
        raise NotImplementedError

    def is_usable(self, token: CachedToken, now: float) -> bool:
        """Return whether a token is still valid."""
        return token.expires_at is None or now < token.expires_at

    def apply(self, request: ClientRequest, value: Value) -> ClientRequest:
        """Return the request with the token.

        Args:
            request: a copy, which may be changed.
            value: the token.
        """
        raise NotImplementedError

    def rejects(self, response: Response) -> bool:
        """Return whether a response says that the token is no longer valid."""
        return False

    def auth_flow(self, request: ClientRequest) -> AuthFlow:
        """Raise TypeError, because requests wait for one fetch, which a generator cannot do."""
        raise TypeError(f"{type(self).__name__} is for clients; a flow cannot call it")


# --- Bearer tokens (RFC 6750), constant or from a function ---

_VISIBLE = re.compile(r"[\x21-\x7e]+")
# RFC 6750, section 3. A new token helps only with the error "invalid_token".
_ERROR = re.compile(r"""\bbearer\b.*?\berror\s*=\s*"?([^",\s]*)""", re.IGNORECASE | re.DOTALL)

_GetToken: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]


class BearerTokenAuth(TokenAuth):
    """Send a token as RFC 6750 says."""

    __slots__ = ()

    def apply(self, request: ClientRequest, value: Value) -> ClientRequest:
        """Return the request with its Authorization (RFC 6750, section 2.1)."""
        request.headers["Authorization"] = f"Bearer {value}"
        return request

    def rejects(self, response: Response) -> bool:
        """Return whether the response says that the token is invalid (RFC 6750, section 3.1).

        Status 401 does, unless the challenge names another error.
        """
        if response.status_code != 401:
            return False
        found = _ERROR.search(", ".join(response.headers.get_list("www-authenticate"))[:4096])
        return found is None or found[1].lower() in ("", "invalid_token")


@with_suggestions("BearerAuth")
class BearerAuth(BearerTokenAuth):
    """Send a bearer token with every request (RFC 6750).

    If you pass a function, it is called for each request; concurrent requests share one call. With
    `expires`, the token is used for that many seconds, or until a response with status 401 says
    that it is no longer valid. In this case, the function is called again, and the request is sent
    a second time.

    Args:
        token: the token, or a function that returns the current token. In AsyncClient it may be a
            coroutine function.
        expires: seconds for which a token from the function is valid, or None.

    Raises:
        InvalidHeader: the token is empty or contains other characters than visible ASCII.
        TypeError: the token is neither a str nor a function. Or, when sending with Client: the
            function is async.
        ValueError: `expires` is not greater than 0, or `token` is not a function.
    """

    __slots__ = ("_expires", "_function", "_value")

    def __init__(self, token: str | _GetToken, *, expires: float | None = None) -> None:
        check_number("expires", expires, above=0, unit="seconds", optional=True)
        if expires is not None and not callable(token):
            raise ValueError("expires needs a function that returns the token")
        super().__init__()
        self._function = token if callable(token) else None
        self._value = "" if callable(token) else f"Bearer {validate_token(token)}"
        self._expires = expires

    @property
    def _fetches_token(self) -> bool:  # type: ignore[override]  # else an attribute of the class
        """Return whether a function has to be called."""
        return self._function is not None

    def known_header(self) -> str | None:
        """Return the value of Authorization, None if a function returns the token."""
        return self._value or None

    @property
    def functions(self) -> tuple[Function, ...]:
        """Return the function that returns tokens."""
        return () if self._function is None else (self._function,)

    def auth_flow(self, request: ClientRequest) -> AuthFlow:
        """Yield the request with its Authorization."""
        value = self._value
        if self._function is not None:  # called by an Auth of the user
            value = f"Bearer {validate_token(self._function())}"
        request.headers["Authorization"] = value
        yield request

    def steps(self, now: Callable[[], float]) -> Steps:
        """Call the function."""
        assert self._function is not None
        begun = now()
        token = validate_token((yield FunctionCall(self._function)))
        expires = self._expires
        if expires is None:
            return CachedToken(token, is_cached=False)
        return CachedToken(token, begun + expires)


def is_valid_token(token: object) -> bool:
    """Return whether a value can be sent as a token: visible ASCII."""
    return isinstance(token, str) and _VISIBLE.fullmatch(token) is not None


def validate_token(token: object) -> str:
    """Return the token.

    Raises:
        TypeError: it is not a str.
        InvalidHeader: it is empty or contains other characters than visible ASCII.
    """
    if not isinstance(token, str):
        raise TypeError(f"a bearer token must be a str, not {type(token).__name__}")
    if not is_valid_token(token):
        is_header = token[:7].lower() == "bearer "
        hint = "; leave out 'Bearer', which is added" if is_header else ""
        raise InvalidHeader(f"A bearer token must be visible ASCII without blanks{hint}")
    return token
