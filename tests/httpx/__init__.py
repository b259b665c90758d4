"""Transports for httpx and httpx2, held against those that the libraries bring."""
