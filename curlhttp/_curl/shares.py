"""What keeps connections and names of different routes apart (CURLSH).

libcurl uses a connection again for another request to the same host, though that would have asked
another name server for it; and a curl_multi has one cache of names.
"""

from __future__ import annotations

import pycurl

from curlhttp._config import Lane

__all__ = ["Shares"]


_MOST = 256  # lanes; each request may have one of its own


class Shares:
    """One pycurl.CurlShare for each lane, for handles that one thread uses at a time.

    Args:
        common: that of requests of no lane, or None for what their curl_multi has.
    """

    __slots__ = ("_by_lane",)

    def __init__(self, common: pycurl.CurlShare | None = None) -> None:
        self._by_lane: dict[Lane | None, pycurl.CurlShare | None] = {None: common}

    def of(self, lane: Lane | None) -> pycurl.CurlShare | None:
        """Return what has the connections and names of a lane; None for the curl_multi."""
        if lane in self._by_lane:
            return self._by_lane[lane]
        if len(self._by_lane) > _MOST:  # which its handles keep until they leave the lane
            del self._by_lane[next(each for each in self._by_lane if each is not None)]
        share = self._by_lane[lane] = pycurl.CurlShare()
        share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_CONNECT)
        share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_DNS)
        return share

    def clear(self) -> None:
        """Let go of all of them; their handles are closed."""
        self._by_lane.clear()
