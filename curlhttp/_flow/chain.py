"""Put the layers of a client in order, and build one `send` function from them.

A layer wraps the `send` below it. A layer that has nothing to do for a request returns
send(request), which costs a call but no coroutine. Nothing here knows a feature: a client passes
the list of those that it has, outermost first, and the module of one that is off is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable
from functools import partial
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from curlhttp._engine.engine import Clock, Layer, MakeRace, MakeWaiter, Send, Totals
from curlhttp._engine.run import Offload
from curlhttp._models.named_tuple import NamedTuple

REQUEST, DOWNLOAD, HANDSHAKE, SUBREQUEST = "request", "download", "handshake", "subrequest"
"""What a chain sends: requests, streams and those of maps; downloads; handshakes of WebSockets; and
the requests that an Auth sends for itself."""

Settings: TypeAlias = dict[str, Any]  # Any: of each setting its own type

OWN = "own"  # where the layer of a download or of a handshake is, which is part of each attempt


class SpawnedTask(Protocol):
    """A task that runs apart from its caller."""

    def cancel(self) -> None:
        """Cancel the task."""

    def was_cancelled(self, error: BaseException) -> bool:
        """Return whether an error was raised because the task, which runs, is cancelled."""


Spawn: TypeAlias = Callable[[Callable[[], Coroutine[object, None, None]]], SpawnedTask]
"""Starts a task, which only raises what a cancellation raises."""


class Feature(NamedTuple):
    """A feature that is a layer.

    Its module may have `start(settings, host)`, which is called once for each client that has the
    feature. It validates the settings of the feature, and may replace them.

    Attributes:
        name: for `below`; a feature may have several layers.
        module: has the function that makes the layer.
        settings: the feature is on if the client has one of these.
        not_for: what it does not apply to.
        function: of the module; gets a LayerContext, and returns the layer.
    """

    name: str
    module: str
    settings: tuple[str, ...]
    not_for: tuple[str, ...] = ()
    function: str = "make_layer"


class Host(NamedTuple):
    """What a feature may use of its client, whatever the engine.

    Attributes:
        clock: of the engine.
        totals: counts retries, hedges and so on.
        is_async: the client is AsyncClient, so that hooks and flows may await.
        run_blocking: calls a function that may block.
        spawn: starts a task of the running loop; None in Client.
        where: returns the running loop; None in Client.
    """

    clock: Clock
    totals: Totals
    is_async: bool
    run_blocking: Offload
    spawn: Spawn | None
    where: Callable[[], Hashable] | None


class LayerContext(NamedTuple):
    """What a layer may use.

    Attributes:
        host: the client.
        settings: those that are on, by name.
        clock: of the engine.
        make_waiter: makes a waiter of the engine.
        make_race: makes a race of the engine.
        subrequest: returns the function that sends the subrequests of an Auth, if they do not take
            the way of the request itself; None for the same way.
    """

    host: Host
    settings: Settings
    clock: Clock
    make_waiter: MakeWaiter
    make_race: MakeRace
    subrequest: Callable[[], Send] | None


class Chain:
    """The layers of a client, for one engine or several.

    Args:
        features: the layers that a client can have, outermost first.
        settings: those that are on, by name.
        host: the client.

    Attributes:
        settings: as given; after a change, build again.
    """

    __slots__ = ("_features", "_host", "settings")

    def __init__(self, features: Iterable[Feature], settings: Settings, host: Host) -> None:
        self.settings: Settings = settings
        self._features = tuple(features)
        self._host = host
        started = set()
        for feature in self._features:
            # One after the other, because a feature may switch on one that is further in.
            if not settings.keys().isdisjoint(feature.settings) and feature.module not in started:
                started.add(feature.module)
                module = import_module(feature.module)
                if hasattr(module, "start"):
                    module.start(settings, host)

    def build(
        self,
        last: Send,
        clock: Clock,
        make_waiter: MakeWaiter,
        make_race: MakeRace,
        *,
        kind: str = REQUEST,
        own: Layer | None = None,
        plain: Send | None = None,
        also: Collection[str] = (),
        below: str = "",
    ) -> Send:
        """Return the function that sends a request through all layers.

        Args:
            last: passes the request to the engine.
            clock: of the engine.
            make_waiter: makes a waiter of the engine.
            make_race: makes a race of the engine.
            kind: REQUEST, DOWNLOAD, HANDSHAKE or SUBREQUEST.
            own: the layer of a download or of a handshake. It does not apply to the subrequests of
                an Auth.
            plain: replaces `last` for the subrequests of an Auth, unless None.
            also: settings that are regarded as on.
            below: a feature with one layer; those below it are built. All layers if empty.
        """
        build = partial(
            self._wrap, clock=clock, make_waiter=make_waiter, make_race=make_race, also=also
        )
        subrequest = None
        if kind != REQUEST or "fallback" in self.settings:
            subrequest = partial(
                build, last if plain is None else plain, SUBREQUEST, below="redirects"
            )
        return build(last, kind, below=below, own=own, subrequest=subrequest)

    def _wrap(
        self,
        last: Send,
        kind: str,
        *,
        clock: Clock,
        make_waiter: MakeWaiter,
        make_race: MakeRace,
        also: Collection[str],
        below: str,
        own: Layer | None = None,
        subrequest: Callable[[], Send] | None = None,
    ) -> Send:
        settings = self.settings
        context = LayerContext(self._host, settings, clock, make_waiter, make_race, subrequest)
        is_off = (settings.keys() | also).isdisjoint
        send: Send = last
        for name, module, switches, not_for, function in reversed(self._features):
            if name == below:
                break
            if name == OWN:
                send = send if own is None else own(send)
            elif not is_off(switches) and kind not in not_for:
                send = getattr(import_module(module), function)(context)(send)
        return send
