"""Eleven points where other stand-ins for requests differ from it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.servers import AppConnection, AppServer, HTTPProxy, Record


def test_a_response_with_an_error_is_false(requests: Any, app: AppServer) -> None:
    assert not requests.get(app.url + "/status/404")
    assert not requests.get(app.url + "/status/500")
    assert requests.get(app.url + "/status/200")
    assert requests.get(app.url + "/status/399")


def test_files_are_sent(requests: Any, app: AppServer) -> None:
    files = {"a": io.BytesIO(b"first"), "b": ("name.txt", "second", "text/x", {"X-Y": "z"})}
    requests.post(app.url + "/echo", files=files, data={"field": "value"})
    record = app.requests[0]
    kind = record.header("content-type") or ""
    assert kind.startswith("multipart/form-data; boundary=")
    boundary = kind.rpartition("=")[2].encode()
    parts = record.body.split(b"--" + boundary)[1:-1]
    assert [part.rpartition(b"\r\n\r\n")[2] for part in parts] == [
        b"value\r\n",
        b"first\r\n",
        b"second\r\n",
    ]
    assert b'name="field"' in parts[0]
    assert b'name="a"; filename="a"' in parts[1]
    assert b'name="b"; filename="name.txt"' in parts[2]
    assert b"Content-Type: text/x" in parts[2]
    assert b"X-Y: z" in parts[2]


def test_hooks_are_called(requests: Any, app: AppServer) -> None:
    seen = []
    requests.get(app.url, hooks={"response": lambda r, *args, **kwargs: seen.append(r.text)})
    assert seen == ["hello"]


def test_objects_of_auth_base_are_called(requests: Any, app: AppServer) -> None:
    class Token(requests.auth.AuthBase):  # type: ignore[misc]
        def __call__(self, r: Any) -> Any:
            assert isinstance(r, requests.PreparedRequest)
            r.headers["Authorization"] = f"Token {r.method}"
            return r

    requests.post(app.url + "/echo", auth=Token())
    assert app.requests[0].header("authorization") == "Token POST"


def test_iter_content_works_without_a_stream(requests: Any, app: AppServer) -> None:
    answer = requests.get(app.url)
    assert b"".join(answer.iter_content(2)) == b"hello"
    assert b"".join(answer.iter_content(2)) == b"hello"
    assert list(answer.iter_lines()) == [b"hello"]


def test_chunk_size_is_kept(requests: Any, app: AppServer) -> None:
    with requests.get(app.url + "/bytes/10000", stream=True) as answer:
        sizes = [len(piece) for piece in answer.iter_content(chunk_size=3000)]
    assert sizes == [3000, 3000, 3000, 1000]
    answer = requests.get(app.url)
    assert list(answer.iter_content(chunk_size=2)) == [b"he", b"ll", b"o"]


def test_lists_in_data_repeat_the_name(requests: Any, app: AppServer) -> None:
    requests.post(app.url + "/echo", data={"a": ["1", "2"], "b": "3"})
    assert app.requests[0].body == b"a=1&a=2&b=3"


def test_params_of_none_are_left_out(requests: Any, app: AppServer) -> None:
    requests.get(app.url + "/echo", params={"a": None, "b": "1", "c": [None, "2"]})
    assert app.requests[0].target == "/echo?b=1&c=2"
    requests.post(app.url + "/echo", data={"a": None, "b": "1"})
    assert app.requests[1].body == b"b=1"


def test_the_history_has_bodies(requests: Any, app: AppServer) -> None:
    answer = requests.get(app.url + "/redirect-to?url=/&body=30")
    assert len(answer.history[0].content) == 30


@pytest.mark.parametrize(
    ("kind", "encoding"), [("text/html", "ISO-8859-1"), ("text/html; charset=utf-8", "utf-8")]
)
def test_text_html_is_latin_1_unless_it_says_otherwise(
    requests: Any, app: AppServer, kind: str, encoding: str
) -> None:
    def route(record: Record, conn: AppConnection) -> None:
        conn.reply(200, b"\xc3\xa9", [("Content-Type", kind)])

    app.route("/html", route)
    answer = requests.get(app.url + "/html")
    assert answer.encoding == encoding
    assert answer.text == b"\xc3\xa9".decode(encoding)


def test_raise_for_status_has_its_text(requests: Any, app: AppServer) -> None:
    url = app.url + "/status/404"
    with pytest.raises(requests.HTTPError) as caught:
        requests.get(url).raise_for_status()
    assert str(caught.value) == f"404 Client Error: Not Found for url: {url}"


def test_trust_env_false_leaves_proxies_of_the_environment_alone(
    requests: Any, app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S67: in the drop-in."""
    with HTTPProxy() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        with requests.Session() as session:
            assert session.get(app.url).text == "hello"
            assert len(proxy.log) == 1
            session.trust_env = False
            assert session.get(app.url).text == "hello"
            assert len(proxy.log) == 1
