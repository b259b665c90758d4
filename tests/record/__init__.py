"""Recordings: cassettes, HAR files, what is masked in them."""
