"""`curlhttp fetch --since`, which asks only for what changed, and `--dedup`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.servers import AppConnection, AppServer, Record
from tests.support.cli import FILES, listed, recorded, run

DATE = "Sun, 01 Nov 2026 10:00:00 GMT"


class Pages:
    """Serve /etag and /date, which have validators, and /none, until they change."""

    def __init__(self, app: AppServer) -> None:
        self.version = 1
        for name in ("etag", "date", "none"):
            app.route(f"/{name}", self._reply)

    def _reply(self, record: Record, conn: AppConnection) -> None:
        kind = record.path.removeprefix("/")
        validator = {"etag": ("ETag", f'"v{self.version}"'), "date": ("Last-Modified", DATE)}
        sent = {"etag": "if-none-match", "date": "if-modified-since"}
        headers = [validator[kind]] if kind in validator else []
        if headers and record.header(sent[kind]) == headers[0][1]:
            conn.reply(304, headers=headers if kind == "etag" else [])
        else:
            conn.reply(200, f"{kind} {self.version}".encode(), headers=headers)


@pytest.mark.parametrize("name", FILES)
def test_only_what_changed_is_fetched_again(app: AppServer, tmp_path: Path, name: str) -> None:
    pages = Pages(app)
    (tmp_path / "1").mkdir()
    paths = [tmp_path / "1" / name, tmp_path / f"second-{name}", tmp_path / f"third-{name}"]
    file = listed(tmp_path, *(f"{app.url}/{kind}" for kind in ("etag", "date", "none")))
    assert run("fetch", file, "-o", paths[0]).status == 0
    assert [bool(record["unchanged"]) for record in recorded(paths[0])] == [False] * 3
    ended = run("fetch", file, "-o", paths[1], "--since", paths[0], "--summary", "json")
    assert (ended.status, json.loads(ended.out)["unchanged"]) == (0, 2)
    etag, date, none = recorded(paths[1])
    for record in (etag, date):
        assert (bool(record["unchanged"]), record["status"], record["body"]) == (True, 304, None)
        assert bool(record["ok"])
    assert (bool(none["unchanged"]), none["body"]) == (False, b"none 1")
    pages.version = 2
    assert run("fetch", file, "-o", paths[2], "--since", paths[1]).status == 0
    etag, date, none = recorded(paths[2])  # the record of a 304 has the validators, too
    assert (bool(etag["unchanged"]), etag["body"]) == (False, b"etag 2")
    assert bool(date["unchanged"])


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith((".gz", ".zst"))])
def test_the_whole_members_of_an_output_that_a_kill_has_cut_are_used(
    app: AppServer, tmp_path: Path, name: str
) -> None:
    Pages(app)
    file, earlier = listed(tmp_path, f"{app.url}/etag"), tmp_path / name
    run("fetch", file, "-o", earlier)
    whole = earlier.read_bytes()
    run("fetch", file, "-o", earlier, "--overwrite")
    earlier.write_bytes(whole + earlier.read_bytes()[:-20])
    ended = run("fetch", file, "-o", tmp_path / "out", "--since", earlier, "--summary", "json")
    assert (ended.status, json.loads(ended.out)["unchanged"]) == (0, 1)


@pytest.mark.parametrize("name", FILES)
def test_bodies_of_the_earlier_run_are_not_overwritten(
    app: AppServer, tmp_path: Path, name: str
) -> None:
    Pages(app)
    file, out = listed(tmp_path, f"{app.url}/etag"), tmp_path / name
    run("fetch", file, "-o", out)
    ended = run("fetch", file, "-o", out, "--since", out, "--overwrite")
    assert ended.status == 2
    assert "--since and PATH are the same output" in ended.err
    assert [record["body"] for record in recorded(out)] == [b"etag 1"]


def test_validators_are_not_used_for_another_url(app: AppServer, tmp_path: Path) -> None:
    Pages(app)
    moved = False
    app.route(
        "/old",
        lambda _, conn: (
            conn.reply(302, headers=[("Location", "/etag")])
            if moved
            else conn.reply(200, b"old", headers=[("ETag", '"v1"')])
        ),
    )
    first, second, third = (tmp_path / f"{n}.jsonl" for n in range(3))
    file = listed(tmp_path, app.url + "/old")
    run("fetch", file, "-o", first)
    moved = True
    run("fetch", file, "-o", second, "--since", first)
    (record,) = recorded(second)
    assert (record["unchanged"], record["ok"]) == (False, False)
    run("fetch", file, "-o", third, "--since", second)
    (record,) = recorded(third)
    assert (record["ok"], record["body"]) == (True, b"etag 1")


def test_a_condition_of_a_line_is_its_own(app: AppServer, tmp_path: Path) -> None:
    Pages(app)
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    run("fetch", listed(tmp_path, app.url + "/etag"), "-o", first)
    line = {"url": app.url + "/etag", "headers": {"If-None-Match": '"other"'}}
    run("fetch", listed(tmp_path, line), "-o", second, "--since", first)
    assert [record["status"] for record in recorded(second)] == [200]


@pytest.mark.parametrize("content", ["text of somebody\n", "[]\n", '{"url": 1}\n'])
def test_an_output_of_something_else_is_refused(
    app: AppServer, tmp_path: Path, content: str
) -> None:
    (tmp_path / "other.jsonl").write_text(content)
    arguments = ("-o", tmp_path / "out.jsonl", "--since", tmp_path / "other.jsonl")
    ended = run("fetch", listed(tmp_path, app.url), *arguments)
    assert ended.status == 2
    assert "not an output of curlhttp fetch" in ended.err
    assert app.connections == 0


def test_lines_with_the_url_of_an_earlier_line_are_left_out(app: AppServer, tmp_path: Path) -> None:
    url, out = f"{app.url}/bytes/3", tmp_path / "out.jsonl"
    file = listed(
        tmp_path,
        url,
        url.replace("http:", "HTTP:"),
        f"{app.url}/a/../%62ytes/3#part",
        url + "?a=1",
        {"url": url},
        {"url": url, "method": "POST"},
        {"url": url, "headers": {"X": "1"}},
        url.replace("//", "//me:pw@"),
        "nope",
        "nope",
    )
    ended = run("fetch", file, "-o", out, "--dedup", "--summary", "json")
    assert json.loads(ended.out)["duplicates"] == 3
    assert [record["line"] for record in recorded(out)] == [1, 4, 6, 7, 8, 9, 10]
    app.reset_counts()
    again = run("fetch", file, "-o", out, "--dedup", "--resume", "--summary", "json")
    assert json.loads(again.out)["skipped"] == 7
    assert app.requests == []
