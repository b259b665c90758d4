"""Fetch the robots.txt of each origin once, and refuse or delay what it asks to.

The layer that judges is below redirects and above what makes attempts, so that each hop is judged
and a refusal is no failure of the server. The one that delays is next to the limits, so that each
attempt is delayed, and an answer from the cache is not.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._features.auth.flow import fetch_once
from curlhttp._features.auth.token_auth import CachedToken, TokenCache
from curlhttp._features.error_copies import copy_error
from curlhttp._features.limits.layer import limits
from curlhttp._features.limits.policy import RateLimit
from curlhttp._features.redirects import build_redirect, get_location
from curlhttp._features.robots.policy import (
    ALLOW_ALL,
    FAILURE_SECONDS,
    MAX_BYTES,
    MAX_REDIRECTS,
    MAX_RULES,
    PATH,
    Robots,
    Verdict,
    judge_error,
    judge_status,
    parse,
)
from curlhttp._http.auth import NO_AUTH
from curlhttp._http.errors import deadline_error
from curlhttp._http.fork import register
from curlhttp._http.headers import Headers
from curlhttp._http.request import READ_BY_LAYER, ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.timeout import Timeout
from curlhttp._runtime.engine import Layer, Runtime, Send
from curlhttp._runtime.run import Offload
from curlhttp.exceptions import (
    BlockedAddress,
    CircuitBreakerOpen,
    ClientClosed,
    DeadlineExceeded,
    PoolTimeout,
    RequestException,
    RobotsDisallowed,
    StoreError,
)

_KEY = "curlhttp.robots"  # the extension of requests for a robots.txt: the seconds that each has
_KEPT_HEADERS = ("User-Agent", "Accept-Encoding")
# Bytes to parse, and rules to match, that would hold up an event loop.
_LONG, _MANY = 32 * 1024, 2000

# Errors that say nothing about the server.
_LOCAL = (BlockedAddress, CircuitBreakerOpen, StoreError)


def start(settings: Settings, host: Host) -> None:
    """Check the setting, and make the store of this client.

    Raises:
        ImportError: the extra is not installed.
        TypeError, ValueError: see Robots.
    """
    policy = settings["robots"]
    if not isinstance(policy, Robots):
        policy = Robots(policy)
    try:
        import protego  # noqa: F401
    except ImportError as error:
        raise ImportError("robots= needs protego: pip install 'curlhttp[robots]'") from error
    settings["robots"] = _RobotsStore(policy)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that refuses what robots.txt disallows."""
    store: _RobotsStore = context.settings["robots"]
    hsts = context.settings.get("hsts")
    assert context.subrequest is not None  # because subrequests do not pass this layer
    fetcher = _Fetcher(
        store,
        context.runtime,
        context.host.run_blocking,
        context.subrequest,
        None if hsts is None else hsts.upgrade,
        is_seen=not context.settings.keys().isdisjoint(("middleware", "attempt_middleware")),
    )

    def wrap(send: Send) -> Send:
        async def judged(request: ClientRequest) -> Response:
            if request.url.path != PATH:  # always allowed (RFC 9309, section 2.2.2)
                verdict = await fetcher.get(request)
                if verdict.size < _MANY:
                    is_allowed = verdict.allows(request.url)
                else:
                    is_allowed = await context.host.run_blocking(verdict.allows, request.url)
                if not is_allowed:
                    raise _make_error(request, verdict, store.policy.user_agent)
            return await send(request)

        return judged

    return wrap


def make_delay_layer(context: LayerContext) -> Layer:
    """Return the layer that keeps the Crawl-delay, and limits the time of a robots.txt."""
    store: _RobotsStore = context.settings["robots"]
    now, outcomes = context.runtime.now, context.host.totals.outcomes

    def wrap(send: Send) -> Send:
        def delayed(request: ClientRequest) -> Awaitable[Response]:
            seconds = (request.extensions or {}).get(_KEY)
            if seconds is not None:
                # Here, because its waits for limits say nothing about the server.
                request, ends = request.copy(), now() + seconds
                given = request.deadline
                request.deadline = ends if given is None else min(ends, given)
                return send(request)
            limit = store.get_limit(request.url.origin)
            if limit is None:
                return send(request)
            return limits(limit, None, context.runtime, outcomes)(send)(request)

        return delayed

    return wrap


def _make_error(request: ClientRequest, verdict: Verdict, user_agent: str) -> RequestException:
    """Return the error for a request that is not allowed."""
    if not verdict.reason and verdict.error is not None:
        error = copy_error(verdict.error)
        error.request = request
        return error
    file = f"{request.url.scheme}://{request.url.authority}{PATH}"
    if verdict.reason:
        why = f"{file} {verdict.reason}, so everything there counts as disallowed (RFC 9309)"
    else:
        why = f"{file} disallows it for {user_agent!r}"
    refusal = RobotsDisallowed(f"{request}: {why}; it was not sent", request=request)
    refusal.is_lasting = not verdict.reason
    refusal.__cause__ = verdict.error
    return refusal


class _Entry(TokenCache):
    """The verdict for an origin, and the queue of requests that wait for it.

    Attributes:
        limit: keeps its Crawl-delay, or None.
        size: what it counts of MAX_RULES.
    """

    limit: RateLimit | None = None
    size = 0


class _RobotsStore:
    """What the origins of a client allow, the least recently used ones first. Thread-safe.

    Args:
        policy: of the client.
    """

    def __init__(self, policy: Robots) -> None:
        self.policy: Robots = policy
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._size = 0
        self._after_fork_in_child()
        register(self)

    def _after_fork_in_child(self) -> None:
        """Renew the lock, because a thread of the parent may have held it."""
        self._lock = threading.Lock()

    def open(self, origin: str) -> _Entry:
        """Return the entry of an origin, which may be new."""
        with self._lock:
            entry = self._entries.get(origin)
            if entry is None:
                entry = self._entries[origin] = _Entry()
                self._drop_oldest()
            else:
                self._entries.move_to_end(origin)
            return entry

    def get_limit(self, origin: str) -> RateLimit | None:
        """Return the limit that keeps the Crawl-delay of an origin, None for no limit."""
        entry = self._entries.get(origin)
        return None if entry is None else entry.limit

    def note(self, origin: str, verdict: Verdict, now: float) -> None:
        """Set the Crawl-delay of an origin, and drop the oldest if there are too many rules.

        Args:
            origin: of the file.
            verdict: new.
            now: monotonic seconds.
        """
        delay = verdict.delay
        with self._lock:
            entry = self._entries.get(origin)
            if entry is None:  # dropped meanwhile
                return
            self._size += verdict.size - entry.size
            entry.size = verdict.size
            if not delay:
                entry.limit = None
            elif entry.limit is None or entry.limit.rate != 1 / delay:
                entry.limit = RateLimit(1 / delay)
                entry.limit._try_acquire(origin, now)  # for robots.txt, which was a request, too
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        entries = self._entries
        while len(entries) > self.policy.max_origins or (
            self._size > MAX_RULES and len(entries) > 1
        ):
            self._size -= entries.popitem(last=False)[1].size


class _Fetcher:
    """Fetches each robots.txt once for all requests that wait for it.

    Args:
        store: of the client.
        runtime: of the engine.
        run_blocking: calls a function that may block.
        make_send: returns the function that sends a subrequest.
        upgrade: changes http to https for hosts that require it; None without HSTS.
        is_seen: functions of the user see the response, and may read it.
    """

    def __init__(
        self,
        store: _RobotsStore,
        runtime: Runtime,
        run_blocking: Offload,
        make_send: Callable[[], Send],
        upgrade: Callable[[ClientRequest], ClientRequest] | None,
        *,
        is_seen: bool,
    ) -> None:
        self._store = store
        self._policy = store.policy
        self._runtime = runtime
        self._run_blocking = run_blocking
        self._make_send = make_send
        self._send: Send | None = None  # made by the first request
        self._upgrade = upgrade
        self._is_seen = is_seen

    async def get(self, request: ClientRequest) -> Verdict:
        """Return what robots.txt says to a request's origin.

        Raises:
            RequestException: the request's time has run out, or the client was closed.
        """
        now = self._runtime.now
        entry = self._store.open(request.url.origin)
        kept = entry.latest
        if kept is None or not _is_fresh(kept, now()):
            kept = await fetch_once(
                entry,
                request,
                lambda: self._fetch(request),
                lambda found: _is_fresh(found, now()),
                "fetches robots.txt",
                now,
                self._runtime.make_waiter,
                request.url.origin,
            )
        verdict: Verdict = kept.value
        return verdict

    async def _fetch(self, request: ClientRequest) -> CachedToken:
        now, origin = self._runtime.now, request.url.origin
        seconds = self._policy.max_age
        try:
            verdict = await self._download(self._make_request(request))
        except RequestException as error:
            if request.is_late(now()):
                raise deadline_error(request, was_sent=False) from error
            if _is_own_fault(error):
                error.request = request  # the caller's, by which it knows its results
                raise
            if isinstance(error, _LOCAL) or error.is_local:
                return CachedToken(Verdict(error=error), is_cached=False)
            verdict = judge_error(error)
        if verdict.reason:
            seconds = min(seconds, FAILURE_SECONDS)
        self._store.note(origin, verdict, now())
        return CachedToken(verdict, now() + seconds)

    def _make_request(self, request: ClientRequest) -> ClientRequest:
        """Return the request for the robots.txt that a request needs, without its credentials."""
        made = request.as_kind(ClientRequest)
        made.method, made.url = "GET", request.url.without_userinfo().join(PATH)
        found = [(name, made.get_header(name)) for name in _KEPT_HEADERS]
        made.headers = Headers([(name, value) for name, value in found if value is not None])
        made.headers["Cache-Control"] = "max-age=0"  # so that nobody adds to max_age
        made.body = made.cookies = made.jar = made.max_response_size = None
        made.auth = NO_AUTH
        made.stream, made.follow_redirects, made.decode = True, False, True
        limits, total = request.timeout, self._policy.timeout
        made.timeout = Timeout(
            total=total, connect=limits.connect, read=limits.read, pool=limits.pool
        )
        made.extensions = {_KEY: total}
        if not self._is_seen:
            made.extensions[READ_BY_LAYER] = True
        return made

    async def _download(self, request: ClientRequest) -> Verdict:
        """Return what a robots.txt says, or the one that it redirects to."""
        send = self._send = self._send or self._make_send()
        for _ in range(MAX_REDIRECTS + 1):
            response = await send(request)
            location = get_location(response.status_code, response.headers)
            if location is None:
                return await self._judge(response)
            await _discard(response)
            try:
                request = build_redirect(request, response.status_code, location, frozenset())
            except RequestException:  # it leads nowhere
                break
            if self._upgrade is not None:
                request = self._upgrade(request)
        return ALLOW_ALL  # it is "unavailable"

    async def _judge(self, response: Response) -> Verdict:
        verdict = judge_status(response.status_code)
        if verdict is not None:
            await _discard(response)
            return verdict
        body = await _read_start(response, MAX_BYTES + 1)
        if len(body) <= _LONG:
            return parse(body, self._policy)
        found: Verdict = await self._run_blocking(parse, body, self._policy)
        return found


def _is_fresh(kept: CachedToken, now: float) -> bool:
    return kept.expires_at is not None and now < kept.expires_at


def _is_own_fault(error: RequestException) -> bool:
    """Return whether only this request has failed, so that another one has to try."""
    if isinstance(error, DeadlineExceeded):
        return not error.request_sent  # it waited for a limit or a connection
    return isinstance(error, (ClientClosed, PoolTimeout))


async def _discard(response: Response) -> None:
    with suppress(RequestException):  # its head says all
        await response.discard()


async def _read_start(response: Response, size: int) -> bytes:
    """Return the start of a body, and abandon the rest."""
    if not isinstance(response, BaseStreamedResponse):  # a middleware made it
        return response.content[:size]
    try:
        read, pieces, left = response._decoding(), list[bytes](), size
        while left > 0 and (piece := await read()):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)[:size]
    finally:
        response.abort()
