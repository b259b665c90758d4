"""Run the user's middleware, which is below authentication and above everything about attempts."""

from __future__ import annotations

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._client.hooks import check_response
from curlhttp._http.replacement import complete_below_auth
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Layer, Middleware, Send


def start(settings: Settings, host: Host) -> None:
    """Validate the functions; they may set the policy of a request.

    Raises:
        TypeError: this is not a list of functions.
    """
    validate_functions(settings, "middleware")
    if "middleware" in settings:
        settings.setdefault("retry", None)


def validate_functions(settings: Settings, name: str) -> None:
    """Replace a setting by a tuple of functions, and remove it if there are none.

    Args:
        settings: of the client.
        name: of the setting.

    Raises:
        TypeError: it is not a list of functions.
    """
    functions = settings.pop(name)
    if callable(functions) or not hasattr(functions, "__iter__"):
        shown = getattr(functions, "__name__", "function")
        raise TypeError(f"{name} must be a list of functions, such as {name}=[{shown}]")
    functions = tuple(functions)
    for function in functions:
        if not callable(function):
            raise TypeError(f"{name} must contain functions, not {type(function).__name__}")
    if functions:
        settings[name] = functions


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that runs all middleware of a client, the first one outermost."""
    functions: tuple[Middleware, ...] = context.settings["middleware"]

    def wrap(send: Send) -> Send:
        for function in reversed(functions):
            send = _wrap(function, send)
        return send

    return wrap


def _wrap(middleware: Middleware, send: Send) -> Send:
    async def through(request: ClientRequest) -> Response:
        # A copy, so that the next hop, and the answer to a challenge, begin with the same request.
        request = request.copy()
        sent = middleware(request, lambda changed: send(complete_below_auth(changed, request)))
        if sent is None or isinstance(sent, Response):  # `def` instead of `async def`
            raise TypeError(f"a middleware must be `async def`, but {middleware!r} is not")
        return check_response(await sent, "a middleware")

    return through
