"""A mutating fuzzer of responses: `python -m tests.fuzz --seed N --cases M [--sender NAME]`.

Every response follows from the seed and the number of its case, so that a case can be repeated.
"""
