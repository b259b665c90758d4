"""AWS' signature version 4, by botocore: who signs, and what of a request is signed.

What is signed is what goes out: path and query are written first as AWS writes them, so that
nobody has to guess how the other side does. Loaded with the first AWSSigV4.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from curlhttp._models.body import Body
from curlhttp._models.redaction import display_text
from curlhttp._models.request import Request
from curlhttp._models.url import URL
from curlhttp._policy.token_auth import CachedToken, Steps, TokenAuth, TokenRequest, Value
from curlhttp.exceptions import RequestException, UnrewindableBodyError

if TYPE_CHECKING:
    from botocore.auth import SigV4Auth

__all__ = ["AWSSigV4"]

_CHECKSUM = "x-amz-content-sha256"
_UNSIGNED = "UNSIGNED-PAYLOAD"
_OF_S3 = frozenset({"s3", "s3-object-lambda", "s3-outposts"})
_SIGNED = frozenset({"content-md5", "content-type", "date", "host"})  # and all of x-amz-*
_SET = ("Authorization", "X-Amz-Date", "Date", "X-Amz-Security-Token", "X-Amz-Content-SHA256")
_PIECE = 256 * 1024  # bytes of a body


class AWSKeys(NamedTuple):
    """Credentials at one time, under botocore's names."""

    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        return "Keys(...)"


class _Credentials(Protocol):
    """What botocore and boto3 call credentials; those that expire renew themselves."""

    def get_frozen_credentials(self) -> AWSKeys:
        """Return the keys that are good now; may ask a server."""


CredentialsInput: TypeAlias = (
    "tuple[str, str] | tuple[str, str, str | None] | _Credentials | Callable[[], _Credentials]"
)


class AWSSigV4(TokenAuth):
    """Sign requests to AWS, and to what speaks like it (signature version 4); extra `aws`.

    Signed are the method, host, path, query, Content-Type, Content-MD5, Date, all X-Amz-* and the
    body's SHA-256. Path and query go out with all escaped that AWS escapes. A streamed body is not
    signed where it goes to S3 by https; others are read to be hashed, and then sent, which a body
    that cannot be rewound does not stand: it goes unsigned by https, and by http not at all.

    Args:
        region: such as "eu-central-1".
        service: the name that it has in signatures, such as "s3" or "execute-api".
        credentials: (access key, secret key) or (access key, secret key, session token), or those
            of botocore or boto3, or a function that returns them. None for what botocore finds:
            the environment, profiles, SSO, containers, IMDS. Those that expire are renewed, by one
            request for all that wait.
        profile: of AWS' configuration, for what botocore finds.

    Raises:
        ImportError: botocore is not installed.
        RequestException: of a request: botocore found no credentials, or could not get or renew
            them. Its `__cause__` is botocore's error.
        UnrewindableBodyError: of a request: its body can neither be signed nor go unsigned.

    Source: "AWS Signature Version 4 for API requests" in the IAM User Guide.
    """

    __slots__ = ("_profile", "_region", "_service", "_signer", "_source")

    def __init__(
        self,
        region: str,
        service: str,
        credentials: CredentialsInput | None = None,
        *,
        profile: str | None = None,
    ) -> None:
        super().__init__()
        self._signer = _signer_of(service)
        self._region = region
        self._service = service
        self._source = credentials
        self._profile = profile

    def steps(self, now: Callable[[], float]) -> Steps:
        """Find the credentials, or renew them."""
        return CachedToken((yield TokenRequest(self._keys, blocks=True)))

    def _keys(self) -> AWSKeys:
        from botocore.exceptions import BotoCoreError

        try:
            return self._current_keys()
        except BotoCoreError as error:
            raise RequestException(f"no AWS credentials: {display_text(str(error))}") from error

    def _current_keys(self) -> AWSKeys:
        source = self._source
        if isinstance(source, tuple):
            return AWSKeys(*source)
        if source is None or callable(source):
            found = _found(self._profile) if source is None else source()
            source = self._source = found
        return source.get_frozen_credentials()

    def is_usable(self, obtained: CachedToken, now: float) -> bool:
        """Return whether the credentials are not about to expire."""
        refresh_needed = getattr(self._source, "refresh_needed", None)
        return refresh_needed is None or not refresh_needed()

    def apply(self, request: Request, value: Value) -> Request:
        """Return the request with its signature."""
        from botocore.awsrequest import AWSRequest

        request.url = _as_signed(request.url, self._service in _OF_S3)
        fields = [
            (name, text)
            for name, text in request.headers.multi_items()
            if (lower := name.lower()) in _SIGNED or lower.startswith("x-amz-")
        ]
        draft = AWSRequest(request.method, str(request.url).partition("#")[0])
        for name, text in fields:
            draft.headers.add_header(name, text)
        if "host" not in draft.headers:
            draft.headers["Host"] = request.url.authority
        checksum = request.get_header(_CHECKSUM) or self._checksum(request)
        if checksum == _UNSIGNED:
            draft.headers[_CHECKSUM] = checksum
        self._signer(value, self._service, self._region, checksum).add_auth(draft)
        for name in _SET:
            if name in draft.headers:
                request.headers[name] = draft.headers[name]
        return request

    def _checksum(self, request: Request) -> str:
        body = request.body
        if body is None:
            return sha256().hexdigest()
        if body.data is not None:
            return sha256(body.data).hexdigest()
        is_safe = request.url.scheme == "https"
        if (is_safe and self._service in _OF_S3) or body.is_async or not body.replayable:
            if not is_safe:
                raise UnrewindableBodyError(
                    f"{request}: a body that cannot be read twice is signed by https alone"
                )
            return _UNSIGNED
        return _hash_of(body)


def _hash_of(body: Body) -> str:
    hashed = sha256()
    body.rewind()
    while piece := body.read(_PIECE):
        hashed.update(piece)
    body.rewind()
    return hashed.hexdigest()


def _as_signed(url: URL, is_of_s3: bool) -> URL:
    """Return a URL with path and query as AWS escapes them: all but A-Z a-z 0-9 - . _ ~."""
    path, question, query = url.target.partition("?")
    # A slash in a key is one, whether or not it was escaped; S3 reckons with none that is.
    parts = [path] if is_of_s3 else path.split("/")
    segments = [quote(unquote_to_bytes(part), safe="/" if is_of_s3 else "") for part in parts]
    pairs = []
    for pair in filter(None, query.split("&")):
        name, equals, value = pair.partition("=")
        pairs.append(f"{_escaped(name)}{equals}{_escaped(value)}")
    return url.with_target("/".join(segments) + (question if pairs else "") + "&".join(pairs))


def _escaped(text: str) -> str:
    # Bytes that are no UTF-8 stay as they are.
    return quote(unquote_plus(text, errors="surrogateescape"), safe="", errors="surrogateescape")


def _found(profile: str | None) -> _Credentials:
    from botocore.exceptions import NoCredentialsError
    from botocore.session import Session

    found: _Credentials | None = Session(profile=profile).get_credentials()
    if found is None:
        raise NoCredentialsError
    return found


def _signer_of(service: str) -> Callable[[AWSKeys, str, str, str], SigV4Auth]:
    try:
        from botocore.auth import S3SigV4Auth, SigV4Auth
    except ImportError as error:
        raise ImportError(
            "AWSSigV4 needs botocore: pip install 'curlhttp[aws]'", name="botocore"
        ) from error

    class Signer(S3SigV4Auth if service in _OF_S3 else SigV4Auth):  # type: ignore[misc]
        """botocore's signer, for a body that was hashed before."""

        def __init__(self, keys: AWSKeys, service: str, region: str, checksum: str) -> None:
            super().__init__(keys, service, region)
            self._checksum = checksum

        def payload(self, request: object) -> str:
            return self._checksum

    return Signer
