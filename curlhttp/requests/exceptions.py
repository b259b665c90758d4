"""requests.exceptions: the classes of curlhttp.exceptions, because there is one tree."""

from __future__ import annotations

from json import JSONDecodeError as CompatJSONDecodeError

from curlhttp.exceptions import *  # noqa: F403
from curlhttp.exceptions import BaseHTTPError

__all__ = ["BaseHTTPError", "CompatJSONDecodeError"]
