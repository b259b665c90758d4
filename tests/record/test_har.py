"""HAR files: what is written is HAR 1.2; damaged files are refused with file and position."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import curlhttp
from curlhttp import Headers, Record
from curlhttp._client.chain import Chain
from curlhttp._features.record.har import (
    RecordedExchange,
    RecordedResponse,
    make_empty_log,
    read_log,
    write_log,
)
from curlhttp._http.body_redaction import Redactor
from curlhttp._http.response import Head
from curlhttp.testing import Answer, ScriptedEngine, refused
from tests.servers import AppServer
from tests.support.scripted import URL

# What HAR 1.2 asks for: name and type, "?" for what may be missing.
FIELDS: dict[str, dict[str, Any]] = {
    "log": {"version": str, "creator": "creator", "entries": ["entry"]},
    "creator": {"name": str, "version": str},
    "entry": {
        "startedDateTime": str,
        "time": float,
        "request": "request",
        "response": "response",
        "cache": dict,
        "timings": "timings",
        "serverIPAddress?": str,
        "connection?": str,
        "_resourceType": str,
        "_error?": str,
        "_request?": int,
        "_hedge?": str,
        "_fromCache?": str,
    },
    "request": {
        "method": str,
        "url": str,
        "httpVersion": str,
        "cookies": ["pair"],
        "headers": ["pair"],
        "queryString": ["pair"],
        "postData?": "postData",
        "headersSize": int,
        "bodySize": int,
    },
    "response": {
        "status": int,
        "statusText": str,
        "httpVersion": str,
        "cookies": ["pair"],
        "headers": ["pair"],
        "content": "content",
        "redirectURL": str,
        "headersSize": int,
        "bodySize": int,
    },
    "content": {
        "size": int,
        "mimeType": str,
        "text?": str,
        "encoding?": str,
        "_coded?": bool,
        "_cut?": bool,
        "_pieces?": list,
    },
    "postData": {"mimeType": str, "text": str, "_encoding?": str, "_decoded?": bool},
    "pair": {"name": str, "value": str},
    "timings": dict.fromkeys(
        ("blocked", "dns", "connect", "send", "wait", "receive", "ssl"), float
    ),
}


def check(value: Any, kind: Any) -> None:
    """Raise if a value is not what HAR 1.2 says."""
    if isinstance(kind, list):
        assert isinstance(value, list)
        for item in value:
            check(item, kind[0])
    elif isinstance(kind, str):
        fields = FIELDS[kind]
        assert set(value) <= {name.rstrip("?") for name in fields}, (kind, set(value))
        for name, inner in fields.items():
            if name in value or not name.endswith("?"):
                check(value[name.rstrip("?")], inner) if name.rstrip("?") in value else None
                assert name.rstrip("?") in value
    elif kind is float:
        assert isinstance(value, (int, float))
        assert value >= -1
    else:
        assert type(value) is kind


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Return a file with entries of all kinds."""
    path = tmp_path / "all.har"
    responses: list[Any] = [
        Answer(headers={"Content-Type": "application/json"}, content='{"a": "é"}'),
        Answer(302, headers={"Location": "/there", "Set-Cookie": "a=b; Path=/"}),
        Answer(content=b"\xff\x00"),
        Answer(headers={"Content-Type": "text/plain"}, content=[b"one", b"two"]),
        204,
        refused(),
    ]
    with curlhttp.Client(transport=ScriptedEngine(responses)) as client, client.har(path):
        client.post(URL + "?a=1&b", json={"x": 1})
        client.get(URL, cookies={"c": "d"})
        with client.stream("POST", URL, content=b"\xfe") as response:
            response.read()
        client.get(URL)
        with pytest.raises(curlhttp.ConnectionError):
            client.get(URL)
    return path


def test_the_written_file_is_har_1_2(recorded: Path) -> None:
    log = json.loads(recorded.read_text())["log"]
    check(log, "log")
    assert log["version"] == "1.2"
    for entry in log["entries"]:
        datetime.fromisoformat(entry["startedDateTime"].replace("Z", "+00:00"))
        phases = [spent for name, spent in entry["timings"].items() if name != "ssl"]
        assert entry["time"] == pytest.approx(sum(max(0, spent) for spent in phases), abs=0.01)


def test_the_phases_of_a_real_exchange_are_those_of_libcurl(tmp_path: Path) -> None:
    path = tmp_path / "real.har"
    with AppServer() as server, curlhttp.Client() as client, client.har(path):
        timings = client.get(server.url + "/delay/0.05").timings
        client.get(server.url)
    first, second = json.loads(path.read_text())["log"]["entries"]
    check(first, "entry")
    assert first["serverIPAddress"] == "127.0.0.1"
    assert timings.local is not None
    assert first["connection"] == second["connection"] == str(timings.local[1])
    assert first["timings"]["connect"] == pytest.approx(timings.connect * 1000, abs=0.01)
    assert second["timings"]["connect"] == second["timings"]["dns"] == -1
    assert first["timings"]["wait"] > 0


def node_path() -> str | None:
    found = os.environ.get("HAR_VALIDATOR")  # the node_modules that have har-validator
    return found if found and shutil.which("node") else None


@pytest.mark.skipif(node_path() is None, reason="HAR_VALIDATOR names no node_modules, or no node")
def test_the_validator_of_npm_agrees(recorded: Path) -> None:
    program = (
        "const har = JSON.parse(require('fs').readFileSync(process.argv[1], 'utf8'));"
        "require('har-validator').har(har).then(() => console.log('valid'),"
        "(error) => console.log(JSON.stringify(error.errors)));"
    )
    done = subprocess.run(
        ["node", "-e", program, str(recorded)],
        env={**os.environ, "NODE_PATH": str(node_path())},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "valid", done.stdout + done.stderr


# --- reading ---


def damaged(recorded: Path, change: Any) -> Path:
    whole = json.loads(recorded.read_text())
    change(whole)
    recorded.write_text(json.dumps(whole))
    return recorded


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "line 1 column 1: not JSON"),
        (b'{"log":\n {,}}', "line 2 column 3: not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'{"log": ' + b"1" * 10_000 + b"}", "not JSON"),
        (b"[]", "the file: this is list, not dict"),
        (b"{}", "log: it is missing"),
        (b'{"log": {"entries": []}}', "log.version: it is missing"),
        (b'{"log": {"version": "1.1", "entries": []}}', "log.version: it is '1.1'"),
        (b'{"log": {"version": "1.2", "entries": {}}}', "log.entries: this is dict, not list"),
        (
            b'{"log": {"version": "1.2", "entries": [1]}}',
            r"log.entries\[0\]: this is int, not dict",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "bad.har"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=rf"bad.har: {said}") as caught:
        Record(path)
    assert type(caught.value) is ValueError
    assert path.read_bytes() == text


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (("request", "url"), 5, "request.url: this is int"),
        (("request", "postData", "text"), None, "request.postData.text: this is NoneType"),
        (("response", "status"), "200", "response.status: this is str"),
        (("response", "status"), True, "response.status: this is bool"),
        (("response", "status"), 99, "response.status: 99 is not a status code"),
        (("response", "statusText"), "OK\nX: y", "response.statusText: it contains a line end"),
        (
            ("response", "headers", 0, "value"),
            "a\nb",
            r"response.headers\[0\]: it contains a line end",
        ),
        (("response", "content", "encoding"), "base64", "response.content.text: not base64"),
        (("response", "content", "_pieces"), [1], "response.content._pieces: they have 1 bytes"),
        (("response", "content", "_pieces"), [-1, 12], "_pieces: -1 is not a size"),
    ],
)
def test_a_damaged_entry_is_named(
    recorded: Path, keys: tuple[Any, ...], value: Any, said: str
) -> None:
    def change(whole: Any) -> None:
        found = whole["log"]["entries"][0]
        for key in keys[:-1]:
            found = found[key]
        found[keys[-1]] = value

    with pytest.raises(ValueError, match=rf"all.har: log.entries\[0\].*{said}"):
        Record(damaged(recorded, change))


@given(data=st.data())
def test_any_damage_is_a_value_error(data: st.DataObject) -> None:
    whole = copy.deepcopy(WHOLE)
    found: Any = whole
    while isinstance(found, (dict, list)) and found:
        key = data.draw(
            st.sampled_from(sorted(found) if isinstance(found, dict) else range(len(found)))
        )
        if not isinstance(found[key], (dict, list)) or data.draw(st.booleans()):
            found[key] = data.draw(
                st.none() | st.integers() | st.text() | st.just([]) | st.just({}) | st.booleans()
            )
            break
        found = found[key]
    path = Path(os.environ["PYTEST_FUZZED"])
    path.write_text(json.dumps(whole))
    with suppress(ValueError):
        read_log(path)


WHOLE: dict[str, Any] = {}


@pytest.fixture(autouse=True, scope="module")
def _whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("fuzz") / "whole.har"
    responses = [Answer(headers={"A": "b"}, content=[b"one", b"two"]), Answer(content=b"\xff")]
    with curlhttp.Client(transport=ScriptedEngine(responses)) as client, client.har(path):
        client.post(URL, stream=True, json=1).read()
        client.get(URL)
    WHOLE.update(json.loads(path.read_text()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_FUZZED", str(path))
        yield


@given(
    values=st.lists(
        st.tuples(
            st.sampled_from(["X-One", "Content-Encoding", "Content-Length", "Location", "Link"]),
            st.binary(max_size=8),
        ),
        max_size=4,
    ),
    reason=st.binary(max_size=8),
    content=st.binary(max_size=40),
)
def test_whatever_a_server_sends_can_be_read_again(
    values: list[tuple[str, bytes]], reason: bytes, content: bytes
) -> None:
    fields = [f"{name}: ".encode() + value.replace(b"\n", b"") for name, value in values]
    head = Head(b"\r\n".join([b"HTTP/1.1 200 " + reason.replace(b"\n", b""), *fields, b"", b""]))
    received = RecordedResponse(head, content, is_decoded=False)
    request = curlhttp.ClientRequest("GET", URL)
    exchange = RecordedExchange(0, request, b"", 0.0, None, 0.0, received)
    path = Path(os.environ["PYTEST_FUZZED"])
    log = make_empty_log()
    log["entries"].append(exchange.to_entry(Redactor()))
    check(log, "log")
    write_log(path, log)
    _, (played,) = read_log(path)
    ours, theirs = (Headers.from_block(each.block) for each in (head, played.head))
    assert ours.get_list("x-one") == theirs.get_list("x-one")
    if "content-encoding" in theirs:  # it cannot be decoded
        assert b"".join(played.pieces) == (b"***" if content else b"")
    elif "content-encoding" not in ours:
        assert b"".join(played.pieces) == content


def test_an_error_with_an_undecodable_message_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "odd.har"
    odd = curlhttp.ConnectionError("odd \udce4 words")
    with curlhttp.Client(transport=ScriptedEngine([odd])) as client:
        with pytest.raises(curlhttp.ConnectionError), client.har(path):
            client.get(URL)
    assert json.loads(path.read_text())["log"]["entries"][0]["_error"].endswith("odd ? words")


def test_a_file_of_a_browser_plays_back(tmp_path: Path) -> None:
    path = tmp_path / "browser.har"
    entry = {
        "startedDateTime": "2026-01-01T00:00:00.000Z",
        "time": 1,
        "_initiator": {"type": "other"},
        "request": {
            "method": "GET",
            "url": "https://h.test/a?x=1#part",
            "httpVersion": "h2",
            "cookies": [],
            "headers": [{"name": ":authority", "value": "h.test"}],
            "queryString": [],
            "headersSize": -1,
            "bodySize": 0,
        },
        "response": {
            "status": 200,
            "statusText": "",
            "httpVersion": "h2",
            "cookies": [],
            "headers": [
                {"name": ":status", "value": "200"},
                {"name": "content-type", "value": "text/html; charset=utf-8"},
                {"name": "content-encoding", "value": "gzip"},
                {"name": "x-odd", "value": "€"},
            ],
            "content": {"size": 3, "mimeType": "text/html", "text": "é"},
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": 10,
        },
        "cache": {},
        "timings": {"send": 0, "wait": 0, "receive": 0},
    }
    aborted = {**entry, "response": {**entry["response"], "status": 0}}  # type: ignore[dict-item]
    whole = {"log": {"version": "1.2", "creator": {}, "pages": [], "entries": [aborted, entry]}}
    path.write_text("\ufeff" + json.dumps(whole), encoding="utf-8")
    with curlhttp.Client(transport=Record(path, "new")) as client:
        response = client.get("https://h.test/a?x=1")
        assert (response.text, response.http_version) == ("é", "HTTP/2")
        assert "content-encoding" not in response.headers


def test_new_entries_do_not_change_those_of_other_programs(recorded: Path) -> None:
    def change(whole: Any) -> None:
        whole["log"]["pages"] = [{"id": "1"}]
        whole["log"]["entries"][0]["comment"] = "mine"

    damaged(recorded, change)
    with AppServer() as server, curlhttp.Client(transport=Record(recorded, "new")) as client:
        client.get(server.url)
    log = json.loads(recorded.read_text())["log"]
    assert log["pages"] == [{"id": "1"}]
    assert log["entries"][0]["comment"] == "mine"
    assert len(log["entries"]) == 7


@pytest.mark.parametrize("first", ["the recording", "the request"])
def test_a_recording_and_the_first_retry_that_begin_at_the_same_time_keep_each_other(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.har"
    client = curlhttp.Client(transport=ScriptedEngine([503, 200, 503, 200]))
    log = client.har(path)
    build = Chain.build
    others: list[Callable[[], object]] = []

    def build_while_another_thread_does(chain: Chain, *args: Any, **options: Any) -> Any:
        flow = build(chain, *args, **options)
        if others:
            others.pop()()
        return flow

    monkeypatch.setattr(Chain, "build", build_while_another_thread_does)
    if first == "the recording":
        others.append(lambda: client.build_request("GET", URL, retry=1))
        log.__enter__()
    else:
        others.append(log.__enter__)
        client.build_request("GET", URL, retry=1)
    assert client.get(URL, retry=1).status_code == 200
    assert client.get(URL, retry=1).status_code == 200
    log.__exit__()
    statuses = [e["response"]["status"] for e in json.loads(path.read_text())["log"]["entries"]]
    assert statuses == [503, 200, 503, 200]


def test_recordings_that_threads_begin_and_end_at_once_are_all_written(tmp_path: Path) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with (
            curlhttp.Client(
                transport=ScriptedEngine([200] * 10), cache=curlhttp.Cache(":memory:")
            ) as client,
            ThreadPoolExecutor(16) as threads,
        ):
            for _ in range(4):
                paths = [tmp_path / f"{number}.har" for number in range(100)]
                logs = [client.har(path) for path in paths]
                list(threads.map(lambda log: log.__enter__(), logs))
                client.get(URL)
                list(threads.map(lambda log: log.__exit__(None, None, None), logs))
                counts = [len(json.loads(path.read_bytes())["log"]["entries"]) for path in paths]
                assert counts == [1] * 100
    finally:
        sys.setswitchinterval(interval)
