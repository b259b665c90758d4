"""The parent's side of the workers: one process per client and loop, one active at a time."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.clients import find
from benchmarks.clients.base import Settings
from benchmarks.machine import cores

__all__ = ["Contender", "Crew", "Failed", "Options", "Worker", "contenders", "environment", "pairs"]

_ROOT = Path(__file__).parent.parent
_ENVIRONMENT = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC")


class Failed(Exception):
    """A worker ended, or did not reply in time."""


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    output: Path
    rounds: int
    seconds: float = 0.5
    clients: tuple[str, ...] = ()
    server: str = "auto"
    niquests: str = ""


@dataclass(frozen=True)
class Contender:
    """A client on a loop, and the interpreter that runs it.

    `concurrency` is for comparing a client with itself: it replaces the concurrency of the case; 0
    keeps it.
    """

    name: str
    place: str
    loop: str
    python: str = sys.executable
    concurrency: int = 0

    @property
    def title(self) -> str:
        parts = [self.name, "" if self.loop == "none" else self.loop]
        parts.append(f"{self.concurrency} at once" if self.concurrency else "")
        return ", ".join(part for part in parts if part)


def contenders(
    registry: dict[str, str], options: Options, skipped: dict[str, str]
) -> list[Contender]:
    """Return the clients that are selected and installed, on each of their loops.

    Args:
        registry: names and paths, one of those in benchmarks.clients.
        options: from the command line.
        skipped: gets the names of the others, with the reason.
    """
    unknown = {name.partition("/")[0] for name in options.clients} - set(registry)
    if unknown:
        raise SystemExit(
            f"no such client: {', '.join(sorted(unknown))}; there are: {', '.join(registry)}"
        )
    chosen: list[Contender] = []
    for name, place in registry.items():
        loops = [loop for loop in find(place).loops if _asked_for(name, loop, options)]
        if loops and _installed(name, place, options, skipped):
            python = options.niquests if name == "niquests" else sys.executable
            chosen += [Contender(name, place, one, python) for one in loops if _has_loop(one)]
    return chosen


def pairs(
    names: Iterable[str], registry: dict[str, str], options: Options, skipped: dict[str, str]
) -> list[Contender]:
    """Return the installed ones of clients such as "curlhttp/uvloop/64".

    Args:
        names: a client's name, its loop, if it has one, and its concurrency, if it is not that
            of the case.
        registry: names and paths.
        options: from the command line.
        skipped: gets the names of the others, with the reason.
    """
    chosen: list[Contender] = []
    for title in names:
        name, *rest = title.split("/")
        number = int(rest.pop()) if rest and rest[-1].isdecimal() else 0
        loop = rest[0] if rest else "none"
        if _asked_for(name, loop, options) and _installed(name, registry[name], options, skipped):
            if _has_loop(loop):
                chosen.append(Contender(name, registry[name], loop, concurrency=number))
            else:
                skipped[title] = f"not installed: {loop}"
    return chosen


def _asked_for(name: str, loop: str, options: Options) -> bool:
    return not options.clients or not {name, f"{name}/{loop}"}.isdisjoint(options.clients)


def _has_loop(loop: str) -> bool:
    return loop in ("none", "asyncio") or bool(importlib.util.find_spec(loop))


def _installed(name: str, place: str, options: Options, skipped: dict[str, str]) -> bool:
    reason = _missing(name, place, options)
    if reason and name not in skipped:
        skipped[name] = reason
        print(f"{name}: skipped, {reason}", file=sys.stderr)
    return not reason


def _missing(name: str, place: str, options: Options) -> str:
    if name == "niquests":
        how = "give its interpreter with --python-niquests (in its own venv: it replaces urllib3)"
        return "" if options.niquests else how
    lacking = [module for module in find(place).modules if not importlib.util.find_spec(module)]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


class Worker:
    """A process that runs a client.

    Args:
        contender: the client to run.
        settings: those of the case.
        core: the core to pin it to.
    """

    def __init__(self, contender: Contender, settings: Settings, core: int | None) -> None:
        orders = {
            "client": contender.place,
            "loop": contender.loop,
            "settings": asdict(settings),
            "core": core,
        }
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._received = b""
        self._process = subprocess.Popen(
            [contender.python, "-m", "benchmarks.worker", json.dumps(orders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(),
            bufsize=0,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def tell(self, command: dict[str, Any]) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
        except BrokenPipeError:
            raise Failed(self._last_words()) from None

    def answer(self, timeout: float = 120) -> dict[str, Any]:
        """Wait for one reply.

        Args:
            timeout: seconds.
        """
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        while b"\n" not in self._received:
            readable, _, _ = select.select(
                [self._process.stdout], [], [], max(0.0, deadline - time.monotonic())
            )
            if not readable:
                self._process.kill()
                raise Failed(f"no answer within {timeout:.0f} s")
            data = os.read(self._process.stdout.fileno(), 1 << 20)
            if not data:
                raise Failed(self._last_words())
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, **command: Any) -> dict[str, Any]:
        """Send a command, and wait for the result."""
        self.tell(command)
        return self.answer()

    def _last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"ended with status {self._process.returncode}"


def environment() -> dict[str, str]:
    """Return the environment of measured processes, without proxies and CAs."""
    kept = {key: value for key, value in os.environ.items() if not _disturbs(key)}
    return {**kept, "PYTHONPATH": str(_ROOT)}


def _disturbs(variable: str) -> bool:
    return variable in _ENVIRONMENT or variable.lower().endswith("_proxy")


@dataclass
class Crew:
    """The workers of one case, by contender, and those that cannot take part, with the reason."""

    core: int | None
    workers: dict[Contender, Worker] = field(default_factory=dict)
    failed: dict[Contender, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def living(self) -> list[Contender]:
        """Return the workers that have not failed."""
        return [one for one in self.workers if one not in self.failed]

    def ask(self, contender: Contender, **command: Any) -> dict[str, Any] | None:
        """Send a command to a worker; return None if it fails, now or earlier."""
        if contender in self.failed:
            return None
        try:
            return self.workers[contender].ask(**command)
        except Failed as error:
            self.failed[contender] = str(error)
            print(f"{contender.title}: {error}", file=sys.stderr)
            return None

    @classmethod
    @contextmanager
    def of(cls, contenders: list[Contender], settings: Settings) -> Iterator[Crew]:
        """Start a worker for each contender; end them afterwards."""
        crew = cls(cores()[1])
        with ExitStack() as stack:
            for one in contenders:
                if settings.http2 and not find(one.place).http2:
                    crew.failed[one] = "has no HTTP/2"
                    continue
                worker = stack.enter_context(Worker(one, settings, crew.core))
                crew.workers[one] = worker
                try:
                    crew.versions.update(worker.answer()["versions"])
                except Failed as error:
                    crew.failed[one] = str(error)
            yield crew
