"""Answer requests from the cache and store responses; _features/cache/policy.py decides which.

A request never fails because of the store, which logs its errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import hishel

from curlhttp._client.chain import LayerContext
from curlhttp._client.streamed_response import BaseStreamedResponse, StoredBody, WrappedIncoming
from curlhttp._features.cache.policy import (
    SAFE,
    CacheLookup,
    FreshnessDecision,
    StoredResponse,
    build_head,
)
from curlhttp._http.decoding import decode_content
from curlhttp._http.request import KEEP_CODED, ClientRequest
from curlhttp._http.response import Head, Response
from curlhttp._http.timings import Timings
from curlhttp._runtime.engine import Incoming, Layer, Runtime, Send, decode_body
from curlhttp.exceptions import BlockedAddress, ClientClosed, RequestException, ResponseTooLarge

if TYPE_CHECKING:
    from curlhttp._features.cache.caching import ClientCaching

# Errors after which no stored response is served, because the server did not fail.
_NOT_SERVER_FAULTS = (BlockedAddress, ClientClosed, ResponseTooLarge)
_NO_TIMINGS = Timings(0, 0, 0, 0, 0, 0, False, None)
_MAX_DECODED = 64 * 2**20  # bytes to decode to see whether an encoded body is complete
_NAME = "curlhttp"  # of this cache in Cache-Status (RFC 9211)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that answers requests from a client's cache."""
    clock = context.runtime
    client: ClientCaching = context.settings["cache"]
    policy, store, offload = client.policy, client.store, client.offload
    guard_route = client.guard_route

    def wrap(send: Send) -> Send:
        async def through(request: ClientRequest) -> Response:
            if request.choose_route is not None:  # the key depends on the route
                request.route = request.choose_route(request.url)
            request.route = guard_route(request.route)  # another client may have set it
            if request.method not in SAFE:
                response = await send(request)
                keys = policy.get_invalidated_keys(request, response)
                if keys:
                    await offload(store.clear, keys)
                return _mark(response, "fwd=method")
            why = policy.get_bypass_reason(request)
            if why is not None:
                return _mark(await send(request), why)
            response = await _CachedRequest(client, clock, request).answer(send)
            client.totals.add("cache_hits" if response.from_cache else "cache_misses")
            return response

        return through

    return wrap


def _mark(response: Response, status: str, *, from_cache: bool = False) -> Response:
    response.cache_status, response.from_cache = f"{_NAME}; {status}", from_cache
    return response


class _CachedRequest:
    """One request that the cache may answer."""

    def __init__(self, client: ClientCaching, clock: Runtime, request: ClientRequest) -> None:
        self._client = client
        self._policy, self._store = client.policy, client.store
        self._offload = client.offload
        self._clock = clock
        self._request = request
        self._key = client.policy.key(request)

    async def answer(self, send: Send) -> Response:
        request, policy = self._request, self._policy
        stored = await self._find()
        if stored is None:
            if policy.only_if_cached(request):
                return self._gateway_timeout()
            return await self._fetch(send, None, "uri-miss")
        lookup = policy.evaluate(request, stored.entry, self._clock.wall())
        if lookup.decision is FreshnessDecision.REVALIDATE:
            if policy.only_if_cached(request):
                return self._gateway_timeout()
            if policy.has_condition(request):
                return await self._fetch(send, None, "stale")
            return await self._revalidate(send, stored, lookup)
        status = f"hit; ttl={int(lookup.ttl)}"
        if policy.has_condition(request):
            if policy.is_unchanged(request, stored.entry):
                head = Head(build_head(stored.entry, lookup.age, "HTTP/1.1 304 Not Modified"))
                return _mark(self._build(head, b"", _NO_TIMINGS), status, from_cache=True)
            return self._serve(stored, lookup.age, status)
        if lookup.decision is FreshnessDecision.SERVE_AND_REVALIDATE:
            status += "; detail=stale-while-revalidate"
            # In a copy, because the caller may change the request or read its body.
            again = _CachedRequest(self._client, self._clock, request.copy())
            again._request.stream, again._request.deadline = False, None
            name = (self._key, stored.entry.id)
            self._client.refresh(name, lambda own: again._revalidate(own, stored, lookup))
        return self._serve(stored, lookup.age, status)

    async def _find(self) -> StoredResponse | None:
        def choose(entries: list[hishel.Entry]) -> hishel.Entry | None:
            return self._policy.choose(self._request, entries)

        found: StoredResponse | None = await self._offload(self._store.find, self._key, choose)
        return found

    def _gateway_timeout(self) -> Response:
        """Return the response to only-if-cached without a stored response (RFC 9111, 5.2.1.7)."""
        made = Response.of(self._request, 504)
        return _mark(self._build(made._head, b"", made.timings), "detail=only-if-cached")

    # from the server

    async def _fetch(self, send: Send, old: StoredResponse | None, why: str) -> Response:
        """Send the request unchanged, and store the response instead of the old one."""
        sent = self._request if self._request.method == "HEAD" else _keep_coded(self._request)
        began = self._clock.wall()
        response = await send(sent)
        return await self._receive(response, old, f"fwd={why}", began)

    async def _revalidate(
        self, send: Send, stored: StoredResponse, lookup: CacheLookup
    ) -> Response:
        """Validate a stored response with the server (RFC 9111, section 4.3)."""
        if self._request.method == "HEAD":
            return await self._fetch(send, None, "stale")
        sent = self._policy.make_conditional(_keep_coded(self._request), stored.entry)
        began = self._clock.wall()
        try:
            response = await send(sent)
        except RequestException as error:
            if not lookup.on_error or isinstance(error, _NOT_SERVER_FAULTS):
                raise
            return self._serve(stored, lookup.age, "fwd=stale; detail=stale-if-error")
        code = response.status_code
        if lookup.on_error and self._policy.is_error(code):
            await response.discard()
            status = f"fwd=stale; fwd-status={code}; detail=stale-if-error"
            return self._serve(stored, lookup.age, status)
        if code != 304:
            return await self._receive(response, stored, "fwd=stale", began)
        await response.discard()
        now = self._clock.wall()
        fresh = self._policy.freshen(stored.entry, response, began, now)
        if fresh is None:  # the 304 is about another response
            await self._offload(self._store.remove, stored.entry)
            return await self._fetch(send, None, "miss")
        await self._offload(self._store.update, self._key, fresh)
        age = self._policy.evaluate(self._request, fresh, now).age
        return self._serve(
            StoredResponse(fresh, stored.body), age, "fwd=stale; fwd-status=304", response
        )

    async def _receive(
        self, response: Response, old: StoredResponse | None, status: str, began: float
    ) -> Response:
        """Return the server's response, and store it, now or after its body is read."""
        request = response.request = self._request
        _mark(response, status)
        entry = self._policy.make_entry(request, response, began, self._clock.wall())

        def put(body: bytes, is_whole: bool) -> bool:
            whole = is_whole or _is_complete(response, body)
            return entry is not None and whole and self._store.put(self._key, entry, body)

        async def keep(body: bytes, is_whole: bool) -> None:
            if await self._offload(put, body, is_whole):
                _mark(response, f"{status}; stored")

        if entry is None and old is not None and response.status_code < 500:
            await self._offload(self._store.remove, old.entry)
        if isinstance(response, BaseStreamedResponse):
            if entry is not None:

                async def keep_read(body: bytes) -> None:
                    await keep(body, response.has_decoded_all())

                most = self._store.max_body
                response.wrap_incoming(lambda found: _StoringIncoming(found, most, keep_read))
            return response
        is_decoded = response._coded is not None
        body = _get_wire_body(response)
        if entry is not None and body is not None and len(body) <= self._store.max_body:
            await keep(body, is_decoded)
        return response

    # from the store

    def _serve(
        self, stored: StoredResponse, age: float, status: str, confirmed: Response | None = None
    ) -> Response:
        """Return a stored response, with the cookies of the 304 that validated it."""
        request = self._request
        block = build_head(stored.entry, age)
        if confirmed is not None and confirmed.sets_cookies:
            cookies = confirmed.headers.get_list("set-cookie")
            lines = "".join([f"set-cookie: {cookie}\r\n" for cookie in cookies])
            block = block[:-2] + lines.encode("latin-1", "replace") + b"\r\n"
        head = Head(block)
        body = b"" if request.method == "HEAD" else stored.body
        most = request.max_response_size
        if most is not None and len(body) > most:
            raise ResponseTooLarge(
                f"the response body is larger than max_response_size={most} bytes", request=request
            )
        response = self._build(head, body, _NO_TIMINGS if confirmed is None else confirmed.timings)
        if confirmed is not None:
            response.attempts = confirmed.attempts
        return _mark(response, status, from_cache=True)

    def _build(self, head: Head, body: bytes, times: Timings) -> Response:
        """Return a streamed or a buffered response, as the caller requested."""
        request = self._request
        if request.stream and not (request.follow_redirects and head.redirects):
            return self._client.streamed(request, StoredBody(head, [body], times))
        response = Response(request, head, body, times)
        if body and request.decode:
            decode_body(response, request)
        return response


def _keep_coded(request: ClientRequest) -> ClientRequest:
    """Return a request whose response keeps the encoded body, which is what is stored."""
    if request.stream or not request.decode:
        return request
    request = request.copy()
    request.decode = KEEP_CODED
    return request


def _get_wire_body(response: Response) -> bytes | None:
    """Return the encoded body of a buffered response; None if it was not kept."""
    coded, response._coded = response._coded, None
    if coded is not None:
        return coded
    request = response.request
    is_decoded = request.decode and not (request.follow_redirects and response.is_redirect)
    if is_decoded and response.content and "content-encoding" in response.headers:
        return None
    return response.content


def _is_complete(response: Response, body: bytes) -> bool:
    """Return whether a body that was not decoded is complete according to its content coding.

    If only the coding shows that a body was cut, it could not be decoded from the cache later.
    """
    try:
        decode_content(body, response.headers, _MAX_DECODED)
    except RequestException:
        return False
    return True


class _StoringIncoming(WrappedIncoming):
    """Wraps a response to store its body after it is read, unless it is too large."""

    def __init__(
        self, incoming: Incoming, most: int, keep: Callable[[bytes], Awaitable[None]]
    ) -> None:
        super().__init__(incoming)
        self._room = most
        self._keep = keep
        self._pieces: list[bytes] | None = []

    async def read(self) -> bytes:
        piece = await self._incoming.read()
        pieces = self._pieces
        if pieces is None:
            return piece
        if not piece:
            self._pieces = None
            await self._keep(b"".join(pieces))
            return piece
        self._room -= len(piece)
        if self._room < 0:
            self._pieces = None
        else:
            pieces.append(piece)
        return piece
