"""What the drop-in's verbs show as their signatures: the keywords of Session.request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import Signature
from types import FunctionType

from curlhttp._models.signatures import set_signature, with_keywords

__all__ = ["show_verbs"]

_VERBS = {"request", "get", "options", "head", "post", "put", "patch", "delete", "stream"}
_NAMED = {"self", "method", "url"}  # a verb has its own, or it has none


def show_verbs(functions: Mapping[str, object], request: Callable[..., object]) -> None:
    """Let functions named like verbs show the keywords of a request.

    Args:
        functions: by name; others than verbs are left alone.
        request: Session.request, which has those keywords.
    """
    for name in _VERBS & functions.keys():
        if functions[name] is not request:
            set_signature(functions[name], partial(_of_verb, request))


def _of_verb(request: Callable[..., object], function: FunctionType) -> Signature:
    taken = Signature.from_callable(request).parameters.values()
    fixed = {*_NAMED, "stream"} if function.__name__ == "stream" else _NAMED
    defaults = {"allow_redirects": False} if function.__name__ == "head" else {}
    return with_keywords(function, [each for each in taken if each.name not in fixed], defaults)
