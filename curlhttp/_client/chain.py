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

from curlhttp._http.named_tuple import NamedTuple
from curlhttp._runtime.engine import Layer, Runtime, Send, Totals
from curlhttp._runtime.run import Offload

REQUEST, DOWNLOAD, HANDSHAKE, SUBREQUEST = "request", "download", "handshake", "subrequest"
"""What a chain sends: requests, streams and those of maps; downloads; handshakes of WebSockets; and
the requests that an Auth sends for itself."""

Settings: TypeAlias = dict[str, Any]  # Any: of each setting its own type

_OUTCOME = "outcome"  # what an Auth's last subrequest has led to, for layers that replace it

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
        waits: a request may have to wait in the layer, as others to its origin would.
        replaces: the layer may replace the outcome of a request, also one that the last subrequest
            of an Auth has led to.
    """

    name: str
    module: str
    settings: tuple[str, ...]
    not_for: tuple[str, ...] = ()
    function: str = "make_layer"
    waits: bool = False
    replaces: bool = False


class Host(NamedTuple):
    """What a feature may use of its client, whatever the engine.

    Attributes:
        client: a BaseClient.
        runtime: of the client's engine.
        totals: counts retries, hedges and so on.
        is_async: the client is AsyncClient, so that hooks and flows may await.
        run_blocking: calls a function that may block.
        spawn: starts a task of the running loop; None in Client.
        where: returns the running loop; None in Client.
    """

    client: object
    runtime: Runtime
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
        runtime: of the engine.
        subrequest: returns the function that sends the subrequests of an Auth, if they do not take
            the way of the request itself; None for the same way.
        finish: the layers that replace outcomes, for that of an Auth's last subrequest; None for
            none.
    """

    host: Host
    settings: Settings
    runtime: Runtime
    subrequest: Callable[[], Send] | None
    finish: Layer | None = None


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
            # One after the other, because a feature may switch on another one (hedge: retry), which
            # is not started if it is further out; its setting is None then.
            if self._is_on(feature) and feature.module not in started:
                started.add(feature.module)
                module = import_module(feature.module)
                if hasattr(module, "start"):
                    module.start(settings, host)

    def _is_on(self, feature: Feature) -> bool:
        return not self.settings.keys().isdisjoint(feature.settings)

    @property
    def may_wait(self) -> bool:
        """Return whether requests may have to wait for their origins before they are sent."""
        return any(each.waits and self._is_on(each) for each in self._features)

    def build(
        self,
        last: Send,
        runtime: Runtime,
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
            runtime: of the engine.
            kind: REQUEST, DOWNLOAD, HANDSHAKE or SUBREQUEST.
            own: the layer of a download or of a handshake. It does not apply to the subrequests of
                an Auth.
            plain: replaces `last` for the subrequests of an Auth, unless None.
            also: settings that are regarded as on.
            below: a feature with one layer; those below it are built. All layers if empty.
        """
        build = partial(self._wrap, runtime=runtime, also=also)
        subrequest = finish = None
        # Subrequests have a way of their own if a layer of this one is not for them.
        if kind != REQUEST or any(
            SUBREQUEST in each.not_for and self._is_on(each) for each in self._features
        ):
            subrequest = partial(
                build, last if plain is None else plain, SUBREQUEST, below="base_layer"
            )
        if kind == REQUEST and any(each.replaces and self._is_on(each) for each in self._features):
            finish = partial(build, kind=_OUTCOME, below="")
        return build(last, kind, below=below, own=own, subrequest=subrequest, finish=finish)

    def _wrap(
        self,
        last: Send,
        kind: str,
        *,
        runtime: Runtime,
        also: Collection[str],
        below: str,
        own: Layer | None = None,
        subrequest: Callable[[], Send] | None = None,
        finish: Layer | None = None,
    ) -> Send:
        settings = self.settings
        context = LayerContext(self._host, settings, runtime, subrequest, finish)
        is_off = (settings.keys() | also).isdisjoint
        send: Send = last
        for name, module, switches, not_for, function, _, replaces in reversed(self._features):
            if name == below:
                break
            if name == OWN:
                send = send if own is None else own(send)
            elif not is_off(switches) and (replaces if kind == _OUTCOME else kind not in not_for):
                send = getattr(import_module(module), function)(context)(send)
        return send
