"""The features of both clients that are layers of the flow, outermost first.

To add one: write a module with a function that makes its layer, add its line here, and pass its
setting to the chain (`BaseClient`).
"""

from __future__ import annotations

from curlhttp._flow.chain import DOWNLOAD, HANDSHAKE, OWN, SUBREQUEST, Feature

_FLOW = "curlhttp._flow."

FEATURES = (
    # A download and a handshake raise in their own way.
    Feature(
        "raise_for_status",
        _FLOW + "raise_for_status",
        ("raise_for_status",),
        not_for=(DOWNLOAD, HANDSHAKE),
    ),
    # First with the request, last with the final response.
    Feature("hooks", _FLOW + "hooks", ("request_hooks",)),
    Feature("hsts", _FLOW + "hsts", ("hsts",)),
    # The deadline, redirects, authentication and cookies.
    Feature("redirects", _FLOW + "redirects", ("max_redirects",)),
    Feature("hsts of a hop", _FLOW + "hsts", ("hsts",), function="make_hop_layer"),
    Feature("alt_svc", _FLOW + "alt_svc", ("alternatives",)),
    Feature("middleware", _FLOW + "middleware", ("middleware",)),
    # The user's response is none to the requests of an Auth, such as those for a token.
    Feature(
        "fallback",
        _FLOW + "fallback",
        ("fallback",),
        not_for=(DOWNLOAD, HANDSHAKE, SUBREQUEST),
    ),
    Feature(
        "coalesce",
        _FLOW + "coalesce",
        ("coalesce",),
        not_for=(DOWNLOAD, HANDSHAKE),
    ),
    # A cache hit is not an attempt: no layer below delays, counts or refuses it.
    Feature("cache", _FLOW + "cache", ("cache",), not_for=(DOWNLOAD, HANDSHAKE)),
    # Around retry, because a budget is one of an origin.
    Feature("endpoints", _FLOW + "endpoints", ("endpoints",)),
    # Repeats all layers below, so that each attempt is admitted and counted.
    Feature("retry", _FLOW + "retry", ("retry",)),
    Feature(OWN, "", ()),
    # Each attempt passes the layers below for itself. The second connection of a handshake would be
    # wasted.
    Feature("hedge", _FLOW + "hedge", ("hedge",), not_for=(HANDSHAKE,)),
    Feature("next endpoint", _FLOW + "endpoints", ("endpoints",), function="make_next_layer"),
    Feature("limits", _FLOW + "limits", ("rate_limit", "concurrency_limit")),
    Feature("breaker", _FLOW + "breaker", ("breaker",)),
    Feature(
        "admission of a hedge",
        _FLOW + "hedge",
        ("hedge",),
        not_for=(HANDSHAKE,),
        function="make_admitting_layer",
    ),
    Feature("attempt_middleware", _FLOW + "attempt_middleware", ("attempt_middleware",)),
    Feature(
        "watch of a hedge",
        _FLOW + "hedge",
        ("hedge",),
        not_for=(HANDSHAKE,),
        function="make_watching_layer",
    ),
    Feature("certificates", _FLOW + "certificates", ("certificates",)),
)
