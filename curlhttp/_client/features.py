"""The features of both clients that are layers of the flow, outermost first.

To add one: write a module of `_flow` with `make_layer(context)`, add its line here, and pass its
setting to the chain (`BaseClient`).
"""

from __future__ import annotations

from curlhttp._flow.chain import DOWNLOAD, HANDSHAKE, OWN, SUBREQUEST, Feature


def _feature(
    name: str, *settings: str, not_for: tuple[str, ...] = (), function: str = "make_layer"
) -> Feature:
    """Return the feature of a module of `_flow`, whose setting has the same name by default."""
    return Feature(name, f"curlhttp._flow.{name}", settings or (name,), not_for, function)


FEATURES = (
    # A download and a handshake raise in their own way.
    _feature("raise_for_status", not_for=(DOWNLOAD, HANDSHAKE)),
    # First with the request, last with the final response.
    _feature("hooks", "request_hooks"),
    _feature("hsts"),
    # The deadline, redirects, authentication and cookies.
    _feature("redirects", "max_redirects"),
    # Of each hop.
    _feature("hsts", function="make_hop_layer"),
    _feature("alt_svc", "alternatives"),
    _feature("middleware"),
    # The user's response is none to the requests of an Auth, such as those for a token.
    _feature("fallback", not_for=(DOWNLOAD, HANDSHAKE, SUBREQUEST)),
    _feature("coalesce", not_for=(DOWNLOAD, HANDSHAKE)),
    # A cache hit is not an attempt: no layer below delays, counts or refuses it.
    _feature("cache", not_for=(DOWNLOAD, HANDSHAKE)),
    # Around retry, because a budget is one of an origin.
    _feature("endpoints"),
    # Repeats all layers below, so that each attempt is admitted and counted.
    _feature("retry"),
    Feature(OWN, "", ()),
    # Each attempt passes the layers below for itself. The second connection of a handshake would be
    # wasted.
    _feature("hedge", not_for=(HANDSHAKE,)),
    _feature("endpoints", function="make_next_layer"),
    _feature("limits", "rate_limit", "concurrency_limit"),
    _feature("breaker"),
    # Below all that may refuse an attempt, and right above the engine.
    _feature("hedge", not_for=(HANDSHAKE,), function="make_admitting_layer"),
    _feature("attempt_middleware"),
    _feature("hedge", not_for=(HANDSHAKE,), function="make_watching_layer"),
    _feature("certificates"),
)
