"""Transports for httpx and httpx2, written once: neither of them is imported here."""
