"""The table of curl's advisories: its form, what `doctor` shows of it, and what import warns of."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

from curlhttp.cli import advisories
from curlhttp.cli.advisories import ADVISORIES, advisories_for
from tests.support.cli import run
from tests.support.forced import force
from tests.support.internals import ROOT

_USED_BY = "".join(path.read_text() for path in (ROOT / "curlhttp" / "_libcurl").rglob("*.py"))
_OLDEST = (7, 80, 0)  # that curlhttp takes


def test_an_advisory_says_what_it_touches_or_why_nothing() -> None:
    for each in ADVISORIES:
        assert re.fullmatch(r"CVE-20\d\d-\d{4,6}", each.cve)
        assert each.first <= each.last >= _OLDEST, each
        assert each.title, each
        assert bool(each.touches) != bool(each.spared), each
        assert each.url == f"https://curl.se/docs/{each.cve}.html"


def test_no_advisory_is_there_twice_and_the_newest_is_first() -> None:
    numbers = [tuple(map(int, each.cve.split("-")[1:])) for each in ADVISORIES]
    assert all(newer > older for newer, older in pairwise(numbers))


def test_an_option_that_spares_us_is_not_used() -> None:
    options = [each.spared.rpartition(" ")[2] for each in ADVISORIES if " not use " in each.spared]
    assert len(options) > 5
    assert [name for name in options if f"pycurl.{name}" in _USED_BY] == []


def test_advisories_are_found_by_version() -> None:
    assert advisories_for("99.0.0") == []
    found = [each.cve for each in advisories_for("8.22.0-DEV")]
    assert "CVE-2026-92392" in found  # the last that it affects
    assert "CVE-2026-86415" in found  # between the first and the last
    assert "CVE-2026-19931" not in found  # 8.21.0 is the last
    touched = [bool(each.touches) for each in advisories_for("8.14.1")]
    assert touched == sorted(touched, reverse=True)
    assert len(touched) > 30


def test_doctor_lists_those_of_the_libcurl_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, "the version of libcurl", lambda: "PycURL/7.48.0 libcurl/8.22.0 x")
    report = json.loads(run("doctor", "--json").out)["advisories"]
    by_number = {each["id"]: each for each in report["apply"]}
    upload = by_number["CVE-2026-92392"]
    assert upload["touches"] == "uploads over HTTP/2"
    assert upload["touches_nothing_because"] is None
    assert by_number["CVE-2026-86412"]["touches"] is None
    assert report["as_of"] == advisories.AS_OF
    shown = run("doctor").out.decode()
    assert "CVE-2026-92392 HTTP/2 upload Use-After-Free: touches uploads over HTTP/2" in shown
    assert f"advisories   {len(by_number)} (known on {advisories.AS_OF})" in shown


def test_the_page_on_security_says_what_the_table_covers() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert advisories.AS_OF in text
