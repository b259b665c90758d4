"""Names of the standard library, where code that supported Python 2 looks for them."""

from __future__ import annotations

import importlib
import json
import sys
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from http import cookiejar as cookielib
from io import StringIO
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any
from urllib.parse import (
    quote,
    quote_plus,
    unquote,
    unquote_plus,
    urldefrag,
    urlencode,
    urljoin,
    urlparse,
    urlsplit,
    urlunparse,
)
from urllib.request import (
    getproxies,
    getproxies_environment,
    parse_http_list,
    proxy_bypass,
)

if TYPE_CHECKING:
    from http.cookies import Morsel

    chardet: Any
    urllib3_version: str

__all__ = [
    "Callable", "JSONDecodeError", "Mapping", "Morsel", "MutableMapping", "OrderedDict",
    "StringIO", "basestring", "builtin_str", "bytes", "chardet", "cookielib", "getproxies",
    "getproxies_environment", "has_simplejson", "integer_types", "is_py2", "is_py3",
    "is_urllib3_1", "json", "numeric_types", "parse_http_list", "proxy_bypass",
    "proxy_bypass_environment", "quote", "quote_plus", "str", "unquote", "unquote_plus",
    "urldefrag", "urlencode", "urljoin", "urllib3_version", "urlparse", "urlsplit",
    "urlunparse",
]  # fmt: skip

# typeshed hides it on Windows and macOS, where it exists, too.
proxy_bypass_environment: Any = urllib.request.proxy_bypass_environment  # type: ignore[attr-defined, unused-ignore]

is_py2 = False
is_py3 = True
is_urllib3_1 = False
has_simplejson = False  # json is the standard library's even if simplejson is installed
_ver = sys.version_info

builtin_str = str
str = str
bytes = bytes
basestring: tuple[type[object], ...] = (str, bytes)
numeric_types: tuple[type[object], ...] = (int, float)
integer_types: tuple[type[object], ...] = (int,)


def __getattr__(name: builtin_str) -> Any:
    # Slow to import, or not installed.
    if name == "chardet":
        value = _resolve_char_detection()
    elif name == "Morsel":
        value = importlib.import_module("http.cookies").Morsel
    elif name == "urllib3_version":
        value = importlib.import_module("curlhttp.requests.packages").urllib3.__version__
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _resolve_char_detection() -> Any:
    """Return chardet, else charset_normalizer, else None."""
    for name in ("chardet", "charset_normalizer"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
