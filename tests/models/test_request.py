"""The one list of a request's fields."""

from __future__ import annotations

import inspect

from curlhttp._config import transport_for
from curlhttp._models.headers import Headers
from curlhttp._models.request import Request
from curlhttp._models.timeout import Timeout
from curlhttp._models.url.url import parse_url

# Set by what a middleware does with a request, and by nobody who makes one.
NOT_GIVEN = {"_headers", "_shared_headers", "extensions"}


def test_assemble_sets_every_field_there_is() -> None:
    bare = Request.__new__(Request)
    assert not any(hasattr(bare, name) for name in Request.__slots__)
    url, transport = parse_url("http://h.test/"), transport_for(True, None, None, False, False)
    made = bare.assemble("GET", url, Headers(), Timeout(), transport)
    assert made is bare
    assert all(hasattr(made, name) for name in Request.__slots__)
    assert made.headers == Headers()


def test_every_field_can_be_given_to_assemble() -> None:
    given = set(inspect.signature(Request.assemble).parameters) - {"self", "headers"}
    assert given == set(Request.__slots__) - NOT_GIVEN
