"""CaseInsensitiveDict and LookupDict."""

from __future__ import annotations

import copy
import pickle
from collections.abc import MutableMapping
from typing import Any

import pytest


@pytest.fixture
def make(requests: Any) -> Any:
    return requests.structures.CaseInsensitiveDict


@pytest.mark.parametrize(
    "arguments",
    [
        ({"Accept": "a", "Host": "h"},),
        ([("Accept", "a"), ("Host", "h")],),
        ([("accept", "x"), ("Host", "h"), ("Accept", "a")],),
    ],
)
def test_it_is_made_of_a_mapping_or_pairs(make: Any, arguments: Any) -> None:
    assert dict(make(*arguments)) == {"Accept": "a", "Host": "h"}


def test_it_is_made_of_keywords_nothing_or_another_one(make: Any) -> None:
    assert dict(make(Accept="a")) == {"Accept": "a"}
    assert dict(make({"accept": "x"}, Accept="a")) == {"Accept": "a"}
    assert dict(make()) == dict(make(None)) == {}
    assert dict(make(make(Accept="a"))) == {"Accept": "a"}


def test_it_is_made_of_anything_that_has_keys(make: Any) -> None:
    class Keyed:
        def keys(self) -> list[str]:
            return ["Q"]

        def __getitem__(self, key: str) -> int:
            return 7

    assert dict(make(Keyed())) == {"Q": 7}


def test_it_cannot_be_made_of_a_number(make: Any) -> None:
    with pytest.raises(TypeError):
        make(5)


def test_names_are_found_in_any_case(make: Any) -> None:
    headers = make({"Accept": "a"})
    assert headers["ACCEPT"] == headers["accept"] == headers.get("aCCEPT") == "a"
    assert "accept" in headers
    assert "accepts" not in headers
    assert headers.get("Host") is None
    assert headers.get("Host", "h") == "h"


def test_a_name_keeps_its_place_and_takes_the_case_it_was_set_in_last(make: Any) -> None:
    headers = make({"Accept": "a", "Host": "h"})
    headers["ACCEPT"] = "b"
    assert list(headers) == ["ACCEPT", "Host"]
    assert list(headers.items()) == [("ACCEPT", "b"), ("Host", "h")]
    assert list(headers.keys()) == ["ACCEPT", "Host"]
    assert list(headers.values()) == ["b", "h"]
    assert len(headers) == 2


def test_names_are_deleted_in_any_case(make: Any) -> None:
    headers = make({"Accept": "a", "Host": "h", "Cookie": "c"})
    del headers["HOST"]
    assert headers.pop("accept") == "a"
    assert headers.pop("accept", None) is None
    assert dict(headers) == {"Cookie": "c"}
    headers.clear()
    assert not headers


def test_a_missing_name_is_a_key_error_in_lower_case(make: Any) -> None:
    headers = make()
    for ask in (headers.__getitem__, headers.__delitem__, headers.pop):
        with pytest.raises(KeyError) as caught:
            ask("Host")
        assert caught.value.args == ("host",)


def test_what_is_no_text_is_no_name(make: Any) -> None:
    headers = make({"Accept": "a"})
    for ask in (headers.__getitem__, headers.get, headers.__contains__, headers.__delitem__):
        with pytest.raises(AttributeError):
            ask(1)
    with pytest.raises(AttributeError):
        headers[None] = "x"


def test_bytes_are_names_of_their_own(make: Any) -> None:
    headers = make({b"Accept": "a"})
    assert headers[b"accept"] == "a"
    assert "accept" not in headers


def test_update_takes_mappings_pairs_and_keywords(make: Any) -> None:
    headers = make(a=1)
    headers.update({"A": 2, "B": 3})
    headers.update([("b", 4)], C=5)
    headers.update(make(D=6, c=7))
    headers.update()
    assert list(headers.items()) == [("A", 2), ("b", 4), ("c", 7), ("D", 6)]
    assert headers.setdefault("d", 0) == 6
    assert headers.setdefault("E", 8) == 8
    assert headers.popitem() == ("A", 2)


def test_lower_items_gives_names_in_lower_case(make: Any) -> None:
    items = make({"Accept": "a", "HOST": "h"}).lower_items()
    assert next(items) == ("accept", "a")
    assert list(items) == [("host", "h")]


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ({"ACCEPT": "a", "host": "h"}, True),
        ({"host": "h", "accept": "a"}, True),
        ({"accept": "A", "host": "h"}, False),
        ({"accept": "a"}, False),
        ([("Accept", "a"), ("Host", "h")], False),
        (None, False),
    ],
)
def test_equality_ignores_the_case_of_names(make: Any, other: Any, equal: bool) -> None:
    headers = make({"Accept": "a", "Host": "h"})
    assert (headers == other) is equal
    assert (headers != other) is not equal
    if isinstance(other, dict):
        assert (headers == make(other)) is equal


def test_it_cannot_be_hashed(make: Any) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(make())


def test_it_shows_itself_as_a_dict(make: Any) -> None:
    assert repr(make({"B": 1, "a": "x"})) == str(make({"B": 1, "a": "x"})) == "{'B': 1, 'a': 'x'}"


@pytest.mark.parametrize("twin_of", [lambda d: d.copy(), copy.copy], ids=["copy()", "copy.copy"])
def test_a_copy_shares_the_values(make: Any, twin_of: Any) -> None:
    headers = make({"Accept": ["a"]})
    twin = twin_of(headers)
    assert type(twin) is make
    assert twin["accept"] is headers["accept"]
    assert list(twin) == ["Accept"]


def test_a_copy_is_independent(make: Any) -> None:
    headers = make({"Accept": "a"})
    twin = headers.copy()
    twin["ACCEPT"] = "b"
    twin["Host"] = "h"
    assert dict(headers) == {"Accept": "a"}


def test_a_subclass_may_say_what_is_set(make: Any) -> None:
    class Upper(make):  # type: ignore[misc]
        def __setitem__(self, key: str, value: str) -> None:
            super().__setitem__(key, value.upper())

    headers = Upper(make(a="x"), b="y")
    headers.update(make(c="z"))
    assert dict(headers) == {"a": "X", "b": "Y", "c": "Z"}


def test_it_survives_pickling(make: Any) -> None:
    restored = pickle.loads(pickle.dumps(make({"Accept": "a"})))
    assert type(restored) is make
    assert list(restored.items()) == [("Accept", "a")]
    assert restored["accept"] == "a"


def test_it_is_a_mutable_mapping_that_annotations_can_name(make: Any) -> None:
    assert issubclass(make, MutableMapping)
    assert not issubclass(make, dict)
    assert make[str](a="b") == {"A": "b"}


def test_a_lookup_dict_reads_attributes_as_items(requests: Any) -> None:
    lookup = requests.structures.LookupDict("names")
    lookup.teapot = 418
    assert lookup["teapot"] == lookup.teapot == lookup.get("teapot") == 418
    assert repr(lookup) == "<lookup 'names'>"
    assert lookup.name == "names"


def test_a_lookup_dict_has_none_for_a_missing_item_and_no_missing_attribute(requests: Any) -> None:
    lookup = requests.structures.LookupDict()
    assert lookup["teapot"] is None
    assert lookup.get("teapot") is None
    assert lookup.get("teapot", 1) == 1
    with pytest.raises(AttributeError):
        _ = lookup.teapot
    assert repr(lookup) == "<lookup 'None'>"


def test_a_lookup_dict_never_shows_the_items_of_the_dict_that_it_is(requests: Any) -> None:
    lookup = requests.structures.LookupDict()
    lookup["teapot"] = 418
    lookup.kettle = 419
    assert isinstance(lookup, dict)
    assert dict(lookup) == {"teapot": 418}
    assert lookup["teapot"] is None
    assert "kettle" not in lookup
