"""compat, certs, help, __version__ and the private modules: names that other code imports."""

from __future__ import annotations

import collections
import http.cookiejar
import http.cookies
import importlib
import importlib.util
import io
import json
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ORIGINS: dict[str, Any] = {
    **dict.fromkeys(
        [
            "quote",
            "quote_plus",
            "unquote",
            "unquote_plus",
            "urldefrag",
            "urlencode",
            "urljoin",
            "urlparse",
            "urlsplit",
            "urlunparse",
        ],
        urllib.parse,
    ),
    **dict.fromkeys(
        [
            "getproxies",
            "getproxies_environment",
            "parse_http_list",
            "proxy_bypass",
            "proxy_bypass_environment",
        ],
        urllib.request,
    ),
    "JSONDecodeError": json,
    "Morsel": http.cookies,
    "OrderedDict": collections,
    "StringIO": io,
    "Callable": collections.abc,
    "Mapping": collections.abc,
    "MutableMapping": collections.abc,
}


@pytest.mark.parametrize(("name", "origin"), ORIGINS.items(), ids=str)
def test_names_of_the_standard_library(requests: Any, name: str, origin: Any) -> None:
    assert getattr(requests.compat, name) is getattr(origin, name)


def test_modules_of_the_standard_library(requests: Any) -> None:
    assert requests.compat.json is json
    assert requests.compat.cookielib is http.cookiejar


def test_types_and_versions_of_python(requests: Any) -> None:
    compat = requests.compat
    assert compat.str is compat.builtin_str is str
    assert compat.bytes is bytes
    assert compat.basestring == (str, bytes)
    assert compat.numeric_types == (int, float)
    assert compat.integer_types == (int,)
    assert (compat.is_py2, compat.is_py3) == (False, True)
    assert compat.is_urllib3_1 is False
    assert int(compat.urllib3_version.split(".")[0]) >= 2


def test_chardet_is_a_detector_or_none(requests: Any) -> None:
    found = requests.compat.chardet
    installed = [
        name for name in ("chardet", "charset_normalizer") if importlib.util.find_spec(name)
    ]
    assert (found.__name__ if found else None) == next(iter(installed), None)
    assert found is None or found.detect(b"plain text")["encoding"].lower() == "ascii"


def test_compat_has_no_other_names(requests: Any) -> None:
    with pytest.raises(AttributeError):
        _ = requests.compat.nonsense


def test_certs_are_certifis(requests: Any) -> None:
    import certifi

    assert requests.certs.where() == certifi.where()
    assert Path(requests.certs.where()).is_file()


def test_help_tells_the_versions(requests: Any) -> None:
    info = requests.help.info()
    assert info["requests"] == {"version": requests.__version__}
    assert info["implementation"]["name"] == "CPython"
    assert set(info) >= {
        "platform",
        "implementation",
        "system_ssl",
        "using_pyopenssl",
        "using_charset_normalizer",
        "pyOpenSSL",
        "urllib3",
        "chardet",
        "charset_normalizer",
        "cryptography",
        "idna",
        "requests",
    }


def test_help_takes_idna_from_its_own_names(requests: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, version in ((None, ""), (SimpleNamespace(__version__="2.6"), "2.6")):
        monkeypatch.setattr(requests.help, "idna", module)
        assert requests.help.info()["idna"] == {"version": version}


@pytest.mark.slow
def test_help_can_be_run(requests: Any) -> None:
    command = [sys.executable, "-W", "ignore", "-m", f"{requests.__name__}.help"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(printed) == json.loads(json.dumps(requests.help.info()))


def test_the_version_is_that_of_requests(requests: Any) -> None:
    module = importlib.import_module(f"{requests.__name__}.__version__")
    assert module.__version__ == requests.__version__ == "2.34.2"
    assert module.__build__ == 0x023402
    assert module.__title__ == "requests"
    for name in ("author", "author_email", "cake", "copyright", "description", "license", "url"):
        assert isinstance(getattr(module, f"__{name}__"), str)


def test_unicode_is_ascii(requests: Any) -> None:
    is_ascii = requests._internal_utils.unicode_is_ascii
    assert is_ascii("abc")
    assert not is_ascii("\xe9")
    with pytest.raises(AssertionError):
        is_ascii(b"abc")


def test_types_can_be_asked_what_an_object_supports(requests: Any) -> None:
    types = importlib.import_module(f"{requests.__name__}._types")
    assert isinstance(io.BytesIO(), types.SupportsRead)
    assert not isinstance({}, types.SupportsRead)
    assert isinstance({}, types.SupportsItems)
    assert types.is_prepared(requests.Request("GET", "http://a.test").prepare())
