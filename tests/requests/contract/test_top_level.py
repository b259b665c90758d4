"""Names, signatures and the tree of exceptions."""

from __future__ import annotations

import inspect
import io
import json
import pickle
import warnings
from typing import Any

import pytest

from tests.servers import AppServer

PUBLIC = [
    "ConnectionError",
    "ConnectTimeout",
    "HTTPError",
    "JSONDecodeError",
    "PreparedRequest",
    "ReadTimeout",
    "Request",
    "RequestException",
    "Response",
    "Session",
    "Timeout",
    "TooManyRedirects",
    "URLRequired",
    "codes",
    "delete",
    "get",
    "head",
    "options",
    "packages",
    "patch",
    "post",
    "put",
    "request",
    "session",
    "utils",
]

REACHED = [
    "FileModeWarning",
    "RequestsDependencyWarning",
    "DependencyWarning",
    "NullHandler",
    "adapters",
    "api",
    "auth",
    "certs",
    "compat",
    "cookies",
    "exceptions",
    "help",
    "hooks",
    "models",
    "sessions",
    "status_codes",
    "structures",
    "urllib3",
    "ssl",
    "logging",
    "warnings",
    "check_compatibility",
    "_internal_utils",
    "_types",
    "__version__",
    "__title__",
    "__author__",
    "__author_email__",
    "__build__",
    "__cake__",
    "__copyright__",
    "__description__",
    "__license__",
    "__url__",
]

INCIDENTAL = {
    "DependencyWarning",
    "NullHandler",
    "check_compatibility",
    "logging",
    "ssl",
    "urllib3",
    "warnings",
}

EXCEPTIONS = {
    "RequestException": ["OSError"],
    "InvalidJSONError": ["RequestException"],
    "JSONDecodeError": ["InvalidJSONError", "json.JSONDecodeError"],
    "HTTPError": ["RequestException"],
    "ConnectionError": ["RequestException"],
    "ProxyError": ["ConnectionError"],
    "SSLError": ["ConnectionError"],
    "Timeout": ["RequestException"],
    "ConnectTimeout": ["ConnectionError", "Timeout"],
    "ReadTimeout": ["Timeout"],
    "URLRequired": ["RequestException"],
    "TooManyRedirects": ["RequestException"],
    "MissingSchema": ["RequestException", "ValueError"],
    "InvalidSchema": ["RequestException", "ValueError"],
    "InvalidURL": ["RequestException", "ValueError"],
    "InvalidHeader": ["RequestException", "ValueError"],
    "InvalidProxyURL": ["InvalidURL"],
    "ChunkedEncodingError": ["RequestException"],
    "ContentDecodingError": ["RequestException", "urllib3.HTTPError"],
    "StreamConsumedError": ["RequestException", "TypeError"],
    "RetryError": ["RequestException"],
    "UnrewindableBodyError": ["RequestException"],
}
SIMPLE = [name for name in EXCEPTIONS if name != "JSONDecodeError"]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_in_all(requests: Any, name: str) -> None:
    assert getattr(requests, name) is not None
    assert name in requests.__all__


def test_all_has_nothing_else(requests: Any) -> None:
    if requests.__name__ == "curlhttp":
        pytest.skip("curlhttp has names of its own")
    assert sorted(requests.__all__) == sorted(PUBLIC)


@pytest.mark.parametrize("name", REACHED)
def test_a_name_used_in_the_wild_is_there(requests: Any, name: str) -> None:
    if requests.__name__ == "curlhttp" and (name.startswith("_") or name in INCIDENTAL):
        pytest.skip("only the stand-in has these")
    assert hasattr(requests, name)


def test_facts_of_the_package_are_strings(requests: Any) -> None:
    if requests.__name__ == "curlhttp":
        pytest.skip("curlhttp says its own version")
    major, minor, patch = requests.__version__.split(".")
    assert (int(major), int(minor)) >= (2, 34)
    assert patch.isdigit()
    assert requests.__title__ == "requests"
    assert isinstance(requests.__build__, int)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("models", "Request"),
        ("models", "PreparedRequest"),
        ("models", "Response"),
        ("sessions", "Session"),
        ("sessions", "session"),
        ("api", "request"),
        ("api", "get"),
        ("api", "head"),
        ("api", "options"),
        ("api", "post"),
        ("api", "put"),
        ("api", "patch"),
        ("api", "delete"),
        ("status_codes", "codes"),
        ("exceptions", "ConnectionError"),
        ("exceptions", "ConnectTimeout"),
        ("exceptions", "FileModeWarning"),
        ("exceptions", "HTTPError"),
        ("exceptions", "JSONDecodeError"),
        ("exceptions", "ReadTimeout"),
        ("exceptions", "RequestException"),
        ("exceptions", "Timeout"),
        ("exceptions", "TooManyRedirects"),
        ("exceptions", "URLRequired"),
    ],
)
def test_a_top_level_name_is_the_one_of_its_module(requests: Any, module: str, name: str) -> None:
    assert getattr(requests, name) is getattr(getattr(requests, module), name)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            "models",
            "CONTENT_CHUNK_SIZE ITER_CHUNK_SIZE REDIRECT_STATI DEFAULT_REDIRECT_LIMIT "
            "RequestEncodingMixin RequestHooksMixin CaseInsensitiveDict HTTPError ConnectionError "
            "StreamConsumedError ChunkedEncodingError ContentDecodingError cookiejar_from_dict "
            "HTTPBasicAuth InvalidURL MissingSchema codes to_key_val_list urlsplit",
        ),
        (
            "sessions",
            "Request PreparedRequest Response Session SessionRedirectMixin HTTPAdapter "
            "DEFAULT_REDIRECT_LIMIT REDIRECT_STATI merge_setting merge_hooks preferred_clock "
            "session RequestsCookieJar cookiejar_from_dict merge_cookies extract_cookies_to_jar "
            "default_headers default_hooks dispatch_hook get_netrc_auth get_environ_proxies "
            "should_bypass_proxies to_key_val_list TooManyRedirects InvalidSchema "
            "CaseInsensitiveDict codes urljoin urlparse requote_uri",
        ),
        (
            "adapters",
            "BaseAdapter HTTPAdapter DEFAULT_POOLBLOCK DEFAULT_POOLSIZE DEFAULT_RETRIES "
            "DEFAULT_POOL_TIMEOUT DEFAULT_CA_BUNDLE_PATH Response Retry PoolManager TimeoutSauce "
            "ConnectionError ConnectTimeout ReadTimeout SSLError ProxyError RetryError "
            "InvalidSchema InvalidURL InvalidProxyURL InvalidHeader MaxRetryError "
            "NewConnectionError ProtocolError ReadTimeoutError ResponseError "
            "ConnectTimeoutError ClosedPoolError select_proxy get_auth_from_url "
            "get_encoding_from_headers extract_cookies_to_jar prepend_scheme_if_needed "
            "urldefragauth CaseInsensitiveDict",
        ),
        ("exceptions", " ".join(EXCEPTIONS)),
        ("exceptions", "RequestsWarning FileModeWarning RequestsDependencyWarning BaseHTTPError"),
    ],
)
def test_a_module_has_the_names_that_code_imports_from_it(
    requests: Any, module: str, names: str
) -> None:
    found = getattr(requests, module)
    assert [name for name in names.split() if not hasattr(found, name)] == []


def test_constants_have_their_values(requests: Any) -> None:
    assert requests.models.CONTENT_CHUNK_SIZE == 10 * 1024
    assert requests.models.ITER_CHUNK_SIZE == 512
    assert requests.models.REDIRECT_STATI == (301, 302, 303, 307, 308)
    assert requests.models.DEFAULT_REDIRECT_LIMIT == 30
    assert requests.sessions.DEFAULT_REDIRECT_LIMIT == 30
    assert requests.adapters.DEFAULT_POOLSIZE == 10
    assert requests.adapters.DEFAULT_POOLBLOCK is False
    assert requests.adapters.DEFAULT_RETRIES == 0
    assert requests.adapters.DEFAULT_POOL_TIMEOUT is None


def test_the_clock_of_sessions_counts_up(requests: Any) -> None:
    assert requests.sessions.preferred_clock() <= requests.sessions.preferred_clock()


def test_check_compatibility_takes_the_versions_of_the_dependencies(requests: Any) -> None:
    if requests.__name__ == "curlhttp":
        pytest.skip("only the stand-in has it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert requests.check_compatibility("2.2.1", "5.2.0", None) is None


# -- signatures

SIGNATURES = [
    ("api.request", "method url **"),
    ("api.get", "url params=None **"),
    ("api.options", "url **"),
    ("api.head", "url **"),
    ("api.post", "url data=None json=None **"),
    ("api.put", "url data=None **"),
    ("api.patch", "url data=None **"),
    ("api.delete", "url **"),
    ("sessions.Session", ""),
    (
        "sessions.Session.request",
        "self method url params=None data=None headers=None cookies=None files=None auth=None "
        "timeout=None allow_redirects=True proxies=None hooks=None stream=None verify=None "
        "cert=None json=None",
    ),
    ("sessions.Session.get", "self url params=None **"),
    ("sessions.Session.options", "self url **"),
    ("sessions.Session.head", "self url **"),
    ("sessions.Session.post", "self url data=None json=None **"),
    ("sessions.Session.put", "self url data=None **"),
    ("sessions.Session.patch", "self url data=None **"),
    ("sessions.Session.delete", "self url **"),
    ("sessions.Session.send", "self request **"),
    ("sessions.Session.prepare_request", "self request"),
    ("sessions.Session.merge_environment_settings", "self url proxies stream verify cert"),
    ("sessions.Session.get_adapter", "self url"),
    ("sessions.Session.mount", "self prefix adapter"),
    ("sessions.Session.close", "self"),
    ("sessions.Session.get_redirect_target", "self resp"),
    ("sessions.Session.should_strip_auth", "self old_url new_url"),
    (
        "sessions.Session.resolve_redirects",
        "self resp req stream=False timeout=None verify=True cert=None proxies=None "
        "yield_requests=False **",
    ),
    ("sessions.Session.rebuild_auth", "self prepared_request response"),
    ("sessions.Session.rebuild_proxies", "self prepared_request proxies"),
    ("sessions.Session.rebuild_method", "self prepared_request response"),
    ("sessions.merge_setting", "request_setting session_setting dict_class=..."),
    ("sessions.merge_hooks", "request_hooks session_hooks dict_class=..."),
    ("sessions.session", ""),
    (
        "adapters.HTTPAdapter",
        "pool_connections=10 pool_maxsize=10 max_retries=0 pool_block=False",
    ),
    (
        "adapters.HTTPAdapter.send",
        "self request stream=False timeout=None verify=True cert=None proxies=None",
    ),
    (
        "adapters.BaseAdapter.send",
        "self request stream=False timeout=None verify=True cert=None proxies=None",
    ),
    ("adapters.BaseAdapter.close", "self"),
    ("adapters.HTTPAdapter.init_poolmanager", "self connections maxsize block=False **"),
    ("adapters.HTTPAdapter.proxy_manager_for", "self proxy **"),
    ("adapters.HTTPAdapter.cert_verify", "self conn url verify cert"),
    ("adapters.HTTPAdapter.build_response", "self req resp"),
    (
        "adapters.HTTPAdapter.build_connection_pool_key_attributes",
        "self request verify cert=None",
    ),
    (
        "adapters.HTTPAdapter.get_connection_with_tls_context",
        "self request verify proxies=None cert=None",
    ),
    ("adapters.HTTPAdapter.get_connection", "self url proxies=None"),
    ("adapters.HTTPAdapter.close", "self"),
    ("adapters.HTTPAdapter.request_url", "self request proxies"),
    ("adapters.HTTPAdapter.add_headers", "self request **"),
    ("adapters.HTTPAdapter.proxy_headers", "self proxy"),
    ("models.Response", ""),
    ("models.Response.iter_content", "self chunk_size=1 decode_unicode=False"),
    ("models.Response.iter_lines", "self chunk_size=512 decode_unicode=False delimiter=None"),
    ("models.Response.json", "self **"),
    ("models.Response.raise_for_status", "self"),
    ("models.Response.close", "self"),
]


@pytest.mark.parametrize(("name", "expected"), SIGNATURES)
def test_a_function_takes_its_arguments_in_order(requests: Any, name: str, expected: str) -> None:
    found = requests
    for part in name.split("."):
        found = getattr(found, part)
    wanted = [word.partition("=") for word in expected.split() if word != "**"]
    parameters = list(inspect.signature(found).parameters.values())
    ordered = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    # More of them may follow, or be there by keyword only, as long as nobody has to pass them.
    assert [p.name for p in ordered[: len(wanted)]] == [word[0] for word in wanted]
    for parameter, (_, has_default, default) in zip(ordered, wanted, strict=False):
        assert (parameter.default is not parameter.empty) == bool(has_default), parameter
        if has_default and default != "...":
            assert repr(parameter.default) == default
    extra = [p for p in parameters if p not in ordered[: len(wanted)]]
    needed = [p for p in extra if p.default is p.empty and "VAR" not in p.kind.name]
    assert needed == []
    if "**" in expected.split():
        # By their names, too: a signature may show what its ** stands for.
        assert any(p.kind in (p.VAR_KEYWORD, p.KEYWORD_ONLY) for p in parameters)


# -- exceptions


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_has_its_bases(requests: Any, name: str) -> None:
    outside = {
        "OSError": OSError,
        "ValueError": ValueError,
        "TypeError": TypeError,
        "json.JSONDecodeError": json.JSONDecodeError,
        "urllib3.HTTPError": requests.packages.urllib3.exceptions.HTTPError,
    }
    exceptions = requests.exceptions
    expected = [outside.get(base) or getattr(exceptions, base) for base in EXCEPTIONS[name]]
    assert list(getattr(exceptions, name).__bases__) == expected


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_is_an_oserror_that_except_requestexception_catches(
    requests: Any, name: str
) -> None:
    cls = getattr(requests.exceptions, name)
    assert issubclass(cls, IOError)
    assert issubclass(cls, requests.RequestException)
    assert cls.__name__ == name


@pytest.mark.parametrize("name", SIMPLE)
def test_an_exception_keeps_request_and_response(requests: Any, name: str) -> None:
    cls = getattr(requests.exceptions, name)
    response, request = requests.Response(), requests.Request("GET", "http://x/")
    assert (cls("a").request, cls("a").response) == (None, None)
    error = cls("what", 2, request=request, response=response)
    assert error.args == ("what", 2)
    assert error.request is request
    assert error.response is response


def test_the_request_of_an_exception_is_that_of_its_response(requests: Any) -> None:
    response = requests.Response()
    response.request = prepared = requests.Request("GET", "http://x/").prepare()
    assert requests.RequestException("a", response=response).request is prepared


def test_the_text_of_an_exception_is_its_argument(requests: Any) -> None:
    assert str(requests.exceptions.ConnectionError("it broke")) == "it broke"
    assert str(requests.exceptions.RequestException()) == ""
    assert repr(requests.exceptions.InvalidURL("no")) == "InvalidURL('no')"


@pytest.mark.parametrize("name", SIMPLE)
def test_an_exception_can_be_pickled(requests: Any, name: str) -> None:
    error = getattr(requests.exceptions, name)("what")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert copy.args == ("what",)
    assert (copy.request, copy.response) == (None, None)


def test_an_error_of_json_has_the_facts_of_the_standard_library_and_is_a_value_error(
    requests: Any,
) -> None:
    error = requests.JSONDecodeError("Expecting value", "x\ny", 2)
    assert (error.msg, error.doc, error.pos, error.lineno, error.colno) == (
        "Expecting value",
        "x\ny",
        2,
        2,
        1,
    )
    assert str(error) == "Expecting value: line 2 column 1 (char 2)"
    assert isinstance(error, ValueError)
    assert isinstance(error, requests.exceptions.InvalidJSONError)


def test_an_error_of_json_can_be_pickled(requests: Any) -> None:
    error = requests.JSONDecodeError("Expecting value", "x\ny", 2)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (copy.msg, copy.doc, copy.pos) == ("Expecting value", "x\ny", 2)
    assert str(copy) == str(error)


def test_warnings_have_their_bases(requests: Any) -> None:
    exceptions = requests.exceptions
    assert exceptions.RequestsWarning.__bases__ == (Warning,)
    assert exceptions.FileModeWarning.__bases__ == (exceptions.RequestsWarning, DeprecationWarning)
    assert exceptions.RequestsDependencyWarning.__bases__ == (exceptions.RequestsWarning,)


def test_the_logger_has_the_name_of_the_package(requests: Any) -> None:
    if requests.__name__ == "curlhttp":
        pytest.skip("only the stand-in adds a handler")
    assert requests.logging.getLogger("requests") is not None
    assert issubclass(requests.NullHandler, requests.logging.Handler)


# -- the functions


@pytest.mark.parametrize("verb", ["get", "options", "post", "put", "patch", "delete"])
def test_a_function_sends_its_verb(requests: Any, app: AppServer, verb: str) -> None:
    answer = getattr(requests, verb)(app.url + "/echo").json()
    assert answer["method"] == verb.upper()


def test_head_sends_head_and_does_not_follow(requests: Any, app: AppServer) -> None:
    response = requests.head(app.url + "/redirect/1")
    assert (response.status_code, response.request.method) == (302, "HEAD")
    assert requests.head(app.url + "/redirect/1", allow_redirects=True).status_code == 200


def test_options_follows(requests: Any, app: AppServer) -> None:
    assert requests.options(app.url + "/redirect/1").status_code == 200


def test_request_upcases_the_method_of_the_session(requests: Any, app: AppServer) -> None:
    assert requests.request("get", app.url + "/echo").json()["method"] == "GET"
    assert requests.request("PROPFIND", app.url + "/echo").json()["method"] == "PROPFIND"


def test_functions_take_data_params_and_json_by_position(requests: Any, app: AppServer) -> None:
    url = app.url + "/echo"
    assert requests.get(url, {"a": 1}).json()["target"] == "/echo?a=1"
    assert requests.post(url, {"a": 1}).json()["body"] == "a=1"
    assert requests.post(url, None, {"a": 1}).json()["body"] == '{"a": 1}'
    assert requests.put(url, "x").json()["body"] == "x"
    assert requests.patch(url, b"y").json()["body"] == "y"


def test_functions_forget_cookies(requests: Any, app: AppServer) -> None:
    assert requests.get(app.url + "/cookies/set?a=1").cookies.get_dict() == {"a": "1"}
    assert requests.get(app.url + "/cookies").json()["cookies"] == {}


def test_a_streamed_response_of_a_function_can_still_be_read(requests: Any, app: AppServer) -> None:
    with requests.get(app.url + "/chunked/50000", stream=True) as response:
        assert len(response.content) == 50000


def test_a_body_can_be_a_file(requests: Any, app: AppServer) -> None:
    assert requests.post(app.url + "/echo", data=io.BytesIO(b"file")).json()["body"] == "file"
