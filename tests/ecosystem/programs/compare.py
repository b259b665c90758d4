"""Run a program from PyPI on requests and on curlhttp: its output and requests must be the same.

Each library has its own home folder, which is the program's current one, too.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers import AppServer, Record

_START = Path(__file__).with_name("start.py")
_BOUNDARY = re.compile(r'boundary="?([\w-]+)')


class Sent(NamedTuple):
    """A request as the server got it, without what is another one each time or in no order."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the value of a field."""
        return dict(self.headers).get(name)

    @classmethod
    def of(cls, record: Record) -> Sent:
        """Return what can be compared of a request."""
        headers, body = record.headers, record.body
        if found := _BOUNDARY.search(record.header("content-type") or ""):
            headers = [(name, value.replace(found[1], "BOUNDARY")) for name, value in headers]
            body = body.replace(found[1].encode(), b"BOUNDARY")
        fields = sorted((name.lower(), value) for name, value in headers)
        return cls(record.method, record.target, tuple(fields), body)


@dataclass
class Finished:
    """What a program did: its exit status, what it wrote, what servers got."""

    status: int
    output: str
    errors: str
    sent: list[Sent]

    def says(self, words: str) -> bool:
        """Return whether it wrote that, on however many lines."""
        return words in " ".join((self.output + self.errors).split())


class Both:
    """A program that runs on requests and on curlhttp.

    Args:
        name: of its console script.
        folder: for the homes.
        servers: whose requests are compared.
        plain: takes out of what the program wrote what is another each time, such as durations.
        variables: of the environment.

    Attributes:
        before: is called before each run, so that servers forget the one before.
    """

    before: Callable[[], object] = tuple

    def __init__(
        self,
        name: str,
        folder: Path,
        servers: Sequence[AppServer],
        plain: Callable[[str], str] = str,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        self._servers = servers
        self._plain = plain
        self._variables = variables or {}
        self.homes = {library: folder / library for library in ("requests", "curlhttp")}
        for home in self.homes.values():
            home.mkdir()

    def __call__(
        self, *arguments: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> Finished:
        """Run on both; return what it did on curlhttp, which is the same as on requests."""
        theirs, ours = self.each(*arguments, stdin=stdin, variables=variables)
        assert ours == theirs
        return ours

    def each(
        self, *arguments: str, stdin: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> tuple[Finished, Finished]:
        """Run on requests and on curlhttp; return the outcome, which need not be the same."""
        theirs, ours = (
            self._run(library, arguments, stdin, variables or {}) for library in self.homes
        )
        return theirs, ours

    def write(self, path: str, content: bytes) -> None:
        """Make a file in both homes."""
        for home in self.homes.values():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(content)

    def read(self, path: str) -> bytes:
        """Return what is in a file, which is the same in both homes."""
        theirs, ours = ((home / path).read_bytes() for home in self.homes.values())
        assert ours == theirs
        return ours

    def _run(
        self, library: str, arguments: tuple[str, ...], stdin: bytes, variables: Mapping[str, str]
    ) -> Finished:
        self.before()
        seen = [len(server.requests) for server in self._servers]
        home = self.homes[library]
        finished = subprocess.run(
            [sys.executable, _START, library, self._name, *arguments],
            input=stdin,
            capture_output=True,
            cwd=home,
            env={
                "HOME": str(home),
                "PATH": os.environ["PATH"],
                "COLUMNS": "100",
                "LANG": "C.UTF-8",
                "PYTHONHASHSEED": "0",  # some send what they have in sets
                **self._variables,
                **variables,
            },
            timeout=120,
        )
        sent = [
            Sent.of(record)
            for server, count in zip(self._servers, seen, strict=True)
            for record in server.requests[count:]
        ]
        output, errors = (
            self._plain(text.decode(errors="surrogateescape").replace(str(home), "HOME"))
            for text in (finished.stdout, finished.stderr)
        )
        return Finished(finished.returncode, output, errors, sent)


def needs(*modules: str) -> pytest.MarkDecorator:
    """Return the mark of tests that are skipped where a program is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(
        bool(missing), reason=f"{', '.join(missing)} not installed (group 'ecosystem')"
    )
