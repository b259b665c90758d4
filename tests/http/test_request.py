"""The fields of a request."""

from __future__ import annotations

import copy

from curlhttp import Client, ClientRequest


def test_a_request_that_a_client_makes_has_every_field() -> None:
    with Client() as client:
        made = client.build_request("GET", "http://h.test/", headers={"A": "b"})
    for request in (made, made.copy(), copy.copy(made)):
        assert [name for name in ClientRequest.__slots__ if not hasattr(request, name)] == []
        assert (request.method, str(request.url), request.headers["a"]) == (
            "GET",
            "http://h.test/",
            "b",
        )
