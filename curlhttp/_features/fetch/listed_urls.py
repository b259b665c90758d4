"""The URLs of a list: normalize them, and find those that were there before, in 8 bytes each."""

from __future__ import annotations

from hashlib import blake2b

from curlhttp._features.typed_urls import complete_url
from curlhttp._http.url import URL, parse_url
from curlhttp.exceptions import RequestException


def parse_listed(url: str) -> URL | None:
    """Return a URL of a list, which may have no scheme, normalized; None if it is invalid."""
    try:
        return parse_url(complete_url(url))
    except RequestException:
        return None


class DuplicateURLs:
    """Find URLs whose canonical URL was there before.

    A canonical URL has its scheme and host in lower case, the host as IDNA, no default port, no dot
    segments, no fragment, and is percent-encoded where needed only. The query stays as it is. URLs
    that are invalid or have credentials are no duplicates.
    """

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def has(self, url: str) -> bool:
        """Return whether a URL before this one was the same, and remember it.

        Args:
            url: with or without a scheme.
        """
        parsed = parse_listed(url)
        if parsed is None or parsed.username is not None:
            return False
        digest = blake2b(str(parsed.without_fragment()).encode(), digest_size=8).digest()
        if digest in self._seen:
            return True
        self._seen.add(digest)
        return False
