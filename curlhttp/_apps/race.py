"""Several attempts of one request to an app at once: the plan decides, this waits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic

from curlhttp._apps.exchange import AppExchange
from curlhttp._engine import HedgePlan
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response
from curlhttp._models.timings import Timings

__all__ = ["race"]


async def race(
    first: AppExchange, plan: HedgePlan, begin: Callable[[Request, AppExchange], AppExchange]
) -> AppExchange:
    """Return the attempt that surfaces: the first good, or the last; the others are aborted.

    Args:
        first: the first attempt, begun.
        plan: see _flow/hedge.py.
        begin: begins one more, given its request and the first attempt, whose changes it shares.
    """
    running, left, latest = [first], plan.most, first.begun
    try:
        while (winner := _winner(running, plan)) is None:
            after = plan.after if left else None
            due = None if after is None else max(0.0, latest + after - monotonic())
            patience = min(
                (each for each in (due, *(one.patience() for one in running)) if each is not None),
                default=None,
            )
            await first.changes.wait(patience)
            for exchange in running:
                await exchange.give_up_late(partial(_is_over, exchange))
            if after is None or monotonic() < latest + after:
                continue
            again = None if any(one.head for one in running) else await plan.again()
            if again is None:
                left = 0
                continue
            left, latest = left - 1, monotonic()
            running.append(begin(again, first))
    except BaseException:
        for exchange in running:
            exchange.abort()
        raise
    if first in running and (first is not winner or first.head is not None):
        plan.timed(monotonic() - first.begun if first.head is None else first.first_byte)
    plan.surfaces(winner.request)
    for exchange in running:
        if exchange is not winner:
            plan.dropped(exchange.request, None, monotonic() - exchange.begun, True)
            exchange.abort()
    return winner


def _winner(running: list[AppExchange], plan: HedgePlan) -> AppExchange | None:
    for exchange in tuple(running):
        if not _is_over(exchange):
            continue
        head, failed = exchange.head, exchange.failed
        if len(running) == 1 or (failed is None and head and plan.is_good(head.status_code)):
            return exchange
        if failed is not None and not isinstance(failed, Exception):
            return exchange  # Ctrl-C ends everything
        running.remove(exchange)
        result = failed if failed is not None or head is None else _beaten(exchange, head)
        plan.dropped(exchange.request, result, monotonic() - exchange.begun, True)
        exchange.abort()
    return None


def _beaten(exchange: AppExchange, head: Head) -> Response:
    seconds = exchange.first_byte
    times = Timings(0.0, 0.0, 0.0, 0.0, seconds, seconds, False, None)
    return Response(exchange.request, head, b"", times)


def _is_over(exchange: AppExchange) -> bool:
    # The head decides a race of streams: a body may last for hours.
    return exchange.done or (exchange.request.stream and exchange.head is not None)
