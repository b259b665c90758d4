"""The machine, the versions and the commit that figures belong to, and the cores."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pycurl

__all__ = ["cores", "describe", "pin"]


def cores() -> tuple[int | None, int | None]:
    """Return the cores for the server and for the clients; None if pinning is not possible."""
    if not hasattr(os, "sched_setaffinity"):
        return None, None
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


def pin(core: int | None) -> None:
    """Pin this process to a core."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def describe() -> dict[str, Any]:
    """Return what a reader needs to compare figures with others."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libcurl": str(pycurl.version),
        "load": list(os.getloadavg()),
    }


def _commit() -> str:
    try:
        head = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "curlhttp", "benchmarks")
        return head + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    folder = Path(__file__).parent
    answer = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True)
    return answer.stdout.decode().strip()


def _cpu() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
