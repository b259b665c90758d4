"""The certificate authorities that are trusted by default: certifi's.

`python -m curlhttp.requests.certs` prints the path.
"""

from __future__ import annotations

__all__ = ["where"]


def where() -> str:
    """Return the path of the bundle."""
    import certifi

    return certifi.where()


if __name__ == "__main__":
    print(where())  # noqa: T201
