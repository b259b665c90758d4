"""Crawls of a small internet: CPU, memory, a slow host, limits; also of aiohttp and Scrapy."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.crawlers import CRAWLERS, Settings
from benchmarks.crew import Failed, Options, environment
from benchmarks.internet import SLOW, Internet, origin, run
from benchmarks.machine import cores, describe, pin
from benchmarks.progress import Progress

__all__ = ["measure"]

_PATIENCE = 600.0  # seconds
_SHARES = {  # of 20 origins
    "fast": 10,
    "late": 1,
    "slow": 1,
    "compressed": 1,
    "large": 1,
    "redirects": 1,
    "robots.txt": 1,
    "Retry-After": 1,
    "resets": 1,
    "cut short": 1,
    "silent": 1,
}
_SLOW_PAGES = 100
_SLOW_URLS_PER_ORIGIN = 40
_RATE = 20  # requests per second


@dataclass(frozen=True)
class _Case:
    name: str
    about: str
    urls: list[str]
    settings: Settings
    watched: int = 0  # see Internet.begin


def measure(origins: int, urls: int, scrapy: str, options: Options) -> dict[str, Any]:
    """Return what crawlers and origins did.

    Args:
        origins: their number in the mix.
        urls: the number of fast ones after those of the slow host.
        scrapy: the interpreter of an environment with Scrapy, or "".
        options: from the command line.
    """
    skipped: dict[str, str] = {}
    pythons = _pythons(scrapy, options, skipped)
    with run(cores()[0]) as internet, Progress("crawl") as progress:
        cases = _cases(origins, urls, internet.port, skipped)
        results: dict[str, Any] = {
            "benchmark": "crawl",
            "machine": describe(),
            "server": f"benchmarks/internet.py, one process with {origins:,} origins",
            "settings": {"rounds": options.rounds, "origins": origins, "urls": urls},
            "versions": _versions(pythons),
            "skipped": skipped,
            "cases": [],
        }
        total = len(cases) * options.rounds * len(pythons)
        done = 0
        for case in cases:
            samples: dict[str, list[dict[str, Any]]] = {name: [] for name in pythons}
            for _ in range(options.rounds):
                for name, python in pythons.items():
                    progress.show(f"{case.name}, {name}", done, total)
                    done += 1
                    try:
                        samples[name].append(_measure(name, python, case, internet))
                    except Failed as error:
                        skipped[f"{name}, {case.name}"] = str(error)
            results["cases"].append(
                {
                    "name": case.name,
                    "about": case.about,
                    "urls": len(case.urls),
                    "settings": case.settings,
                    "rows": [
                        {"client": name, "samples": found}
                        for name, found in samples.items()
                        if found
                    ],
                }
            )
    return results


def _pythons(scrapy: str, options: Options, skipped: dict[str, str]) -> dict[str, str]:
    """Return the interpreter of each crawler that is installed."""
    found: dict[str, str] = {}
    for name in CRAWLERS:
        python = scrapy if name == "Scrapy" and scrapy else sys.executable
        module = name.lower() if name in ("aiohttp", "Scrapy") else "curlhttp"
        if options.clients and name not in options.clients:
            continue
        if python == sys.executable and not importlib.util.find_spec(module):
            skipped[name] = "not installed"
            print(f"{name}: skipped, not installed", file=sys.stderr)
        else:
            found[name] = python
    return found


def _versions(pythons: dict[str, str]) -> dict[str, str]:
    found = {"curlhttp": version("curlhttp"), "pycurl": version("pycurl")}
    for name in {"aiohttp", "Scrapy"} & set(pythons):
        code = f"from importlib.metadata import version; print(version({name!r}))"
        answer = subprocess.run([pythons[name], "-c", code], capture_output=True, text=True)
        found[name] = answer.stdout.strip()
    return found


def _cases(origins: int, urls: int, port: int, skipped: dict[str, str]) -> list[_Case]:
    defaults = {
        "concurrency": 64, "per_host": 2, "timeout": 30, "rate": 0, "retry": 0, "robots": "",
    }  # fmt: skip
    hosts = max(1, urls // _SLOW_URLS_PER_ORIGIN)
    slow = origin("slow", 0, port)
    first = [f"{slow}/{number}" for number in range(_SLOW_PAGES)]
    first += [f"{origin('fast', number % hosts, port)}/{number}" for number in range(urls)]
    mix = [
        f"{origin(kind, number, port)}/{folder}"
        for folder in ("1", "2", "3", "private/4")
        for twentieth in range(max(1, origins // 20))
        for kind, share in _SHARES.items()
        for number in range(twentieth * share, twentieth * share + share)
    ]
    polite = [
        f"{origin('fast', number, port)}/{page}"
        for page in range(2 * _RATE)
        for number in range(min(20, origins))
    ]
    robots = "crawler" if importlib.util.find_spec("protego") else ""
    if not robots:
        skipped["robots.txt"] = "not obeyed, since protego is not installed"
    return [
        _Case(
            "a slow host first",
            f"{_SLOW_PAGES} URLs of a host that takes {SLOW:.0f} s for an answer, until 95% of the "
            f"others are done. Then {urls:,} fast ones of "
            f"{hosts:,} hosts. At most 2 requests at once to a host, and 64 in all.",
            first,
            defaults,
            urls,
        ),
        _Case(
            "the mix",
            f"{len(mix):,} URLs of {origins:,} origins, half of which are fast; the others are one "
            "of ten kinds. At most 2 requests at once to a host, and 256 in all. curlhttp and "
            "Scrapy retry up to twice, and obey robots.txt; aiohttp does neither.",
            mix,
            {**defaults, "concurrency": 256, "timeout": 2, "retry": 2, "robots": robots},
        ),
        _Case(
            "a rate",
            f"{len(polite):,} URLs of {min(20, origins)} fast hosts, at most {_RATE} requests per "
            "second to each. aiohttp has no rates.",
            polite,
            {**defaults, "rate": _RATE},
        ),
    ]


def _measure(name: str, python: str, case: _Case, internet: Internet) -> dict[str, Any]:
    """Run a crawler; its CPU is that of all its URLs, less that of one."""
    started = _crawl(name, python, case.urls[-1:], case.settings)
    internet.begin(case.watched)
    found = _crawl(name, python, case.urls, case.settings)
    found["cpu"] = (found["cpu"] - started["cpu"]) / max(1, len(case.urls) - 1)
    found["wall"] -= started["wall"]
    return {**found, **internet.report()}


def _crawl(name: str, python: str, urls: list[str], settings: Settings) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "urls")
        path.write_text("".join(f"{url}\n" for url in urls))
        output, errors = Path(folder, "output"), Path(folder, "errors")
        command = [python, "-m", "benchmarks.crawlers", name, str(path), json.dumps(settings)]
        before = os.times()
        with output.open("w") as out, errors.open("w") as err:
            begun = time.perf_counter()
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=err,
                env=environment(),
                preexec_fn=lambda: pin(cores()[1]),
            )
            peak = _watch(process)
            wall = time.perf_counter() - begun
        after = os.times()
        lines = output.read_text().strip().splitlines()
        if not lines:
            said = errors.read_text().strip().splitlines()
            raise Failed(said[-1] if said else f"ended with status {process.returncode}")
        counts = json.loads(lines[-1])
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return {"ok": counts["ok"], "failed": counts["failed"], "wall": wall, "cpu": cpu, "peak": peak}


def _watch(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process; return the most bytes of memory that it had."""
    peak, deadline = 0, time.monotonic() + _PATIENCE
    while process.poll() is None:
        with suppress(OSError):
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    peak = 1024 * int(line.split()[1])
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise Failed(f"not done within {_PATIENCE:.0f} s")
        time.sleep(0.05)
    return peak
