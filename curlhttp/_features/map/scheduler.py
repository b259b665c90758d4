"""Track one map: take items, count running requests, keep results for the consumer.

It sends nothing and never waits. One thread uses it, or the tasks of one event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from curlhttp._client.request_builder import check_options
from curlhttp._features.map.backlog import AT_ONCE, Backlog, Job, MapPlace
from curlhttp._http.errors import check_flags, check_number
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.url import URL
from curlhttp.exceptions import ClientClosed, RequestException, UnrewindableBodyError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from curlhttp._client.base import BaseClient
    from curlhttp._client.options import DownloadOptions, RequestOptions
    from curlhttp._http.inputs import UserRequest

Item: TypeAlias = "str | bytes | URL | ClientRequest | UserRequest"
MapResult: TypeAlias = Response | RequestException
if TYPE_CHECKING:
    # What a map yields: Response if it raises errors.
    Result_co = TypeVar("Result_co", default=MapResult, covariant=True)
else:
    from typing import TypeVar

    Result_co = TypeVar("Result_co", covariant=True)

_URLS = (str, bytes, URL)
_END: Any = object()  # Any: the last entry in the queue of items


class MapScheduler(Backlog):
    """Build requests from items, and keep their results until the consumer takes them.

    Args:
        client: completes and validates requests.
        requests: URLs and requests.
        queued: whether a task awaits the items and puts them into the queue.
        concurrency: the maximum number of running requests. Running requests and results ahead
            of the consumer are at most twice as many.
        backlog: the maximum number of items that wait for their host.
        ordered: whether to return results in the order of the items.
        return_exceptions: whether to return the RequestException of a failed request, or raise it.
        options: for requests from URLs.

    Attributes:
        queue: the awaited items; None if items are taken from an iterable.
        error: the error to raise after the last result, or None. It came from the iterable.

    Raises:
        TypeError: the requests are not a suitable iterable.
        ValueError: the concurrency is below one.
    """

    __slots__ = (
        *("_bodies", "_build", "_client", "_items", "_may_wait", "_options", "_results"),
        *("_return_exceptions", "_taken", "error", "queue"),
    )

    running: int
    has_more: bool
    _method, _takes = "map", "URLs and requests"
    _place = MapPlace

    def __init__(
        self,
        client: BaseClient,
        requests: Iterable[Item],
        *,
        queued: bool = False,
        concurrency: int,
        backlog: int,
        ordered: bool,
        return_exceptions: bool,
        options: DownloadOptions,
    ) -> None:
        method, takes = self._method, f"an iterable of {self._takes}"
        if isinstance(requests, _URLS):
            raise TypeError(f"{method} takes {takes}, not one URL")
        if not queued and not hasattr(requests, "__iter__"):
            kind = type(requests).__name__
            raise TypeError(f"{method} takes {takes}, not {kind}")
        check_flags(ordered=ordered, return_exceptions=return_exceptions)
        check_number("concurrency", concurrency, least=1, whole=True)
        check_number("backlog", backlog, least=0, whole=True)
        if options:
            other = "for other requests, pass client.build_request(method, url, ...) as an item"
            check_options(client, method, options, other)
            client.build_request("GET", "http://localhost/", **options)  # raises if invalid
        super().__init__(concurrency, backlog, ordered=ordered)
        self.queue: deque[Item] | None = None
        if queued:
            self.queue = deque()
            self._items: Iterator[Item] = iter(self.queue.popleft, _END)
        else:
            self._items = iter(requests)
        self._client = client
        self._build = client._build_verb_request
        self._options = cast("RequestOptions", options)  # a subset of those
        self._taken = 0
        self.error: BaseException | None = None
        self._results: _Unordered | _Ordered = _Ordered() if ordered else _Unordered()
        self._return_exceptions = return_exceptions
        self._bodies: set[int] = set()  # ids of the bodies of running requests
        self._may_wait = (
            client._chain.may_wait or client.limits.max_connections_per_host is not None
        )

    # items

    def next(self) -> Job | None:
        """Return the next request to send; None if there is no item or no room for one."""
        if self._due:
            if self._client.is_closed:
                self._drop_backlogs()
                self._fail_closed()
            elif (due := self._take_due(alternates=True)) is not None:
                return due
        while self.running < self._concurrency and self._ahead < self._window and self._reads:
            if self._client.is_closed:
                self._fail_closed()
                break
            if self.queue is not None and not self.queue:
                break
            try:
                item = next(self._items)
            except StopIteration:
                self.end_items()
                break
            except Exception as error:
                self.fail(error)
                break
            job = self._make_job(item)
            if job is not None:
                return job
            if self._put == AT_ONCE:
                break
        if self._put or self.has_more:
            self.has_more, self._put = self._put == AT_ONCE, 0
        return self._take_due(alternates=False) if self._due else None

    def _make_job(self, item: Item) -> Job | None:
        number = self._taken
        straight = None
        try:
            if isinstance(item, _URLS):
                straight = self._client._build_straight(item, self._options)
                request = straight or self._build("GET", item, self._options)
            else:
                request = self._make_request(item)
        except RequestException as error:
            self._taken += 1
            self._ahead += 1
            self._results.put(number, self._to_result(error, item))
            return None
        except Exception as error:  # not a valid item
            self.fail(error)
            return None
        self._taken += 1
        self._ahead += 1
        self.running += 1
        job = number, request, straight is not None
        if self._may_wait or (straight is None and request.retry is not None):
            return self._find_place(job)
        return job

    def _find_place(self, job: Job) -> Job | None:
        """Give a place to a request that may have to wait; None if it goes into a backlog."""
        number, request, is_straight = job
        if self.runtime is None or not self._most_waiting:
            return job
        if request.place is not None:  # the same request runs already
            request = request.copy()
            job = number, request, is_straight
        request.place = self._place(self)
        return None if self._hosts and self._put_back(job) else job

    def _make_request(self, item: ClientRequest | UserRequest) -> ClientRequest:
        if not isinstance(item, ClientRequest) and not hasattr(item, "prepare"):
            kind = type(item).__name__
            made = "client.build_request(method, url) makes one"
            raise TypeError(f"map takes URLs and requests, not {kind}; {made}")
        request = self._client._complete(item)
        if request.stream:
            raise ValueError(
                f"{request}: map cannot stream responses; send streamed requests separately"
            )
        return self._clone_shared_body(request)

    def _clone_shared_body(self, request: ClientRequest) -> ClientRequest:
        """Return the request with a body that no other running request is reading."""
        body = request.body
        if body is None or body.data is not None:
            return request
        if id(body) in self._bodies:
            clone = body.clone()
            if clone is None or clone is body:
                raise UnrewindableBodyError(
                    f"{request}: its body is being sent with another request; "
                    "pass a separate body for each",
                    request=request,
                )
            request, body = request.derive(body=clone), clone
        self._bodies.add(id(body))
        return request

    def fail(self, error: BaseException) -> None:
        """Take no more items. The error is raised after the results of earlier items."""
        self.end_items()
        self.error = error

    def _fail_closed(self) -> None:
        self.fail(ClientClosed("the client was closed before all requests were sent"))

    # awaited items

    @property
    def wants_items(self) -> bool:
        """Return whether there is room for another item in the queue."""
        assert self.queue is not None
        return self._ahead + len(self.queue) < self._window and self._reads and not self.has_more

    def put(self, item: Item) -> None:
        """Put an item into the queue."""
        assert self.queue is not None
        self.queue.append(item)

    def put_end(self, error: BaseException | None) -> None:
        """Mark the end of the queue, with the error of the iterable if it raised one."""
        self.error = error
        self.put(_END)

    # results

    def settle(self, job: Job, outcome: object) -> None:
        """Add the outcome of a request.

        Args:
            job: returned by next().
            outcome: a result, such as a Response, or an exception.
        """
        number, request, _ = job
        self.running -= 1
        if request.body is not None:
            self._bodies.discard(id(request.body))
        if self._gate:
            self._open_gate()
        if isinstance(outcome, BaseException):
            outcome = self._to_result(outcome, request)
        self._results.put(number, outcome)

    def _to_result(self, error: BaseException, item: Item) -> RequestException | ErrorResult:
        """Return the entry for an error among the results."""
        if isinstance(error, RequestException):
            if error.request is None:
                made = UnbuiltRequest(item) if isinstance(item, _URLS) else item
                error.request = made  # for people, and as documented
            if self._return_exceptions:
                # Its traceback would keep this map alive. Raising it starts a new one.
                return error.with_traceback(None)
        self.end_items()
        return ErrorResult(error)

    @property
    def has_result(self) -> bool:
        """Return whether there is a result for the consumer, or an error to raise."""
        return bool(self._results.is_ready())

    @property
    def has_many_results(self) -> bool:
        """Return whether the consumer has so many results that the next ones are not urgent."""
        return self._ahead - self.running > self._concurrency // 2

    @property
    def has_lull(self) -> bool:
        """Return whether half of the places are free, although all items that can be are sent."""
        return not self.has_result and self.running <= self._concurrency // 2

    @property
    def is_done(self) -> bool:
        """Return whether no requests are running, and no items are left."""
        return self._is_over and not self.running and not self.waiting

    def take(self) -> MapResult | None:
        """Return the next result, None if there is none.

        Raises:
            BaseException: the request failed with it.
        """
        results = self._results
        if not results.is_ready():
            return None
        self._ahead -= 1
        result = results.take()
        if type(result) is ErrorResult:
            raise result.error
        return result  # type: ignore[return-value]  # no isinstance, which is slow for all others

    def close(self) -> None:
        """Drop all items and results, and close a generator of items."""
        self._drop_waiting()
        self._results = _Unordered()
        items, self._items = self._items, iter(())
        if isinstance(items, GeneratorType):
            items.close()


class ErrorResult:
    """An error to raise instead of a result."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Unordered(deque[object]):
    """Results in the order of completion."""

    is_ready = deque.__len__
    take = deque.popleft

    def put(self, number: int, result: object) -> None:
        self.append(result)


class _Ordered(dict[int, object]):
    """Results in the order of the items."""

    put = dict.__setitem__
    _next = 0

    def is_ready(self) -> bool:
        return self._next in self

    def take(self) -> object:
        result = self.pop(self._next)
        self._next += 1
        return result


class UnbuiltRequest:
    """The `request` of an error, if no request could be built from a URL.

    Args:
        url: the item.
    """

    __slots__ = ("url",)

    method = "GET"

    def __init__(self, url: str | bytes | URL) -> None:
        self.url = url

    def __repr__(self) -> str:
        return f"<ClientRequest [{self.method}]>"  # the item may hold credentials
