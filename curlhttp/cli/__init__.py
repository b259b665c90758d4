"""The command `curlhttp`: the library at a shell prompt. Extra `cli`.

This module only starts the command line, so that it can say which extra is missing.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its status, or with 2 if the extra is not installed."""
    if not all(map(find_spec, ("click", "rich"))):
        print("curlhttp: the command line needs: pip install 'curlhttp[cli]'", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    from curlhttp.cli.app import app

    # Ctrl-C may arrive after a coroutine is created and before its first step.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    app()
