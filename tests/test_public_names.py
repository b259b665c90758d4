"""The public names are those of public-names.txt in docs/reference: a removal is a decision."""

from __future__ import annotations

import difflib

import pytest

import curlhttp
from tests.support.public_names import COMMAND, PATH, find_public_names, to_text


def difference() -> str:
    stored = PATH.read_text(encoding="utf-8").splitlines()
    found = to_text(find_public_names()).splitlines()
    changes = list(difflib.unified_diff(stored, found, "stored", "found", n=0, lineterm=""))
    advice = f"Is this meant? docs/stability.md says what it takes. Then write it down: {COMMAND}"
    return "\n".join([*changes, advice]) if changes else ""


def test_the_public_names_and_their_parameters_are_those_that_are_written_down() -> None:
    assert not (found := difference()), found


def test_a_removed_name_and_a_changed_parameter_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def mock(
        base_url: str = "", *, assert_all_called: bool = False, real_time: bool = False
    ) -> None:
        """Change a default."""

    mock.__module__ = "curlhttp.testing"
    monkeypatch.setattr("curlhttp.testing.mock", mock)
    monkeypatch.setattr(curlhttp, "__all__", [n for n in curlhttp.__all__ if n != "Hedge"])
    found = difference()
    assert (
        "-curlhttp.testing.mock(base_url='', *, assert_all_called=True, real_time=False)" in found
    )
    assert (
        "+curlhttp.testing.mock(base_url='', *, assert_all_called=False, real_time=False)" in found
    )
    assert "-curlhttp.Hedge(" in found
    assert "\n+curlhttp.Hedge" not in found
    assert COMMAND in found


def test_the_names_of_a_module_are_there_with_what_the_reference_shows_of_them() -> None:
    names = find_public_names()
    assert set(curlhttp.__all__) <= {path.split(".")[1] for path in names}
    assert names["curlhttp.AdaptiveLimit.current"] == "(self, origin)"
    assert "curlhttp.AdaptiveLimit.enqueue" not in names
    assert names["curlhttp.Timings.tls"] == ""
    assert "timeout=Timeout(connect=10, read=60)" in names["curlhttp.Client"]
    assert names["curlhttp.sessions.Session"] == " = curlhttp.Session"
    assert not [rest for rest in names.values() if " at 0x" in rest]
