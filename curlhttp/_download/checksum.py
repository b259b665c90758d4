"""A checksum that a file shall have, as "algorithm:hex"."""

from __future__ import annotations

import hashlib
from typing import NamedTuple, Protocol

__all__ = ["Checksum", "Hasher"]


class Hasher(Protocol):
    """A hash object of hashlib."""

    @property
    def digest_size(self) -> int:
        """Return the bytes of the digest."""

    def update(self, data: bytes, /) -> None:
        """Take more data."""

    def hexdigest(self) -> str:
        """Return the digest of all data so far, in hex."""


class Checksum(NamedTuple):
    """What the digest of a file must be.

    Attributes:
        algorithm: a name of hashlib's, such as "sha256".
        digest: in lower-case hex.
    """

    algorithm: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """Read "algorithm:hex".

        Raises:
            TypeError: it is not a str.
            ValueError: it has another form, hashlib does not have the algorithm, or the digest is
                of another length.
        """
        if not isinstance(text, str):
            raise TypeError(f"a checksum is a str such as 'sha256:9f86...', not {text!r}")
        algorithm, colon, digest = text.strip().lower().partition(":")
        if not colon:
            raise ValueError(f"a checksum has the form 'sha256:9f86...', not {text!r}")
        size = cls(algorithm, digest).hasher().digest_size
        if not size:
            raise ValueError(f"{algorithm} has no fixed length: it cannot be a file's checksum")
        if len(digest) != 2 * size or not set(digest) <= set("0123456789abcdef"):
            raise ValueError(f"a {algorithm} has {2 * size} hex digits, not {digest!r}")
        return cls(algorithm, digest)

    def hasher(self) -> Hasher:
        """Return a new hash object.

        Raises:
            ValueError: hashlib does not have the algorithm.
        """
        try:
            return hashlib.new(self.algorithm, usedforsecurity=False)
        except ValueError as error:
            raise ValueError(f"hashlib has no checksum {self.algorithm!r}") from error

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.digest}"
