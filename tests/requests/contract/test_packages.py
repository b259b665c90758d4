"""requests.packages, and what code takes from urllib3 there."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from typing import Any

import pytest

TOP = [
    "BaseHTTPResponse",
    "HTTPConnectionPool",
    "HTTPHeaderDict",
    "HTTPResponse",
    "HTTPSConnectionPool",
    "PoolManager",
    "ProxyManager",
    "Retry",
    "Timeout",
    "add_stderr_logger",
    "connection_from_url",
    "disable_warnings",
    "encode_multipart_formdata",
    "make_headers",
    "proxy_from_url",
    "exceptions",
    "__version__",
]
UTIL = [
    "Retry",
    "Timeout",
    "Url",
    "parse_url",
    "make_headers",
    "create_urllib3_context",
    "assert_fingerprint",
    "is_fp_closed",
    "resolve_cert_reqs",
    "resolve_ssl_version",
    "SSLContext",
    "SKIP_HEADER",
    "ALPN_PROTOCOLS",
]


@pytest.fixture
def urllib3(requests: Any) -> Any:
    """Return requests.packages.urllib3."""
    return requests.packages.urllib3


# --- requests.packages itself ---


@pytest.mark.parametrize(
    "name",
    [
        "urllib3",
        "urllib3.exceptions",
        "urllib3.util",
        "urllib3.util.retry",
        "urllib3.util.timeout",
        "urllib3.util.ssl_",
        "urllib3.util.connection",
        "urllib3.util.url",
        "urllib3.util.request",
        "urllib3.util.response",
        "urllib3.poolmanager",
        "urllib3.connectionpool",
        "urllib3.connection",
        "urllib3.response",
        "urllib3._collections",
        "urllib3.fields",
        "urllib3.filepost",
        "idna",
        "idna.core",
    ],
)
def test_a_package_is_the_same_by_import_and_by_attribute(requests: Any, name: str) -> None:
    by_import = importlib.import_module(f"{requests.__name__}.packages.{name}")
    by_attribute = requests.packages
    for part in name.split("."):
        by_attribute = getattr(by_attribute, part)
    assert by_import is by_attribute
    assert sys.modules[f"{requests.__name__}.packages.{name}"] is by_import


def test_chardet_is_whichever_detector_is_installed(requests: Any) -> None:
    for name in ("chardet", "charset_normalizer"):
        if importlib.util.find_spec(name) is not None:
            assert requests.packages.chardet is importlib.import_module(name)
            found = importlib.import_module(f"{requests.__name__}.packages.chardet")
            assert found is requests.packages.chardet
            return
    assert requests.packages.chardet is None


def test_installed_urllib3_and_idna_are_what_the_packages_are(requests: Any) -> None:
    for name in ("urllib3", "urllib3.util.retry", "urllib3.exceptions", "idna"):
        ours = importlib.import_module(f"{requests.__name__}.packages.{name}")
        assert ours is importlib.import_module(name)
        assert ours.__spec__ is not None
        assert ours.__spec__.name == name


def test_a_package_that_is_not_there_is_an_import_error(requests: Any) -> None:
    for name in ("six", "urllib3.util.nothing", "idna.nothing"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"{requests.__name__}.packages.{name}")
    assert not hasattr(requests.packages, "six")


def test_the_top_level_has_the_names_of_urllib3(urllib3: Any) -> None:
    for name in TOP:
        assert getattr(urllib3, name) is not None
    for name in UTIL:
        assert getattr(urllib3.util, name) is not None
    assert urllib3.Retry is urllib3.util.Retry is urllib3.util.retry.Retry
    assert urllib3.Timeout is urllib3.util.timeout.Timeout
    assert not hasattr(urllib3, "nothing")
    assert not hasattr(urllib3.util, "nothing")


def test_warnings_can_be_switched_off(urllib3: Any) -> None:
    kind = urllib3.exceptions.InsecureRequestWarning
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("seen", kind, stacklevel=1)
        urllib3.disable_warnings(kind)
        warnings.warn("not seen", kind, stacklevel=1)
        warnings.warn("seen too", urllib3.exceptions.DependencyWarning, stacklevel=1)
        urllib3.disable_warnings()
        warnings.warn("not seen either", urllib3.exceptions.DependencyWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["seen", "seen too"]
