"""What the clients' verbs and constructors show as their signatures; no request runs any of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import Parameter, Signature
from types import FunctionType

from curlhttp._models.signatures import DescribedDefault, set_signature, with_keywords

__all__ = ["show_constructor", "show_verbs"]

_VERBS = ("request", "get", "options", "head", "post", "put", "patch", "delete", "stream", "sse")
_BODILESS = ("download", "map", "websocket")
_OF_BODIES = frozenset({"data", "json", "content", "files", "stream", "progress"})


def show_verbs(client: type) -> None:
    """Let the verbs of a class of clients show the keywords of its requests."""
    for name in _VERBS:
        set_signature(vars(client)[name], _of_verb)
    for name in _BODILESS:
        set_signature(vars(client)[name], _without_body)


def show_constructor(constructor: object) -> None:
    """Let the constructor of clients show its defaults by what they mean."""
    set_signature(constructor, _of_constructor)


def _of_verb(function: FunctionType) -> Signature:
    keywords = list(_keywords())
    defaults: dict[str, object] = {}
    for each in keywords:
        if repr(each.default) == "<the client's>":
            defaults[each.name] = DescribedDefault(f"client.{each.name}")
    defaults["allow_redirects"] = DescribedDefault("client.follow_redirects")
    if function.__name__ == "head":
        defaults["follow_redirects"] = defaults["allow_redirects"] = False
    return with_keywords(function, keywords, defaults)


def _without_body(function: FunctionType) -> Signature:
    own = function.__kwdefaults__ or {}
    found = _of_verb(function)
    kept = [
        each for name, each in found.parameters.items() if name in own or name not in _OF_BODIES
    ]
    return found.replace(parameters=kept)


def _keywords() -> Iterator[Parameter]:
    """Give the keywords of a request, those of its route last."""
    from curlhttp._client.building import RequestBuilder
    from curlhttp._client.routing import RouteOptions

    made: Callable[..., object] = RequestBuilder.build_request
    for name, each in with_keywords(made, (), {}).parameters.items():
        if name not in ("self", "method", "url"):
            yield each
    for name, annotation in RouteOptions.__annotations__.items():
        shown = getattr(annotation, "__forward_arg__", annotation)
        default = DescribedDefault(f"client.{name}")
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=shown)


def _of_constructor(function: FunctionType) -> Signature:
    from curlhttp._models.config import Limits

    limits = Limits()
    defaults: dict[str, object] = {name: getattr(limits, name) for name in Limits.__slots__}
    defaults["timeout"] = DescribedDefault("Timeout(connect=10, read=60)")
    return with_keywords(function, (), defaults)
