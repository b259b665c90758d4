"""A mock of the network: routes and their responses, for every client of this process.

It replaces the engines, so redirects, cookies, credentials, retries and middleware work as usual,
even in clients that the test has no access to. See curlhttp._runtime.network.
"""

from __future__ import annotations

import inspect
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from curlhttp._http.body import read_whole
from curlhttp._http.errors import client_closed
from curlhttp._http.headers import check_method
from curlhttp._http.redaction import display_url, is_secret_header, redact_text
from curlhttp._http.request import ClientRequest
from curlhttp._http.url import URL, parse_url
from curlhttp._runtime.engine import ByteStream, Engine
from curlhttp._runtime.network import NetworkOverride, OverriddenEngine, network, now, wall
from curlhttp.exceptions import RequestException
from curlhttp.testing._scripted import (
    Answer,
    Fault,
    ScriptedAttempt,
    ScriptedEngine,
    ScriptedRace,
    Sent,
    Step,
    parse_fields,
    pause_until,
    to_step,
)

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    from curlhttp._http.inputs import HeadersInput, JSONInput

    class Conditions(TypedDict, total=False):
        """Conditions in addition to the method and the URL; see Pattern."""

        params: Mapping[str, object] | None
        headers: Mapping[str, object] | None
        json: object
        content: bytes | str | None
        data: Mapping[str, object] | None


# --- Patterns: which requests match a route, and how another request differs ---

URLPattern: TypeAlias = "str | URL | re.Pattern[str] | Callable[[Sent], object] | None"
"""The URLs of a route: a URL, in which `*` matches anything without a slash and `**` anything; a
regular expression to search for; a function that returns whether a Sent matches; or None for all.
"""

_STAR = "\ufdd0"  # for a wildcard in text that was decoded, where "*" is itself
_HOST_STAR = "curlhttpstar"  # for a wildcard in a host, where the URL parser refuses "*"
_AUTHORITY = r"(?<=//)[^/?#]*"
_MISSING = object()
_LONGEST_SHOWN = 200  # characters of a value in a message


class Pattern:
    """Match requests by method, URL, headers and body.

    Args:
        method: in upper case; None for any.
        url: see URLPattern; if it has a query, the request must have the same one, in any order.
            The name `*` in it stands for any further parameters.
        params: all names and values of the query; see headers for values. None for any.
        headers: some headers of the request, by name. A value is text, a regular expression to
            search for, any object that is equal to it, or None if there must be no such header.
        json: the body, read as JSON; ... for any.
        content: the body; None for any.
        data: all names and values of a form; None for any.
    """

    def __init__(
        self,
        method: str | None,
        url: URLPattern,
        *,
        params: Mapping[str, object] | None = None,
        headers: Mapping[str, object] | None = None,
        json: object = ...,
        content: bytes | str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        self._method = method
        self._url = url
        self._headers = dict(headers or {})
        self._json = json
        self._content = content.encode() if isinstance(content, str) else content
        self._data = None if data is None else _to_fields(data)
        self._params = None if params is None else _to_fields(params)
        self._base: re.Pattern[str] | None = None
        if url is not None and not isinstance(url, re.Pattern) and not callable(url):
            # A URL is as it will be sent, which may be raw.
            base, query = _split_url(str(url)) if isinstance(url, URL) else _split_pattern(str(url))
            self._base = _compile_wildcards(base, "*")
            if query:
                self._params = {**_parse_query(query), **(self._params or {})}
        self.needs_body: bool = (
            json is not ... or content is not None or data is not None or callable(url)
        )

    def differences(self, sent: Sent) -> list[tuple[int, str]]:
        """Return how the head of a request differs, as pairs of a weight and a text."""
        found = []
        if self._method not in (None, sent.method):
            found.append((2, f"method: {sent.method}, not {self._method}"))
        if (url := self._find_url_difference(sent)) is not None:
            found.append((4, url))
        if self._params is not None:
            found += _find_field_differences("params", self._params, sent.params)
        found += self._find_header_differences(sent)
        return found

    def body_differences(self, sent: Sent) -> list[tuple[int, str]]:
        """Return how the body of a request differs, likewise."""
        found = []
        if callable(self._url) and not self._url(sent):
            found.append((4, f"url: {_get_name(self._url)}() returned false"))
        if self._content is not None and self._content != sent.body:
            found.append((1, f"content: {_format(sent.body)}, not {_format(self._content)}"))
        if self._data is not None:
            form = parse_fields(sent.body.decode("utf-8", "replace"))
            found += _find_field_differences("data", self._data, form)
        if self._json is not ...:
            found += [(1, text) for text in self._find_json_differences(sent)]
        return found

    def _find_url_difference(self, sent: Sent) -> str | None:
        if isinstance(self._url, re.Pattern) and not self._url.search(sent.url):
            return f"url: {self._url.pattern} was not found in it"
        if self._base is None or self._base.fullmatch(base := _strip_query(sent.url)):
            return None
        return f"url: {display_url(base)}, not {self._format_url()}"

    def _find_header_differences(self, sent: Sent) -> list[tuple[int, str]]:
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
                text = "differs" if secret else f"is {_format(value)}, not {_format(wanted)}"
                found.append((1, f"headers: {name} {text}"))
        return found

    def _find_json_differences(self, sent: Sent) -> list[str]:
        try:
            value = json.loads(sent.body)
        except ValueError:
            return [f"json: the body is not JSON: {_format(sent.body)}"]
        return [f"json: {text}" for text in _find_json_differences("$", value, self._json)]

    def _format_url(self) -> str:
        if self._url is None:
            return "any URL"
        if isinstance(self._url, re.Pattern):
            return f"URLs with {self._url.pattern}"
        return f"{_get_name(self._url)}()" if callable(self._url) else display_url(str(self._url))

    def __str__(self) -> str:
        """Return method and URL for a message."""
        return f"{self._method or 'any method'} {self._format_url()}"


# --- URLs ---


def _strip_query(url: str) -> str:
    return re.split("[?#]", url, maxsplit=1)[0]


def _split_pattern(text: str) -> tuple[str, str]:
    """Return a URL pattern in canonical form, as the part before the query and the query."""
    marked = re.sub(_AUTHORITY, lambda match: match[0].replace("*", _HOST_STAR), text, count=1)
    try:
        url = str(parse_url(marked))
    except RequestException as error:
        raise type(error)(str(error).replace(_HOST_STAR, "*")) from None
    base, query = _split_url(url)
    return base.replace(_HOST_STAR, "*"), query


def _split_url(url: str) -> tuple[str, str]:
    base, _, query = url.partition("#")[0].partition("?")
    return base, query


def _compile_wildcards(text: str, star: str) -> re.Pattern[str]:
    star = re.escape(star)
    pattern = re.escape(text).replace(star * 2, ".*").replace(star, "[^/]*")
    return re.compile(pattern, re.DOTALL)


class _Wildcards(str):
    """A name or value in the query of a pattern, with wildcards."""

    _pattern: re.Pattern[str]

    def __new__(cls, marked: str) -> _Wildcards:
        made = super().__new__(cls, marked.replace(_STAR, "*"))
        made._pattern = _compile_wildcards(marked, _STAR)
        return made

    def fits(self, value: object) -> bool:
        """Return whether a name or value matches."""
        return isinstance(value, str) and self._pattern.fullmatch(value) is not None


def _parse_query(query: str) -> dict[str, object]:
    """Return the fields of the query of a pattern."""

    def decode(value: str | list[str]) -> object:
        if isinstance(value, list):
            return list(map(decode, value))
        return _Wildcards(value) if _STAR in value else value

    # "%2A" is a star, and no wildcard.
    fields = parse_fields(query.replace("*", _STAR))
    return {
        _Wildcards(name) if _STAR in name else name: decode(value) for name, value in fields.items()
    }


# --- values ---


def _to_fields(wanted: Mapping[str, object]) -> dict[str, object]:
    return {str(name): _to_text(value) for name, value in wanted.items() if value is not None}


def _to_text(value: object) -> object:
    """Return a value as the client encodes it in a query or form."""
    if isinstance(value, (list, tuple)):
        texts = [_to_text(each) for each in value]
        return texts[0] if len(texts) == 1 else texts
    if isinstance(value, bytes):
        return value.decode()
    return str(value) if isinstance(value, (int, float)) else value


def _is_like(wanted: object, value: object) -> bool:
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.search(value) is not None
    if isinstance(wanted, _Wildcards):
        return wanted.fits(value)
    if isinstance(wanted, list) and isinstance(value, list):
        return len(wanted) == len(value) and all(map(_is_like, wanted, value))
    return bool(wanted == value)


def _find_field_differences(
    what: str, wanted: Mapping[str, object], found: Mapping[str, object]
) -> list[tuple[int, str]]:
    texts, further = [], [name for name in found if name not in wanted]
    for name, value in wanted.items():
        names = [name] if name in found else []
        if isinstance(name, _Wildcards):
            names = [each for each in further if name.fits(each)]
            further = [each for each in further if each not in names]
            if name.strip("*") == value == "":
                continue  # of any further parameters
        if not names:
            texts.append(f"there is no {name}")
        texts += [
            f"{_format_field(each, found[each])}, not {_format_field(name, value)}"
            for each in names
            if not _is_like(value, found[each])
        ]
    texts += [f"there is {_format_field(name, found[name])}" for name in further]
    return [(1, f"{what}: {text}") for text in texts]


def _find_json_differences(at: str, value: object, wanted: object) -> list[str]:
    """Return the differences of two values, with paths such as $.items[0].id."""
    if wanted == value:
        return []
    if isinstance(value, dict) and isinstance(wanted, dict):
        texts = [f"there is no {at}.{name}" for name in wanted if name not in value]
        texts += [f"there is {at}.{name}" for name in value if name not in wanted]
        for name in wanted:
            if name in value:
                texts += _find_json_differences(f"{at}.{name}", value[name], wanted[name])
        return texts
    if isinstance(value, list) and isinstance(wanted, list) and len(value) == len(wanted):
        texts = []
        for at_index, (one, other) in enumerate(zip(value, wanted, strict=True)):
            texts += _find_json_differences(f"{at}[{at_index}]", one, other)
        return texts
    if is_secret_header(at.rpartition(".")[2]):
        return [f"{at} differs"]
    return [f"{at} is {_format(value)}, not {_format(wanted)}"]


def _format_field(name: str, value: object) -> str:
    shown = redact_text(f"{name}={value}" if isinstance(value, str) else f"{name}={value!r}")
    return shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "..."


def _format(value: object) -> str:
    text = repr(value.pattern if isinstance(value, re.Pattern) else value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def _get_name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


# --- Routes: which requests match, and the responses to them ---

Choice: TypeAlias = "Callable[[Sent], Step | Awaitable[Step]]"
"""A function that returns the step for a request."""


class Route:
    """Respond to requests that match a pattern.

    Attributes:
        calls: a Sent for each request that it responded to, oldest first.
        pattern: which requests match.
        choose: the function that was passed to respond(), or None.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.calls: list[Sent] = []
        self.pattern: Pattern = pattern
        self._step: Answer | Fault = Answer()
        self._steps: Iterator[Step] | None = None
        self.choose: Choice | None = None
        self._ahead: Step | None = None  # the next of the steps, once has_more() looked for it

    @property
    def called(self) -> bool:
        """Return whether a request matched."""
        return bool(self.calls)

    @property
    def call_count(self) -> int:
        """Return how many requests matched."""
        return len(self.calls)

    def respond(
        self,
        answer: Step | Iterable[Step] | Choice = 200,
        *,
        headers: HeadersInput | None = None,
        content: bytes | str | Iterable[bytes] = b"",
        json: JSONInput = None,
        delay: float = 0.0,
        pace: float = 0.0,
        error: RequestException | None = None,
    ) -> Route:
        """Set the response, and return this route.

        Args:
            answer: a status code, which the other arguments add to; a step, which is an Answer, a
                Fault or an exception; an iterable of steps, one per request, after which the route
                no longer matches; or a function that returns the step for a Sent. For AsyncClient,
                it may be a coroutine function.
            headers: see Answer for these and the following arguments.
            content: the body; see Answer.
            json: the body as JSON.
            delay: seconds until the head is received.
            pace: seconds before each piece of the body.
            error: raised after the content.

        Raises:
            TypeError: `answer` is none of these, or there are other arguments although it is not a
                status code.
        """
        self.choose, self._steps = None, None
        if isinstance(answer, int):
            self._step = Answer(
                answer, headers, content, delay=delay, pace=pace, error=error, json=json
            )
            return self
        if any((headers, content, json, delay, pace, error)):
            raise TypeError(
                "pass headers and the like to Answer(...), or pass a status code to respond()"
            )
        if callable(answer):
            self.choose = answer
        elif isinstance(answer, (Answer, Fault, RequestException)):
            self._step = to_step(answer)
        else:
            self._steps = map(to_step, answer)
        return self

    def raises(self, error: RequestException | type[RequestException] | Fault) -> Route:
        """Make each matching request fail, and return this route.

        Args:
            error: a RequestException, its class, or a fault such as reset().

        Raises:
            TypeError: it is a kind of error that no client raises.
        """
        if isinstance(error, type) and issubclass(error, RequestException):
            error = error(f"{error.__name__} of a mock")
        if not isinstance(error, (RequestException, Fault)):
            raise TypeError(f"clients raise subclasses of RequestException, not {error!r}")
        self.choose, self._steps, self._step = None, None, to_step(error)
        return self

    def has_more(self) -> bool:
        """Return whether there is a step for one more request."""
        if self._steps is None or self._ahead is not None:
            return True
        self._ahead = next(self._steps, None)
        return self._ahead is not None

    def take(self) -> Answer | Fault:
        """Return the next step; call it only if has_more() returned True."""
        if self._steps is None:
            return self._step
        step, self._ahead = self._ahead, None
        assert step is not None
        return to_step(step)

    def __repr__(self) -> str:
        return f"<Route {self.pattern}, {self.call_count} calls>"


_SHOWN = 10  # routes in the message about an unmatched request


class Mock:
    """Replace the network for all clients of this process, while in `with`.

    It serves every client that has no other transport, including clients that were created earlier:
    Client, AsyncClient, streams, maps, downloads, and the drop-in for requests. The first route
    that matches a request responds to it. A request that matches no route raises AssertionError.

    Args:
        base_url: prefix for the URLs of routes that begin with a slash.
        assert_all_called: fail at the end if a route was never called.
        real_time: let delays and waits of clients take their time; without it they take none.

    Attributes:
        base_url: the argument; you may change it, like the next two attributes.
        assert_all_called: the argument.
        real_time: the argument.
        requests: a Sent for each attempt, oldest first.
        unmatched: the requests that matched no route; if there are any, the mock fails at the end.
        routes: all routes, in the order in which they are tried.
        sleeps: the waits of clients that were skipped, in seconds, such as those before retries and
            for limits.

    Raises:
        AssertionError: at the end, if there are unmatched requests or uncalled routes.
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
        """Add a route; it responds with status 200 until you call `respond()` or `raises()` on it.

        Args:
            method: an HTTP method; None for any.
            url: an absolute URL, or the part after base_url. In it, `*` matches anything without a
                slash, and `**` anything, also in names and values of a query. In the query, a sole
                `*` allows more parameters; a URL without a query matches any. It may also be a
                compiled regular expression to search for, a function that returns whether a Sent
                matches, or None for all URLs.
            conditions: params, headers, json, content and data that a request must have. A request
                may have additional headers, but no additional params or data. Values may be
                compiled regular expressions, or objects that are equal to them, such as
                unittest.mock.ANY.

        Raises:
            InvalidMethod, InvalidURL, MissingSchema: no request can have this method or URL.
            TypeError: a condition is unknown.
        """
        if isinstance(url, str) and url.startswith("/"):
            url = self.base_url.rstrip("/") + url
        pattern = Pattern(
            None if method is None else check_method(method),
            url,
            **conditions,
        )
        made = Route(pattern)
        self.routes.append(made)
        return made

    def get(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Add a route for GET; see route."""
        return self.route("GET", url, **conditions)

    def options(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Add a route for OPTIONS; see route."""
        return self.route("OPTIONS", url, **conditions)

    def head(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Add a route for HEAD; see route."""
        return self.route("HEAD", url, **conditions)

    def post(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Add a route for POST; see route."""
        return self.route("POST", url, **conditions)

    def put(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Add a route for PUT; see route."""
        return self.route("PUT", url, **conditions)

    def patch(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Add a route for PATCH; see route."""
        return self.route("PATCH", url, **conditions)

    def delete(self, url: URLPattern = None, **conditions: Unpack[Conditions]) -> Route:
        """Add a route for DELETE; see route."""
        return self.route("DELETE", url, **conditions)

    def allow(self, *hosts: str) -> None:
        """Send requests to some hosts over the network.

        Args:
            hosts: such as "localhost", "localhost:8000" or "*.internal".
        """
        self._allowed += [host.lower() for host in hosts]

    def reset(self) -> None:
        """Remove all routes and recorded requests."""
        with self._lock:
            for found in (self.requests, self.unmatched, self.routes, self.sleeps, self._allowed):
                found.clear()

    # time

    def advance(self, seconds: float) -> None:
        """Move the clock of all clients forward by some seconds, until the end of the mock."""
        with self._lock:
            if self._is_on:  # because a stream may be read afterwards
                self._skipped += seconds
                network.skipped += seconds

    def skip(self, seconds: float) -> bool:
        """Return whether a client's wait is skipped, after moving the clock."""
        if self.real_time:
            return False
        self.sleeps.append(seconds)
        self.advance(seconds)
        return True

    def make_race(self) -> ScriptedRace | None:
        """Return a race on the clock of all clients, None if its time is real."""
        return None if self.real_time else ScriptedRace(now, self.move_to)

    async def move_to(self, moment: float) -> None:
        """Move the clock of all clients forward to a time."""
        if (seconds := moment - now()) > 0:
            self.advance(seconds)

    # requests

    def engine_for(self, request: ClientRequest, engine: OverriddenEngine) -> Engine | None:
        """Return the engine that responds to a request, or None if its host is allowed."""
        if self._allowed:
            url = request.url
            names = (url.host, f"{url.host}:{url.port}")
            if any(fnmatchcase(name, host) for host in self._allowed for name in names):
                return None
        if engine.is_closed:
            raise client_closed(request)
        return _MockEngine(self, engine)

    async def play(self, request: ClientRequest, at: float) -> Answer | Fault:
        """Return the step for a request.

        Args:
            request: a complete request.
            at: when it was sent, in seconds on the engine's clock.

        Raises:
            AssertionError: it matches no route.
        """
        url = str(request.url.without_userinfo())
        request.request_identity_of_range()
        sent = Sent(at, request.method, url, request.headers.copy(), b"", True)
        is_read = False
        for route in list(self.routes):
            if route.pattern.differences(sent):
                continue
            # Only if the body matters: a request that does not arrive sends no body either.
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
        self, route: Route, step: Answer | Fault, request: ClientRequest, sent: Sent, is_read: bool
    ) -> Answer | Fault:
        if route.choose is not None:
            try:
                chosen = route.choose(sent)
                step = to_step(await chosen if inspect.isawaitable(chosen) else chosen)
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
        lines = [f"the mock has no route for {sent.method} {display_url(sent.url)}"]
        if not self.routes:
            return f"{lines[0]}: it has no routes"
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
            lines.append(f"  it has no step left, after {nearest.call_count} requests")
        lines += [f"other: {route.pattern}" for _, route in found[1:_SHOWN]]
        return "\n".join(lines)

    # start and stop

    def start(self) -> None:
        """Start to replace the network."""
        self._before, self._is_on = network.mocked, True
        network.mock(self)

    def stop(self) -> None:
        """Restore the network and the clock."""
        if network.mocked is self:
            network.mock(self._before)
            self._before = None
        with self._lock:
            network.skipped -= self._skipped
            self._skipped, self._is_on = 0.0, False

    def check(self) -> None:
        """Fail if a request matched no route, or if a route was never called.

        Raises:
            AssertionError: the message names the request, or the routes.
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
    """Return a Mock, which replaces the network while in `with`.

        with curlhttp.testing.mock() as network:
            network.get("https://api.test/users/*").respond(json={"id": 7})
            ...

    Args:
        base_url: prefix for the URLs of routes that begin with a slash.
        assert_all_called: fail at the end if a route was never called.
        real_time: let delays and waits of clients take their time; without it they take none.
    """
    return Mock(base_url, assert_all_called=assert_all_called, real_time=real_time)


class _MockEngine(ScriptedEngine):
    """Respond to one request from a mock's routes, on the clock of all clients."""

    def __init__(self, mocked: Mock, real: OverriddenEngine) -> None:
        super().__init__(())
        self._mock = mocked
        self._real = real

    def now(self) -> float:
        return now()

    def wall(self) -> float:
        return wall()

    async def connect(self, request: ClientRequest) -> ByteStream:
        """Refuse to connect, because a mock speaks only HTTP.

        Raises:
            AssertionError: always.
        """
        raise AssertionError(
            f"{request}: the mock has no WebSockets; use ASGITransport, or allow the host"
        )

    async def _begin(self, request: ClientRequest) -> ScriptedAttempt:
        started = now()
        return ScriptedAttempt(request, await self._mock.play(request, started), started)

    async def _wait_until(self, moment: float) -> None:
        await self._wait(moment - now())

    async def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            return
        if self._mock.real_time:
            await self._real.runtime.sleep(seconds)
        else:
            moment = now() + seconds
            await pause_until(moment)
            await self._mock.move_to(moment)
