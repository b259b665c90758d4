"""responses: replaces `requests.adapters.HTTPAdapter.send`, and uses `build_response`."""

from __future__ import annotations

import importlib
import io
import re
from typing import Any

import pytest
import requests
import responses
from responses import matchers, registries

from tests.servers import AppServer

URL = "http://api.example.test/items"


def answers_without_a_connection(app: AppServer) -> None:
    with responses.RequestsMock() as mock:
        mock.add(
            "GET",
            URL,
            json={"name": "é"},
            status=201,
            headers={"X-Kind": "fake", "Set-Cookie": "a=1; Path=/"},
        )
        response: Any = requests.get(URL, params={"q": "1"}, timeout=3)
        assert response.status_code == 201
        assert response.reason == "Created"
        assert response.json() == {"name": "é"}
        assert response.headers["x-kind"] == "fake"
        assert response.encoding == "utf-8"
        assert response.url == URL + "?q=1"
        assert response.ok
        assert response.cookies.get_dict() == {"a": "1"}
        assert response.request.method == "GET"
        assert isinstance(response, requests.Response)
        assert [call.request.url for call in mock.calls] == [URL + "?q=1"]
        assert mock.calls[0].response is response
    assert app.requests == []


def matches_what_was_sent(app: AppServer) -> None:
    with responses.RequestsMock() as mock:
        mock.post(URL, body="json", match=[matchers.json_params_matcher({"a": [1, None]})])
        mock.post(URL, body="form", match=[matchers.urlencoded_params_matcher({"a": "1 2"})])
        mock.get(URL, body="query", match=[matchers.query_param_matcher({"q": "x y"})])
        mock.get(URL, body="header", match=[matchers.header_matcher({"X-Key": "k"})])
        mock.get(
            re.compile(r"http://other\.test/\d+"),
            body="kwargs",
            match=[matchers.request_kwargs_matcher({"stream": False, "verify": False})],
        )
        files = {"f": b"content"}
        mock.put(URL, body="multipart", match=[matchers.multipart_matcher(files, {"d": "1"})])
        session = requests.Session()
        assert session.post(URL, json={"a": [1, None]}).text == "json"
        assert session.post(URL, data={"a": "1 2"}).text == "form"
        assert session.get(URL, params={"q": "x y"}).text == "query"
        assert session.get(URL, headers={"X-Key": "k"}).text == "header"
        assert session.get("http://other.test/42", verify=False).text == "kwargs"
        assert session.put(URL, files=files, data={"d": "1"}).text == "multipart"


def refuses_what_nobody_expects(app: AppServer) -> None:
    with responses.RequestsMock() as mock:
        mock.add("GET", URL + "/1")
        requests.get(URL + "/1", timeout=3)
        with pytest.raises(requests.exceptions.ConnectionError) as caught:
            requests.get(URL + "/2", timeout=3)
        error: Any = caught.value
        assert "doesn't match any registered mock" in str(error)
        assert error.request is not None
        assert error.request.url == URL + "/2"


def raises_the_errors_it_is_given(app: AppServer) -> None:
    with responses.RequestsMock() as mock:
        mock.add("GET", URL, body=requests.exceptions.ReadTimeout("too slow"))
        with pytest.raises(requests.Timeout) as caught:
            requests.get(URL, timeout=3)
        error: Any = caught.value
        assert str(error) == "too slow"
        assert error.request is not None


def follows_redirects_through_the_mock(app: AppServer) -> None:
    with responses.RequestsMock() as mock:
        target = {"Location": "http://other.test/end", "Set-Cookie": "s=1; Path=/"}
        mock.post(URL, status=302, headers=target, body=b"moved")
        mock.get("http://other.test/end", body=b"there")
        session = requests.Session()
        response = session.post(URL, data="body", headers={"Authorization": "secret"})
        assert response.text == "there"
        assert [(r.status_code, r.content) for r in response.history] == [(302, b"moved")]
        assert session.cookies.get_dict() == {"s": "1"}
        second: Any = mock.calls[1].request
        assert second.method == "GET"
        assert second.body is None
        assert "Authorization" not in second.headers


def breaks_off_as_the_network_would(app: AppServer) -> None:
    errors = requests.exceptions
    with responses.RequestsMock() as mock:
        mock.get(URL + "/short", body=b"short", headers={"Content-Length": "10"})
        mock.get(URL + "/garbage", body=b"garbage", headers={"Content-Encoding": "gzip"})
        for stream in (False, True):
            with pytest.raises(errors.ChunkedEncodingError):
                _ = requests.get(URL + "/short", stream=stream, timeout=3).content
            with pytest.raises(errors.ContentDecodingError):
                _ = requests.get(URL + "/garbage", stream=stream, timeout=3).content


def calls_back_and_streams(app: AppServer) -> None:
    def respond(request: Any) -> tuple[int, dict[str, str], bytes]:
        return 200, {"X-Length": request.headers["Content-Length"]}, request.body * 2

    def check(response: Any) -> Any:
        response.marked = True
        return response

    with responses.RequestsMock(response_callback=check) as mock:
        mock.add_callback("POST", URL, callback=respond, content_type="text/plain")
        response: Any = requests.post(URL, data=io.BytesIO(b"ab\ncd\n"), stream=True, timeout=3)
        assert response.headers["X-Length"] == "6"
        assert list(response.iter_lines()) == [b"ab", b"cd", b"ab", b"cd"]
        assert response.marked


def retries_by_the_adapter_rules(app: AppServer) -> None:
    module: Any = importlib.import_module("requests.packages.urllib3.util.retry")
    forced = module.Retry(total=2, backoff_factor=0, status_forcelist=[503])
    with responses.RequestsMock(registry=registries.OrderedRegistry) as mock:
        for status in (503, 503, 200, 503, 503, 503):
            mock.get(URL, status=status, body=str(status))
        session = requests.Session()
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=forced))
        assert session.get(URL).text == "200"
        assert len(mock.calls) == 3
        with pytest.raises(requests.exceptions.RetryError) as caught:
            session.get(URL)
        error: Any = caught.value
        assert "too many 503 error responses" in str(error)


def retries_by_the_rules_of_real_urllib3(app: AppServer) -> None:
    from urllib3.util import Retry

    with responses.RequestsMock(registry=registries.OrderedRegistry) as mock:
        for status in (503, 200, 503, 503):
            mock.get(URL, status=status, body=str(status))
        session = requests.Session()
        retry: Any = Retry(total=1, backoff_factor=0, status_forcelist=[503])
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
        assert session.get(URL).text == "200"
        with pytest.raises(requests.exceptions.RetryError) as caught:
            session.get(URL)
        error: Any = caught.value
        assert "too many 503 error responses" in str(error)


def passes_through_to_the_network(app: AppServer) -> None:
    with responses.RequestsMock() as mock:
        mock.add_passthru(app.url + "/echo")
        mock.add(responses.PassthroughResponse("GET", app.url + "/json"))
        assert requests.get(app.url + "/echo", timeout=3).json()["method"] == "GET"
        assert requests.get(app.url + "/json", timeout=3).json()["hello"] == "world"
    assert [record.path for record in app.requests] == ["/echo", "/json"]
    assert requests.get(app.url, timeout=3).text == "hello"  # no longer replaced
