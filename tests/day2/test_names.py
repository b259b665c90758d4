"""Names that move, names of very many hosts, and name servers that do not answer all queries."""

from __future__ import annotations

import pytest

from tests.day2 import slow_names
from tests.day2.namespaces import run_in_namespaces


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    hosts = tmp_path_factory.mktemp("moved") / "hosts"
    hosts.write_text("")
    received: dict[str, list[str]] = run_in_namespaces("tests.day2.moving_name", hosts)
    return received


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("slow")
    ended: dict[str, str] = run_in_namespaces("tests.day2.slow_names", folder, "--net")
    return ended


WAYS = ["Client", "stream", "map", "download", "AsyncClient", "get", "Session", "httpx"]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_name_whose_old_address_refuses_is_looked_up_again(
    moved: dict[str, list[str]], way: str
) -> None:
    before, first, after, unknown, last = moved[way]
    assert (before, first, after, last) == ("127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.4")
    assert unknown in ("ConnectionError", "ConnectError")


@pytest.mark.slow
def test_the_next_attempt_of_the_same_request_looks_the_name_up_again(
    moved: dict[str, list[str]],
) -> None:
    assert moved["retry"][1] == "127.0.0.3"


@pytest.mark.slow
def test_the_command_line_looks_up_each_name(moved: dict[str, list[str]]) -> None:
    assert moved["command line"] == ["127.0.0.2", "127.0.0.3", "127.0.0.3", "", "127.0.0.4"]


HERE = ("127.0.0.1", "::1")
ANSWERS = {
    "drops-aaaa": ("127.0.0.1",),
    "drops-a": ("::1",),
    "drops": ("ConnectTimeout", "status 28"),
    "late": HERE,  # the second answer may come too late on a busy machine
    "late-aaaa": ("::1",),  # the address of IPv4 refuses
    "unknown": ("ConnectionError", "ConnectError", "status 6"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("way", [*slow_names.WAYS, "curl", "command line"])
def test_a_name_server_that_does_not_answer_holds_up_no_request_no_close_and_no_exit(
    slow: dict[str, str], way: str, kind: str
) -> None:
    assert slow[f"{way} {kind}"] in ANSWERS[kind]


ODD = {
    "v4": ("127.0.0.1",),
    "v6": ("::1",),
    "servfail": ANSWERS["unknown"],
    "notimp": ANSWERS["unknown"],
    "garbage": ANSWERS["drops"],
    "cut": ANSWERS["unknown"],
    "truncated": ANSWERS["unknown"],
    "many": HERE,
    "odd": (*ANSWERS["unknown"], *HERE),  # as the system's resolver decides
    "loop": (*ANSWERS["unknown"], *HERE),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("way", slow_names.SOME_WAYS)
def test_odd_answers_of_a_name_server_end_as_they_should(
    slow: dict[str, str], way: str, kind: str
) -> None:
    assert slow[f"{way} {kind}"] in ODD[kind]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "result"),
    [
        ("interrupted", "interrupted"),
        ("exited", "exits"),
        ("cancelled", "cancelled, 0 descriptors left, 1 task"),
        ("closed loop", "closed"),
        ("forked", "the child returned 0"),
    ],
)
def test_a_lookup_that_hangs_does_not_hold_up(slow: dict[str, str], way: str, result: str) -> None:
    assert slow[f"{way} drops"] == result


@pytest.mark.slow
@pytest.mark.parametrize("way", ["many", "many mapped"])
@pytest.mark.parametrize(("kind", "responses"), [("drops", 50), ("drops-aaaa", 100)])
def test_names_that_hang_do_not_hold_up_others(
    slow: dict[str, str], way: str, kind: str, responses: int
) -> None:
    assert slow[f"{way} {kind}"] == f"{responses} responses"
