"""Benchmarks: `python -m benchmarks cpu`, `python -m benchmarks import`."""
