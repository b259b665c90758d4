"""The metric http.client.open_connections: what the engines have open, as they count it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, cast

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.semconv.attributes import server_attributes

__all__ = ["observe_connections"]

_NAME = "http.client.open_connections"  # still in development in the conventions
_STATE = "http.connection.state"


class _Counts(Protocol):
    def open_connections(self) -> Counter[tuple[str, bool]]: ...


def observe_connections(meter: Meter, engines: Callable[[], Iterable[object]]) -> None:
    """Have a meter ask how many connections are open.

    Args:
        meter: asks whenever it is read, in any thread.
        engines: gives those that count theirs, among others; none when it is over.
    """

    def observe(options: CallbackOptions) -> Iterator[Observation]:
        counts: Counter[tuple[str, bool]] = Counter()
        for engine in engines():
            if hasattr(engine, "open_connections"):
                counts += cast("_Counts", engine).open_connections()
        for (origin, is_used), number in counts.items():
            host, _, port = origin.partition("://")[2].rpartition(":")
            yield Observation(
                number,
                {
                    _STATE: "active" if is_used else "idle",
                    server_attributes.SERVER_ADDRESS: host.strip("[]"),
                    server_attributes.SERVER_PORT: int(port or 0),
                },
            )

    meter.create_observable_up_down_counter(
        _NAME,
        callbacks=[observe],
        unit="{connection}",
        description="Number of outbound HTTP connections that are active or idle on the client.",
    )
