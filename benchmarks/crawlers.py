"""The crawlers of `python -m benchmarks crawl`, each in its own process.

Each fetches the URLs of a file, and prints how many succeeded and failed, as JSON. Scrapy may be in
another environment, so this module imports nothing else of this folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

Settings = dict[str, Any]
"""concurrency, per_host, timeout, rate, retry and robots; the last three may be 0 or ""."""


def _urls(path: str) -> Iterator[str]:
    with open(path) as lines:
        for line in lines:
            yield line.rstrip()


def _print(ok: int, failed: int) -> None:
    print(json.dumps({"ok": ok, "failed": failed}))


def _options(settings: Settings) -> dict[str, Any]:
    import curlhttp

    chosen: dict[str, Any] = {
        "concurrency_limit": curlhttp.ConcurrencyLimit(settings["per_host"]),
        "timeout": curlhttp.Timeout(attempt=settings["timeout"]),
        "retry_after": "origin",
    }
    if settings["retry"]:
        chosen["retry"] = settings["retry"]
    if settings["rate"]:
        chosen["rate_limit"] = curlhttp.RateLimit(settings["rate"])
    if settings["robots"]:
        chosen["robots"] = settings["robots"]
    return chosen


def client_map(path: str, settings: Settings) -> None:
    """Use `Client.map`."""
    import curlhttp

    ok = failed = 0
    with curlhttp.Client(**_options(settings)) as client:
        for result in client.map(_urls(path), concurrency=settings["concurrency"]):
            if isinstance(result, curlhttp.Response) and result.is_success:
                ok += 1
            else:
                failed += 1
    _print(ok, failed)


def async_client_map(path: str, settings: Settings) -> None:
    """Use `AsyncClient.map` on asyncio."""
    import curlhttp

    async def crawl() -> None:
        ok = failed = 0
        async with curlhttp.AsyncClient(**_options(settings)) as client:
            async for result in client.map(_urls(path), concurrency=settings["concurrency"]):
                if isinstance(result, curlhttp.Response) and result.is_success:
                    ok += 1
                else:
                    failed += 1
        _print(ok, failed)

    asyncio.run(crawl())


def fetch(path: str, settings: Settings) -> None:
    """Use the command, which writes records with their bodies to a file."""
    from curlhttp.cli.app import app

    options = {
        "--concurrency": settings["concurrency"],
        "--per-host": settings["per_host"],
        "--max-time": settings["timeout"],
        "--rate": settings["rate"],
        "--retry": settings["retry"],
        "--robots": settings["robots"],
        "--summary": "json",
    }
    given = [str(part) for option, value in options.items() if value for part in (option, value)]
    with tempfile.TemporaryDirectory() as folder:
        command = ["fetch", path, "-q", "-o", f"{folder}/pages.jsonl", *given]
        app(command, standalone_mode=False)


def part(path: str, settings: Settings) -> None:
    """Use `run_partition`: what a worker of a distributed fetch does."""
    import pickle

    from curlhttp.distributed.partition import Partition, TextLines
    from curlhttp.distributed.worker import WorkerConfig, run_partition

    chosen = _options(settings)
    for name in ("concurrency_limit", "rate_limit", "retry_after"):
        chosen.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        config = WorkerConfig(
            out=folder,
            format="jsonl",
            concurrency=settings["concurrency"],
            per_host=settings["per_host"],
            rate=settings["rate"] or None,
            inline=65_536,
            bodies=True,
            settings=pickle.dumps(chosen),
        )
        lines = TextLines(path, 0, os.stat(path).st_size, 0)
        result = run_partition(config, Partition(0, lines, "x"))
    ok = result.statuses.get("200", 0)
    _print(ok, result.rows - ok)


def aiohttp(path: str, settings: Settings) -> None:
    """Use aiohttp as its users do: tasks that take URLs in turn, and a limit for each host."""
    from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

    async def crawl() -> None:
        ok = failed = 0
        urls = _urls(path)

        async def work() -> None:
            nonlocal ok, failed
            for url in urls:
                try:
                    async with session.get(url) as response:
                        await response.read()
                        ok += response.ok
                        failed += not response.ok
                except (ClientError, asyncio.TimeoutError):
                    failed += 1

        connector = TCPConnector(limit=settings["concurrency"], limit_per_host=settings["per_host"])
        # Its total would include the wait for the limits.
        timeout = ClientTimeout(total=None, sock_read=settings["timeout"])
        async with ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*[work() for _ in range(settings["concurrency"])])
        _print(ok, failed)

    asyncio.run(crawl())


def scrapy(path: str, settings: Settings) -> None:
    """Use a spider without pipelines, with the limits that are set."""
    framework: Any = import_module("scrapy")
    counts = {"ok": 0, "failed": 0}

    class Pages(framework.Spider):  # type: ignore[misc]
        name = "pages"

        async def start(self) -> AsyncIterator[Any]:
            for url in _urls(path):
                yield framework.Request(url, self.parse, errback=self.fail, dont_filter=True)

        def parse(self, response: Any) -> None:
            counts["ok"] += 1

        def fail(self, failure: Any) -> None:
            counts["failed"] += 1

    process = import_module("scrapy.crawler").CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": settings["concurrency"],
            "CONCURRENT_REQUESTS_PER_DOMAIN": settings["per_host"],
            "DOWNLOAD_DELAY": 1 / settings["rate"] if settings["rate"] else 0,
            "RANDOMIZE_DOWNLOAD_DELAY": False,
            "DOWNLOAD_TIMEOUT": settings["timeout"],
            "RETRY_ENABLED": bool(settings["retry"]),
            "RETRY_TIMES": settings["retry"],
            "ROBOTSTXT_OBEY": bool(settings["robots"]),
            "ROBOTSTXT_USER_AGENT": settings["robots"] or None,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "CRITICAL",
        }
    )
    process.crawl(Pages)
    process.start()
    _print(counts["ok"], counts["failed"])


CRAWLERS: dict[str, Callable[[str, Settings], None]] = {
    "Client.map": client_map,
    "AsyncClient.map": async_client_map,
    "curlhttp fetch": fetch,
    "a distributed part": part,
    "aiohttp": aiohttp,
    "Scrapy": scrapy,
}

if __name__ == "__main__":
    CRAWLERS[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
