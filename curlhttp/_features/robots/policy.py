"""Decide what a robots.txt allows (RFC 9309): for which crawler, for how long, and after a failure.

Pure: it reads no clock and sends nothing. Only the group of one crawler reaches Protego, which
matches paths, so that time and memory are linear in the size of a file, whatever it contains.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from curlhttp._http.errors import check_number
from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.suggestions import with_suggestions
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from protego import Protego

    from curlhttp._http.url import URL

PATH = "/robots.txt"
MAX_REDIRECTS = 5  # RFC 9309, section 2.3.1.2
MAX_BYTES = 512 * 1024  # that are parsed; at least 500 KiB (section 2.5)
MAX_RULES = 100_000  # that are kept for all origins together; each takes 300 to 1,500 bytes
_WILDCARDS = 2000  # that count as rules, at most
FAILURE_SECONDS = 300.0  # for which a failure is kept, so that a short one costs no day
_DAY = 86_400.0  # section 2.4: no longer, except while the server cannot be reached
_LEAST_DELAY = 0.001  # seconds of a Crawl-delay; a shorter one is none

# Names as RFC 9110 has tokens, without "*", which stands for everybody.
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'+.^_`|~-]+")
# The forms and misspellings that Protego accepts.
_USER_AGENT = re.compile(r"user[- ]?agent\s*(?:\s|:)\s*([^\s/;,]*)", re.IGNORECASE)
_RULE_STARTS = ("allow", "disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw")
_STARTS = (*_RULE_STARTS, "crawl-delay", "crawl delay")


@with_suggestions("Robots")
@dataclass(frozen=True)
class Robots:
    """Obey the robots.txt of each origin, and its Crawl-delay; needs the extra `robots`.

        client = curlhttp.Client(robots=curlhttp.Robots("my-crawler"))

    A URL that robots.txt disallows raises RobotsDisallowed, and is not requested.

    Args:
        user_agent: the product token of your crawler, by which robots.txt names it, without a
            version. Your User-Agent header should contain it.
        max_crawl_delay: the longest time between two requests to an origin, in seconds. A longer
            Crawl-delay counts as this one; 0 ignores all.
        timeout: how long a robots.txt may take, in seconds, without waits for limits.
        max_age: how long a robots.txt is used, in seconds, at most a day. A failure is used for at
            most 5 minutes.
        max_origins: how many origins are kept; the least recently used one is dropped first.

    Raises:
        ValueError: the token is not valid, or a number is out of range.
        TypeError: an argument has the wrong type.
    """

    user_agent: str
    max_crawl_delay: float = field(default=60.0, kw_only=True)
    timeout: float = field(default=30.0, kw_only=True)
    max_age: float = field(default=86_400.0, kw_only=True)
    max_origins: int = field(default=10_000, kw_only=True)

    def __post_init__(self) -> None:
        token: object = self.user_agent
        example = 'robots must be the product token of your crawler, such as "my-crawler"'
        if not isinstance(token, str):
            raise TypeError(f"{example}, not {token!r:.100}")
        if _TOKEN.fullmatch(token) is None:
            raise ValueError(f"{example}, without a version or blanks, not {token!r:.100}")
        check_number("max_crawl_delay", self.max_crawl_delay, unit="seconds")
        check_number("timeout", self.timeout, above=0, unit="seconds")
        check_number("max_age", self.max_age, above=0, most=_DAY, unit="seconds")
        check_number("max_origins", self.max_origins, least=1, whole=True)


class Verdict(NamedTuple):
    """What an origin's robots.txt says to one crawler.

    Attributes:
        rules: match paths; None if all are allowed, or none.
        reason: why everything is disallowed; "" if it is not.
        delay: seconds between two requests, 0 for no limit.
        size: the number of rules, and of wildcards in them.
        error: why robots.txt could not be fetched, or None. Without a reason, the server is not to
            blame, and requests fail in the same way.
    """

    rules: Protego | None = None
    reason: str = ""
    delay: float = 0.0
    size: int = 0
    error: RequestException | None = None

    def allows(self, url: URL) -> bool:
        """Return whether a URL of this origin may be requested."""
        if self.rules is None:
            return not self.reason and self.error is None
        # Its origin is that of the file, and never matched.
        allowed: bool = self.rules.can_fetch("http://host" + url.target, _ANYBODY)
        return allowed


_ANYBODY = "*"
ALLOW_ALL = Verdict()


def judge_status(status: int) -> Verdict | None:
    """Return what a status says (RFC 9309, section 2.3.1), None if the body says it."""
    if 200 <= status <= 299:
        return None
    if 500 <= status <= 599:
        return Verdict(reason=f"answered with status {status}")
    return ALLOW_ALL  # "unavailable"


def judge_error(error: RequestException) -> Verdict:
    """Return what it says that robots.txt could not be fetched (section 2.3.1.4)."""
    error.with_traceback(None)  # which would keep frames, and so bodies, for minutes
    return Verdict(reason=f"could not be fetched ({type(error).__name__})", error=error)


def parse(body: bytes, policy: Robots) -> Verdict:
    """Return what a robots.txt says to one crawler. Never raises.

    Args:
        body: at most MAX_BYTES, and one more if there were more.
        policy: has the product token.
    """
    from protego import Protego

    if len(body) > MAX_BYTES:  # the last line is cut off, and may say something else
        body = body[:MAX_BYTES]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    lines = _find_group(body.decode("utf-8-sig", "replace"), policy.user_agent.lower())
    if not lines:
        return ALLOW_ALL
    rules = Protego.parse("\n".join((f"User-agent: {_ANYBODY}", *lines)))
    delay = min(rules.crawl_delay(_ANYBODY) or 0.0, policy.max_crawl_delay)
    # At most so many, because they take time to match, but less memory than rules.
    size = len(lines) + min(sum(line.count("*") for line in lines), _WILDCARDS)
    return Verdict(rules, "", delay if delay >= _LEAST_DELAY else 0.0, size)


def _find_group(text: str, token: str) -> list[str]:
    """Return the lines of the groups for a crawler, or those for everybody (section 2.2.1)."""
    own: list[str] | None = None
    general: list[str] = []
    groups: list[list[str]] = []  # that the line belongs to
    in_rules = True
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if (match := _USER_AGENT.match(line)) is not None:
            if in_rules:
                groups, in_rules = [], False
            name = match[1].lower()
            if name == "*":
                group = general
            elif name.replace("*", "") == token:
                group = own = [] if own is None else own
            else:
                continue
            if not any(group is each for each in groups):
                groups.append(group)
        elif line.lower().startswith(_STARTS):
            in_rules = True
            for group in groups:
                group.append(line)
    return general if own is None else own
