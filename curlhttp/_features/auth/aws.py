"""AWS Signature Version 4, computed by botocore.

Before signing, path and query are escaped as AWS escapes them, and sent like that, so that the
signature matches. Only those of a raw URL are signed and sent as they are. Loaded with the first
AWSSigV4.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from curlhttp._features.auth.token_auth import CachedToken, FunctionCall, Steps, TokenAuth, Value
from curlhttp._http.body import Body
from curlhttp._http.redaction import display_text
from curlhttp._http.replacement import SIGN_AGAIN
from curlhttp._http.request import ClientRequest
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.url import URL
from curlhttp.exceptions import RequestException, UnrewindableBodyError

if TYPE_CHECKING:
    from botocore.auth import SigV4Auth

_CHECKSUM = "x-amz-content-sha256"
_UNSIGNED = "UNSIGNED-PAYLOAD"
_S3_SERVICES = frozenset({"s3", "s3-object-lambda", "s3-outposts"})
_SIGNED = frozenset({"content-md5", "content-type", "date", "host"})  # and all of x-amz-*
_SET = ("Authorization", "X-Amz-Date", "Date", "X-Amz-Security-Token", "X-Amz-Content-SHA256")
_PIECE = 256 * 1024  # bytes of a body


class AWSKeys(NamedTuple):
    """Credentials at one point in time, with botocore's attributes."""

    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        return "AWSKeys(...)"


class _Credentials(Protocol):
    """Credentials of botocore or boto3, which renew themselves if they expire."""

    def get_frozen_credentials(self) -> AWSKeys:
        """Return the current keys; may send a request."""


CredentialsInput: TypeAlias = (
    "tuple[str, str] | tuple[str, str, str | None] | _Credentials | Callable[[], _Credentials]"
)


@with_suggestions("AWSSigV4")
class AWSSigV4(TokenAuth):
    """Sign requests to AWS and compatible services (Signature Version 4). Needs the extra `aws`.

    The signature covers the method, host, path, query, Content-Type, Content-MD5, Date, all X-Amz-*
    headers and the SHA-256 hash of the body. Path and query are sent with AWS's escaping; those of
    a raw URL are signed and sent as they are. A streamed body to S3 over https is not signed. Any
    other streamed body is read twice: to hash it, and to send it. If it cannot be rewound, it is
    sent unsigned over https, and refused over http.

    Args:
        region: such as "eu-central-1".
        service: the name of the service in signatures, such as "s3" or "execute-api".
        credentials: (access key, secret key) or (access key, secret key, session token); or
            credentials of botocore or boto3, or a function that returns them. None to let botocore
            find them: in the environment, profiles, SSO, containers, IMDS. Credentials that expire
            are renewed once for all waiting requests.
        profile: the profile in AWS's configuration that botocore uses.

    Raises:
        ImportError: botocore is not installed.
        RequestException: when sending: botocore found no credentials, or could not fetch or renew
            them. Its `__cause__` is botocore's error.
        UnrewindableBodyError: when sending: the body can neither be signed nor be sent unsigned.

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
        self._signer = _make_signer(service)
        self._region = region
        self._service = service
        self._source = credentials
        self._profile = profile

    def steps(self, now: Callable[[], float]) -> Steps:
        """Find or renew the credentials."""
        return CachedToken((yield FunctionCall(self._load_keys, blocks=True)))

    def _load_keys(self) -> AWSKeys:
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
            found = _find_credentials(self._profile) if source is None else source()
            source = self._source = found
        return source.get_frozen_credentials()

    def is_usable(self, token: CachedToken, now: float) -> bool:
        """Return whether the credentials are not about to expire."""
        refresh_needed = getattr(self._source, "refresh_needed", None)
        return refresh_needed is None or not refresh_needed()

    def apply(self, request: ClientRequest, value: Value) -> ClientRequest:
        """Return the request with its signature."""
        from botocore.awsrequest import AWSRequest

        if not request.url.is_raw:
            request.url = _escape_url(request.url, self._service in _S3_SERVICES)
        fields = _get_signed_fields(request)
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
        signed = _get_signed(request)

        def sign_again(changed: ClientRequest) -> None:
            if _get_signed(changed) == signed:
                return
            if changed.get_header(_CHECKSUM) == checksum:  # of the body as it was
                del changed.headers[_CHECKSUM]
            self.apply(changed, value)

        request._extend(SIGN_AGAIN, sign_again)
        return request

    def _checksum(self, request: ClientRequest) -> str:
        body = request.body
        if body is None:
            return sha256().hexdigest()
        data = body.peek()
        if data is not None:
            return sha256(data).hexdigest()
        is_safe = request.url.scheme == "https"
        if (is_safe and self._service in _S3_SERVICES) or body.is_async or not body.replayable:
            if not is_safe:
                raise UnrewindableBodyError(
                    f"{request}: a body that cannot be read twice needs https"
                )
            return _UNSIGNED
        return _hash_body(body)


def _get_signed_fields(request: ClientRequest) -> list[tuple[str, str]]:
    return [
        (name, text)
        for name, text in request.headers.multi_items()
        if (lower := name.lower()) in _SIGNED or lower.startswith("x-amz-")
    ]


def _get_signed(request: ClientRequest) -> tuple[object, ...]:
    """Return what the signature of a request covers."""
    return request.method, str(request.url), request.body, _get_signed_fields(request)


def _hash_body(body: Body) -> str:
    hashed = sha256()
    body.rewind()
    while piece := body.read(_PIECE):
        hashed.update(piece)
    body.rewind()
    return hashed.hexdigest()


def _escape_url(url: URL, is_s3: bool) -> URL:
    """Return a URL with path and query as AWS escapes them: all but A-Z a-z 0-9 - . _ ~."""
    path, question, query = url.target.partition("?")
    # S3 never escapes a slash in a key; other services do.
    parts = [path] if is_s3 else path.split("/")
    segments = [quote(unquote_to_bytes(part), safe="/" if is_s3 else "") for part in parts]
    pairs = []
    for pair in filter(None, query.split("&")):
        name, equals, value = pair.partition("=")
        pairs.append(f"{_escape(name)}{equals}{_escape(value)}")
    target = "/".join(segments) + (question if pairs else "") + "&".join(pairs)
    return url._with(target, "")


def _escape(text: str) -> str:
    # Bytes that are not UTF-8 stay as they are.
    return quote(unquote_plus(text, errors="surrogateescape"), safe="", errors="surrogateescape")


def _find_credentials(profile: str | None) -> _Credentials:
    from botocore.exceptions import NoCredentialsError
    from botocore.session import Session

    found: _Credentials | None = Session(profile=profile).get_credentials()
    if found is None:
        raise NoCredentialsError
    return found


def _make_signer(service: str) -> Callable[[AWSKeys, str, str, str], SigV4Auth]:
    try:
        from botocore.auth import S3SigV4Auth, SigV4Auth
    except ImportError as error:
        raise ImportError(
            "AWSSigV4 needs botocore: pip install 'curlhttp[aws]'", name="botocore"
        ) from error

    class Signer(S3SigV4Auth if service in _S3_SERVICES else SigV4Auth):  # type: ignore[misc]
        """botocore's signer, for a body that is already hashed."""

        def __init__(self, keys: AWSKeys, service: str, region: str, checksum: str) -> None:
            super().__init__(keys, service, region)
            self._checksum = checksum

        def payload(self, request: object) -> str:
            return self._checksum

    return Signer
