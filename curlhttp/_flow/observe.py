"""Log each attempt to the logger "curlhttp"; _engine/log.py formats the lines."""

from __future__ import annotations

from collections.abc import Iterable

from curlhttp._engine.engine import Exchange, HedgePlan
from curlhttp._engine.log import RequestLog, log, watch_of
from curlhttp._models.redaction import HeadRedactor, escape_bytes
from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["logged", "note_head"]


async def logged(request: Request, send: Exchange, plan: HedgePlan | None = None) -> Response:
    """Return the response of an attempt, and log it.

    Args:
        request: of the attempt.
        send: sends it.
        plan: see Exchange.
    """
    with RequestLog(request) as watch:
        response = await send(request, plan)
        watch.answered(response._head, response.timings, response.request)
    return response


def note_head(request: Request, mark: str, block: bytes) -> None:
    """Take down a head that libcurl does not know of, if somebody watches the request.

    Args:
        request: of the attempt.
        mark: ">" if it was sent, "<" if it came.
        block: as on the wire.
    """
    watch = watch_of(request)
    if watch is not None:
        watch.add(_Told(mark, block, HeadRedactor(request.sensitive)))


class _Told:
    def __init__(self, mark: str, block: bytes, text: HeadRedactor) -> None:
        self._mark, self._block, self._text = mark, block, text

    def take(self) -> Iterable[str]:
        """Return the lines of the head, without the end of the last one."""
        lines = self._block.removesuffix(b"\n").split(b"\n")
        show = self._text.line if log.masks else escape_bytes
        told = [show(line.removesuffix(b"\r")) for line in lines]
        return [f"{self._mark} {line}" for line in told]
