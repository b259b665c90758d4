"""The methods of features that both clients have."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from curlhttp._client.base import BaseClient

if TYPE_CHECKING:
    from curlhttp._features.record.record import HarLog
    from curlhttp._features.stats import ClientStats


class SharedMethods(BaseClient):
    """Methods that are the same in both clients."""

    def stats(self) -> ClientStats:
        """Return what is open, waiting and limited right now, and what the client has done.

            print(client.stats().attempts)
            print(client.stats().as_prometheus())

        It is cheap, and any thread may call it, even after the client was closed. A forked child
        starts at zero.
        """
        from curlhttp._features.stats import Sources, collect

        breaker, concurrency_limit = self._policies
        policy = self._retry or self._default_retry
        return collect(
            Sources(
                self._totals,
                [each for ref in self._reporting.keyrefs() if (each := ref()) is not None],
                breaker,
                concurrency_limit,
                None if policy is None else policy.budget,
                self._endpoints,
            ),
            self._runtime.now(),
        )

    def har(self, path: str | os.PathLike[str], *, secrets: Iterable[str] = ()) -> HarLog:
        """Record everything this client sends and receives to a HAR 1.2 file, for browser tools.

            with client.har("slow.har"):
                client.get("https://api.example.org/users")

        Each attempt of a request is one entry, with its timings and its response. A failed attempt
        has status 0. Credentials are masked as in Record. Everything, including bodies, stays in
        memory until the `with` ends.

        Args:
            path: the file. It is written when the `with` ends, and replaces an existing file.
            secrets: additional names to mask; see Record.

        Raises:
            OSError: the file cannot be written. Raised when the `with` ends.
        """
        from curlhttp._features.record.record import HarLog

        return HarLog(path, secrets, self._add_recorder, self._remove_recorder, self._runtime.wall)

    def _add_recorder(self, recorder: HarLog) -> None:
        settings = self._chain.settings
        with self._totals.lock:  # another thread may begin or end a recording now
            if "cache" in settings:
                settings["middleware"] = (*settings.get("middleware", ()), recorder.note_cached)
            self._add_wrapper(recorder)

    def _remove_recorder(self, recorder: HarLog) -> None:
        note, settings = recorder.note_cached, self._chain.settings
        with self._totals.lock:
            kept = tuple(each for each in settings.pop("middleware", ()) if each != note)
            if kept:
                settings["middleware"] = kept
            self._remove_wrapper(recorder)
