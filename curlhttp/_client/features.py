"""The features of both clients that are layers of the flow, outermost first.

To add one: write a module of `_features` with `make_layer(context)`, add its line here, and name it
in the line of its setting (`SETTINGS`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from curlhttp._client.chain import DOWNLOAD, HANDSHAKE, OWN, SUBREQUEST, Feature


def _feature(
    module: str,
    *settings: str,
    not_for: tuple[str, ...] = (),
    function: str = "make_layer",
    waits: bool = False,
    replaces: bool = False,
) -> Feature:
    """Return the feature of a module of `_features`, whose setting has its name by default."""
    name = module.partition(".")[0]
    path = f"curlhttp._features.{module}"
    return Feature(name, path, settings or (name,), not_for, function, waits, replaces)


FEATURES = (
    # A download and a handshake raise in their own way.
    _feature("raise_for_status", not_for=(DOWNLOAD, HANDSHAKE)),
    # First with the request, last with the final response.
    Feature("hooks", "curlhttp._client.hooks", ("request_hooks",)),
    _feature("hsts.layer"),
    # The deadline, redirects, authentication and cookies: in every chain.
    Feature("base_layer", "curlhttp._client.base_layer", ("max_redirects",)),
    # Of each hop.
    _feature("hsts.layer", function="make_hop_layer"),
    _feature("alt_svc.layer", "alternatives"),
    _feature("middleware"),
    # Of each hop, as the middleware sends it, and of no subrequest: that for robots.txt is one.
    _feature("robots.layer", not_for=(SUBREQUEST,), waits=True),
    # The user's response is none to the requests of an Auth, such as those for a token.
    _feature("fallback", not_for=(DOWNLOAD, HANDSHAKE, SUBREQUEST), replaces=True),
    _feature("coalesce", not_for=(DOWNLOAD, HANDSHAKE)),
    # A cache hit is not an attempt: no layer below delays, counts or refuses it.
    _feature("cache.cache", not_for=(DOWNLOAD, HANDSHAKE)),
    # Around retry, because a budget is one of an origin.
    _feature("endpoints.layer"),
    # Repeats all layers below, so that each attempt is admitted and counted.
    _feature("retry.layer"),
    Feature(OWN, "", ()),
    # Each attempt passes the layers below for itself. The second connection of a handshake would be
    # wasted.
    _feature("hedge.layer", not_for=(HANDSHAKE,)),
    _feature("endpoints.layer", function="make_next_layer"),
    # Before the limits, so that a request that waits here holds no slot.
    _feature("retry_after", waits=True),
    _feature("limits.layer", "rate_limit", "concurrency_limit", waits=True),
    _feature("robots.layer", function="make_delay_layer", waits=True),
    # Below all that may let a request wait, and above the breaker, which counts only what was sent.
    _feature("retry_after", function="make_learning_layer"),
    _feature("breaker.layer"),
    # Below all that may refuse an attempt, and right above the engine.
    _feature("hedge.layer", not_for=(HANDSHAKE,), function="make_admitting_layer"),
    _feature("attempt_middleware"),
    _feature("hedge.layer", not_for=(HANDSHAKE,), function="make_watching_layer"),
    _feature("certificates"),
)

OWN_SETTINGS = frozenset({"raise_for_status", "retry"})
"""The settings with a layer that single requests may have, although the client has it off."""


@cache  # In Python 3.10, import_module takes a lock, which a forked child may never get.
def load(module: str) -> Any:
    """Import a module of a feature that is needed now. Any: its names are the feature's."""
    return import_module(f"curlhttp._features.{module}")
