"""Take out of a URL what must not be read in a log."""

from __future__ import annotations

import re

from curlhttp._models.url import URL

__all__ = ["scrub_url"]

# Names of parameters that carry credentials, as they are in use with OAuth, AWS, Azure, Google.
_SECRET = re.compile(
    r"(?:^|[-_.])(?:api|access|auth|key|sig|code|jwt|otp|pin|pass|pwd)(?:$|[-_.])"
    r"|key$|apikey|accesskey|token|secret|signature|password|passwd|passphrase|credential"
    r"|session|sessid|assertion|authorization",
    re.IGNORECASE,
).search
_SEPARATORS = re.compile("([&;])")
_MASK = "***"


def scrub_url(url: URL) -> str:
    """Return a URL without user name, password and fragment, its secret parameters masked."""
    query = url.query
    bare = f"{url.scheme}://{url.authority}{url.path}"
    return f"{bare}?{_scrubbed(query)}" if query else bare


def _scrubbed(query: str) -> str:
    return "".join(map(_masked, _SEPARATORS.split(query)))


def _masked(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")  # in canonical form: no letter is percent-encoded
    return f"{name}={_MASK}" if equals and _SECRET(name) else parameter
