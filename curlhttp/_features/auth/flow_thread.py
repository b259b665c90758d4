"""Run one step of a flow in a thread, where it can wait for a body that a task reads.

The response to a request of a flow may be the one that the caller streams, so its body is not read
before the flow has seen it. A generator cannot await it, but its thread can wait.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING

from curlhttp._http.errors import closed_while_reading
from curlhttp._http.exiting import start_thread

if TYPE_CHECKING:
    from curlhttp._client.streamed_response import BaseStreamedResponse
    from curlhttp._http.response import Response
    from curlhttp._runtime.run import Offload

_WANTS_BODY = object()


async def advance_in_thread(
    flow: Generator[object, Response, None],
    response: BaseStreamedResponse,
    run_blocking: Offload,
    end: object,
) -> object:
    """Return the next request that a flow yields, and read the body of a response if it asks.

    Args:
        flow: gets the response.
        response: whose body is not read yet.
        run_blocking: calls a function that may block.
        end: returned at the end of the flow.
    """
    step = _Step(flow, response, end)
    thread = None
    try:
        response._wait_for_body = step.wait_for_body
        thread = start_thread(partial(copy_context().run, step.run), "curlhttp-auth")
        while (found := await run_blocking(step.news.get)) is _WANTS_BODY:
            try:
                await response.load()
            except Exception as error:
                step.error = error  # raised in the flow, as where it reads the body itself
            step.loaded.set()
    finally:
        response._wait_for_body = None
        if thread is not None:
            step.leave()
            thread.join()  # so that the flow can be closed: it only has to compute
    if isinstance(found, BaseException):
        raise found
    return found


class _Step:
    """One step of a flow.

    Attributes:
        news: gets _WANTS_BODY, or what the flow yielded or raised.
        loaded: the body is in memory, or will not be.
        error: why it is not, or None.
    """

    def __init__(
        self, flow: Generator[object, Response, None], response: BaseStreamedResponse, end: object
    ) -> None:
        self.news: SimpleQueue[object] = SimpleQueue()
        self.loaded = threading.Event()
        self.error: Exception | None = None
        self._flow = flow
        self._response = response
        self._end = end

    def run(self) -> None:
        """Run the step."""
        try:
            self.news.put(self._flow.send(self._response))
        except StopIteration:
            self.news.put(self._end)
        except BaseException as error:  # raised again by the task
            self.news.put(error)

    def wait_for_body(self) -> None:
        """Wait in the flow until the body is in memory.

        Raises:
            RequestException: it could not be read.
        """
        if not self.loaded.is_set():
            self.news.put(_WANTS_BODY)
            self.loaded.wait()
        if self.error is not None:
            raise self.error

    def leave(self) -> None:
        """End a wait for the body, because the task has ended."""
        if not self.loaded.is_set():
            self.error = closed_while_reading(self._response.request)
            self.loaded.set()
