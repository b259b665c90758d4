"""The metric http.client.open_connections: what the engines have open, as they count it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias, cast
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
from opentelemetry.semconv.attributes import server_attributes

__all__ = ["observe_connections"]

_NAME = "http.client.open_connections"  # still in development in the conventions
_STATE = "http.connection.state"


class _Counts(Protocol):
    def open_connections(self) -> Counter[tuple[str, bool]]: ...


_Engines: TypeAlias = "Callable[[], Iterable[object]]"


class _Global:
    """Stands for the global MeterProvider, of whichever kind that is now."""


_GLOBAL = _Global()
# A meter keeps the callbacks of the first instrument of a name alone.
_observed: WeakKeyDictionary[MeterProvider | _Global, list[_Engines]] = WeakKeyDictionary()


def observe_connections(
    meter: Meter, provider: MeterProvider | None, engines: _Engines
) -> Callable[[], None]:
    """Have a meter ask how many connections are open; return what ends that.

    Args:
        meter: asks whenever it is read, in any thread.
        provider: gave the meter; None for the global one.
        engines: gives those that count theirs, among others.
    """
    key = _GLOBAL if provider is None else provider
    found = _observed.get(key)
    if found is None:
        found = _observed[key] = []
        _create(meter, found)
    found.append(engines)

    def end() -> None:
        found.remove(engines)

    return end


def _create(meter: Meter, observed: list[_Engines]) -> None:
    def observe(options: CallbackOptions) -> Iterator[Observation]:
        # An engine counts once, also if its client and all clients are observed.
        found = {id(each): each for engines in tuple(observed) for each in engines()}
        counts: Counter[tuple[str, bool]] = Counter()
        for engine in found.values():
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
