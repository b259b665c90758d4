"""JSON as the user's types, and by the user's functions."""

from __future__ import annotations

import json
import pickle
import re
import sys
import tracemalloc
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum, Flag
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
    get_args,
)
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import curlhttp
from curlhttp import JSON, Response
from curlhttp._http import json_types
from curlhttp._http.json_types import Misfit
from curlhttp._http.response import Head
from curlhttp._http.timings import NO_TIME
from curlhttp.exceptions import JSONDecodeError, JSONTypeError
from curlhttp.testing import Answer
from tests.support.scripted import Scripted

pydantic = pytest.importorskip("pydantic", reason="the extra test")
msgspec = pytest.importorskip("msgspec", reason="the extra test")
orjson = pytest.importorskip("orjson", reason="the extra test")


convert: Any = json_types.convert  # as response.json(type=) calls it


T = TypeVar("T")


class Role(Enum):
    ADMIN = "admin"
    GUEST = "guest"


@dataclass
class Address:
    city: str
    zip: Optional[int] = None  # noqa: UP045  # both spellings


@dataclass
class User:
    id: int
    name: str
    roles: list[Role] = field(default_factory=list)
    address: Address | None = None
    scores: dict[str, float] = field(default_factory=dict)
    pair: tuple[int, str] | None = None
    kind: Literal["a", 1] = "a"
    friends: list[User] = field(default_factory=list)
    seen: int = field(default=0, init=False)


@dataclass
class Stamped:
    at: datetime
    day: date
    id: UUID
    price: Decimal


class Model(pydantic.BaseModel):  # type: ignore[misc, name-defined]
    id: int
    name: str = "?"


class Struct(msgspec.Struct):  # type: ignore[misc, name-defined]
    id: int
    name: str = "?"


@pydantic.dataclasses.dataclass
class Checked:
    id: int


class Row(TypedDict):
    id: int


WHOLE = {
    "id": 1,
    "name": "Ada",
    "roles": ["admin", "guest"],
    "address": {"city": "Paris", "zip": None},
    "scores": {"a": 1},
    "pair": [1, "x"],
    "kind": 1,
    "friends": [{"id": 2, "name": "Bob"}],
    "more": "is ignored",
}

TYPES: list[Any] = [
    *(None, int, float, bool, str, date, datetime, Decimal, UUID, Role, User, Stamped, Model),
    *(Struct, Checked, list[User], dict[str, int], dict[int, str], set[Any], list[Model]),
    *(tuple[int, str], Address | None, Literal["a", 1], frozenset[Address], list[Struct]),
]
# JSON as Python reads it, with NaN, huge numbers and lone surrogates.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
    | st.sampled_from([10**400, -(10**30), "admin", "\ud800", "1e999999999", "2026-01-01", "NaN"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["id", "name", "at", "day", "price", "pair", "kind", "friends", "scores"])
        | st.text(max_size=3),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip


def test_a_dataclass_and_all_in_it() -> None:
    made = convert(WHOLE, User)
    assert made == User(
        1,
        "Ada",
        [Role.ADMIN, Role.GUEST],
        Address("Paris"),
        {"a": 1.0},
        (1, "x"),
        1,
        [User(2, "Bob")],
    )
    assert type(made.scores["a"]) is float


def test_what_json_writes_as_text() -> None:
    text = "12345678-1234-5678-1234-567812345678"
    value = {"at": "2026-11-25T10:00:00Z", "day": "2026-11-25", "id": text, "price": 1.5}
    assert convert(value, Stamped) == Stamped(
        datetime(2026, 11, 25, 10, tzinfo=timezone.utc),
        date(2026, 11, 25),
        UUID(text),
        Decimal("1.5"),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "1"}, "id: expected a whole number, not str"),
        ({"id": True}, "id: expected a whole number, not bool"),
        ({"id": 1.0}, "id: expected a whole number, not float"),
        ({"name": None}, "name: expected a string, not null"),
        ({"roles": ["root"]}, "roles[0]: expected one of 'admin', 'guest', not str"),
        ({"roles": {}}, "roles: expected an array, not dict"),
        ({"address": {}}, "address.city: missing, and it has no default"),
        ({"address": []}, "address: expected an object for Address, not list"),
        ({"scores": {"a": "x"}}, "scores['a']: expected a number, not str"),
        ({"pair": [1]}, "pair: expected an array of 2, not list"),
        ({"kind": True}, "kind: expected one of 'a', 1, not bool"),
        ({"friends": [{"id": 2}]}, "friends[0].name: missing, and it has no default"),
    ],
    ids=str,
)
def test_a_misfit_says_where(change: dict[str, Any], message: str) -> None:
    with pytest.raises(Misfit) as caught:
        convert({**WHOLE, **change}, User)
    assert str(caught.value) == message


def test_plain_types_and_containers() -> None:
    assert convert([1, 2], list[int]) == [1, 2]
    assert convert([1, 2], tuple[int, ...]) == (1, 2)
    assert convert([1, 1], set[int]) == {1}
    assert convert({"a": [None]}, dict[str, list[Any]]) == {"a": [None]}
    assert convert("x", int | str) == "x"
    assert convert(None, None) is None
    with pytest.raises(Misfit, match="the value: expected int or str, not list"):
        convert([], int | str)
    with pytest.raises(Misfit, match="the value: expected an ISO 8601 date and time, not str"):
        convert("yesterday", datetime)


@dataclass
class Page(Generic[T]):
    items: list[T]
    first: T | None = None
    next: Page[T] | None = None


UserId = NewType("UserId", int)


@dataclass
class Odd:
    id: UserId
    size: Annotated[int, "bytes"]
    key: InitVar[int]
    kind: ClassVar[str] = "odd"
    double: int = field(default=0, init=False)

    def __post_init__(self, key: int) -> None:
        if key < 0:
            raise ValueError("key is negative")
        self.double = 2 * key


@dataclass
class Lost:
    at: Nowhere  # type: ignore[name-defined]  # noqa: F821


class Size(Enum):
    SMALL = 1


def test_generic_dataclasses() -> None:
    whole = {"items": [{"city": "A"}], "next": {"items": []}}
    assert convert(whole, Page[Address]) == Page([Address("A")], next=Page([]))
    with pytest.raises(Misfit, match=r"next.items\[0\]: expected a whole number, not str"):
        convert({"items": [], "next": {"items": ["1"]}}, Page[int])
    assert convert({"items": [{"id": "1"}]}, Page[Model]) == Page([Model(id=1)])
    assert convert({"items": [{"id": 1}]}, Page[Struct]) == Page([Struct(id=1)])


def test_new_types_annotations_and_init_vars() -> None:
    made = convert({"id": 1, "size": 2, "key": 3, "double": 9, "kind": "x"}, Odd)
    assert (made.id, made.size, made.double, made.kind) == (1, 2, 6, "odd")
    assert convert(1, Annotated[UserId, "of a user"]) == 1
    for change, message in (
        ({"id": "1"}, "id: expected a whole number, not str"),
        ({"size": "1"}, "size: expected a whole number, not str"),
        ({"key": "1"}, "key: expected a whole number, not str"),
        ({"key": -1}, r"\[0\]: key is negative"),
    ):
        with pytest.raises(Misfit, match=message):
            convert([{"id": 1, "size": 2, "key": 3, **change}], list[Odd])
    with pytest.raises(Misfit, match="key: missing"):
        convert({"id": 1, "size": 2}, Odd)


def test_nothing_is_converted_silently() -> None:
    for value in (True, 1.0):
        with pytest.raises(Misfit, match="expected one of 1, not"):
            convert(value, Size)
    for found in (convert(1, float | int), convert(2**53 + 1, float | int | None)):
        assert type(found) is int
    with pytest.raises(Misfit, match=r"\['1'\]: expected a whole number, not str"):
        convert({"1": 2}, dict[int, int])
    assert convert({"admin": 1}, dict[Role, int]) == {Role.ADMIN: 1}
    assert convert({"1": {"id": 1}}, dict[int, Struct]) == {1: Struct(id=1)}


def test_values_that_were_already_read() -> None:
    assert convert(Decimal("0.10"), Decimal) == Decimal("0.10")
    assert convert(10**5000, Decimal) == 10**5000  # more digits than str() writes
    assert type(convert(Decimal("0.5"), float)) is float
    assert convert(date(2026, 1, 1), date | str) == date(2026, 1, 1)


def test_what_python_cannot_hold_is_a_misfit() -> None:
    with pytest.raises(Misfit, match="expected a number in the range of float, not int"):
        convert(10**400, float)
    with pytest.raises(Misfit, match="expected an array of hashable values, not list"):
        convert([[1]], set[Any])
    deep: dict[str, Any] = {"items": []}
    for _ in range(sys.getrecursionlimit()):
        deep = {"items": [], "next": deep}
    with pytest.raises(Misfit, match="the value: nested too deeply"):
        convert(deep, Page[int])


@dataclass
class Prices:
    by_number: dict[Decimal, int]
    levels: set[Decimal] = field(default_factory=set)


class MsgspecPrices(msgspec.Struct):  # type: ignore[misc, name-defined]
    by_number: dict[Decimal, int]


class MsgspecNode(msgspec.Struct):  # type: ignore[misc, name-defined]
    next: Optional["MsgspecNode"] = None  # noqa: UP037, UP045


class PydanticNode(pydantic.BaseModel):  # type: ignore[misc, name-defined]
    next: Optional["PydanticNode"] = None  # noqa: UP037, UP045


@dataclass
class Node:
    next: Node | None = None


class Switch(Flag):
    ON = 1
    OFF = 2


# msgspec's own words: those of 0.23 and later, and those before
MSGSPEC_REFUSES_A_KEY = (
    "Expected a hashable value, got `decimal.Decimal` - at `key` in `$.by_number`",
    "Cannot hash a signaling NaN value",
)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ({"sNaN": 1}, dict[Decimal, int], "['sNaN']: the key cannot be hashed"),
        ({"by_number": {"sNaN": 1}}, Prices, "by_number['sNaN']: the key cannot be hashed"),
        ({"by_number": {}, "levels": ["sNaN"]}, Prices,
         "levels: expected an array of hashable values, not list"),
        ({"by_number": {"sNaN": 1}}, MsgspecPrices, MSGSPEC_REFUSES_A_KEY),
        ("x", Switch, "the value: expected one of 1, 2, not str"),
        (Decimal("sNaN"), float, "the value: expected a number in the range of float, not Decimal"),
    ],
)  # fmt: skip
def test_a_hostile_value_is_a_misfit(value: Any, kind: Any, message: str | tuple[str, ...]) -> None:
    with pytest.raises(Misfit) as caught:
        convert(value, kind)
    said = str(caught.value).removeprefix("the value: ")
    said = re.sub(r"^cannot use .* \((.*)\)$", r"\1", said)  # what newer Pythons put around it
    messages = (message,) if isinstance(message, str) else message
    assert said in [each.removeprefix("the value: ") for each in messages]


def test_what_msgspec_cannot_make_is_no_misfit() -> None:
    with pytest.raises(TypeError, match="is not supported"):
        convert({}, Struct | MsgspecNode)


@pytest.mark.parametrize("kind", [Node, MsgspecNode, PydanticNode, dict[str, MsgspecNode]])
@pytest.mark.parametrize("loads", [json.loads, msgspec.json.decode, orjson.loads])
async def test_a_body_that_is_nested_too_deeply_is_a_misfit(
    scripted: Scripted, kind: Any, loads: Any
) -> None:
    deep = sys.getrecursionlimit() * 9 // 10
    body = b'{"next":' * deep + b"null" + b"}" * deep
    client, _ = scripted([Answer(content=body)], json=JSON(loads=loads))
    response = await client.get("http://a/")

    def read_deep_in_a_program(levels: int) -> None:
        if levels:
            read_deep_in_a_program(levels - 1)
        else:
            response.json(type=kind)

    message = ""
    try:
        read_deep_in_a_program(sys.getrecursionlimit() // 2)
    except (JSONTypeError, JSONDecodeError) as error:
        message = str(error)
    # From Python 3.12 on, code in C may go deeper, so that there may be a result.
    has_result = sys.version_info >= (3, 12) and not message
    assert has_result or re.search("nested too deeply|Recursion error", message)


def test_long_keys_need_no_memory_for_each_of_their_members() -> None:
    key = "k" * 200_000
    value = {key: {f"x{number}": number for number in range(5000)}}
    tracemalloc.start()
    try:
        convert(value, dict[str, dict[str, int]])
        with pytest.raises(Misfit) as caught:
            convert(value, dict[str, dict[str, str]])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000  # and 1,000 MB with a path for each value
    assert str(caught.value).endswith("kkk']['x0']: expected a string, not int")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("kind", [Node, PydanticNode])
def test_a_long_path_is_shortened(kind: Any) -> None:
    value: Any = 1
    for _ in range(100):
        value = {"next": value}
    with pytest.raises(Misfit) as caught:
        convert(value, kind)
    assert re.match(r"next(\.next){9}\.\.\.(\.next){9}: ", str(caught.value))


@pytest.mark.parametrize(
    "kind", [dict[str, int], dict[str, Model], dict[str, Struct], Literal["a"]]
)
def test_no_text_of_the_server_makes_a_message_long(kind: Any) -> None:
    for value in ({"k\n" * 100_000: "v" * 100_000}, "v" * 100_000):
        with pytest.raises(Misfit) as caught:
            convert(value, kind)
        assert len(str(caught.value)) < 500
        assert "\n" not in str(caught.value)


def test_an_annotation_that_names_nothing_names_its_class() -> None:
    with pytest.raises(TypeError, match="an annotation of Lost cannot be read: name 'Nowhere'"):
        convert({"at": 1}, Lost)


def test_types_that_nobody_can_make_are_refused() -> None:
    for kind in (bytes, complex, Row, list[memoryview]):
        with pytest.raises(TypeError, match=r"use dataclasses, .* or types of pydantic or msgspec"):
            convert([b""] if kind == list[memoryview] else {}, kind)


@pytest.mark.parametrize("kind", [Model, Struct, Checked])
def test_types_of_packages(kind: Any) -> None:
    assert convert({"id": 1}, kind).id == 1
    assert convert([{"id": 1}], list[kind])[0] == kind(id=1)
    assert convert({"a": {"id": 1}}, dict[str, kind])["a"] == kind(id=1)
    with pytest.raises(Misfit, match=r"\[1\].*id|id.*\[1\]"):
        convert([{"id": 1}, {"id": "x"}], list[kind])


def test_a_dataclass_with_a_model_is_made_by_its_package() -> None:
    @dataclass
    class Page:
        items: list[Model]

    Page.__annotations__["items"] = list[Model]
    assert convert({"items": [{"id": "1"}]}, Page) == Page([Model(id=1)])


# --- of responses ---


async def test_a_response_is_read_as_a_type(scripted: Scripted) -> None:
    body = json.dumps([{"id": 1, "name": "Ada"}])
    client, _ = scripted([Answer(200, content=body)] * 3)
    assert (await client.get("http://a/")).json(type=list[User]) == [User(1, "Ada")]
    assert (await client.get("http://a/")).json(type=list[Model])[0].name == "Ada"
    assert (await client.get("http://a/")).json(type=None) == [{"id": 1, "name": "Ada"}]


async def test_a_type_that_does_not_fit_names_the_response(scripted: Scripted) -> None:
    client, _ = scripted([Answer(200, content=b'{"id": null}')] * 2)
    response = await client.get("http://a/users?token=secret")
    for kind in (User, Model):
        with pytest.raises(JSONTypeError, match=r"the JSON does not fit (User|Model): id: ") as it:
            response.json(type=kind)
        assert str(it.value).endswith("; GET http://a/users?token=*** got 200")
        assert it.value.response is response
        assert isinstance(it.value, ValueError)


async def test_html_is_shown_by_the_error(scripted: Scripted) -> None:
    page = "<!DOCTYPE html><title>502 Bad Gateway</title>" + "x" * 20
    answer = Answer(502, headers={"Content-Type": "text/html"}, content=page)
    client, _ = scripted([answer])
    response = await client.get("http://a/users?token=secret")
    with pytest.raises(JSONDecodeError) as caught:
        response.json(type=User)
    assert str(caught.value) == (
        "Expecting value: line 1 column 1 (char 0); GET http://a/users?token=*** got 502 and "
        "text/html, which begins with "
        "'<!DOCTYPE html><title>502 Bad Gateway</title>xxxxxxxxxxxxxxx...'"
    )
    assert caught.value.doc == page
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


async def test_broken_json_is_not_shown(scripted: Scripted) -> None:
    client, _ = scripted([Answer(200, content=b'\xef\xbb\xbf\n{"access_token": "s3cret')])
    with pytest.raises(JSONDecodeError, match=r"GET http://a/ got 200 and no Content-Type$"):
        (await client.get("http://a/")).json()


async def test_the_functions_of_a_client(scripted: Scripted) -> None:
    codec = JSON(loads=orjson.loads, dumps=orjson.dumps)
    client, engine = scripted([Answer(200, content=b'{"id":1}')] * 2, json=codec)
    response = await client.post("http://a/", json={"day": date(2026, 11, 25), "é": 1})
    assert engine.sent[0].body == '{"day":"2026-11-25","é":1}'.encode()
    assert engine.sent[0].headers["Content-Type"] == "application/json"
    assert response.json() == {"id": 1}
    assert response.json(type=Model) == Model(id=1)
    assert pickle.loads(pickle.dumps(response)).json() == {"id": 1}
    request = client.real.build_request("GET", "http://a/", headers={"X-A": "b"})
    assert (await client.send(request)).json() == {"id": 1}


async def test_loads_gets_bytes_and_options(scripted: Scripted) -> None:
    seen: list[Any] = []

    def loads(body: Any, **options: Any) -> Any:
        seen.append((body, options))
        return json.loads(body, **options)

    client, _ = scripted([Answer(200, content=b"1.5")], json=JSON(loads=loads))
    response = await client.get("http://a/")
    assert response.json(parse_float=Decimal) == Decimal("1.5")
    response.encoding = "latin-1"
    response.json()
    assert seen == [(b"1.5", {"parse_float": Decimal}), ("1.5", {})]


async def test_errors_of_other_functions_are_those_of_the_package(scripted: Scripted) -> None:
    def broken(body: bytes) -> Any:
        raise ValueError("no")

    for loads in (orjson.loads, broken):
        client, _ = scripted([Answer(200, content=b"<html>")], json=JSON(loads=loads))
        with pytest.raises(JSONDecodeError, match="which begins with '<html>'"):
            (await client.get("http://a/")).json()


@pytest.mark.parametrize("loads", [orjson.loads, msgspec.json.decode])
async def test_other_functions_get_text_if_the_body_is_in_no_unicode_encoding(
    scripted: Scripted, loads: Any
) -> None:
    answer = Answer(200, headers={"Content-Type": "a/b; charset=latin-1"}, content=b'{"\xe9": 1}')
    client, _ = scripted([answer], json=JSON(loads=loads))
    assert (await client.get("http://a/")).json() == {"é": 1}


async def test_a_request_of_the_user_gets_the_functions(scripted: Scripted) -> None:
    client, _ = scripted([Answer(200, content=b"1")], json=JSON(loads=lambda body: "mine"))
    response = await client.send(curlhttp.requests.Request("GET", "http://a/"))
    assert response.json() == "mine"


async def test_dumps_may_return_text_and_nothing_else(scripted: Scripted) -> None:
    client, engine = scripted([200], json=JSON(dumps=lambda value: "é"))
    await client.post("http://a/", json=1)
    assert engine.sent[0].body == "é".encode()
    client, _ = scripted([], json=JSON(dumps=lambda value: 5))  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="dumps returned int, not bytes or str"):
        await client.post("http://a/", json=1)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(TypeError, match=r"loads must be a function, such as json\.loads, not str"):
        JSON(loads="orjson")  # type: ignore[arg-type]
    for client in (curlhttp.Client, curlhttp.AsyncClient):
        with pytest.raises(TypeError, match=r"json must be a curlhttp\.JSON.* its body"):
            client(json={"a": 1})  # type: ignore[arg-type]
    assert repr(JSON(loads=json.loads)).startswith("JSON(loads=<function loads")


@given(
    st.one_of(
        VALUES.map(lambda value: json.dumps(value).encode()),
        st.binary(max_size=40),
        st.sampled_from(
            [b"[" * 100_000, b"9" * 5000, b"\xff\xfe{\x00", b"\xef\xbb\xbf1", b"1e9999"]
        ),
    ),
    st.sampled_from(TYPES),
    st.sampled_from([None, "latin-1", "utf-16", "no such charset"]),
)
@example(b'["\\ud800"]', list[Struct], None)
def test_a_body_is_the_type_or_an_error_of_the_response(
    body: bytes, to: Any, encoding: str | None
) -> None:
    request = curlhttp.ClientRequest("GET", "http://a.test/")
    response = Response(request, Head(b"HTTP/1.1 200 OK\r\n\r\n"), body, NO_TIME)
    response.encoding = encoding
    with suppress(JSONDecodeError, JSONTypeError):
        found = response.json(type=to)
        # In Python 3.10, list[int] is an instance of type.
        assert get_args(to) or not isinstance(to, type) or isinstance(found, to)
