"""What all workers are told, and what each of them reports: small values that travel."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

__all__ = ["Format", "HostTimes", "PartResult", "PartWork"]

Format: TypeAlias = Literal["parquet", "jsonl"]


@dataclass(frozen=True, slots=True)
class PartWork:
    """Say how partitions are fetched, and where parts go.

    Args:
        out: the folder, as an absolute path or an fsspec URL.
        format: of the parts.
        concurrency: requests at once in each partition.
        inline: bytes of the largest body that stands in its row; larger ones are files. None
            for no limit.
        bodies: False to keep none.
        settings: the arguments of Client, pickled.
        per_host: requests at once to one origin, or None.
        rate: requests a second to one origin, or None.
        pause: seconds from the last request of a partition to its end, so that the next one of its
            lane keeps the rate.
    """

    out: str
    format: Format
    concurrency: int
    inline: int | None
    bodies: bool
    settings: bytes
    per_host: int | None = None
    rate: float | None = None
    pause: float = 0.0


@dataclass(slots=True)
class HostTimes:
    """What the requests to one host took.

    Args:
        requests: how many were answered.
        seconds: they took together, to the end of each.
        slowest: seconds of the one that took longest.
    """

    requests: int = 0
    seconds: float = 0.0
    slowest: float = 0.0


@dataclass(slots=True)
class PartResult:
    """Say what came of a partition: its entry in the manifest, and its share of the summary.

    Args:
        number: of the partition.
        digest: see Partition.
        rows: in the part.
        size: bytes of all bodies.
        seconds: from the first request to the end.
        statuses: how many rows by status code.
        errors: how many by the name of the exception.
        hosts: those whose requests took longest, in the mean.
    """

    number: int
    digest: str
    rows: int = 0
    size: int = 0
    seconds: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, HostTimes] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Return the entry of the manifest."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> PartResult:
        """Return the result that an entry of the manifest says.

        Raises:
            ValueError: it is none.
        """
        try:
            fields = json.loads(text)
            hosts = {name: HostTimes(**times) for name, times in fields.pop("hosts").items()}
            return cls(**fields, hosts=hosts)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError("this is no entry of a manifest") from error
