"""Versions for a bug report; `python -m curlhttp.requests.help` prints them."""

from __future__ import annotations

import json
import platform
import sys
from typing import Any

__all__ = ["info", "main"]


def __getattr__(name: str) -> Any:
    if name != "idna":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import idna  # slow to load

    return idna


def info() -> dict[str, object]:
    """Return the versions of all libraries that a request uses; "" for a missing one."""
    import ssl

    from curlhttp._libcurl import libcurl_version
    from curlhttp._version import __version__
    from curlhttp.requests import compat
    from curlhttp.requests.__version__ import __version__ as requests_version

    return {
        "platform": {"system": platform.system(), "release": platform.release()},
        "implementation": _implementation(),
        "system_ssl": {"version": f"{ssl.OPENSSL_VERSION_NUMBER:x}"},
        "using_pyopenssl": False,
        "using_charset_normalizer": "normalizer" in getattr(compat.chardet, "__name__", ""),
        "pyOpenSSL": {"version": None, "openssl_version": ""},
        "urllib3": {"version": compat.urllib3_version},
        "chardet": {"version": _version("chardet", None)},
        "charset_normalizer": {"version": _version("charset-normalizer", None)},
        "cryptography": {"version": _version("cryptography", "")},
        "idna": {"version": getattr(sys.modules[__name__].idna, "__version__", "")},
        "requests": {"version": requests_version},
        "curlhttp": {"version": __version__},
        "libcurl": {"version": libcurl_version()},
    }


def _implementation() -> dict[str, str]:
    return {
        "name": platform.python_implementation(),
        "version": platform.python_version(),
    }


def _version(distribution: str, absent: str | None) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return absent


def main() -> None:
    """Print info() as JSON."""
    print(json.dumps(info(), sort_keys=True, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
