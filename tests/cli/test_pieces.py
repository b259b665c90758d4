"""What the command line is made of, where it can be tested by itself."""

from __future__ import annotations

import json
import math
import signal
import sys
from collections.abc import Callable
from io import BytesIO

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curlhttp import exceptions
from curlhttp.cli.exits import exit_status
from curlhttp.cli.fetch.lines import InputLine, InputLines
from curlhttp.cli.fetch.recorded import Recorded
from curlhttp.cli.interrupts import Interrupts
from curlhttp.cli.latency import Latencies, shown_seconds
from curlhttp.cli.numbers import count, rate, seconds, size
from curlhttp.cli.pretty import pretty_json
from curlhttp.cli.terminal import printable
from tests.support.cli import run

# --- JSON ---

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=50)
@given(_VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_pretty_json_means_the_same(value: object, indent: int | str | None, ascii_: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_)
    pieces = pretty_json(text)
    assert pieces is not None
    laid_out = "".join(piece for piece, _ in pieces)
    assert json.loads(laid_out) == value
    if ascii_:
        assert laid_out == json.dumps(value, indent=2)


def test_pretty_json_keeps_every_token() -> None:
    text = '{"a":1.10,"a":1E400,"b":[],"c":{},"d":"\\u00e9 : {","e":-0}'
    pieces = pretty_json(text)
    assert pieces is not None
    assert "".join(piece for piece, _ in pieces) == (
        '{\n  "a": 1.10,\n  "a": 1E400,\n  "b": [],\n  "c": {},\n  "d": "\\u00e9 : {",'
        '\n  "e": -0\n}'
    )
    assert [piece for piece, kind in pieces if kind == "key"] == [
        '"a"',
        '"a"',
        *map('"{}"'.format, "bcde"),
    ]


@pytest.mark.parametrize("text", ["", "{", "[1,]", "hello", "[" * 100_000])
def test_what_is_not_json_is_not_laid_out(text: str) -> None:
    assert pretty_json(text) is None


# --- numbers ---


@pytest.mark.parametrize(
    ("read", "text", "number"),
    [
        (rate, "50", 50), (rate, "2.5/s", 2.5), (rate, "600/m", 10), (rate, "3600/h", 1),
        (size, "0", 0), (size, "10", 10), (size, "64k", 65536), (size, "2M", 2 << 20),
        (size, "1g", 1 << 30), (seconds, "0.5", 0.5), (count(), "7", 7), (count(0, 1), "0", 0),
    ],
)  # fmt: skip
def test_a_number_is_read(read: Callable[[str], float], text: str, number: float) -> None:
    assert read(text) == number


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (rate, "0"), (rate, "-1"), (rate, "5/d"), (rate, "nan"), (rate, ""), (rate, "\u0665"),
        (size, "-1"), (size, "1.5k"), (size, "1t"), (size, ""), (seconds, "0"), (seconds, "-1"),
        (seconds, "nan"), (seconds, "inf"), (seconds, "x"), (count(), "0"), (count(), "x"),
        (count(0, 1), "2"), (count(), "1.0"),
    ],
)  # fmt: skip
def test_what_is_no_such_number_is_told(read: Callable[[str], float], text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no"):
        read(text)


# --- latencies ---


@given(st.lists(st.floats(1e-5, 100.0), min_size=1, max_size=200), st.floats(0.1, 100.0))
def test_percentiles_are_exact_to_one_per_cent(values: list[float], percent: float) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[math.ceil(len(values) * percent / 100) - 1]
    assert latencies.percentile(percent) == pytest.approx(exact, rel=0.01)
    assert latencies.least == min(values)
    assert latencies.most == max(values)


@given(st.lists(st.floats(0.0, 100.0), max_size=200), st.integers(2, 12))
def test_a_histogram_counts_everything_once(values: list[float], rows: int) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    histogram = latencies.rows(rows)
    assert sum(times for _, times in histogram) == len(values)
    assert len(histogram) <= rows
    bounds = [bound for bound, _ in histogram]
    assert bounds == sorted(bounds)


def test_of_no_latency_there_is_nothing_to_tell() -> None:
    assert (Latencies().percentile(50), Latencies().mean, Latencies().rows(5)) == (0.0, 0.0, [])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 ms"), (0.00035, "0.35 ms"), (0.0012, "1.2 ms"), (0.012, "12 ms"),
        (0.0996, "100 ms"), (0.35, "350 ms"), (1.5, "1.5 s"), (75.0, "75 s"),
    ],
)  # fmt: skip
def test_seconds_are_shown_as_people_say_them(value: float, shown: str) -> None:
    assert shown_seconds(value) == shown


# --- what is recorded ---


def test_a_line_is_new_done_failed_or_changed() -> None:
    recorded = Recorded()
    recorded.add(5, 77, True)
    recorded.add(6, 88, False)
    assert [recorded.state(number, 77) for number in (4, 5, 1_000_000)] == ["new", "done", "new"]
    assert recorded.state(5, 78) == "changed"
    assert recorded.state(6, 88) == "failed"
    assert recorded.state(6, 89) == "new"
    assert (recorded.done, recorded.failed) == (1, 1)
    recorded.add(6, 88, True)
    assert (recorded.done, recorded.failed) == (2, 0)
    recorded.forget(6)
    assert (recorded.state(6, 88), recorded.done) == ("new", 1)


def test_lines_are_remembered_in_four_bytes_each() -> None:
    recorded = Recorded()
    for number in range(1, 200_001):
        recorded.add(number, number, True)
    assert sys.getsizeof(recorded._lines) < 4 * 300_000
    assert recorded.state(199_999, 199_999) == "done"


# --- Ctrl-C ---


def test_ctrl_c_waits_for_the_end_of_a_write() -> None:
    interrupts, done = Interrupts(), []
    interrupts.listen()
    try:
        with pytest.raises(KeyboardInterrupt), interrupts:
            with interrupts:
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        interrupts.restore()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- the list ---


def lines(*texts: bytes) -> list[InputLine]:
    return list(InputLines(BytesIO(b"".join(text.removesuffix(b"\n") + b"\n" for text in texts))))


def test_a_line_without_an_end_is_bad_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curlhttp.cli.fetch.lines._LONGEST", 20)
    found = lines(b"http://h/123456789a", b"x" * 21, b"x" * 1000, b"http://h/b")
    assert [bool(line.problem) for line in found] == [False, True, True, False]
    assert [line.number for line in found] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", [2**63, -(2**63) - 1, "\ud800", 1.5, []])
def test_an_id_that_cannot_be_recorded_makes_a_bad_line(name: object) -> None:
    (line,) = lines(json.dumps({"url": "http://h/", "id": name}).encode())
    assert "id must be" in line.problem


@given(st.binary(max_size=200).filter(lambda raw: b"\n" not in raw))
def test_no_line_stops_the_reader(raw: bytes) -> None:
    first, *_ = [*lines(raw, b"http://h/"), None]
    assert first is not None
    assert [line.number for line in lines(raw, b"http://h/")][-1] == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"http://h/a", b"http://h/b"),
        (b"http://h/?m=a@b", b"http://h/?m=c@b"),
        (b'{"url": "http://h/"}', b'{"url": "http://h/", "method": "PUT"}'),
        (b'{"url": "http://h/", "body": "a"}', b'{"url": "http://h/", "body": "b"}'),
    ],
)
def test_another_request_has_another_fingerprint(one: bytes, other: bytes) -> None:
    first, second = lines(one, other)
    assert first.fingerprint != second.fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"http://h/a", b"http://u:p@h/a"),
        (b'{"url": "http://h/"}', b'{"url": "http://u:p@h/", "headers": {"X": "y"}}'),
        (b'{"url": "http://h/", "body": "a"}', b'{"body": "a",   "url": "http://h/"}'),
    ],
)
def test_credentials_headers_and_layout_do_not_change_the_fingerprint(
    one: bytes, other: bytes
) -> None:
    first, second = lines(one, other)
    assert first.fingerprint == second.fingerprint


# --- errors ---


def test_every_error_has_a_status() -> None:
    for name in exceptions.__all__:
        kind = getattr(exceptions, name)
        if not issubclass(kind, exceptions.RequestException):
            continue
        arguments = ("no", "", 0) if kind is exceptions.JSONDecodeError else ("no",)
        assert 1 <= exit_status(kind(*arguments)) <= 97


def test_the_code_of_libcurl_comes_first() -> None:
    assert exit_status(exceptions.SSLError("no", curl_code=60)) == 60
    assert exit_status(exceptions.SSLError("no")) == 35
    assert exit_status(exceptions.ReadTimeout("no", curl_code=42)) == 28


def test_printable_text_has_no_control_characters() -> None:
    every = "".join(map(chr, range(256)))
    assert printable(every).isprintable() or "\xa0" in printable(every)
    assert not {chr(code) for code in (*range(32), *range(127, 160))} & set(printable(every))
    assert printable("a\nb\tc", keep="\n\t") == "a\nb\tc"


# --- doctor and bench ---


def test_the_doctor_shows_what_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:sesame@proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "localhost")
    ended = run("doctor", "--json")
    found = json.loads(ended.out)
    assert ended.status == 0
    assert found["libcurl"].count(".") == 2
    assert found["tls"].split()[0] in found["libraries"]
    assert found["proxies"] == {
        "http": None,
        "https": "http://proxy.test:3128 (with credentials)",
    }
    assert found["no_proxy"] == "localhost"
    assert found["ca_bundle"]["from"] == "certifi"
    assert set(found["event_loops"]) == {"asyncio", "uvloop", "trio"}
    assert found["open_files"]["max_connections"] < found["open_files"]["limit"]
    shown = run("doctor").out.decode()
    assert "proxy.test:3128 (with credentials)" in shown
    assert "sesame" not in shown + ended.out.decode()


def test_the_doctor_warns_of_what_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
    monkeypatch.setenv("http_proxy", "gopher://x")
    ended = run("doctor")
    assert ended.status == 1
    warnings = [line for line in ended.out.decode().splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 2
    assert "REQUESTS_CA_BUNDLE is /nowhere/ca.pem, which does not exist" in warnings[0]
    assert run("get", "http://127.0.0.1:1/").status == 77
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    assert run("get", "http://127.0.0.1:1/").status == 5
