"""Attributes of responses that are computed on first use, by several threads."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from curlhttp import requests


def make_response(meet: Any) -> Any:
    """Return a response whose cookies a thread computes only together with another one."""

    def get_all(name: str, failobj: Any = None) -> Any:
        if name == "Set-Cookie":
            meet.wait(30)
        return failobj

    response: Any = requests.Response()
    message = SimpleNamespace(get_all=get_all)
    response.raw = SimpleNamespace(_original_response=SimpleNamespace(msg=message))
    response.request = requests.Request("GET", "http://a.test/").prepare()
    return response


def read_cookies_of(*responses: Any) -> list[Any]:
    found: list[Any] = []

    def read(response: Any) -> None:
        found.append(response.cookies)

    threads = [threading.Thread(target=read, args=[response]) for response in responses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_no_response_waits_for_the_attributes_of_another() -> None:
    meet = threading.Barrier(2)  # breaks if one thread waits until the other one is done
    assert len(read_cookies_of(make_response(meet), make_response(meet))) == 2


def test_all_threads_get_the_same_object() -> None:
    response = make_response(threading.Barrier(2))
    one, other = read_cookies_of(response, response)
    assert one is other is response.cookies


@pytest.mark.parametrize("name", ["headers", "cookies", "elapsed"])
def test_a_program_can_set_an_attribute_before_and_after_it_was_read(name: str) -> None:
    response = requests.Response()
    for value in ("one", "two"):
        setattr(response, name, value)
        assert getattr(response, name) == value
