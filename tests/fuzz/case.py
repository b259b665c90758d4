"""A case: one request and its responses, all of which follow from the seed and a number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from tests.fuzz.draft import Site
from tests.fuzz.frames import answer_frames
from tests.fuzz.heads import Answer, answer
from tests.fuzz.socks import replies

SECRET = "s3cret-word"  # of all requests that have a password
_READS = 15.0  # seconds: the server ends what stands still long before
_STALLED = 0.05


@dataclass(frozen=True)
class Case:
    """One request.

    Attributes:
        seed: of the run.
        number: of the case.
        kind: "h1", "h2", "connect" (responses to that), "proxied" (h1 through a proxy that passes
            them on as they are) or "socks" (the handshake).
        port: of the server.
    """

    seed: int
    number: int
    kind: str
    port: int

    @property
    def owner(self) -> str:
        """Return whose stamp the bodies have."""
        return f"{self.kind}-{self.number}"

    @property
    def url(self) -> str:
        """Return where the first request goes."""
        if self.kind == "connect":
            return f"https://c{self.number}.localhost/"
        authority = (
            f"127.0.0.1:{self.port}" if self.kind != "socks" else f"c{self.number}.localhost"
        )
        return f"http://{authority}/{self.kind}/{self.number}/0"

    def answer(self, hop: int = 0, stream: int = 1) -> Answer:
        """Return the response to the request after so many redirects.

        Args:
            hop: how many.
            stream: of HTTP/2.
        """
        site = Site(self.port, self.kind, self.number, hop, self.method)
        random = Random(f"{self.seed}/{self.kind}/{self.number}/{hop}/answer")
        if self.kind == "h2":
            made = answer_frames(random, site, self.owner, stream)
        else:
            made = answer(random, site, self.owner)
        if self.stalls and not hop:
            made.ending = "stall"
        return made

    def hop_of(self, url: str) -> int | None:
        """Return how many redirects led to a URL, or None when it is none of this case's."""
        found = re.match(rf"https?://[^/]*/{self.kind}/{self.number}/(\d+)(?:[?#]|$)", url)
        return int(found[1]) if found else None

    def handshake(self) -> list[bytes]:
        """Return the replies of a SOCKS proxy."""
        return replies(Random(f"{self.seed}/{self.number}/socks"), 4 if self.number % 2 else 5)

    @property
    def stalls(self) -> bool:
        """Return whether the server is silent on purpose, so that a timeout is right."""
        return bool(self._asked["stalls"])

    @cached_property
    def random(self) -> Random:
        """Return the source of what the client does with the response."""
        return Random(f"{self.seed}/{self.kind}/{self.number}/read")

    @cached_property
    def method(self) -> str:
        """Return the method."""
        return str(self._asked["method"])

    @cached_property
    def _asked(self) -> dict[str, Any]:
        random = Random(f"{self.seed}/{self.kind}/{self.number}/ask")
        method = random.choice(["GET"] * 7 + ["HEAD", "POST", "PUT"])
        asked: dict[str, Any] = {"method": method}
        if method in ("POST", "PUT"):
            asked["data"] = random.choice([b"x", b"", b"body" * 5000, {"a": "b"}])
        auth = random.choice([None, None, None, "basic", "digest"])
        asked["auth"] = auth
        asked["follows"] = random.random() < 0.8
        asked["limit"] = random.choice([None, None, None, 1000, 1 << 20])
        asked["retries"] = random.random() < 0.1
        asked["stalls"] = random.random() < 0.004
        return asked

    def options(self) -> dict[str, Any]:
        """Return the arguments of Client.request, without method and URL."""
        import curlhttp

        asked = self._asked
        options: dict[str, Any] = {"follow_redirects": asked["follows"], "timeout": _READS}
        if self.stalls:
            options["timeout"] = _STALLED if self.number % 2 else curlhttp.Timeout(total=_STALLED)
        if "data" in asked:
            options["data"] = asked["data"]
        if asked["auth"]:
            kind = curlhttp.BasicAuth if asked["auth"] == "basic" else curlhttp.DigestAuth
            options["auth"] = kind("user", SECRET)
        if self.kind == "socks":
            scheme = "socks4a" if self.number % 2 else "socks5h"
            options["proxies"] = f"{scheme}://c{self.number}:pw@127.0.0.1:{self.port}"
        if asked["limit"]:
            options["max_response_size"] = asked["limit"]
        if asked["retries"]:
            options["retry"] = curlhttp.RetryPolicy(
                1,
                backoff_strategy=curlhttp.ExponentialBackoff(0.001),
                retry_after_max=0.01,
                budget=None,
            )
        return options

    def session_options(self) -> dict[str, Any]:
        """Return the arguments of Session.request, without method and URL."""
        from curlhttp import requests

        asked = self._asked
        options: dict[str, Any] = {"allow_redirects": asked["follows"], "timeout": _READS}
        if self.stalls:
            options["timeout"] = _STALLED
        if "data" in asked:
            options["data"] = asked["data"]
        if asked["auth"] == "basic":
            options["auth"] = ("user", SECRET)
        elif asked["auth"]:
            options["auth"] = requests.auth.HTTPDigestAuth("user", SECRET)
        return options

    def wire(self) -> str:
        """Return all that the server does about the case, in words and exact bytes."""
        lines = [f"{self.method} {self.url}"]
        if self.kind == "socks":
            lines.append(f"handshake: {self.handshake()}")
        for hop in range(5):
            made = self.answer(hop)
            lines.append(f"answer {hop} ({', '.join(made.notes)}), then {made.ending}:")
            lines += [f"    {_shown(piece)}" for piece in made.pieces]
            if made.stray:
                lines.append(f"    after {made.delay} s, unasked: {made.stray!r}")
            if not _leads_on(made):
                break
        return "\n".join(lines)


def _leads_on(made: Answer) -> bool:
    return "redirect" in made.notes or "challenge" in made.notes or "retry_after" in made.notes


def _shown(piece: bytes) -> str:
    """Return bytes exactly, unless they are too many to read."""
    if len(piece) <= 4000:
        return repr(piece)
    return f"{piece[:2000]!r} ... {piece[-500:]!r} ({len(piece)} bytes)"
