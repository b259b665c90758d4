"""Recordings: cassettes, HAR files, and redaction."""
