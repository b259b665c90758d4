"""A mutating fuzzer of responses: `python -m tests.fuzz --seed N --cases M [--sender NAME]`.

Every answer follows from the seed and the number of its case, so that one case can be had again.
"""
