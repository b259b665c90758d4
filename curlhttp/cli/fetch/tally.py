"""What a run counts, and its summary: for people and as JSON."""

from __future__ import annotations

import time
from collections import Counter

from curlhttp.cli.fetch.record import FetchRecord
from curlhttp.cli.latency import Latencies, shown_seconds

__all__ = ["Tally", "shown_bytes", "shown_counts"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Tally:
    """Count records.

    Attributes:
        done: records of this run.
        ok: of these, those that went well.
        skipped: lines that were recorded before.
        statuses: how many by class, such as "2xx".
        errors: how many by kind, such as "ReadTimeout".
        size: bytes of all bodies.
        latencies: of the last attempts.
    """

    def __init__(self) -> None:
        self.done: int = 0
        self.ok: int = 0
        self.skipped: int = 0
        self.size: int = 0
        self.statuses: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.latencies: Latencies = Latencies()
        self._begun = time.monotonic()

    def add(self, record: FetchRecord) -> None:
        """Count a record.

        Args:
            record: complete.
        """
        self.done += 1
        self.ok += record.ok
        self.size += record.size
        if record.error is not None:
            self.errors[record.error] += 1
        elif record.status is not None:
            self.statuses[f"{record.status // 100}xx"] += 1
            if record.elapsed is not None:
                self.latencies.add(record.elapsed)

    @property
    def failed(self) -> int:
        """Return how many did not go well."""
        return self.done - self.ok

    @property
    def seconds(self) -> float:
        """Return how long this has been going on."""
        return time.monotonic() - self._begun

    def summary(self) -> dict[str, object]:
        """Return what --summary json shows; seconds and bytes."""
        seconds = self.seconds
        return {
            "done": self.done,
            "ok": self.ok,
            "failed": self.failed,
            "skipped": self.skipped,
            "statuses": dict(sorted(self.statuses.items())),
            "errors": dict(self.errors.most_common()),
            "bytes": self.size,
            "seconds": round(seconds, 3),
            "rate": round(self.done / seconds, 1) if seconds else 0.0,
            "p50": round(self.latencies.percentile(50), 6),
            "p95": round(self.latencies.percentile(95), 6),
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return the summary for people: a name and what there is to say."""
        seconds = self.seconds
        rate = self.done / seconds if seconds else 0.0
        size = shown_bytes(self.size)
        rows = [
            ("fetched", f"{self.done:,} in {seconds:.1f} s, {rate:,.0f}/s, {size}"),
            ("answers", shown_counts(self.statuses)),
            ("errors", shown_counts(self.errors)),
        ]
        if self.latencies.count:
            p50, p95 = (shown_seconds(self.latencies.percentile(part)) for part in (50, 95))
            rows.append(("latency", f"p50 {p50}, p95 {p95}"))
        if self.skipped:
            rows.append(("skipped", f"{self.skipped:,} recorded before"))
        return rows


def shown_counts(counts: Counter[str], most: int | None = None) -> str:
    """Return counts as "ReadTimeout 20, SSLError 5"; "none" where there are none.

    Args:
        counts: by name.
        most: how many names to show, the most frequent first; None for all.
    """
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ranked[:most]) or "none"


def shown_bytes(size: float) -> str:
    """Return bytes as people say them."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} {_UNITS[-1]}"
