"""OpenTelemetry: a span for each attempt, and metrics; needs the extra `otel`.

    from curlhttp.otel import CurlhttpInstrumentor

    CurlhttpInstrumentor().instrument()

By the stable semantic conventions for HTTP: https://opentelemetry.io/docs/specs/semconv/http/
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

from curlhttp._engine.network import network
from curlhttp._models.fork import registered

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from curlhttp._client.async_client import AsyncClient
    from curlhttp._client.client import Client

__all__ = ["CurlhttpInstrumentor", "RequestHook", "ResponseHook"]


class CurlhttpInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # its own imports have no types
    """Trace and measure what clients send; one object, however often it is made.

    Each attempt has a span of its own: each retry, each hop of a redirect, each answer to a
    challenge, each hedge. It ends with the body where the caller gets that in memory, and with the
    head where the caller reads the body. Where the context says so (suppress_instrumentation,
    suppress_http_instrumentation), nothing is traced.
    """

    _end: Callable[[], None]  # of the last instrument(): counts connections no more
    # Each with what ends it; that is called, too, where a client is dropped.
    _clients: WeakKeyDictionary[
        Client | AsyncClient, tuple[ClientTracing, Callable[[], object]]
    ] = WeakKeyDictionary()

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: what is instrumented is this very package."""
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
        network.watch(NetworkTracing(tracing))
        network.counts_sends += 1

    def _uninstrument(self, **others: object) -> None:
        network.watch(None)
        network.counts_sends -= 1
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
        """Trace and measure what one client sends, whatever its transport is.

        Args:
            client: a second time for the same one changes nothing.
            tracer_provider: None for the global one.
            meter_provider: None for the global one.
            request_hook: called with the span and the request before it is sent.
            response_hook: called with the span, the request, and a response without its body.

        Raises:
            TypeError: it is no Client and no AsyncClient, such as a Session: use instrument().
        """
        if not hasattr(client, "_add_wrapper"):
            raise TypeError(
                f"instrument_client takes a Client or an AsyncClient, not {type(client).__name__}; "
                "instrument() is for all"
            )
        if client in self._clients:
            return
        tracing = Tracing(tracer_provider, meter_provider, request_hook, response_hook)
        watch = ClientTracing(tracing)
        end = finalize(
            client, _leave, observe_connections(tracing.meter, meter_provider, watch.found)
        )
        end.atexit = False
        self._clients[client] = watch, end
        client._add_wrapper(watch)
        network.counts_sends += 1

    def uninstrument_client(self, client: Client | AsyncClient) -> None:
        """Trace and measure one client no more; without instrument_client before, do nothing."""
        found = self._clients.pop(client, None)
        if found is not None:
            watch, end = found
            client._remove_wrapper(watch)
            end()


def _leave(end: Callable[[], None]) -> None:
    end()
    network.counts_sends -= 1
