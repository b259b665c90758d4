"""A mock of the network: routes and their answers, for every client of this process.

It replaces the engines, so that redirects, cookies, credentials, retries and middleware work as
usual, also in clients that the test never sees. See curlhttp._engine.network.
"""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from curlhttp._engine.engine import ByteStream, Engine
from curlhttp._engine.network import NetworkOverride, Waits, network, now, wall
from curlhttp._models.body import read_whole
from curlhttp._models.errors import client_closed
from curlhttp._models.headers import check_method
from curlhttp._models.redaction import display_url, is_secret_header, redact_text
from curlhttp._models.request import Request
from curlhttp._models.url import parse_url
from curlhttp.exceptions import RequestException
from curlhttp.testing._scripted import (
    Answer,
    Fault,
    ScriptedAttempt,
    ScriptedEngine,
    Sent,
    Step,
    as_step,
    fields_of,
)

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    from curlhttp._models.inputs import JSON, HeadersInput
    from curlhttp._models.url import URL

    class Conditions(TypedDict, total=False):
        """What a request must have in addition to its method and URL; see Pattern."""

        params: Mapping[str, object] | None
        headers: Mapping[str, object] | None
        json: object
        content: bytes | str | None
        data: Mapping[str, object] | None


__all__ = ["Mock", "Pattern", "Route", "Sent", "URLPattern", "fields_of", "mock"]


# --- Which requests a route is for, and in what another request differs from that ---

URLPattern: TypeAlias = "str | URL | re.Pattern[str] | Callable[[Sent], object] | None"
"""Which URLs: one, with `*` for what has no slash and `**` for anything; what `re` finds in it; a
function of the Sent; None for every one."""

_ANYTHING, _SEGMENT = "curlhttpanything", "curlhttpsegment"  # survive the parser as they are
_MISSING = object()
_LONGEST_SHOWN = 200  # characters of a value in a message


class Pattern:
    """Hold what a request must be like.

    Args:
        method: in upper case, or None for every one.
        url: see URLPattern; a query in it is exactly that of the request, in any order.
        params: names and values of the query, which has no others; see header values.
        headers: some headers of the request, by name; a value is text, what `re` finds in it,
            anything that is equal to it, or None where there must be no such header.
        json: what the body holds; ... for anything.
        content: the body, or None for any.
        data: names and values of a form, which has no others; None for any.
    """

    def __init__(
        self,
        method: str | None,
        url: URLPattern,
        *,
        params: Mapping[str, object] | None,
        headers: Mapping[str, object] | None,
        json: object,
        content: bytes | str | None,
        data: Mapping[str, object] | None,
    ) -> None:
        self._method = method
        self._url = url
        self._headers = dict(headers or {})
        self._json = json
        self._content = content.encode() if isinstance(content, str) else content
        self._data = None if data is None else _fields(data)
        self._params = None if params is None else _fields(params)
        self._base: re.Pattern[str] | None = None
        if url is not None and not isinstance(url, re.Pattern) and not callable(url):
            base, query = _canonical(str(url))
            self._base = _as_regex(base)
            if query:
                self._params = {**fields_of(query), **(self._params or {})}
        self.needs_body: bool = (
            json is not ... or content is not None or data is not None or callable(url)
        )

    def differences(self, sent: Sent) -> list[tuple[int, str]]:
        """Return in what a request differs: how much that weighs, and what to say of it."""
        found = []
        if self._method not in (None, sent.method):
            found.append((2, f"method: {sent.method}, not {self._method}"))
        if (url := self._url_difference(sent)) is not None:
            found.append((4, url))
        if self._params is not None:
            found += _field_differences("params", self._params, sent.params)
        found += self._header_differences(sent)
        return found

    def body_differences(self, sent: Sent) -> list[tuple[int, str]]:
        """Return in what the body of a request differs, likewise."""
        found = []
        if callable(self._url) and not self._url(sent):
            found.append((4, f"url: {_name(self._url)} says no"))
        if self._content is not None and self._content != sent.body:
            found.append((1, f"content: {_shown(sent.body)}, not {_shown(self._content)}"))
        if self._data is not None:
            form = fields_of(sent.body.decode("utf-8", "replace"))
            found += _field_differences("data", self._data, form)
        if self._json is not ...:
            found += [(1, text) for text in self._json_differences(sent)]
        return found

    def _url_difference(self, sent: Sent) -> str | None:
        if isinstance(self._url, re.Pattern) and not self._url.search(sent.url):
            return f"url: nothing in it is like {self._url.pattern}"
        if self._base is None or self._base.fullmatch(base := _base_of(sent.url)):
            return None
        return f"url: {display_url(base)}, not {self._shown_url()}"

    def _header_differences(self, sent: Sent) -> list[tuple[int, str]]:
        found = []
        for name, wanted in self._headers.items():
            value: object = sent.headers.get(name, _MISSING)
            if value is _MISSING:
                if wanted is not None:
                    found.append((1, f"headers: there is no {name}"))
            elif wanted is None:
                found.append((1, f"headers: there is {name}"))
            elif not _is_like(wanted, value):
                secret = is_secret_header(name) or name.lower() in sent.headers.sensitive
                said = "is another" if secret else f"is {_shown(value)}, not {_shown(wanted)}"
                found.append((1, f"headers: {name} {said}"))
        return found

    def _json_differences(self, sent: Sent) -> list[str]:
        try:
            value = json.loads(sent.body)
        except ValueError:
            return [f"json: the body is none: {_shown(sent.body)}"]
        return [f"json: {text}" for text in _json_differences("$", value, self._json)]

    def _shown_url(self) -> str:
        if self._url is None:
            return "any URL"
        if isinstance(self._url, re.Pattern):
            return f"URLs like {self._url.pattern}"
        return f"{_name(self._url)}()" if callable(self._url) else display_url(str(self._url))

    def __str__(self) -> str:
        """Return method and URL, fit for a message."""
        return f"{self._method or 'any method'} {self._shown_url()}"


# --- URLs ---


def _base_of(url: str) -> str:
    return re.split("[?#]", url, maxsplit=1)[0]


def _canonical(text: str) -> tuple[str, str]:
    """Return a URL pattern in canonical form without its query, and that."""
    marked = text.replace("**", _ANYTHING).replace("*", _SEGMENT)
    base, query, *_ = [*re.split("[?#]", str(parse_url(marked)), maxsplit=1), ""]
    return base, query.replace(_ANYTHING, "**").replace(_SEGMENT, "*").partition("#")[0]


def _as_regex(base: str) -> re.Pattern[str]:
    text = re.escape(base).replace(_ANYTHING, ".*").replace(_SEGMENT, "[^/]*")
    return re.compile(text, re.DOTALL)


# --- values ---


def _fields(wanted: Mapping[str, object]) -> dict[str, object]:
    return {str(name): _text(value) for name, value in wanted.items() if value is not None}


def _text(value: object) -> object:
    """Return a value as it stands in a query or form, as the client would put it there."""
    if isinstance(value, (list, tuple)):
        texts = [_text(each) for each in value]
        return texts[0] if len(texts) == 1 else texts
    if isinstance(value, bytes):
        return value.decode()
    return str(value) if isinstance(value, (int, float)) else value


def _is_like(wanted: object, value: object) -> bool:
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.search(value) is not None
    return bool(wanted == value)


def _field_differences(
    what: str, wanted: Mapping[str, object], found: Mapping[str, object]
) -> list[tuple[int, str]]:
    said = []
    for name, value in wanted.items():
        if name not in found:
            said.append(f"there is no {name}")
        elif not _is_like(value, found[name]):
            said.append(f"{_shown_field(name, found[name])}, not {_shown_field(name, value)}")
    said += [f"there is {_shown_field(name, found[name])}" for name in found if name not in wanted]
    return [(1, f"{what}: {text}") for text in said]


def _json_differences(at: str, value: object, wanted: object) -> list[str]:
    """Return where two values differ, by paths such as $.items[0].id."""
    if wanted == value:
        return []
    if isinstance(value, dict) and isinstance(wanted, dict):
        said = [f"there is no {at}.{name}" for name in wanted if name not in value]
        said += [f"there is {at}.{name}" for name in value if name not in wanted]
        for name in wanted:
            if name in value:
                said += _json_differences(f"{at}.{name}", value[name], wanted[name])
        return said
    if isinstance(value, list) and isinstance(wanted, list) and len(value) == len(wanted):
        said = []
        for at_index, (one, other) in enumerate(zip(value, wanted, strict=True)):
            said += _json_differences(f"{at}[{at_index}]", one, other)
        return said
    if is_secret_header(at.rpartition(".")[2]):
        return [f"{at} is another"]
    return [f"{at} is {_shown(value)}, not {_shown(wanted)}"]


def _shown_field(name: str, value: object) -> str:
    shown = redact_text(f"{name}={value}" if isinstance(value, str) else f"{name}={value!r}")
    return shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "..."


def _shown(value: object) -> str:
    text = repr(value.pattern if isinstance(value, re.Pattern) else value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def _name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


# --- A route of a mock: which requests it is for, and what it answers them ---

Choice: TypeAlias = "Callable[[Sent], Step | Awaitable[Step]]"
"""Chooses the step for a request."""


class Route:
    """What requests of one kind are answered.

    Attributes:
        calls: a Sent for each request that it took, oldest first.
        pattern: which requests it is for.
        choose: the function that was given to respond, or None.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.calls: list[Sent] = []
        self.pattern: Pattern = pattern
        self._step: Answer | Fault = Answer()
        self._steps: Iterator[Step] | None = None
        self.choose: Choice | None = None
        self._ahead: Step | None = None  # of the steps, the next one

    @property
    def called(self) -> bool:
        """Return whether it took a request."""
        return bool(self.calls)

    @property
    def call_count(self) -> int:
        """Return how many requests it took."""
        return len(self.calls)

    def respond(
        self,
        answer: Step | Iterable[Step] | Choice = 200,
        *,
        headers: HeadersInput | None = None,
        content: bytes | str | Sequence[bytes] = b"",
        json: JSON = None,
        delay: float = 0.0,
        pace: float = 0.0,
        error: RequestException | None = None,
    ) -> Route:
        """Set what it answers, and return the route.

        Args:
            answer: a status, of which the other arguments make an Answer; a step; steps, each for
                one request: after the last the route is for no more; or a function, which may be
                a coroutine function for AsyncClient, that returns a step for a Sent.
            headers: see Answer, as all others.
            content: the body.
            json: the body.
            delay: seconds.
            pace: seconds.
            error: what breaks the body off.

        Raises:
            TypeError: the answer is none, or is whole and there are other arguments.
        """
        rest = (headers, content, json, delay, pace, error)
        self.choose, self._steps = None, None
        if isinstance(answer, int):
            self._step = Answer(
                answer, headers, content, delay=delay, pace=pace, error=error, json=json
            )
            return self
        if any(rest):
            raise TypeError("give the rest of an answer to Answer(...), or a status to respond")
        if callable(answer):
            self.choose = answer
        elif isinstance(answer, (Answer, Fault, RequestException)):
            self._step = as_step(answer)
        else:
            self._steps = map(as_step, answer)
        return self

    def raises(self, error: RequestException | type[RequestException] | Fault) -> Route:
        """Set what each request of it fails with, and return the route.

        Args:
            error: a RequestException, its class, or a fault such as reset().

        Raises:
            TypeError: clients raise no such error.
        """
        if isinstance(error, type) and issubclass(error, RequestException):
            error = error(f"{error.__name__} of a mock")
        if not isinstance(error, (RequestException, Fault)):
            raise TypeError(f"a client raises RequestException and its kin, not {error!r}")
        self.choose, self._steps, self._step = None, None, as_step(error)
        return self

    def has_more(self) -> bool:
        """Return whether it has an answer to one more request."""
        if self._steps is None or self._ahead is not None:
            return True
        self._ahead = next(self._steps, None)
        return self._ahead is not None

    def take(self) -> Answer | Fault:
        """Return the next answer, after has_more said that there is one."""
        if self._steps is None:
            return self._step
        step, self._ahead = self._ahead, None
        assert step is not None
        return as_step(step)

    def __repr__(self) -> str:
        return f"<Route {self.pattern}, {self.call_count} calls>"


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

    async def _begin(self, request: Request) -> ScriptedAttempt:
        begun = now()
        return ScriptedAttempt(request, await self._mock.play(request, begun), begun)

    async def _wait_until(self, moment: float) -> None:
        await self._wait(moment - now())

    async def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            return
        if self._mock.real_time:
            await self._real.sleep(seconds)
        else:
            self._mock.advance(seconds)
