"""What `curlhttp fetch` knows of URLs before it sends them: duplicates, and an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from curlhttp._features.fetch.listed_urls import DuplicateURLs
from curlhttp.cli.errors import READ_ERROR, CommandFailed, needing_package
from curlhttp.cli.fetch.input import InputLine

if TYPE_CHECKING:
    from curlhttp._features.fetch.earlier import EarlierRun


class DuplicateLines:
    """Find lines whose canonical URL a line before them had; see DuplicateURLs.

    Lines with a method, headers, a body or credentials are requests of their own.
    """

    def __init__(self) -> None:
        self._urls = DuplicateURLs()

    def has(self, line: InputLine) -> bool:
        """Return whether a line before this one had its URL, and remember it."""
        options = line.options
        if line.problem or options.keys() - {"headers"} or options.get("headers"):
            return False
        return self._urls.has(line.url)


def open_earlier_run(path: Path) -> EarlierRun:
    """Return the validators in an output.

    Raises:
        CommandFailed: it cannot be read, or is no output of fetch.
    """
    from curlhttp._features.fetch.earlier import EarlierRun

    try:
        with needing_package(f"{path}: "):
            return EarlierRun(str(path))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}", READ_ERROR) from None
    except ValueError as error:
        raise CommandFailed(str(error), 2) from None
