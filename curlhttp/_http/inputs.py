"""Types of arguments: headers, cookies, params, bodies, auth and hooks.

For type checkers: nothing imports this module at run time, so it costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    import curlhttp
    from curlhttp._http.auth import Auth
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._http.timings import Timings
    from curlhttp.exceptions import RequestException

Text: TypeAlias = str | bytes

# --- headers and cookies ---

HeadersInput: TypeAlias = Mapping[str, Text] | Mapping[bytes, Text] | Iterable[tuple[Text, Text]]
"""Names and values, as a mapping or pairs; bytes are latin-1."""

HeaderChanges: TypeAlias = (
    Mapping[str, Text | None] | Mapping[bytes, Text | None] | Iterable[tuple[Text, Text | None]]
)
"""Headers that are added to others or replace them; a value of None removes a header."""

CookiesInput: TypeAlias = CookieJar | Mapping[str, str] | Iterable[tuple[str, str]]
"""A cookie jar, or names and values as a mapping or pairs."""

# --- queries and forms ---

# Any: a mapping's key type is invariant, and str() is called on any name and value.
FormInput: TypeAlias = Mapping[Any, object] | Iterable[tuple[Any, object]]
"""Names and values. A list repeats its name, None is omitted, other values become str(value)."""

ParamsInput: TypeAlias = FormInput | Text
"""Names and values of a query, or the whole query as text."""

# --- bodies ---

Piece: TypeAlias = bytes | bytearray | memoryview


class BinaryFile(Protocol):
    """Anything that can be read like a file in binary mode."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, b"" at the end."""


_Source: TypeAlias = str | Piece | BinaryFile | Iterable[Piece]

ContentInput: TypeAlias = (
    _Source | AsyncIterable[Piece] | Callable[[], _Source | AsyncIterable[Piece]]
)
"""A body that is sent unchanged, or a function that returns one, so that it can be replayed."""

DataInput: TypeAlias = Mapping[Any, object] | Sequence[tuple[Any, object]] | ContentInput
"""A form, or a body that is sent unchanged."""

# Any: a mapping's key type is invariant, and numbers are valid names. Values are objects, because a
# TypedDict is not a mapping of anything else.
JSONInput: TypeAlias = Mapping[Any, object] | Sequence[object] | float | bool | None
"""What JSON can express. To type checkers, a str is a Sequence and an int is a float."""

_Part: TypeAlias = _Source | Callable[[], _Source] | None

FileInput: TypeAlias = (
    _Part
    | tuple[Text | None, _Part]
    | tuple[Text | None, _Part, Text | None]
    | tuple[Text | None, _Part, Text | None, HeaderChanges | None]
)
"""A file, or a tuple (file name, file), to which a content type and headers may be added."""

FilesInput: TypeAlias = (
    Mapping[str, FileInput] | Mapping[bytes, FileInput] | Iterable[tuple[Text, FileInput]]
)
"""Field names and files, as a mapping or pairs."""

# --- authentication ---


class _HasAuthFlow(Protocol):
    """An auth class written for httpx; it is used like an Auth."""

    @property
    def auth_flow(self) -> Callable[[NoReturn], object]:
        """Return the generator method; NoReturn, because it takes requests of another class."""


AuthInput: TypeAlias = (
    "tuple[Text, Text] | Auth | _HasAuthFlow | Callable[[ClientRequest], ClientRequest | None]"
)
"""(user, password), an Auth or an object with its methods, or a function that changes a request."""

# --- requests and errors ---


class UserRequest(Protocol):
    """A request that no client has completed: a `curlhttp.requests.Request`, or one of requests."""

    @property
    def method(self) -> object: ...
    @property
    def url(self) -> object: ...
    @property
    def headers(self) -> object: ...
    @property
    def files(self) -> object: ...
    @property
    def data(self) -> object: ...
    @property
    def json(self) -> object: ...
    @property
    def params(self) -> object: ...
    @property
    def auth(self) -> object: ...
    @property
    def cookies(self) -> object: ...
    @property
    def hooks(self) -> Any: ...
    def prepare(self) -> object: ...


class ErrorOptions(TypedDict, total=False):
    """The keywords of RequestException."""

    request: ClientRequest | None
    response: Response | None
    curl_code: int | None
    request_sent: bool
    timings: Timings | None


# --- hooks ---

Hook: TypeAlias = Callable[..., object]
"""A function for any of the events."""

_RequestHook: TypeAlias = (
    "Callable[[ClientRequest], ClientRequest | Awaitable[ClientRequest | None] | None]"
)
_ResponseHook: TypeAlias = "Callable[[Response], Response | Awaitable[Response | None] | None]"
_AttemptHook: TypeAlias = "Callable[[curlhttp.types.AttemptEvent], object]"
_TransitionHook: TypeAlias = "Callable[[curlhttp.types.Transition], object]"


class HooksInput(TypedDict, total=False):
    """One or several functions for each event."""

    request: _RequestHook | Sequence[_RequestHook]
    response: _ResponseHook | Sequence[_ResponseHook]
    before_attempt: _AttemptHook | Sequence[_AttemptHook]
    after_attempt: _AttemptHook | Sequence[_AttemptHook]
    before_sleep: _AttemptHook | Sequence[_AttemptHook]
    on_give_up: _AttemptHook | Sequence[_AttemptHook]
    breaker_transition: _TransitionHook | Sequence[_TransitionHook]
    on_fallback: _AttemptHook | Sequence[_AttemptHook]


# --- features ---

RetryInput: TypeAlias = "curlhttp.RetryPolicy | int | bool | None"
"""A policy, a number of retries with the default policy, True for that policy, or none."""

GuardFunction: TypeAlias = Callable[[str, str, int], bool]
"""A function of host, address and port: whether a client may connect to the address."""

GuardInput: TypeAlias = "curlhttp.PublicOnly | GuardFunction | None"
"""What decides which addresses a client may connect to."""

Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes done and the total, which is None while it is unknown."""

FallbackInput: TypeAlias = Callable[
    ["ClientRequest", "Response | RequestException"], "Response | Awaitable[Response | None] | None"
]
"""A function of the request and what became of it: the response to return, or None."""

# --- addresses and keys of servers ---

HostMap: TypeAlias = Mapping[str, str] | None
"""Hosts, with or without ports, to connect to, by those of URLs."""

AddressMap: TypeAlias = Mapping[str, str | Sequence[str]] | None
"""One or several IP addresses by host, with or without a port."""

UnixSocket: TypeAlias = str | os.PathLike[str] | None
"""The path of a Unix socket."""

IPVersion: TypeAlias = Literal[4, 6] | None
"""The version of the addresses to connect to, or None for both."""

Pins: TypeAlias = Mapping[str, str | Sequence[str]] | None
"""One or several hashes of public keys by host."""
