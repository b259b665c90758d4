"""The last step of the flow: prepare a request for one attempt, and give it to an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from curlhttp._engine.engine import Engine, Exchange, HedgePlan
from curlhttp._engine.log import INFO, RequestLog, get_request_log, log
from curlhttp._flow.redirects import LEAST
from curlhttp._flow.streamed_response import Streamed
from curlhttp._models.redaction import HeadRedactor, escape_bytes
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.exceptions import DeadlineExceeded, RequestException, UnrewindableBodyError

__all__ = ["exchange", "exchange_in_loops", "fit", "logged", "note_head", "with_certificates"]


# --- Log each attempt to the logger "curlhttp"; _engine/log.py formats the lines ---


async def logged(request: Request, send: Exchange, plan: HedgePlan | None = None) -> Response:
    """Return the response of an attempt, and log it.

    Args:
        request: of the attempt.
        send: sends it.
        plan: see Exchange.
    """
    with RequestLog(request) as watch:
        response = await send(request, plan)
        watch.answered(response._head, response.timings, response.request)
    return response


def note_head(request: Request, mark: str, block: bytes) -> None:
    """Take down a head that libcurl does not know of, if somebody watches the request.

    Args:
        request: of the attempt.
        mark: ">" if it was sent, "<" if it came.
        block: as on the wire.
    """
    watch = get_request_log(request)
    if watch is not None:
        watch.add(_HeadLines(mark, block, HeadRedactor(request.sensitive)))


class _HeadLines:
    def __init__(self, mark: str, block: bytes, text: HeadRedactor) -> None:
        self._mark, self._block, self._text = mark, block, text

    def take(self) -> Iterable[str]:
        """Return the lines of the head, without the end of the last one."""
        lines = self._block.removesuffix(b"\n").split(b"\n")
        show = self._text.line if log.masks else escape_bytes
        told = [show(line.removesuffix(b"\r")) for line in lines]
        return [f"{self._mark} {line}" for line in told]


def exchange(engine: Engine, now: Callable[[], float], kind: type[Streamed]) -> Exchange:
    """Return the last step of a flow that ends in one engine.

    Args:
        engine: sends the requests.
        now: gives monotonic seconds.
        kind: what a response is whose body is read by the caller.
    """

    def send(request: Request, plan: HedgePlan | None = None) -> Awaitable[Response]:
        # Most requests are as they were built: the test costs less than the call would.
        if request.route is not None or request.body is not None or request.deadline is not None:
            if request.body is not None and request.body.is_async:
                raise TypeError("an async body needs AsyncClient")
            fit(request, now)
        if log.takes(INFO):
            return logged(request, _unlogged(engine, kind), plan)
        if request.stream:
            return _open(engine, request, kind, plan)
        return engine.perform(request) if plan is None else engine.perform(request, plan)

    return send


def exchange_in_loops(
    choose: Callable[[], Engine], now: Callable[[], float], kind: type[Streamed]
) -> Exchange:
    """Return the last step of a flow that ends in the engine of the running event loop.

    Args:
        choose: gives that engine.
        now: gives monotonic seconds.
        kind: what a response is whose body is read by the caller.
    """

    def send(request: Request, plan: HedgePlan | None = None) -> Awaitable[Response]:
        if request.route is not None or request.body is not None or request.deadline is not None:
            fit(request, now)
        # For each attempt, because a client may be used in several event loops in turn.
        try:
            engine = choose()
        except RequestException as error:
            error.request = error.request or request
            raise
        if log.takes(INFO):
            return logged(request, _unlogged(engine, kind), plan)
        if request.stream:
            return _open(engine, request, kind, plan)
        return engine.perform(request) if plan is None else engine.perform(request, plan)

    return send


def _unlogged(engine: Engine, kind: type[Streamed]) -> Exchange:
    """Return what hands a request to the engine, as the last steps do where there is no log.

    There each coroutine is made last of all: Ctrl-C in a call after it would leave it behind.
    """

    def send(request: Request, plan: HedgePlan | None = None) -> Awaitable[Response]:
        if request.stream:
            return _open(engine, request, kind, plan)
        return engine.perform(request) if plan is None else engine.perform(request, plan)

    return send


def fit(request: Request, now: Callable[[], float]) -> None:
    """Fit a request for one more attempt.

    Its URL may have changed since the last, and with it the proxy; its body starts over, since
    one that goes on where it stood would arrive cut.

    Raises:
        DeadlineExceeded: there is no time left for it.
        UnrewindableBodyError: the body was sent, in part at least, and cannot be sent again.
        InvalidProxyURL: the proxy for this URL is none.
    """
    if request.deadline is not None and request.deadline - now() < LEAST:
        raise DeadlineExceeded(
            f"{request}: the total of {request.timeout.total} s ran out",
            request=request,
        )
    if request.route is not None:
        # By the URL as it is now.
        request.transport = request.route(request.url)
    if request.body is not None:
        try:
            request.body.rewind()
        except UnrewindableBodyError as error:
            error.request = request
            raise


async def _open(
    engine: Engine, request: Request, kind: type[Streamed], plan: HedgePlan | None
) -> Response:
    """Return a streamed response; of a redirect that is followed, a finished one."""
    # Engines of the user's own may know nothing of plans.
    if plan is None:
        incoming = await engine.open(request)
    else:
        incoming = await engine.open(request, plan)
        request = getattr(incoming, "request", request)  # of the attempt that surfaced
    response = kind(request, incoming, engine)
    # Its body is wanted by nobody; the layer that follows it needs the connection.
    if request.follow_redirects and response.is_redirect:
        return await response.finished()
    return response


# --- Ask for the certificate of the server with each response, for clients that want it ---
#
# libcurl reports it during a transfer only (CURLINFO_CERTINFO), so bodies are read like streams.


def with_certificates(last: Exchange) -> Exchange:
    """Return the flow's last step, whose responses over TLS have the certificate.

    Args:
        last: hands the request to the engine.
    """

    def send(request: Request, plan: HedgePlan | None = None) -> Awaitable[Response]:
        if request.url.scheme == "https":
            return _sent(last, request, plan)
        return last(request) if plan is None else last(request, plan)

    return send


async def _sent(last: Exchange, request: Request, plan: HedgePlan | None) -> Response:
    asked = request
    if not request.stream:
        asked = request.copy()  # the same request may be under way a second time
        asked.stream = True
    response = await (last(asked) if plan is None else last(asked, plan))
    if not isinstance(response, Streamed):  # a redirect, whose body is read
        response.request = request
        return response
    certificate = response.certificate  # it is known no more when the body has ended
    if request.stream:
        return response
    await response.load()
    whole = Response(request, response._head, response.content, response.timings)
    whole._certificate = certificate
    return whole
