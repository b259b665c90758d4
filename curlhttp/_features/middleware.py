"""Run the user's middleware, which is below authentication and above everything about attempts."""

from __future__ import annotations

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._client.hooks import check_response
from curlhttp._http.auth import NO_AUTH
from curlhttp._http.replacement import SIGN_AGAIN, check_request
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


def complete_below_auth(request: object, original: ClientRequest) -> ClientRequest:
    """Return the request that a middleware sends, below authentication and cookies.

    Args:
        request: what it sends.
        original: what it got.

    Raises:
        TypeError: see check_request; or the request has an auth that has to send requests.
    """
    made = check_request(request, original, "a middleware")
    if made is not request:  # a new one
        auth, jar = made.auth, made.jar
        if auth is not None and auth is not NO_AUTH:
            value = auth.known_header()
            if value is None:
                raise TypeError(
                    f"a middleware sent a new request with {type(auth).__name__}, which has to "
                    "send requests: pass auth= to the client, or set Authorization"
                )
            made.headers["Authorization"] = value
        cookie = None if jar is None else jar.header(made.url, made.cookies)
        if cookie is not None and made.get_header("cookie") is None:
            made.headers["Cookie"] = cookie
    sign = None if made.extensions is None else made.extensions.get(SIGN_AGAIN)
    if sign is not None:
        sign(made)
    return made


def _wrap(middleware: Middleware, send: Send) -> Send:
    async def through(request: ClientRequest) -> Response:
        # A copy, so that the next hop, and the answer to a challenge, begin with the same request.
        request = request.copy()
        sent = middleware(request, lambda changed: send(complete_below_auth(changed, request)))
        if sent is None or isinstance(sent, Response):  # `def` instead of `async def`
            raise TypeError(f"a middleware must be `async def`, but {middleware!r} is not")
        return check_response(await sent, "a middleware")

    return through
