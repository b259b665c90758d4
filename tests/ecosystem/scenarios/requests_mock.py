"""requests-mock: replaces `Session.get_adapter`, or is mounted as an adapter."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
import requests
import requests_mock

from tests.servers import AppServer

URL = "http://api.example.test/items"


def answers_without_a_connection(app: AppServer) -> None:
    with requests_mock.Mocker() as mock:
        mock.get(URL, json={"a": 1}, status_code=418, headers={"X-Kind": "fake"})
        response = requests.get(URL, params={"Q": "1"}, timeout=2.5)
        assert response.status_code == 418
        assert response.json() == {"a": 1}
        assert response.headers["x-kind"] == "fake"
        assert not response.ok
        assert response.url == URL + "?Q=1"
        assert isinstance(response, requests.Response)
        assert isinstance(response.elapsed, datetime.timedelta)
        last: Any = mock.last_request
        assert (last.method, last.qs, last.timeout) == ("GET", {"q": ["1"]}, 2.5)
        assert last.headers["Accept"] == "*/*"
        assert (last.verify, last.cert, last.stream) == (True, None, False)
        with pytest.raises(requests.HTTPError) as caught:
            response.raise_for_status()
        error: Any = caught.value
        assert error.response is response


def serves_every_kind_of_body(app: AppServer) -> None:
    with requests_mock.Mocker() as mock:
        mock.get(URL, [{"text": "é"}, {"content": b"\x00\x01"}, {"json": [1]}])
        session = requests.Session()
        first = session.get(URL)
        assert (first.text, first.encoding, first.content) == ("é", "utf-8", "é".encode())
        second = session.get(URL, stream=True)
        assert second.raw.read() == b"\x00\x01"
        third = session.get(URL, stream=True)
        assert b"".join(third.iter_content(2)) == b"[1]"
        assert mock.call_count == 3


def keeps_cookies_and_follows_redirects(app: AppServer) -> None:
    with requests_mock.Mocker() as mock:
        jar = requests_mock.CookieJar()
        jar.set("a", "1", domain="api.example.test", path="/")
        mock.get(URL, status_code=301, headers={"Location": "/end"}, cookies=jar)
        mock.get("http://api.example.test/end", text="there")
        session = requests.Session()
        response = session.get(URL)
        assert response.text == "there"
        assert [hop.status_code for hop in response.history] == [301]
        assert response.history[0].cookies["a"] == "1"


def sees_forms_json_and_auth(app: AppServer) -> None:
    with requests_mock.Mocker() as mock:

        def matches(request: Any) -> bool:
            return "b=2" in (request.text or "")

        mock.post(URL, text="form", additional_matcher=matches)
        mock.put(URL, text=lambda request, context: str(request.json()["n"]))
        mock.get(URL, text="auth", request_headers={"Authorization": "Basic dTpw"})
        assert requests.post(URL, data={"a": 1, "b": 2}, timeout=3).text == "form"
        assert requests.put(URL, json={"n": 7}, timeout=3).text == "7"
        assert requests.get(URL, auth=("u", "p"), timeout=3).text == "auth"
        with pytest.raises(requests_mock.NoMockAddress) as caught:
            requests.get(URL, timeout=3)
        error: Any = caught.value
        assert error.request.method == "GET"


def raises_the_errors_it_is_given(app: AppServer) -> None:
    with requests_mock.Mocker() as mock:
        mock.get(URL, exc=requests.exceptions.ConnectTimeout)
        with pytest.raises(requests.exceptions.Timeout):
            requests.get(URL, timeout=3)


def is_mounted_as_an_adapter(app: AppServer) -> None:
    adapter = requests_mock.Adapter()
    adapter.register_uri("GET", "mock://test/path", text="data")
    session = requests.Session()
    session.mount("mock://", adapter)
    response = session.get("mock://test/path")
    assert response.text == "data"
    assert adapter.called_once
    assert isinstance(adapter, requests.adapters.BaseAdapter)


def lets_real_requests_through(app: AppServer) -> None:
    with requests_mock.Mocker(real_http=True) as mock:
        mock.get(URL, text="fake")
        assert requests.get(URL, timeout=3).text == "fake"
        assert requests.get(app.url, timeout=3).text == "hello"
        mock.get(app.url + "/json", real_http=True)
        session = requests.Session()
        assert session.get(app.url + "/json").json()["hello"] == "world"
    assert len(app.requests) == 2
