"""The list of a request's fields."""

from __future__ import annotations

import inspect

from curlhttp._http.config import make_route
from curlhttp._http.headers import Headers
from curlhttp._http.request import ClientRequest, pack_fields
from curlhttp._http.timeout import Timeout
from curlhttp._http.url import parse_url

# Set by what a middleware does with a request, not by constructors.
NOT_GIVEN = {"_headers", "_shared_headers", "extensions", "place"}


def test_fill_sets_every_field() -> None:
    bare = ClientRequest.__new__(ClientRequest)
    assert not any(hasattr(bare, name) for name in ClientRequest.__slots__)
    transport = make_route(True, None, None, False, False)
    fields = pack_fields(Headers(), Timeout(), transport)
    made = bare.fill("GET", parse_url("http://h.test/"), fields)
    assert made is bare
    assert all(hasattr(made, name) for name in ClientRequest.__slots__)
    assert made.headers == Headers()


def test_every_field_but_method_and_url_can_be_given() -> None:
    given = set(inspect.signature(pack_fields).parameters) - {"headers"}
    assert given == set(ClientRequest.__slots__) - NOT_GIVEN - {"method", "url"}


def test_each_field_has_the_value_given_under_its_name() -> None:
    names = [name for name in inspect.signature(pack_fields).parameters if name != "headers"]
    given = {name: object() for name in names}
    headers = Headers({"A": "b"})
    made = ClientRequest.__new__(ClientRequest).fill(
        "GET",
        parse_url("http://h.test/"),
        pack_fields(headers, **given),  # type: ignore[arg-type]
    )
    assert {name: getattr(made, name) for name in names} == given
    assert made.get_header("a") == "b"
