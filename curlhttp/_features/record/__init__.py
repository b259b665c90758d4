"""Recordings: exchanges in HAR 1.2 files, which can be played back instead of using the network."""
