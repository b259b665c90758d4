"""OpenTelemetry: a span for each attempt, and metrics; needs the extra `otel`.

    from curlhttp.otel import CurlhttpInstrumentor

    CurlhttpInstrumentor().instrument()

It follows the stable conventions for HTTP: https://opentelemetry.io/docs/specs/semconv/http/
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, finalize

try:
    from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

    from curlhttp.otel._engine import ClientTracing, NetworkTracing, observe_connections
    from curlhttp.otel._tracing import RequestHook, ResponseHook, Tracing
except ModuleNotFoundError as _missing:
    if not (_missing.name or "").startswith("opentelemetry"):
        raise
    raise ModuleNotFoundError(
        "curlhttp.otel needs OpenTelemetry: pip install 'curlhttp[otel]'", name=_missing.name
    ) from _missing

from curlhttp._http.fork import registered
from curlhttp._runtime.network import network

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from curlhttp._api.async_client import AsyncClient
    from curlhttp._api.client import Client

__all__ = ["CurlhttpInstrumentor", "RequestHook", "ResponseHook"]


class CurlhttpInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # its own imports have no types
    """Trace and measure the requests of all clients, or of one client; a singleton.

    Each attempt has a span: each retry, each hop of a redirect, each response to a challenge, each
    hedge. A span ends with the body if the client reads it into memory, and with the head if you
    read the body as a stream. Nothing is traced inside suppress_instrumentation() and
    suppress_http_instrumentation().
    """

    _note_fallback: Callable[..., None]
    _note_refusal: Callable[..., None]
    _end: Callable[[], None]  # stops counting connections, from the last instrument()
    # Each with a function that ends it, which is also called if the client is garbage-collected.
    _clients: WeakKeyDictionary[
        Client | AsyncClient, tuple[ClientTracing, Callable[[], object]]
    ] = WeakKeyDictionary()

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing, because this package itself is instrumented."""
        return ()

    def _instrument(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        request_hook: RequestHook | None = None,
        response_hook: ResponseHook | None = None,
        **others: object,
    ) -> None:
        tracing = Tracing(tracer_provider, meter_provider, request_hook, response_hook)
        self._end = observe_connections(tracing.meter, meter_provider, registered)
        network.instrument(NetworkTracing(tracing))
        network.counts_sends.add(self)
        self._note_fallback = tracing.note_fallback
        network.fallback_observers = (*network.fallback_observers, self._note_fallback)
        self._note_refusal = tracing.note_refusal
        network.refusal_observers = (*network.refusal_observers, self._note_refusal)

    def _uninstrument(self, **others: object) -> None:
        network.instrument(None)
        network.counts_sends.discard(self)
        network.fallback_observers = tuple(
            each for each in network.fallback_observers if each != self._note_fallback
        )
        network.refusal_observers = tuple(
            each for each in network.refusal_observers if each != self._note_refusal
        )
        self._end()

    def instrument_client(
        self,
        client: Client | AsyncClient,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        request_hook: RequestHook | None = None,
        response_hook: ResponseHook | None = None,
    ) -> None:
        """Trace and measure the requests of one client, with any transport.

        Args:
            client: a Client or an AsyncClient; a second call for the same one does nothing.
            tracer_provider: None for the global one.
            meter_provider: None for the global one.
            request_hook: called with the span and the request before it is sent.
            response_hook: called with the span, the request, and the response without its body.

        Raises:
            TypeError: it is neither of these, but for example a Session. For a Session, use
                instrument().
        """
        if not hasattr(client, "_add_wrapper"):
            raise TypeError(
                f"instrument_client takes a Client or an AsyncClient, not {type(client).__name__}: "
                "use instrument(), which traces all"
            )
        if client in self._clients:
            return
        tracing = Tracing(tracer_provider, meter_provider, request_hook, response_hook)
        wrapper = ClientTracing(tracing)
        engines = client._reporting  # not the client, which may be dropped
        stop = observe_connections(
            tracing.meter, meter_provider, lambda: [ref() for ref in engines.keyrefs()]
        )
        end = finalize(client, _stop, stop, wrapper)
        end.atexit = False
        self._clients[client] = wrapper, end
        client._add_wrapper(wrapper)
        client._totals.outcomes.observers = (tracing.note_refusal,)
        network.counts_sends.add(wrapper)

    def uninstrument_client(self, client: Client | AsyncClient) -> None:
        """Stop tracing and measuring one client; do nothing if it was not instrumented."""
        found = self._clients.pop(client, None)
        if found is not None:
            wrapper, end = found
            client._remove_wrapper(wrapper)
            client._totals.outcomes.observers = ()
            end()


def _stop(end: Callable[[], None], wrapper: ClientTracing) -> None:
    end()
    network.counts_sends.discard(wrapper)
