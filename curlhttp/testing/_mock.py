"""A mock of the network: routes and what they answer, for every client of this process.

It stands in below the engines, so that redirects, cookies, credentials, retries and middleware of
clients that it never saw work as ever. See curlhttp._engine.network.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from curlhttp._engine.engine import ByteStream, Engine
from curlhttp._engine.network import NetworkOverride, Waits, network, now, wall
from curlhttp._models.body import read_whole
from curlhttp._models.errors import client_closed
from curlhttp._models.headers import check_method
from curlhttp._models.request import Request
from curlhttp.testing._attempt import Attempted
from curlhttp.testing._engine import ScriptedEngine
from curlhttp.testing._pattern import Pattern, URLPattern
from curlhttp.testing._route import Route
from curlhttp.testing._script import Answer, Fault, as_step
from curlhttp.testing._sent import Sent

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    class Conditions(TypedDict, total=False):
        """What a request must have beside its method and URL; see Pattern."""

        params: Mapping[str, object] | None
        headers: Mapping[str, object] | None
        json: object
        content: bytes | str | None
        data: Mapping[str, object] | None


__all__ = ["Mock", "mock"]

_SHOWN = 10  # routes in the message about a request that none is for


class Mock:
    """Answer for the network, in `with`, whatever client of this process asks.

    That are all clients without a transport of their own, those that were made before it as well:
    Client, AsyncClient, streams, maps, downloads, and the drop-in for requests. The first route
    that a request fits takes it; one that fits none raises AssertionError.

    Args:
        base_url: goes before the URLs of routes that begin with a slash.
        assert_all_called: fail at the end if a route was never called.
        real_time: delays and the waits of clients take as long as they say; else no time.

    Attributes:
        base_url: may be changed, as the two below.
        assert_all_called: see there.
        real_time: see there.
        requests: a Sent for each attempt, oldest first.
        unmatched: those that no route was for: the end of the mock fails, too, if there are any.
        routes: all of them, in the order in which they are asked.
        sleeps: how long clients waited in no time, in seconds: between retries, for limits.
    """

    def __init__(
        self, base_url: str = "", *, assert_all_called: bool = True, real_time: bool = False
    ) -> None:
        self.base_url: str = base_url
        self.assert_all_called: bool = assert_all_called
        self.real_time: bool = real_time
        self.requests: list[Sent] = []
        self.unmatched: list[Sent] = []
        self.routes: list[Route] = []
        self.sleeps: list[float] = []
        self._allowed: list[str] = []
        self._lock = threading.RLock()
        self._before: NetworkOverride | None = None
        self._skipped = 0.0
        self._is_on = False

    # routes

    def route(
        self, method: str | None = None, url: URLPattern = None, **conditions: Unpack[Conditions]
    ) -> Route:
        """Return a new route for some requests; it answers 200 until it is told otherwise.

        Args:
            method: None for every one.
            url: an absolute URL, or the rest of one after base_url. `*` in it stands for anything
                without a slash, `**` for anything; without a query it stands for any query.
                Or a compiled regular expression to be found in the URL, or a function that returns
                whether a Sent is meant; None for every one.
            conditions: params, headers, json, content and data that a request must have. Of
                headers there may be more, of the others not. Values may be compiled regular
                expressions, or equal to what they should be, such as unittest.mock.ANY.
        """
        if isinstance(url, str) and url.startswith("/"):
            url = self.base_url.rstrip("/") + url
        pattern = Pattern(
            None if method is None else check_method(method),
            url,
            params=conditions.get("params"),
            headers=conditions.get("headers"),
            json=conditions.get("json", ...),
            content=conditions.get("content"),
            data=conditions.get("data"),
        )
        made = Route(pattern)
        self.routes.append(made)
        return made

    def get(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Return a new route for GET; see route."""
        return self.route("GET", url, **conditions)

    def options(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Return a new route for OPTIONS; see route."""
        return self.route("OPTIONS", url, **conditions)

    def head(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Return a new route for HEAD; see route."""
        return self.route("HEAD", url, **conditions)

    def post(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Return a new route for POST; see route."""
        return self.route("POST", url, **conditions)

    def put(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Return a new route for PUT; see route."""
        return self.route("PUT", url, **conditions)

    def patch(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Return a new route for PATCH; see route."""
        return self.route("PATCH", url, **conditions)

    def delete(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Return a new route for DELETE; see route."""
        return self.route("DELETE", url, **conditions)

    def allow(self, *hosts: str) -> None:
        """Let requests to some hosts through to the network.

        Args:
            hosts: such as "localhost", "localhost:8000" or "*.internal".
        """
        self._allowed += [host.lower() for host in hosts]

    def reset(self) -> None:
        """Forget all routes and requests."""
        with self._lock:
            for found in (self.requests, self.unmatched, self.routes, self.sleeps, self._allowed):
                found.clear()

    # time

    def advance(self, seconds: float) -> None:
        """Let time go by for all clients, until the end of the mock."""
        with self._lock:
            if self._is_on:  # a stream may be read afterwards
                self._skipped += seconds
                network.skipped += seconds

    def skip(self, seconds: float) -> bool:
        """Return whether a client's wait takes no time."""
        if self.real_time:
            return False
        self.sleeps.append(seconds)
        self.advance(seconds)
        return True

    # requests

    def engine_for(self, request: Request, engine: Waits) -> Engine | None:
        """Return what answers a request, or None for a host that is allowed."""
        if self._allowed:
            url = request.url
            names = (url.host, f"{url.host}:{url.port}")
            if any(fnmatchcase(name, host) for host in self._allowed for name in names):
                return None
        if engine.is_closed:
            raise client_closed(request)
        return _MockEngine(self, engine)

    async def play(self, request: Request, at: float) -> Answer | Fault:
        """Return what a request is answered.

        Args:
            request: complete.
            at: when it was sent, on the engine's clock.

        Raises:
            AssertionError: no route is for it.
        """
        url = str(request.url.without_userinfo())
        sent = Sent(at, request.method, url, request.headers.copy(), b"", True)
        is_read = False
        for route in list(self.routes):
            if route.pattern.differences(sent):
                continue
            # Only where it counts: a request that does not arrive sends no body either.
            if not is_read and (route.pattern.needs_body or route.choose is not None):
                sent, is_read = sent._replace(body=await read_whole(request.body)), True
            if route.pattern.needs_body and route.pattern.body_differences(sent):
                continue
            with self._lock:
                if not route.has_more():
                    continue
                step = route.take()
            return await self._call(route, step, request, sent, is_read)
        if not is_read:
            sent = sent._replace(body=await read_whole(request.body))
        self._note(sent, self.unmatched)
        raise AssertionError(self._explain(sent))

    async def _call(
        self, route: Route, step: Answer | Fault, request: Request, sent: Sent, is_read: bool
    ) -> Answer | Fault:
        if route.choose is not None:
            try:
                chosen = route.choose(sent)
                step = as_step(await chosen if inspect.isawaitable(chosen) else chosen)
            except BaseException:
                self._note(sent, route.calls)
                raise
        arrives = isinstance(step, Answer) or step.error.request_sent
        if arrives and not is_read:
            sent = sent._replace(body=await read_whole(request.body))
        self._note(sent if arrives else sent._replace(body=b"", arrived=False), route.calls)
        return step

    def _note(self, sent: Sent, also: list[Sent]) -> None:
        with self._lock:
            self.requests.append(sent)
            also.append(sent)

    def _explain(self, sent: Sent) -> str:
        from curlhttp._models.redaction import display_url

        lines = [f"the mock has no route for {sent.method} {display_url(sent.url)}"]
        if not self.routes:
            return f"{lines[0]}: it has none at all"
        found = sorted(
            (
                (route.pattern.differences(sent) + route.pattern.body_differences(sent), route)
                for route in self.routes
            ),
            key=lambda each: sum(weight for weight, _ in each[0]),
        )
        differences, nearest = found[0]
        lines.append(f"nearest: {nearest.pattern}")
        lines += [f"  {text}" for _, text in differences]
        if not differences:
            lines.append(f"  its answers are used up, after {nearest.call_count} requests")
        lines += [f"other: {route.pattern}" for _, route in found[1:_SHOWN]]
        return "\n".join(lines)

    # the beginning and the end

    def start(self) -> None:
        """Stand in for the network from now on."""
        self._before, self._is_on = network.mocked, True
        network.mock(self)

    def stop(self) -> None:
        """Give the network, and time, back."""
        if network.mocked is self:
            network.mock(self._before)
            self._before = None
        with self._lock:
            network.skipped -= self._skipped
            self._skipped, self._is_on = 0.0, False

    def check(self) -> None:
        """Fail if a request found no route, or a route no request.

        Raises:
            AssertionError: says which.
        """
        if self.unmatched:
            raise AssertionError(self._explain(self.unmatched[0]))
        unused = [str(route.pattern) for route in self.routes if not route.called]
        if unused and self.assert_all_called:
            raise AssertionError(f"the mock has routes that were not called: {', '.join(unused)}")

    def __enter__(self) -> Mock:
        self.start()
        return self

    def __exit__(self, kind: object, *details: object) -> None:
        self.stop()
        if kind is None:
            self.check()


def mock(base_url: str = "", *, assert_all_called: bool = True, real_time: bool = False) -> Mock:
    """Return a mock of the network for `with`; arguments are those of Mock.

        with curlhttp.testing.mock() as network:
            network.get("https://api.test/users/*").respond(json={"id": 7})
            ...

    Args:
        base_url: goes before the URLs of routes that begin with a slash.
        assert_all_called: fail at the end if a route was never called.
        real_time: delays and the waits of clients take as long as they say; else no time.
    """
    return Mock(base_url, assert_all_called=assert_all_called, real_time=real_time)


class _MockEngine(ScriptedEngine):
    """Answer one request from a mock's routes, in the time of all clients."""

    def __init__(self, mocked: Mock, real: Waits) -> None:
        super().__init__(())
        self._mock = mocked
        self._real = real

    def now(self) -> float:
        return now()

    def wall(self) -> float:
        return wall()

    async def connect(self, request: Request) -> ByteStream:
        """Refuse: a mock speaks no other protocol.

        Raises:
            AssertionError: always.
        """
        raise AssertionError(
            f"{request}: the mock has no WebSockets; use ASGITransport, or allow its host"
        )

    async def _begin(self, request: Request) -> Attempted:
        begun = now()
        return Attempted(request, await self._mock.play(request, begun), begun)

    async def _wait_until(self, moment: float) -> None:
        await self._wait(moment - now())

    async def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            return
        if self._mock.real_time:
            await self._real.sleep(seconds)
        else:
            self._mock.advance(seconds)
