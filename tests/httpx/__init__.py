"""Transports for httpx and httpx2, compared with the libraries' own."""
