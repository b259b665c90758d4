"""Maps whose bodies do not stay in memory: each request is streamed, and received while it runs.

A download of many files is such a map, and so is `curlhttp fetch`. What receives a body is an
extension of its request, so that it reaches whoever sends that, whatever the engine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from curlhttp._features.map.backlog import Job, MapPlace
from curlhttp._features.map.results import MultiSender, SequentialSender, make_exchange
from curlhttp._features.map.scheduler import MapScheduler
from curlhttp._http.request import READ_BY_LAYER, ClientRequest
from curlhttp._runtime.engine import Runtime, Send

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._client.client import BlockingClient
    from curlhttp._features.map.results import Sender, Settle
    from curlhttp._http.inputs import UserRequest

_RECEIVER = "curlhttp.receiver"

Result_co = TypeVar("Result_co", covariant=True)
Receive: TypeAlias = Callable[[ClientRequest], Awaitable[Result_co]]
"""Sends a request, receives its body, and returns the result, which the map yields."""
MakeReceive: TypeAlias = "Callable[[Send, Runtime], Receive[object]]"
"""Makes it from the last step of the flow, which passes requests to the engine, and its runtime."""


def set_receiver(
    request: ClientRequest, receiver: object, *, stream: Literal[True, "if_large"] = True
) -> None:
    """Note what receives the body of a request, and have it streamed.

    Args:
        request: its extensions are shared with no other request.
        receiver: anything.
        stream: "if_large" if it also takes a response whose body is in memory.
    """
    request.stream = stream
    extensions = request.extensions or {}
    request.extensions = {**extensions, _RECEIVER: receiver, READ_BY_LAYER: True}


def get_receiver(request: ClientRequest) -> object:
    """Return what receives the body of a request; None if that is another request."""
    return None if request.extensions is None else request.extensions.get(_RECEIVER)


class ReceivingPlace(MapPlace):
    """The place of a request that has it until its body is received."""

    __slots__ = ()
    holds_streams = True


class ReceivingScheduler(MapScheduler):
    """Track a map whose requests have receivers."""

    __slots__ = ()
    _place = ReceivingPlace

    def _make_request(self, item: ClientRequest | UserRequest) -> ClientRequest:
        return self._clone_shared_body(self._client._complete(item))


class ReceivingSender(MultiSender):
    """Receive the bodies of many requests concurrently, in the thread that waits for results."""

    def __init__(self, client: BaseClient, make_receive: MakeReceive) -> None:
        super().__init__(client)
        exchange = make_exchange(self._engine, client, client._streamed)
        self._receive = make_receive(exchange, self.runtime)

    def start(self, job: Job, settle: Settle) -> bool:
        request, call = job[1], self._receive
        if request.place is not None:
            call = partial(request.place.run, call)
        self._engine.start(call, request, partial(settle, job))
        return True


def choose_receiving_sender(
    client: BlockingClient, make_receive: MakeReceive
) -> Callable[[BaseClient], Sender]:
    """Return what makes the senders of a client for such maps.

    Args:
        client: the client.
        make_receive: makes what sends and receives.
    """
    if client._given_transport is None:
        return partial(ReceivingSender, make_receive=make_receive)
    return lambda client: SequentialSender(client, make_receive(client._exchange, client._runtime))
