"""requests' hooks: callables that see each response, and may put another in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curlhttp.requests._types import HooksInput, HookType

__all__ = ["HOOKS", "default_hooks", "dispatch_hook"]

HOOKS = ["response"]


def default_hooks() -> dict[str, list[HookType]]:
    """Return the hooks of a request that has none."""
    return {"response": []}


def dispatch_hook(key: str, hooks: HooksInput, hook_data: Any, **kwargs: Any) -> Any:
    """Call the hooks of an event one after the other.

    Args:
        key: the event.
        hooks: each event's hook, or several.
        hook_data: what the first hook gets; each may return what the next one gets.
        kwargs: what every hook gets besides.

    Returns:
        What the last hook made of it.
    """
    found = hooks.get(key) if hooks else None
    if not found:
        return hook_data
    for hook in (found,) if callable(found) else found:
        replacement = hook(hook_data, **kwargs)
        if replacement is not None:
            hook_data = replacement
    return hook_data
