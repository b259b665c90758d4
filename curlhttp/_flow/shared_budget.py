"""Pay for retries from a budget that processes share, at a store."""

from __future__ import annotations

from curlhttp._engine import MakeGate
from curlhttp._policy.budget import RetryBudget
from curlhttp._policy.store import Store
from curlhttp.exceptions import StoreError

__all__ = ["is_paid_at"]


async def is_paid_at(store: Store, budget: RetryBudget, origin: str, gate: MakeGate) -> bool | None:
    """Return whether there was enough for one retry, which is taken; None without an answer.

    What the attempt before failed with is what its caller has to hear, so that a store that is to
    be obeyed, and has no answer, pays for nothing.

    Args:
        store: where the budget is.
        budget: what it is taken from.
        origin: whom it would go to.
        gate: makes a gate of the engine.
    """
    try:
        answer = await store.ask(budget.withdrawing(origin), gate)
    except StoreError:
        return False
    return None if answer is None else bool(answer[0])
