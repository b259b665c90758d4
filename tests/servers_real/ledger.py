"""A ledger of what was sent to each server and of the outcomes.

Four counts must be zero at the end: wrong responses, POSTs that were processed twice, errors with
`request_sent=False` whose request was processed, and hangs.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import anyio

import curlhttp
from tests.servers_real.program import Program

FAILURES = ("wrong answers", "POSTs twice", "unsent, but processed", "hangs")
_ENDPOINTS = {"plain": "HTTP/1.1", "tls": "TLS", "h2": "HTTP/2", "h3": "HTTP/3"}
_HUNG = 90.0  # seconds, more than all limits of a request; the watchdog has those that block
_numbers = itertools.count(1)


class Operation:
    """One request, or what a user calls once.

    Attributes:
        id: names it to the server, as `?id=`.
        error: what it ended with, if it is one of ours.
    """

    def __init__(self, method: str) -> None:
        self.id = f"{method.lower()}-{next(_numbers)}."
        self.method = method
        self.error: BaseException | None = None


class Ledger:
    """Count the operations of all servers.

    Attributes:
        counts: of each server by its name.
    """

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._unsettled: list[tuple[Program, Operation]] = []
        self._lock = threading.Lock()

    @contextmanager
    def operation(
        self, program: Program, method: str = "GET", *, may_be_stopped: bool = True
    ) -> Iterator[Operation]:
        """Count what is sent in the block; an assertion that fails in it is a wrong response.

        Args:
            program: to which it is sent.
            method: of the request.
            may_be_stopped: it is awaited, so that a hanging one can be stopped alone.
        """
        operation = Operation(method)
        self._count(program, "operations")
        self._unsettled.append((program, operation))
        try:
            with anyio.fail_after(_HUNG) if may_be_stopped else nullcontext():
                yield operation
        except curlhttp.RequestException as error:
            self._count(program, "errors")
            operation.error = error
            raise
        except AssertionError:
            self._count(program, "wrong answers")
            raise
        except TimeoutError:
            self._count(program, "hangs")
            raise

    def _count(self, program: Program, kind: str) -> None:
        with self._lock:
            self.counts[program.name][kind] += 1

    def settle(self) -> None:
        """Compare what the servers saw with what the clients know, of all since the last time."""
        unsettled, self._unsettled = self._unsettled, []
        for program in {program for program, _ in unsettled}:
            seen, counts, found = program.seen(), self.counts[program.name], []
            for operation in (one for other, one in unsettled if other is program):
                times, error = seen[operation.id], operation.error
                if operation.method == "POST" and times > 1:
                    counts["POSTs twice"] += 1
                    found.append(f"{operation.id} was processed {times} times")
                is_unsent = isinstance(error, curlhttp.RequestException) and not error.request_sent
                if is_unsent and times:
                    counts["unsent, but processed"] += 1
                    found.append(f"{operation.id} was processed, and not sent: {error!r}")
            assert not found, found

    def add(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Count what another process counted."""
        for name, kinds in counts.items():
            self.counts[name].update(kinds)

    def table(self, kinds: Iterable[type[Program]]) -> str:
        """Return what was sent to servers of these kinds as a table of Markdown."""
        columns = ("server", "what it is here", "over", "operations", "errors", "failures")
        lines = [f"| {' | '.join(columns)} |", "|---|---|---|--:|--:|--:|"]
        for kind in kinds:
            if counts := self.counts.get(kind.name):
                name = f"{kind.name} {kind.version()}"
                over = ", ".join(_ENDPOINTS[endpoint] for endpoint in kind.endpoints)
                failures = sum(counts[failure] for failure in FAILURES)
                numbers = [f"{counts['operations']:,}", str(counts["errors"]), str(failures)]
                lines.append(f"| {' | '.join([name, kind.role, over, *numbers])} |")
        return "\n".join(lines)
