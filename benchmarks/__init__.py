"""Benchmarks: `python -m benchmarks async`, and sync, million, import, cpu, report."""
