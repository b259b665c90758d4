"""The command `curlhttp` (extra `cli`).

This module imports click and rich only in main(), so that it can say if the extra is missing.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    """Run the command line, and exit with its status, or with 2 if the extra is not installed."""
    if not all(map(find_spec, ("click", "rich"))):
        print("curlhttp: the command line needs: pip install 'curlhttp[cli]'", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    from curlhttp.cli.app import app

    # Ctrl-C may arrive between the creation of a coroutine and its first step.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    app()
