"""Redaction in recordings: by names, at every position, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import Headers
from curlhttp._http.body_redaction import Redactor

MASKS = Redactor(["Tenant"])


def mask_body(body: bytes, kind: str, *names: str) -> bytes:
    """Return a body of a type, with secrets masked, also those of these names."""
    return Redactor(names).body(body, kind)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("https://h.test/?page=1", "https://h.test/?page=1"),
        ("https://h.test/?token=a&page=1", "https://h.test/?token=***&page=1"),
        ("https://h.test/?tenant=a&Tenant=b", "https://h.test/?tenant=***&Tenant=***"),
        ("https://h.test/?t%65nant=a%26b", "https://h.test/?t%65nant=***"),
        ("https://h.test/tenant", "https://h.test/tenant"),
    ],
)
def test_parameters_of_urls(url: str, masked: str) -> None:
    assert MASKS.url(url) == masked


@pytest.mark.parametrize(
    ("name", "value", "masked"),
    [
        ("Authorization", "Bearer abc", "Bearer ***"),
        ("Authorization", "abc", "***"),
        ("X-Api-Key", "a b", "***"),
        ("Cookie", "a=b; c=d=e", "a=***; c=***"),
        ("Set-Cookie", "a=b=c; Path=/", "a=***; Path=/"),
        ("Tenant", "x", "***"),
        ("Location", "/a?tenant=b&token=c&d=e", "/a?tenant=***&token=***&d=e"),
        ("Accept", "text/html", "text/html"),
        ("WWW-Authenticate", 'Digest nonce="a"', 'Digest nonce="a"'),
    ],
)
def test_headers(name: str, value: str, masked: str) -> None:
    assert MASKS.headers(Headers({name: value})) == [(name, masked)]


@pytest.mark.parametrize(
    ("body", "kind", "masked"),
    [
        ('{"password": "a\\"b", "n": 1}', "application/json", '{"password": "***", "n": 1}'),
        ('{"access_token":\n"a"}', "application/json", '{"access_token":\n"***"}'),
        ('{"max_tokens": 5}', "application/json", '{"max_tokens": 5}'),
        ('{"tenant": "a"} {"x": "tenant"}', "x", '{"tenant": "***"} {"x": "tenant"}'),
        ('data: {"api_key": "a"}\n\n', "text/event-stream", 'data: {"api_key": "***"}\n\n'),
        ('{"url": "https://h.test/a?b=1&X-Amz-Signature=c"}', "application/json",
         '{"url": "https://h.test/a?b=1&X-Amz-Signature=***"}'),
        ('{"session_id": "a"}', "application/json", '{"session_id": "a"}'),
        ("a=1&client_secret=b&tenant=c", "application/x-www-form-urlencoded",
         "a=1&client_secret=***&tenant=***"),
        ("client_secret=b", "text/plain", "client_secret=***"),
        ("a client_secret=b", "text/plain", "a client_secret=b"),
    ],
)  # fmt: skip
def test_bodies(body: str, kind: str, masked: str) -> None:
    assert MASKS.body(body.encode(), kind).decode() == masked


def test_binary_data_is_unchanged_except_for_readable_secrets() -> None:
    assert MASKS.body(b'\xff"token": "a"\0', "") == b'\xff"token": "***"\0'


@given(
    st.recursive(st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_json_stays_json_and_masking_twice_changes_nothing(value: object) -> None:
    masked = MASKS.body(json.dumps({"password": "p", "v": value}).encode(), "application/json")
    assert json.loads(masked)["password"] == "***"
    assert MASKS.body(masked, "application/json") == masked


def test_a_long_body_is_masked_in_a_time_that_grows_with_it() -> None:
    body = ('{"x": "' + "a" * 1_000_000 + '", "' + "b" * 1_000_000).encode()
    assert MASKS.body(body, "application/json") == body
