"""Types of arguments, for programs that annotate code with requests, and for this package.

The first six names are requests' own. The others import nothing at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

    import urllib3
    from typing_extensions import TypeIs

    from curlhttp._http.config import Cert, Verify
    from curlhttp._http.inputs import FilesInput, JSONInput, ParamsInput, Text
    from curlhttp._http.timeout import Timeout
    from curlhttp._http.url import URL
    from curlhttp.requests.models import PreparedRequest

_T_co = TypeVar("_T_co", covariant=True)
_KT_co = TypeVar("_KT_co", covariant=True)
_VT_co = TypeVar("_VT_co", covariant=True)

HookType = Callable[..., Any]  # called with the adapter's arguments
HooksInputType = Mapping[str, Iterable[HookType] | HookType]


@runtime_checkable
class SupportsRead(Protocol[_T_co]):
    """Anything with a read(), as files have."""

    def read(self, length: int = ..., /) -> _T_co:
        """Return at most `length` bytes or characters."""
        ...


@runtime_checkable
class SupportsItems(Protocol[_KT_co, _VT_co]):
    """Anything with items(), as mappings have."""

    def items(self) -> Iterable[tuple[_KT_co, _VT_co]]:
        """Return pairs of keys and values."""
        ...


def is_prepared(request: object) -> TypeIs[PreparedRequest]:
    """Tell type checkers that a request has been prepared; at run time it is always True."""
    return True


UrlInput: TypeAlias = "str | bytes | URL"
HeadersInput: TypeAlias = "Mapping[str, Text | None] | Mapping[bytes, Text | None] | None"
CookiesInput: TypeAlias = "CookieJar | Mapping[str, str] | None"
DataInput: TypeAlias = "Iterable[object] | SupportsRead[Text] | None"
AuthInput: TypeAlias = "tuple[Text, Text] | Callable[[PreparedRequest], PreparedRequest] | None"
HooksInput: TypeAlias = "HooksInputType | None"
TimeoutInput: TypeAlias = (
    "float | tuple[float | None, float | None] | Timeout | urllib3.Timeout | None"
)
VerifyInput: TypeAlias = "Verify | None"
CertInput: TypeAlias = "Cert | list[str]"
ProxiesInput: TypeAlias = "Mapping[str, str | None] | None"


# Any, because these are parameters of methods that programs override, with the narrower types of
# requests. A method may not accept less than the one that it overrides.
AnyMethod: TypeAlias = Any  # str | bytes
AnyUrl: TypeAlias = Any  # UrlInput
AnyStream: TypeAlias = Any  # bool | None
AnyTimeout: TypeAlias = Any  # TimeoutInput
AnyVerify: TypeAlias = Any  # VerifyInput
AnyCert: TypeAlias = Any  # CertInput
AnyProxies: TypeAlias = Any  # ProxiesInput

# Any, because programs pass their own objects:
AnyRetry: TypeAlias = Any  # urllib3's Retry, a subclass, or an object like it
AnyRaw: TypeAlias = Any  # a RawResponse, urllib3's HTTPResponse, or that of a cache or a mock
PoolKeywords: TypeAlias = dict[str, Any]  # keywords of urllib3's PoolManager, of all kinds
PickledState: TypeAlias = dict[str, Any]  # attributes, of all kinds


class RouteOptions(TypedDict, total=False):
    """Settings that the environment may change, and stream."""

    stream: bool
    verify: VerifyInput
    cert: CertInput
    proxies: ProxiesInput


class AdapterOptions(RouteOptions, total=False):
    """A session's arguments for an adapter, besides the request."""

    timeout: TimeoutInput


class SendOptions(TypedDict, total=False):
    """The keywords of Session.send, which programs override."""

    stream: AnyStream
    timeout: AnyTimeout
    verify: AnyVerify
    cert: AnyCert
    proxies: AnyProxies
    allow_redirects: bool


class _AnyVerb(AdapterOptions, total=False):
    allow_redirects: bool
    headers: HeadersInput
    cookies: CookiesInput
    files: FilesInput | None
    auth: AuthInput
    hooks: HooksInput
    content: DataInput
    follow_redirects: bool | None


class GetOptions(_AnyVerb, total=False):
    """The keywords of get(), besides params."""

    data: DataInput
    json: JSONInput


class PostOptions(_AnyVerb, total=False):
    """The keywords of post(), besides data and json."""

    params: ParamsInput | None


class PutOptions(PostOptions, total=False):
    """The keywords of put() and patch(), besides data."""

    json: JSONInput


class RequestOptions(PutOptions, total=False):
    """The keywords of the other verbs; see Session.request."""

    data: DataInput
