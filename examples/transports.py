"""Your own transports: one answers from a dict, and one wraps libcurl. Run it without a network."""

from __future__ import annotations

from collections.abc import Iterator

import curlhttp
from curlhttp.testing import mock


class Pages(curlhttp.Transport):
    """Answer requests from a dict; a list is a body that comes in pieces."""

    def __init__(self, pages: dict[str, bytes | list[bytes]]) -> None:
        self.pages = pages

    def send(self, request: curlhttp.ClientRequest) -> curlhttp.Response:
        page = self.pages.get(request.url.path)
        if page is None:
            return request.respond(404)
        if isinstance(page, bytes):
            return request.respond(200, content=page)
        return curlhttp.StreamedResponse.of(request, 200, content=self.pieces(page))

    def pieces(self, page: list[bytes]) -> Iterator[bytes]:
        try:
            yield from page
        finally:
            print("the body was closed")


class Logged(curlhttp.Transport):
    """Print each attempt that libcurl sends."""

    def wrap(self, inner: curlhttp.Transport) -> curlhttp.Transport:
        self.inner = inner
        return self

    def send(self, request: curlhttp.ClientRequest) -> curlhttp.Response:
        response = self.inner.send(request)
        print(request.method, request.url.path, response.status_code)
        return response


def main() -> None:
    pages = Pages({"/": b"hello", "/log": [b"one\n", b"two\n", b"three\n"]})
    with curlhttp.Client(transport=pages, base_url="http://pages.test") as client:
        print(client.get("/").text, client.get("/nothing").status_code)
        with client.stream("GET", "/log") as response:
            print(next(response.iter_lines()))
    with (
        mock("https://api.test") as network,
        curlhttp.Client(transport=Logged(), retry=1) as client,
    ):
        network.get("/users/1").respond([503, 200])
        client.get("https://api.test/users/1")


if __name__ == "__main__":
    main()
