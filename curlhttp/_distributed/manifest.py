"""The manifest: what a fetch is, and which of its partitions are done.

manifest/fetch.json says what was asked for; manifest/00000000.json, written by the worker after the
part, what came of partition 0. One driver at a time: it holds a lock on manifest/lock, or, where
there are no locks, keeps manifest/driver.json young.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from curlhttp._distributed.folders import OutFolder
from curlhttp._distributed.work import Format, PartResult

__all__ = ["Manifest", "Terms", "entry_name", "part_name", "spilled_name"]

_VERSION = 1
_HEAD = "manifest/fetch.json"
_SUMMARY = "manifest/summary.json"
_ENTRY = re.compile(r"(\d{8,})\.json").fullmatch


def part_name(number: int, format: Format) -> str:
    """Return the name of a part.

    Args:
        number: of its partition.
        format: of the part.
    """
    return f"parts/part-{number:08}.{format}"


def entry_name(number: int) -> str:
    """Return the name of a partition's entry."""
    return f"manifest/{number:08}.json"


def spilled_name(number: int) -> str:
    """Return the name of a partition's URLs."""
    return f"input/{number:08}.jsonl"


@dataclass(frozen=True, slots=True)
class Terms:
    """Say what must be the same where a fetch goes on.

    Args:
        format: of the parts.
        partition: rows in each, at most.
        lanes: of hosts; 0 without.
        inline: see PartWork.
        bodies: likewise.
        settings: what the other arguments are, by name, without credentials.
    """

    format: Format
    partition: int
    lanes: int
    inline: int | None
    bodies: bool
    settings: dict[str, str] = field(default_factory=dict)

    def changes(self, was: Terms) -> list[str]:
        """Return the names of what differs from the terms of an earlier call."""
        ours, theirs = asdict(self), asdict(was)
        mine, before = ours.pop("settings"), theirs.pop("settings")
        del ours["lanes"], theirs["lanes"]
        changed = [name for name in ours if ours[name] != theirs[name]]
        names = sorted(mine.keys() | before.keys())
        return changed + [name for name in names if mine.get(name) != before.get(name)]


class Manifest:
    """Read and write the manifest of a fetch.

    Args:
        folder: the folder of the fetch.
    """

    def __init__(self, folder: OutFolder) -> None:
        self._folder = folder

    def agree(self, terms: Terms) -> Terms:
        """Return the terms that hold: those given, or those of the call that began the fetch.

        Args:
            terms: of this call.

        Raises:
            ValueError: they differ, or the folder holds something else.
            OSError: the folder cannot be written to.
        """
        text = self._folder.read(_HEAD)
        if text is None:
            if any(True for _ in self._folder.names("parts")):
                raise ValueError(f"{self._folder.path('')} has parts, but no manifest of a fetch")
            with self._folder.writing(_HEAD) as stream:
                stream.write(json.dumps({"version": _VERSION, **asdict(terms)}, indent=1).encode())
            return terms
        was = self._terms(text)
        changed = terms.changes(was)
        if changed:
            raise ValueError(
                f"the fetch in {self._folder.path('')} was begun with other settings: "
                f"{', '.join(changed)}; give the same ones, or another folder"
            )
        if terms.lanes and not was.lanes:
            raise ValueError(
                f"the fetch in {self._folder.path('')} was begun without per_host and rate, so its "
                "partitions have hosts in common; give a store with them, or another folder"
            )
        return was

    def _terms(self, text: bytes) -> Terms:
        try:
            fields = json.loads(text)
            version = fields.pop("version")
            terms = Terms(**fields)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{self._folder.path(_HEAD)} is no manifest of a fetch") from None
        if version != _VERSION:
            raise ValueError(
                f"{self._folder.path(_HEAD)} is of version {version}; this one reads {_VERSION}"
            )
        return terms

    def entries(self) -> Iterator[PartResult]:
        """Give what is known of the partitions that are done.

        Raises:
            ValueError: an entry cannot be read.
        """
        names = [name for name in self._folder.names("manifest") if _ENTRY(name)]
        for name, text in self._folder.read_all("manifest", sorted(names)):
            try:
                yield PartResult.from_json(text)
            except ValueError as error:
                raise ValueError(f"{self._folder.path(f'manifest/{name}')}: {error}") from None

    def finish(self, summary: dict[str, object]) -> None:
        """Write the summary, and remove what was spilled.

        Args:
            summary: of the whole fetch.
        """
        with self._folder.writing(_SUMMARY) as stream:
            stream.write(json.dumps(summary, indent=1).encode())
        for name in list(self._folder.names("input")):
            self._folder.remove(f"input/{name}")
        self._folder.tidy()
