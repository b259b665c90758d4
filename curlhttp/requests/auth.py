"""Authentication: callables that add credentials to a prepared request."""

from __future__ import annotations

import re
import secrets
import threading
import warnings
from base64 import b64encode
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from curlhttp.requests._internal_utils import to_native_string
from curlhttp.requests.cookies import extract_cookies_to_jar
from curlhttp.requests.utils import parse_dict_header

if TYPE_CHECKING:
    from curlhttp.requests._types import HookType
    from curlhttp.requests.models import PreparedRequest, Response

__all__ = [
    "CONTENT_TYPE_FORM_URLENCODED", "CONTENT_TYPE_MULTI_PART", "AuthBase", "HTTPBasicAuth",
    "HTTPDigestAuth", "HTTPProxyAuth", "extract_cookies_to_jar", "parse_dict_header",
    "to_native_string",
]  # fmt: skip

CONTENT_TYPE_FORM_URLENCODED = "application/x-www-form-urlencoded"
CONTENT_TYPE_MULTI_PART = "multipart/form-data"

_DIGEST = re.compile("digest ", re.IGNORECASE)


class AuthBase:
    """Authenticate requests: subclasses change the request they are called with."""

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        """Return the request with credentials."""
        raise NotImplementedError("Auth hooks must be callable.")


class _UserAuth(AuthBase):
    """Base of those with a user name and a password; two with the same ones are equal."""

    def __init__(self, username: object, password: object) -> None:
        self.username = username
        self.password = password

    def __eq__(self, other: object) -> bool:
        return bool(
            self.username == getattr(other, "username", None)
            and self.password == getattr(other, "password", None)
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


# --- Basic ---


def _basic_auth_str(username: object, password: object) -> str:
    """Return the value of an Authorization header; text is Latin-1."""
    pair = []
    for what, value, shown in (
        ("usernames", username, username),
        ("passwords", password, type(password)),
    ):
        if not isinstance(value, (str, bytes)):
            warnings.warn(
                f"Non-string {what} will no longer be supported in Requests 3.0.0. Please convert"
                f" the object you've passed in ({shown!r}) to a string or bytes object in the near"
                " future to avoid problems.",
                DeprecationWarning,
                stacklevel=1,
            )
            value = str(value)
        pair.append(value if isinstance(value, bytes) else value.encode("latin-1"))
    return "Basic " + b64encode(b":".join(pair)).decode("ascii")


class HTTPBasicAuth(_UserAuth):
    """Send a user name and a password with every request."""

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        """Set Authorization."""
        r.headers["Authorization"] = _basic_auth_str(self.username, self.password)
        return r


class HTTPProxyAuth(HTTPBasicAuth):
    """Send a user name and a password for the proxy."""

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        """Set Proxy-Authorization."""
        r.headers["Proxy-Authorization"] = _basic_auth_str(self.username, self.password)
        return r


# --- Digest ---


class HTTPDigestAuth(_UserAuth):
    """Answer Digest challenges; each thread has its own nonce and count."""

    def __init__(self, username: object, password: object) -> None:
        super().__init__(username, password)
        self._thread_local = threading.local()

    def init_per_thread_state(self) -> None:
        """Set up the state of this thread, unless it has one."""
        state = self._thread_local
        if hasattr(state, "init"):
            return
        state.init = True
        state.last_nonce = ""
        state.nonce_count = 0
        state.chal = {}
        state.pos = None
        state.num_401_calls = None

    def build_digest_header(self, method: str, url: str) -> str | None:
        """Return the Authorization for the last challenge; None if it is not supported."""
        from curlhttp._features.auth import digest

        state = self._thread_local
        offered = state.chal
        algorithm = offered.get("algorithm")
        name, is_session = digest.parse_algorithm("MD5" if algorithm is None else algorithm)
        # Some servers, and requests, call SHA-1 "SHA".
        hash_name = "sha1" if name == "SHA" else digest.ALGORITHMS.get(name)
        qops = [qop.strip().lower() for qop in (offered.get("qop") or "").split(",")]
        if hash_name is None or not {"", "auth"} & set(qops):
            return None
        realm, nonce, opaque = offered.get("realm"), offered.get("nonce"), offered.get("opaque")
        if realm is None or nonce is None:
            return None
        state.nonce_count = state.nonce_count + 1 if nonce == state.last_nonce else 1
        state.last_nonce = nonce

        parts = urlsplit(url)
        uri = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        username, count, cnonce = (
            _to_text(self.username),
            f"{state.nonce_count:08x}",
            _make_cnonce(),
        )
        secret = digest.compute_a1(
            hash_name,
            *map(str.encode, (username, realm, _to_text(self.password))),
            *map(str.encode, (nonce, cnonce) if is_session else ()),
        )
        use = (nonce, count, cnonce, "auth") if "auth" in qops else (nonce,)
        response = digest.compute_response(
            hash_name, secret, str(method), uri, *map(str.encode, use)
        )

        header = (
            f'Digest username="{username}", realm="{realm}", nonce="{nonce}", uri="{uri}",'
            f' response="{response}"'
        )
        if opaque:
            header += f', opaque="{opaque}"'
        if algorithm:
            header += f', algorithm="{algorithm}"'
        if "auth" in qops:
            header += f', qop="auth", nc={count}, cnonce="{cnonce}"'
        return header

    def handle_redirect(self, r: Response, **kwargs: object) -> None:
        """Allow the next hop to answer a challenge."""
        if r.is_redirect:
            self._thread_local.num_401_calls = 1

    def handle_401(self, r: Response, **kwargs: Any) -> Response:
        """Answer a challenge, once.

        Args:
            r: any response.
            kwargs: the adapter's arguments.

        Returns:
            The response to the signed request, or `r`.
        """
        from curlhttp.requests._unread_bodies import keep_start

        self.init_per_thread_state()
        state = self._thread_local
        if not 400 <= r.status_code < 500:
            state.num_401_calls = 1
            return r
        if state.pos is not None and hasattr(r.request.body, "seek"):
            r.request.body.seek(state.pos)
        challenge = r.headers.get("www-authenticate", "")
        if "digest" not in challenge.lower() or (state.num_401_calls or 1) >= 2:
            state.num_401_calls = 1
            return r
        state.num_401_calls = 2
        state.chal = parse_dict_header(_DIGEST.sub("", challenge, count=1))
        keep_start(r)
        again = r.request.copy()
        extract_cookies_to_jar(again._cookies, r.request, r.raw)
        again.prepare_cookies(again._cookies)
        self._sign(again)
        response: Response = r.connection.send(again, **kwargs)
        response.history.append(r)
        response.request = again
        return response

    def _sign(self, r: PreparedRequest) -> None:
        header = self.build_digest_header(str(r.method), str(r.url))
        if header:
            r.headers["Authorization"] = header

    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        """Set Authorization after an earlier challenge, and register hooks for the next one."""
        self.init_per_thread_state()
        state = self._thread_local
        if state.last_nonce:
            self._sign(r)
        try:
            state.pos = r.body.tell()
        except (AttributeError, OSError):
            state.pos = None  # it cannot be rewound
        r.register_hook("response", self.handle_401)
        r.register_hook("response", self.handle_redirect)
        state.num_401_calls = 1
        return r


def remove_digest_hooks(request: PreparedRequest) -> None:
    """Remove the Digest hooks of a request that goes to another origin."""
    hooks = [
        hook
        for hook in request.hooks.get("response", ())
        if not isinstance(getattr(hook, "__self__", None), HTTPDigestAuth)
    ]
    request.hooks = {**request.hooks, "response": hooks}


def remove_auth_hooks(hooks: dict[str, list[HookType]]) -> dict[str, list[HookType]]:
    """Return hooks without those of an auth, because they hold its password."""
    return {
        event: [each for each in found if not isinstance(getattr(each, "__self__", None), AuthBase)]
        for event, found in hooks.items()
    }


def _to_text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _make_cnonce() -> str:
    return secrets.token_hex(8)
