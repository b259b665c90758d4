"""robots.txt (RFC 9309): what a text allows, and how long it takes to read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import curlhttp
from curlhttp import Robots
from curlhttp._features.robots.policy import MAX_BYTES, parse


@given(st.binary(max_size=3000) | st.text().map(str.encode))
def test_any_bytes_are_a_robots_txt(body: bytes) -> None:
    head = b"User-agent: *\nCrawl-delay: "
    for each in (body, head + body, head + b"1\nDisallow: " + body):
        verdict = parse(each, Robots("my-crawler"))
        assert verdict.allows(curlhttp.URL("http://h.test/[a")) in (True, False)
        assert 0 <= verdict.delay <= 60


def test_a_line_that_the_limit_cuts_off_does_not_count() -> None:
    start = b"User-agent: *\nDisallow: /a\n#"
    body = start + b"#" * (MAX_BYTES - len(start) - 12) + b"\nDisallow: /private"
    verdict = parse(body[: MAX_BYTES + 1], Robots("my-crawler"))
    assert len(body) > MAX_BYTES
    assert verdict.allows(curlhttp.URL("http://h.test/p"))
    assert not verdict.allows(curlhttp.URL("http://h.test/a"))


def test_many_groups_with_many_rules_take_linear_memory() -> None:
    agents = b"".join(b"user-agent:%d\n" % number for number in range(18_000))
    verdict = parse(agents * 2 + b"allow:/a\n" * 15_000, Robots("my-crawler"))
    assert verdict.size == 0
    verdict = parse(b"user-agent:*\n" * 20_000 + b"allow:/a\n" * 15_000, Robots("my-crawler"))
    assert verdict.size == 15_000


def test_many_wildcards_take_linear_time() -> None:
    verdict = parse(b"User-agent: *\nDisallow: /" + b"*a" * 1000 + b"b", Robots("my-crawler"))
    assert verdict.allows(curlhttp.URL("http://h.test/" + "a" * 5000))


def test_wildcards_count_as_rules_because_they_take_as_long_to_match() -> None:
    rule = b"Disallow: /" + b"*a" * 200 + b"b\n"
    verdict = parse(b"User-agent: *\n" + rule * 1000, Robots("my-crawler"))
    assert verdict.size == 1000 + 2000
