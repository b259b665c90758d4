"""Track one map: take items, count running requests, keep results for the consumer.

It sends nothing and never waits. One thread uses it, or the tasks of one event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from curlhttp._client.request_builder import DownloadOptions, RequestOptions, check_options
from curlhttp._models.errors import check_flags, check_number
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp._models.url import URL
from curlhttp.exceptions import ClientClosed, RequestException, UnrewindableBodyError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from curlhttp._client.base import BaseClient
    from curlhttp._models.inputs import UserRequest

Item: TypeAlias = "str | bytes | URL | ClientRequest | UserRequest"
MapResult: TypeAlias = Response | RequestException
Job: TypeAlias = tuple[int, ClientRequest]

if TYPE_CHECKING:
    # What a map yields: Response if it raises errors.
    Result_co = TypeVar("Result_co", default=MapResult, covariant=True)
else:
    from typing import TypeVar

    Result_co = TypeVar("Result_co", covariant=True)

_URLS = (str, bytes, URL)
_END: Any = object()  # Any: the last entry in the queue of items


class MapScheduler:
    """Build requests from items, and keep their results until the consumer takes them.

    Args:
        client: completes and validates requests.
        build: builds a request from a method, a URL and options, like the client's methods.
        requests: URLs and requests.
        queued: whether a task awaits the items and puts them into the queue.
        concurrency: the maximum number of running requests. Running requests and results ahead
            of the consumer are at most twice as many.
        ordered: whether to return results in the order of the items.
        return_exceptions: whether to return the RequestException of a failed request, or raise it.
        options: for requests from URLs.

    Attributes:
        running: the number of running requests.
        queue: the awaited items; None if items are taken from an iterable.
        error: the error to raise after the last result, or None. It came from the iterable.

    Raises:
        TypeError: the requests are not a suitable iterable.
        ValueError: the concurrency is below one.
    """

    def __init__(
        self,
        client: BaseClient,
        build: Callable[[str, str | bytes | URL, RequestOptions], ClientRequest],
        requests: Iterable[Item],
        *,
        queued: bool = False,
        concurrency: int,
        ordered: bool,
        return_exceptions: bool,
        options: DownloadOptions,
    ) -> None:
        if isinstance(requests, _URLS):
            raise TypeError("map takes an iterable of URLs and requests, not one URL")
        if not queued and not hasattr(requests, "__iter__"):
            kind = type(requests).__name__
            raise TypeError(f"map takes an iterable of URLs and requests, not {kind}")
        check_flags(ordered=ordered, return_exceptions=return_exceptions)
        check_number("concurrency", concurrency, least=1, whole=True)
        if options:
            other = "for other requests, pass client.build_request(method, url, ...) as an item"
            check_options(client, "map", options, DownloadOptions, other)
            client.build_request("GET", "http://localhost/", **options)  # raises if invalid
        self.running: int = 0
        self.queue: deque[Item] | None = None
        if queued:
            self.queue = deque()
            self._items: Iterator[Item] = iter(self.queue.popleft, _END)
        else:
            self._items = iter(requests)
        self._client = client
        self._build = build
        self._options = cast("RequestOptions", options)  # a subset of those
        self._concurrency = concurrency
        self._window = 2 * concurrency
        self._taken = 0
        self._is_over = False  # no more items are taken
        self.error: BaseException | None = None
        self._results: _Unordered | _Ordered = _Ordered() if ordered else _Unordered()
        self._return_exceptions = return_exceptions
        self._bodies: set[int] = set()  # ids of the bodies of running requests

    # items

    def next(self) -> Job | None:
        """Return the next request to send; None if there is no item or no room for one."""
        while self.running < self._concurrency and self._may_take():
            try:
                item = next(self._items)
            except StopIteration:
                self._is_over = True
                break
            except Exception as error:
                self.fail(error)
                break
            job = self._make_job(item)
            if job is not None:
                return job
        return None

    def _may_take(self) -> bool:
        if self._is_over or self.running + len(self._results) >= self._window:
            return False
        if self._client.is_closed:
            self.fail(ClientClosed("the client was closed before all requests were sent"))
            return False
        return self.queue is None or bool(self.queue)

    def _make_job(self, item: Item) -> Job | None:
        number = self._taken
        try:
            request = self._make_request(item)
        except RequestException as error:
            self._taken += 1
            self._results.put(number, self._to_result(error, item))
            return None
        except Exception as error:  # not a valid item
            self.fail(error)
            return None
        self._taken += 1
        self.running += 1
        return number, request

    def _make_request(self, item: Item) -> ClientRequest:
        if isinstance(item, _URLS):
            return self._build("GET", item, self._options)
        if not isinstance(item, ClientRequest) and not hasattr(item, "prepare"):
            kind = type(item).__name__
            made = "client.build_request(method, url) makes one"
            raise TypeError(f"map takes URLs and requests, not {kind}; {made}")
        request = self._client.complete(item)
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
        self._is_over = True
        self.error = error

    # awaited items

    @property
    def wants_items(self) -> bool:
        """Return whether there is room for another item in the queue."""
        assert self.queue is not None
        ahead = self.running + len(self._results) + len(self.queue)
        return ahead < self._window and not self._is_over

    def put(self, item: Item) -> None:
        """Put an item into the queue."""
        assert self.queue is not None
        self.queue.append(item)

    def put_end(self, error: BaseException | None) -> None:
        """Mark the end of the queue, with the error of the iterable if it raised one."""
        self.error = error
        self.put(_END)

    # results

    def settle(self, job: Job, outcome: Response | BaseException) -> None:
        """Add the outcome of a request.

        Args:
            job: returned by next().
            outcome: a Response or an exception.
        """
        number, request = job
        self.running -= 1
        if request.body is not None:
            self._bodies.discard(id(request.body))
        if isinstance(outcome, BaseException):
            self._results.put(number, self._to_result(outcome, request))
        else:
            self._results.put(number, outcome)

    def _to_result(self, error: BaseException, item: Item) -> RequestException | _ErrorResult:
        """Return the entry for an error among the results."""
        if isinstance(error, RequestException):
            if error.request is None:
                made = UnbuiltRequest(item) if isinstance(item, _URLS) else item
                error.request = made  # for people, and as documented
            if self._return_exceptions:
                # Its traceback would keep this map alive. Raising it starts a new one.
                return error.with_traceback(None)
        self._is_over = True
        return _ErrorResult(error)

    @property
    def has_result(self) -> bool:
        """Return whether there is a result for the consumer, or an error to raise."""
        return bool(self._results.is_ready())

    @property
    def is_done(self) -> bool:
        """Return whether no requests are running, and no items are left."""
        return self._is_over and not self.running

    def take(self) -> MapResult:
        """Return the next result; `has_result` must be true.

        Raises:
            BaseException: the request failed with it.
        """
        result = self._results.take()
        if isinstance(result, _ErrorResult):
            raise result.error
        return result

    def close(self) -> None:
        """Drop all items and results, and close a generator of items."""
        self._is_over = True
        self._results = _Unordered()
        items, self._items = self._items, iter(())
        if isinstance(items, GeneratorType):
            items.close()


class _ErrorResult:
    """An error to raise instead of a result."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Unordered(deque[MapResult | _ErrorResult]):
    """Results in the order of completion."""

    is_ready = deque.__len__
    take = deque.popleft

    def put(self, number: int, result: MapResult | _ErrorResult) -> None:
        self.append(result)


class _Ordered(dict[int, MapResult | _ErrorResult]):
    """Results in the order of the items."""

    put = dict.__setitem__
    _next = 0

    def is_ready(self) -> bool:
        return self._next in self

    def take(self) -> MapResult | _ErrorResult:
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
