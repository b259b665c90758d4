"""requests' hooks: callables that receive each response, and may replace it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curlhttp.requests._types import HooksInput, HookType

__all__ = ["HOOKS", "default_hooks", "dispatch_hook"]

HOOKS = ["response"]


def default_hooks() -> dict[str, list[HookType]]:
    """Return empty hooks."""
    return {"response": []}


def dispatch_hook(key: str, hooks: HooksInput, hook_data: Any, **kwargs: Any) -> Any:
    """Call the hooks of an event one after the other.

    Args:
        key: the event.
        hooks: each event's hook, or several.
        hook_data: the argument of the first hook; each may return the next one's.
        kwargs: further arguments of every hook.

    Returns:
        The data after the last hook.
    """
    found = hooks.get(key) if hooks else None
    if not found:
        return hook_data
    for hook in (found,) if callable(found) else found:
        replacement = hook(hook_data, **kwargs)
        if replacement is not None:
            hook_data = replacement
    return hook_data
