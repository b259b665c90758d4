"""The API of requests on curlhttp: `from curlhttp import requests` replaces `import requests`.

`curlhttp.alias_requests()` makes `import requests` mean this package for the whole process.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from curlhttp.requests import adapters as adapters  # importing requests loads these modules
from curlhttp.requests import api as api
from curlhttp.requests import exceptions as exceptions
from curlhttp.requests import hooks as hooks
from curlhttp.requests import models as models
from curlhttp.requests import sessions as sessions
from curlhttp.requests import structures as structures
from curlhttp.requests.__version__ import (  # noqa: F401
    __author__,
    __author_email__,
    __build__,
    __cake__,
    __copyright__,
    __description__,
    __license__,
    __title__,
    __url__,
    __version__,
)
from curlhttp.requests._internal_utils import make_getattr
from curlhttp.requests.api import delete, get, head, options, patch, post, put, request
from curlhttp.requests.exceptions import (  # noqa: F401
    ConnectionError,
    ConnectTimeout,
    FileModeWarning,
    HTTPError,
    JSONDecodeError,
    ReadTimeout,
    RequestException,
    RequestsDependencyWarning,
    Timeout,
    TooManyRedirects,
    URLRequired,
)
from curlhttp.requests.models import PreparedRequest, Request, Response
from curlhttp.requests.sessions import Session, session
from curlhttp.requests.status_codes import codes

if TYPE_CHECKING:
    from curlhttp.requests import auth as auth
    from curlhttp.requests import certs as certs
    from curlhttp.requests import compat as compat
    from curlhttp.requests import cookies as cookies
    from curlhttp.requests import help as help
    from curlhttp.requests import packages as packages
    from curlhttp.requests import status_codes as status_codes
    from curlhttp.requests import utils as utils

__all__ = [
    "ConnectTimeout", "ConnectionError", "HTTPError", "JSONDecodeError", "PreparedRequest",
    "ReadTimeout", "Request", "RequestException", "Response", "Session", "Timeout",
    "TooManyRedirects", "URLRequired", "codes", "delete", "get", "head", "options", "packages",
    "patch", "post", "put", "request", "session", "utils",
]  # fmt: skip

_SUBMODULES = frozenset(
    {"_internal_utils", "_types", "auth", "certs", "compat", "cookies", "help", "packages",
     "status_codes", "utils"}
)  # fmt: skip
_MODULES = frozenset({"logging", "ssl", "warnings"})


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _MODULES:
        return importlib.import_module(name)
    if name == "NullHandler":  # lazy, because logging is slow to import
        return importlib.import_module("logging").NullHandler
    return _look_up(name)


_look_up = make_getattr(
    __name__, {"packages": "urllib3", "packages:urllib3.exceptions": "DependencyWarning"}
)


def check_compatibility(*versions: object) -> None:
    """Do nothing: no particular versions of urllib3 and chardet are required."""
