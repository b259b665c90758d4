"""A storm: `python -m tests.storm --seed N --requests M`.

A server that cuts, resets, stalls and talks out of turn, and clients that read slowly, cancel and
leave midway. What either does about a request follows from the seed and the request's number.
"""
