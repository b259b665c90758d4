"""Call the user's hooks, on requests and responses and on attempts.

Hooks on requests and responses can replace them. Hooks on attempts only observe: if one raises, the
error is logged. They get redacted URLs and the names of errors instead of the request, so that they
leak no secrets.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from curlhttp._client.chain import LayerContext
from curlhttp._http.replacement import check_request, is_incomplete
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.url import may_keep_credentials
from curlhttp._runtime.engine import Layer, Send, Totals
from curlhttp._runtime.log import ERROR, log

if TYPE_CHECKING:
    import curlhttp
    from curlhttp._http.inputs import Hook, HooksInput

ATTEMPT_EVENTS = ("before_attempt", "after_attempt", "before_sleep", "on_give_up")
EVENTS = (*ATTEMPT_EVENTS, "breaker_transition", "on_fallback")

T = TypeVar("T")


def check_response(response: object, whose: str) -> Response:
    """Return the response that a user's function returned.

    Args:
        response: its return value.
        whose: the kind of function, for the message.

    Raises:
        TypeError: it is not a response.
    """
    if isinstance(response, Response):
        return response
    kind = type(response).__name__
    raise TypeError(f"{whose} returned {kind}, not a Response; return what send(request) returns")


def validate_hooks(hooks: HooksInput | None, awaits: bool) -> dict[str, list[Hook]]:
    """Return the hook functions by event.

    Args:
        hooks: one or several functions for each event.
        awaits: whether the client can await coroutine functions.

    Raises:
        ValueError: an event is unknown.
        TypeError: this is no mapping of functions, or the client cannot await one of them.
    """
    if hooks and not hasattr(hooks, "items"):
        shown = type(hooks).__name__
        raise TypeError(f'hooks must be a mapping by event, not {shown}: {{"response": function}}')
    found: dict[str, list[Hook]] = {event: [] for event in ("request", "response", *EVENTS)}
    for event, functions in cast("Mapping[str, Hook | Sequence[Hook]]", hooks or {}).items():
        if event not in found:
            raise ValueError(f"unknown hook {event!r}: use one of {', '.join(map(repr, found))}")
        if not (callable(functions) or hasattr(functions, "__iter__")):
            shown = type(functions).__name__
            raise TypeError(
                f"the hook {event!r} must be a function, or a list of some, not {shown}"
            )
        found[event] = [functions] if callable(functions) else list(functions)
        for function in cast("list[object]", found[event]):
            if not callable(function):
                shown = type(function).__name__
                raise TypeError(f"the hook {event!r} must be functions, not {shown}")
        import inspect  # slow to import

        if event in EVENTS and not awaits and any(map(inspect.iscoroutinefunction, found[event])):
            raise TypeError(f"an async hook for {event!r} needs AsyncClient")
    return found


# --- on requests and responses ---


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that calls the hooks on requests and responses.

    "request" gets the ClientRequest, "response" the Response. A return value other than None
    replaces it. Coroutine functions are awaited.
    """
    hooks: Mapping[str, list[Hook]] = context.settings["request_hooks"]
    return lambda send: lambda request: _send_with_hooks(request, send, hooks)


async def _send_with_hooks(
    request: ClientRequest, send: Send, hooks: Mapping[str, list[Hook]]
) -> Response:
    if hooks["request"]:
        # A copy, because the caller may send the request again.
        original = request.copy()
        request = await _run_hooks(hooks["request"], original, ClientRequest)
        is_new = is_incomplete(request)
        request = check_request(request, original, "the hook")
        if is_new and request.auth is None and may_keep_credentials(original.url, request.url):
            request.auth = original.auth
    return await _run_hooks(hooks["response"], await send(request), Response)


async def _run_hooks(hooks: list[Hook], subject: T, kind: type) -> T:
    import inspect  # slow to import

    for hook in hooks:
        result = hook(subject)
        if inspect.isawaitable(result):
            result = await result
        # A hook without a return statement only observes.
        if result is not None:
            if not isinstance(result, kind):
                raise TypeError(
                    f"the hook {hook!r} returned {type(result).__name__}; return None, or a "
                    f"{kind.__name__} that replaces the given one"
                )
            subject = cast(T, result)
    return subject


# --- on attempts ---


class Hooks:
    """The user's hooks on attempts and on transitions of the breaker.

    Args:
        functions: lists of functions by event.
        awaits: hooks may be async, as in AsyncClient.
        totals: counts what happens, also without hooks.
    """

    def __init__(
        self, functions: Mapping[str, list[Hook]], *, awaits: bool, totals: Totals | None = None
    ) -> None:
        self.totals: Totals = totals or Totals()
        self._functions = {event: functions.get(event) or [] for event in EVENTS}
        self._awaits = awaits
        self.watches_attempts: bool = any(self._functions[event] for event in ATTEMPT_EVENTS)

    def has(self, event: str) -> bool:
        """Return whether there is a hook for an event."""
        return bool(self._functions[event])

    async def notify(
        self, event: str, what: curlhttp.types.AttemptEvent | curlhttp.types.Transition
    ) -> None:
        """Call the hooks for an event, and ignore what they return.

        Args:
            event: one of EVENTS.
            what: the argument of the hooks.
        """
        import inspect  # slow to import

        for function in self._functions[event]:
            try:
                result = function(what)
                if inspect.isawaitable(result):
                    await self._await(result)
            # A hook that observes must not fail the request.
            except Exception as error:
                log.write(ERROR, "the hook %r for %s raised", function, event, error=error)

    async def _await(self, result: Awaitable[object]) -> None:
        import inspect  # slow to import

        if not self._awaits:
            # Otherwise Python warns about a coroutine that was never awaited, far from here.
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError("an async hook needs AsyncClient")
        await result
