"""The picture of what happened: `curlhttp har view`, and --timing-html."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import curlhttp
from curlhttp import Hedge
from curlhttp.cli import har as commands
from curlhttp.cli.har import PHASES, Row, parse_rows, render
from curlhttp.testing import Answer, ScriptedEngine, refused
from tests.servers import AppServer, refused_port
from tests.support.cli import run
from tests.support.colours import needs_posix
from tests.support.forced import force
from tests.support.internals import ROOT
from tests.support.scripted import steady

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = (
    "<script>window.hit=1</script><img src=x onerror=hit=1>'\"&{title}\u202e\x1b]0;x\x07\ud800"
)


class Page(HTMLParser):
    """The texts of a page, its rows, and the names of its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.text = text
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    @property
    def cells(self) -> list[tuple[str, str, str]]:
        """Return URL, status and tags of each row."""
        return [(row[1].partition("status")[0].split()[1], row[2], row[3]) for row in self.rows[1:]]


def entry(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "startedDateTime": "2026-01-02T03:04:05.000Z",
        "time": 30,
        "request": {"method": "GET", "url": "https://a.test/x"},
        "response": {"status": 200, "statusText": "OK", "content": {"size": 5}},
        "timings": {"blocked": 1, "dns": 2, "connect": 7, "ssl": 4, "send": 0, "wait": 15,
                    "receive": 5},
    }  # fmt: skip
    return {**found, **changes}


def write(path: Path, *entries: Any) -> Path:
    path.write_text(json.dumps({"log": {"version": "1.2", "entries": list(entries)}}))
    return path


def view(path: Path) -> Page:
    ended = run("har", "view", path, "-o", "-")
    assert ended.status == 0, ended.err
    return Page(ended.out.decode())


# --- what is on the page ---


def test_a_log_of_a_client_shows_attempts_retries_hedges_and_the_cache(tmp_path: Path) -> None:
    steps: list[Any] = [
        Answer(302, {"Location": "/there"}),
        Answer(503, delay=0.5),
        refused(),
        Answer(content=b"x" * 2048, headers={"Cache-Control": "max-age=60"}),
        Answer(delay=9),
        Answer(404, delay=1),
    ]
    cache = curlhttp.Cache(":memory:")
    with (
        curlhttp.Client(
            transport=ScriptedEngine(steps), retry=steady(), hedge=Hedge(after=2), cache=cache
        ) as client,
        client.har(tmp_path / "log.har"),
    ):
        client.get("http://a.test/here?token=hidden")
        client.get("http://a.test/there")
        client.get("http://a.test/slow")
    page = view(tmp_path / "log.har")
    assert page.cells == [
        ("http://a.test/here?token=***", "302", ""),
        ("http://a.test/there", "503", "redirect"),
        ("http://a.test/there", "failed", "retry"),
        ("http://a.test/there", "200", "retry"),
        ("http://a.test/there", "200", "cache"),
        ("http://a.test/slow", "lost", "hedge lost"),
        ("http://a.test/slow", "404", "hedge won"),
    ]
    assert page.rows[4][4] == "2.0 KiB"
    assert "7 requests · 3 failed · 1 redirect · 2 retry · 1 cache" in page.text
    assert page.rows[2][5] == "500.0 ms"


def test_a_log_of_a_browser_shows_redirects_retries_and_the_cache(tmp_path: Path) -> None:
    moved = {"status": 301, "redirectURL": "/y", "_transferSize": 99, "content": {"size": 5}}
    there = {"method": "GET", "url": "https://a.test/y"}
    page = view(
        write(
            tmp_path / "browser.har",
            entry(response=moved),
            entry(request=there, response={"status": 503}),
            entry(request=there, response={"status": 200}, _fromCache="memory"),
            entry(request=there, response={"status": 304}),
        )
    )
    assert [(status, tags) for _, status, tags in page.cells] == [
        ("301", ""),
        ("503", "redirect"),
        ("200", "cacheretry"),
        ("304", "revalidated"),
    ]
    assert page.rows[1][4] == "99 B"


def test_phases_and_starts_are_drawn_on_one_scale() -> None:
    late = entry(startedDateTime="2026-01-02T05:04:05.07+02:00")
    rows, unreadable = parse_rows([late, entry()])
    assert unreadable == 0
    assert [row.started - rows[0].started for row in rows] == pytest.approx([0, 0.07], abs=1e-6)
    assert rows[0].phases == (0.001, 0.002, 0.003, 0.004, 0.0, 0.015, 0.005)
    styles = re.findall(
        r'<i class="(\w+)" style="left:([\d.]+)%;width:([\d.]+)%"', render("", rows)
    )
    assert [name for name, _, _ in styles] == [name for name in PHASES if name != "send"] * 2
    assert float(styles[0][1]) == 0
    assert float(styles[-1][1]) + float(styles[-1][2]) == pytest.approx(100, abs=0.01)


def test_no_body_header_or_secret_is_on_the_page(tmp_path: Path) -> None:
    secret = entry(
        request={
            "method": "POST",
            "url": "https://me:hush@a.test/?password=hush&x=1",
            "headers": [{"name": "Authorization", "value": "hush"}],
            "postData": {"text": "hush"},
        },
        response={"status": 0, "statusText": "", "content": {"text": "hush"}},
        _error="ConnectionError: GET https://me:hush@a.test/?token=hush failed",
    )
    text = run("har", "view", write(tmp_path / "x.har", secret), "-o", "-").out.decode()
    assert "hush" not in text
    assert "ConnectionError" in text


@pytest.mark.parametrize(
    "place",
    [
        "method",
        "url",
        "statusText",
        "_error",
        "mimeType",
        "httpVersion",
        "ip",
        pytest.param("name", marks=needs_posix),
    ],
)
def test_nothing_of_a_hostile_file_becomes_markup(tmp_path: Path, place: str) -> None:
    bad = entry(
        request={"method": "GET", "url": "https://a.test/"},
        response={"status": 200, "content": {}},
    )
    path = tmp_path / ("<script>x" if place == "name" else "x.har")
    parts = {"method": "request", "url": "request", "mimeType": "content"}
    if place == "mimeType":
        bad["response"]["content"][place] = HOSTILE
    elif place in ("statusText", "httpVersion"):
        bad["response"][place] = HOSTILE
    elif place in parts:
        bad[parts[place]][place] = HOSTILE
    elif place != "name":
        bad["serverIPAddress" if place == "ip" else place] = HOSTILE
    page = view(write(path, bad, entry()))
    plain = Page(render("x.har", parse_rows([entry(), entry()])[0]))
    assert page.tags.count("script") == plain.tags.count("script") == 1
    assert "img" not in page.tags
    assert "a" not in page.tags
    known = {name for name, _ in plain.attributes}
    assert {name for name, _ in page.attributes} <= known
    assert len(page.rows) == 3


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(
    suppress_health_check=[HealthCheck.too_slow], max_examples=2 * settings().max_examples // 5
)
@given(
    st.lists(
        ANYTHING
        | st.fixed_dictionaries(
            {"request": st.fixed_dictionaries({"url": ANYTHING, "method": ANYTHING})},
            optional={
                name: ANYTHING | st.fixed_dictionaries({}, optional=dict.fromkeys(
                    ("status", "content", "bodySize", "redirectURL", "wait", "ssl", "connect"),
                    ANYTHING,
                ))
                for name in ("response", "timings", "startedDateTime", "_request", "_hedge", "time")
            },
        ),
        max_size=4,
    )
)  # fmt: skip
def test_any_entries_make_a_page(entries: list[Any]) -> None:
    rows, unreadable = parse_rows(entries)
    assert len(rows) + unreadable == len(entries)
    page = Page(render("x", rows, unreadable=unreadable))
    assert len(page.rows) == len(rows) + 1
    assert page.tags.count("script") == 1
    numbers = [float(number) for _, text in page.attributes for number in
               re.findall(r"(?:left|width):([^%;]+)%", text or "")]  # fmt: skip
    assert all(0 <= number <= 100.01 for number in numbers)


@pytest.mark.parametrize(
    "date", ["2026-13-01T00:00:00Z", "2026-01-01", "x", "9999-12-31T23:59:59-23:00", "", None, 5]
)
def test_an_entry_without_a_date_starts_with_the_one_before(date: Any) -> None:
    rows, _ = parse_rows([entry(), entry(startedDateTime=date)])
    assert rows[0].started == rows[1].started


# --- limits, files and errors ---


def test_a_page_has_a_limited_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_ROWS", 3)
    rows, unreadable = parse_rows([*[entry()] * 5, "no entry"])
    text = render("x", rows, unreadable=unreadable)
    assert len(Page(text).rows) == 4
    assert "Only the first 3 requests are shown." in text
    assert "5 requests" in text
    assert "1 entries could not be read." in text


def test_a_long_url_is_cut() -> None:
    row = Row("GET", "https://a.test/" + "x" * 10**6, 200, "y" * 10**6, 0.0, (0.0,) * len(PHASES))
    assert len(render("x", [row])) < 20_000


def test_a_redirect_to_a_long_url_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many of them would take minutes."""
    joined: list[str] = []
    monkeypatch.setattr("curlhttp.cli.har.urljoin", lambda url, target: joined.append(target))
    entries: list[Any] = [
        {"request": {"url": "http://a/"}, "response": {"status": 302, "redirectURL": target}}
        for target in ("/b", "../" * 100_000)
    ]
    assert parse_rows(entries)[1] == 0
    assert joined == ["/b"]


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "bytes of a HAR file", 1024)
    path = tmp_path / "x.har"
    path.write_bytes(b" " * 1025)
    ended = run("har", "view", path)
    assert (ended.status, ended.err) == (
        26,
        f"curlhttp: {path}: it is larger than 1.0 KiB; record less, or split it\n",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"no", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "log.entries is no list"),
        (b'{"log": {"entries": {}}}', "log.entries is no list"),
    ],
)
def test_what_is_no_har_file_is_said(tmp_path: Path, text: bytes, says: str) -> None:
    path = tmp_path / "x.har"
    path.write_bytes(text)
    ended = run("har", "view", path)
    assert ended.status == 26
    assert says in ended.err
    assert not (tmp_path / "x.har.html").exists()


def test_the_page_goes_next_to_the_file_or_where_it_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "x.har")
    assert run("har", "view", path).out.decode().rstrip() == f"wrote {path}.html"
    assert "0 requests" in (tmp_path / "x.har.html").read_text()
    assert run("har", "view", path, "-o", tmp_path / "page.html").status == 0
    assert (tmp_path / "page.html").read_text() == (tmp_path / "x.har.html").read_text()
    refused = run("har", "view", path, "-o", path)
    assert (refused.status, "would replace the HAR file" in refused.err) == (2, True)
    assert run("har", "view", tmp_path / "none.har").status == 2
    assert run("har", "view", path, "-o", tmp_path / "none" / "x.html").status == 23


# --- --timing-html ---


def test_timing_html_shows_redirects_and_sizes(app: AppServer, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    ended = run("get", "--timing-html", path, app.url + "/redirect/1?token=sesame")
    assert (ended.status, ended.out, ended.err) == (0, b"hello", "")
    text = path.read_text()
    page = Page(text)
    assert [(status, tags) for _, status, tags in page.cells] == [("302", ""), ("200", "redirect")]
    assert page.rows[2][4] == "5 B"
    assert "127.0.0.1" in text
    assert "sesame" not in text


def test_timing_html_shows_retries_and_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with refused_port() as port:
        ended = run("get", "--timing-html", path, "--retry", 1, f"http://127.0.0.1:{port}/")
    assert ended.status == 7
    page = Page(path.read_text())
    assert [(status, tags) for _, status, tags in page.cells] == [
        ("failed", ""),
        ("failed", "retry"),
    ]
    assert "ConnectionError" in page.rows[1][1]


def test_timing_html_needs_a_folder_before_anything_is_sent(app: AppServer, tmp_path: Path) -> None:
    ended = run("get", "--timing-html", tmp_path / "none" / "x.html", app.url)
    assert (ended.status, app.requests) == (23, [])


# --- in a browser ---


@pytest.fixture
def tab() -> Iterator[Any]:
    """Return a page of a headless Chromium."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs/site/pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    with pictures.chromium() as found:
        yield found


LOOK = """(() => {
    const shown = [...document.querySelectorAll('tbody tr')].filter(row => row.offsetHeight);
    const back = getComputedStyle(document.body).backgroundColor;
    return {
        hit: window.hit, rows: shown.length, back: back,
        wide: document.documentElement.scrollWidth > innerWidth,
        bars: shown.map(row => [...row.querySelectorAll('td div i')].map(
            bar => getComputedStyle(bar).backgroundColor)),
        loaded: performance.getEntriesByType('resource').length,
        count: document.getElementById('count').textContent,
    };
})()"""
TYPE = """(() => {
    const field = document.getElementById('filter');
    field.value = %r;
    field.dispatchEvent(new Event('input'));
})()"""


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
@pytest.mark.skipif(importlib.util.find_spec("websockets") is None, reason="needs the extra ws")
def test_a_browser_shows_the_page_light_and_dark_and_filters_it(tab: Any, tmp_path: Path) -> None:
    bad = entry(request={"method": HOSTILE, "url": HOSTILE}, _error=HOSTILE, _hedge="won")
    wait = {"wait": 100}
    failed = entry(response={"status": 503}, timings=wait)
    path = write(tmp_path / "x.har", entry(), bad, failed, entry(timings=wait))
    run("har", "view", path)
    backs = set()
    for width in (360, 1280):
        for scheme in ("light", "dark"):
            tab.look_like(width, scheme)
            tab.open(f"file://{path}.html")
            found = tab.run(LOOK)
            assert (found.get("hit"), found["loaded"], found["wide"]) == (None, 0, False)
            assert found["rows"] == 4
            assert len(set(found["bars"][0])) == 6  # each phase has its own colour
            assert "rgba(0, 0, 0, 0)" not in str(found["bars"])
            backs.add(found["back"])
            tab.run(TYPE % "503 A.TEST")
            found = tab.run(LOOK)
            assert (found["rows"], found["count"]) == (1, "1 of 4")
            tab.run(TYPE % "")
            assert tab.run(LOOK)["rows"] == 4
    assert len(backs) == 2
    # A script that somebody gets onto the page is not run: its hash is not in the policy.
    text = Path(f"{path}.html").read_text().replace("<table>", "<script>hit=1</script><table>")
    (tmp_path / "other.html").write_text(text)
    tab.open(f"file://{tmp_path}/other.html")
    assert tab.run(LOOK).get("hit") is None
