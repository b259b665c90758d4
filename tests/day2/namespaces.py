"""Run a program in namespaces of its own, where it may change names and the network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_RIGHTS = () if hasattr(os, "getuid") and os.getuid() == 0 else ("--map-root-user",)


def run_in_namespaces(module: str, path: Path, *options: str) -> Any:
    """Return what a module printed as JSON; skip the test where there are no such namespaces.

    Args:
        module: is run with the path as its argument.
        path: a folder, in which it runs, or a file of that.
        options: of unshare(1), beside that for mounts.
    """
    folder = path if path.is_dir() else path.parent
    command = ["unshare", "--mount", *_RIGHTS, *options]
    if not _may_mount(command, folder):
        pytest.skip(f"needs namespaces: {' '.join(command)}")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [*command, sys.executable, "-m", module, str(path)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _may_mount(command: list[str], folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    test = [*command, "mount", "--bind", str(folder), str(folder)]
    return subprocess.run(test, capture_output=True, check=False).returncode == 0
