"""`python -m curlhttp`: the command line."""

from __future__ import annotations

from curlhttp.cli import main

if __name__ == "__main__":
    main()
