"""The order of the layers, in one visible tuple, and how they become one function.

A layer is made around the `send` below it. One that has nothing to do for a request returns
send(request) itself: that costs a call and no coroutine of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curlhttp._flow.auth import auth
from curlhttp._flow.cookies import cookies
from curlhttp._flow.deadline import deadline
from curlhttp._flow.engine import Layer, Middleware, Send
from curlhttp._flow.observe import observe
from curlhttp._flow.redirect import redirect
from curlhttp._models.request import Request

__all__ = ["build"]


def build(
    last: Send,
    *,
    hooks: dict[str, list[Any]],
    max_redirects: int,
    sensitive: frozenset[str],
    netrc: Callable[[str], tuple[str, str] | None] | None,
    middleware: Sequence[Middleware],
) -> Send:
    """Return the function that takes a request through all layers to the engine.

    Args:
        last: hands the request to the engine.
        hooks: lists of functions by event.
        max_redirects: how many to follow.
        sensitive: lower-case header names that must not reach another origin.
        netrc: gives the user name and password that netrc has for a host, or None.
        middleware: the user's own, outermost first.
    """
    layers: tuple[Layer, ...] = (
        observe(hooks),  # sees the request first and the final response last
        deadline,  # one budget over all below
        redirect(max_redirects, sensitive),  # each hop goes through all below anew
        auth(netrc),
        cookies,  # below auth: the answer to a challenge carries what the challenge set
        *map(_layer, middleware),
        # retry, rate limit and breaker: here, so that each attempt is admitted and counted
    )
    send = last
    for layer in reversed(layers):
        send = layer(send)
    return send


def _layer(middleware: Middleware) -> Layer:
    """Return a user's middleware as a layer."""

    def around(send: Send) -> Send:
        def through(request: Request) -> Any:
            return middleware(request, send)

        return through

    return around
