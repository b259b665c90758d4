"""The command `curlhttp`: what the library can do, at a shell prompt. Extra `cli`.

Here is only the way in, so that whoever lacks the extra is told.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its status; 2 where the extra is not installed."""
    if not all(map(find_spec, ("click", "rich"))):
        print("curlhttp: the command line needs: pip install 'curlhttp[cli]'", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    from curlhttp.cli.app import app

    # Ctrl-C may come between the making of a request and its first step.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    app()
