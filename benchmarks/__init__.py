"""Benchmarks: `python -m benchmarks all`, or one of its commands; see `--help`."""
