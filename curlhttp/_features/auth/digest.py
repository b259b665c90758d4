"""Authentication challenges, and Digest (RFC 7616). Loaded with the first DigestAuth."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import unicodedata
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from curlhttp._http.auth import Auth, AuthFlow
from curlhttp._http.credentials import encode_credential
from curlhttp._http.request import ENDPOINTS, NEXT_ATTEMPT
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.url import parse_url

if TYPE_CHECKING:
    from curlhttp._http.headers import Headers
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110, section 5.6.2
# No control characters, because the value is sent back to the server in a header.
_QUOTED = r'"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*)"'
_PARAMETER = re.compile(rf"({_TOKEN})[ \t]*=[ \t]*(?:{_QUOTED}|({_TOKEN}))(?=[ \t]*(?:,|$))")
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+|(?=,)|$)")
_TOKEN68 = re.compile(r"([A-Za-z0-9._~+/-]+=*)[ \t]*(?=,|$)")
_SEPARATORS = re.compile(r"[ \t,]*")

_UTF8, _LATIN1 = "utf-8", frozenset({"iso-8859-1", "latin-1", "latin1"})

# Strongest first, which a client prefers (RFC 7616, section 3.7). SHA-512 is not in the RFC, but
# some servers and requests support it.
ALGORITHMS = {
    name: hash_name
    for name, hash_name in (
        ("SHA-512", "sha512"),
        ("SHA-512-256", "sha512_256"),
        ("SHA-256", "sha256"),
        ("MD5", "md5"),
    )
    if hash_name in hashlib.algorithms_available
}
_MAX_ORIGINS = 256  # for which one DigestAuth keeps a session
_MAX_NONCES = 4096  # of which it knows how often they were used
_MAX_ANSWERS = 10  # to the challenges of one request


# --- challenges ---


@dataclass(frozen=True)
class Challenge:
    """One challenge of WWW-Authenticate; scheme and parameter names in lower case."""

    scheme: str
    parameters: dict[str, str] = field(default_factory=dict)
    token68: str | None = None


def parse_challenges(values: Iterable[str]) -> list[Challenge]:
    """Parse WWW-Authenticate values, each with one or more challenges (RFC 9110, section 11.6.1).

    The parser ignores the rest of a value from the first invalid challenge on.
    """
    return [challenge for value in values for challenge in _parse_value(value)]


def _parse_value(value: str) -> Generator[Challenge, None, None]:
    current: Challenge | None = None
    position = _skip(value, 0)
    while position < len(value):
        # "name = value" is a parameter of the challenge before; anything else starts a new one.
        if current is not None and (match := _PARAMETER.match(value, position)):
            name, text = _parameter(match)
            current.parameters.setdefault(name, text)
        elif match := _SCHEME.match(value, position):
            if current is not None:
                yield current
            token = _TOKEN68.match(value, match.end())
            # "Negotiate, Basic" has no token68, and "Basic realm=x" matches only up to "=".
            current = Challenge(match[1].lower(), {}, token[1] if token else None)
            match = token or match
        else:
            break
        position = _skip(value, match.end())
    if current is not None:
        yield current


def _skip(value: str, position: int) -> int:
    match = _SEPARATORS.match(value, position)
    return match.end() if match else position


def _parameter(match: re.Match[str]) -> tuple[str, str]:
    name, quoted, token = match.groups()
    return name.lower(), token if quoted is None else re.sub(r"\\(.)", r"\1", quoted)


def parse_parameters(value: str) -> dict[str, str]:
    """Parse a list of parameters, such as Authentication-Info (RFC 7615)."""
    parameters: dict[str, str] = {}
    position = _skip(value, 0)
    # Not finditer(): it tries at each character, which is quadratic for a hostile value.
    while match := _PARAMETER.match(value, position):
        name, text = _parameter(match)
        parameters.setdefault(name, text)
        position = _skip(value, match.end())
    return parameters


# --- hashes (RFC 7616, section 3.4) ---


def parse_algorithm(name: str) -> tuple[str, bool]:
    """Return an algorithm's name without "-sess", in upper case, and whether it had "-sess".

    Args:
        name: as in a challenge, such as "SHA-256-sess".
    """
    upper = name.upper()
    return upper.removesuffix("-SESS"), upper.endswith("-SESS")


def hash_parts(hash_name: str, *parts: bytes) -> str:
    """Return the hash of the parts, joined by colons, in hexadecimal digits.

    Args:
        hash_name: of hashlib.
        parts: to hash.
    """
    return hashlib.new(hash_name, b":".join(parts), usedforsecurity=False).hexdigest()


def compute_a1(
    hash_name: str, username: bytes, realm: bytes, password: bytes, *nonces: bytes
) -> bytes:
    """Return the hash of A1 (RFC 7616, section 3.4.2), in hexadecimal digits.

    Args:
        hash_name: of hashlib.
        username: in the charset of the challenge, like realm and password.
        realm: of the challenge.
        password: of the user.
        nonces: for "-sess", the server's and the client's nonce.
    """
    secret = hash_parts(hash_name, username, realm, password)
    return hash_parts(hash_name, secret.encode(), *nonces).encode() if nonces else secret.encode()


def compute_response(
    hash_name: str, secret: bytes, method: str, target: str, nonce: bytes, *use: bytes
) -> str:
    """Return the `response` parameter (RFC 7616, section 3.4.1).

    Args:
        hash_name: of hashlib.
        secret: see compute_a1.
        method: of the request.
        target: of the request line.
        nonce: the server's.
        use: with a qop: the count, the client's nonce and the qop.
    """
    request = hash_parts(hash_name, method.encode(), target.encode())
    return hash_parts(hash_name, secret, nonce, *use, request.encode())


# --- Digest ---


@with_suggestions("DigestAuth")
class DigestAuth(Auth):
    """Authenticate with Digest (RFC 7616; RFC 2069 if the server offers no qop).

    Supports MD5, SHA-256, SHA-512 and SHA-512-256 (if OpenSSL has it), each also with "-sess", and
    the qop "auth". Later requests to the same origin reuse the nonce and need no challenge, also
    requests at the same time: each has its own number, so no server takes one for a replay.

    Args:
        username: a str, which is sent as UTF-8, or in the charset of the challenge if that is
            ISO-8859-1; or bytes, which are sent as they are.
        password: the same; both are in the same charset.
        cnonce: a function that returns a new client nonce; random by default.

    Raises:
        ValueError: the text has a lone surrogate, for which there is no UTF-8.
    """

    def __init__(
        self,
        username: str | bytes,
        password: str | bytes,
        *,
        cnonce: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        for value in (username, password):
            encode_credential(value)  # raises now if it cannot be sent
        self._username = username
        self._password = password
        self._cnonce = cnonce
        self._lock = threading.Lock()
        self._sessions: dict[str, _DigestSession] = {}
        self._counts: dict[str, int] = {}  # how often each nonce was used, the latest one last

    def auth_flow(self, request: ClientRequest) -> AuthFlow:
        """Yield the request, and yield it again with credentials if it is challenged."""
        origin = request.url.origin
        session = self._sessions.get(origin)
        use = None if session is None else self._sign(session, request)
        response = yield request
        answers = 0
        # A middleware below may have sent the request to another origin.
        while response.status_code == 401 and _get_origin(response) == origin:
            challenge = _best_challenge(response.headers)
            if challenge is None or (
                answers and not self._may_answer_again(answers, challenge, session, use)
            ):
                break
            session = self._start_session(origin, challenge)
            request = request.copy()
            if request.body is not None:
                request.body.rewind()
            use = self._sign(session, request)
            response = yield request
            answers += 1
        self._finish(origin, session, response)

    def _may_answer_again(
        self,
        answers: int,
        challenge: Challenge,
        session: _DigestSession | None,
        use: tuple[str, int] | None,
    ) -> bool:
        """Return whether an answer may have been refused for its nonce, not for its credentials."""
        is_stale = _is_stale(challenge)
        if answers == 1 and is_stale:
            return True
        if session is None or use is None or not (is_stale or session.was_accepted):
            return False
        # Some servers refuse a count after a higher one, which another request may have had.
        nonce, count = use
        return answers < _MAX_ANSWERS and self._counts.get(nonce, count) > count

    def _sign(self, session: _DigestSession, request: ClientRequest) -> tuple[str, int]:
        """Set Authorization, and return the nonce and its count."""
        nonce = session.nonce
        count = self._count(nonce)
        method, target = request.method, request.url.target
        signed = session.authorization(method, target, nonce, count)

        own = {signed}

        def sign_again(attempt: ClientRequest) -> None:
            # Not if a middleware or a redirect has changed the field.
            if attempt.get_header("authorization") in own:
                again = session.authorization(method, target, nonce, self._count(nonce))
                attempt.headers["Authorization"] = again
                own.add(again)

        request.headers["Authorization"] = signed
        request._extend(NEXT_ATTEMPT, sign_again)
        return nonce, count

    def _count(self, nonce: str) -> int:
        """Return how often a nonce was used, with the use that follows."""
        with self._lock:
            # By nonce, not by session: several requests may get the same one in their challenges,
            # and a server may repeat one that it has refused.
            self._counts[nonce] = count = self._counts.pop(nonce, 0) + 1
            while len(self._counts) > _MAX_NONCES:
                del self._counts[next(iter(self._counts))]
        return count

    def _start_session(self, origin: str, challenge: Challenge) -> _DigestSession:
        known = self._sessions.get(origin)
        if known is not None and known.answers(challenge):
            return known  # of another request that was challenged at the same time
        session = _DigestSession(challenge, self._username, self._password, self._cnonce())
        if known is not None:
            session.was_accepted = known.was_accepted
        with self._lock:
            self._sessions.pop(origin, None)
            while len(self._sessions) >= _MAX_ORIGINS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[origin] = session
        return session

    def _finish(self, origin: str, session: _DigestSession | None, response: Response) -> None:
        """Drop a session that was refused; otherwise store the next nonce."""
        if session is None:
            return
        with self._lock:
            if response.status_code == 401:
                if self._sessions.get(origin) is session:
                    del self._sessions[origin]
                return
            session.was_accepted = True
            info = response.headers.get("authentication-info")
            following = parse_parameters(info).get("nextnonce") if info else None
            if following and following != session.nonce:
                session.nonce = following


class _DigestSession:
    """The credentials for one challenge, and the current nonce."""

    def __init__(
        self, challenge: Challenge, username: str | bytes, password: str | bytes, cnonce: str
    ) -> None:
        self._challenge = challenge
        self.was_accepted = False  # or one with the same credentials before it
        offered = challenge.parameters
        name, is_session = _get_algorithm(challenge)
        self.nonce = offered["nonce"]
        self._hash_name = ALGORITHMS[name]
        self._cnonce = cnonce
        self._has_qop = bool(offered.get("qop"))
        charset = offered.get("charset", "").lower()
        user, secret = _encode_pair(username, password, charset)
        realm = _to_wire(offered.get("realm", ""))
        # The nonces of the first request count for all that follow (section 3.4.2).
        nonces = (_to_wire(self.nonce), _to_wire(cnonce)) if is_session else ()
        self._secret = compute_a1(self._hash_name, user, realm, secret, *nonces)

        if hides_user := _is_true(offered.get("userhash")):
            who = f'username="{hash_parts(self._hash_name, user, realm)}"'
        elif charset == _UTF8 and not user.isascii():
            who = f"username*=UTF-8''{quote(user, safe='')}"
        else:
            who = f"username={_quote(user.decode('latin-1'))}"
        self._start = f"Digest {who}, realm={_quote(offered.get('realm', ''))}"
        options = {
            "algorithm": offered.get("algorithm"),
            "opaque": _quote(offered["opaque"]) if "opaque" in offered else None,
            "userhash": "true" if hides_user else None,
            # Without a qop, only "-sess" needs the client's nonce.
            "cnonce": _quote(cnonce) if self._has_qop or is_session else None,
        }
        self._end = "".join(f", {key}={text}" for key, text in options.items() if text)

    def answers(self, challenge: Challenge) -> bool:
        """Return whether these credentials are for a challenge."""
        return challenge == self._challenge and self.nonce == challenge.parameters["nonce"]

    def authorization(self, method: str, target: str, nonce: str, count: int) -> str:
        """Return the value of Authorization for the count-th request with the nonce."""
        use = (f"{count:08x}", self._cnonce, "auth") if self._has_qop else ()
        response = compute_response(
            self._hash_name, self._secret, method, target, *map(_to_wire, (nonce, *use))
        )
        qop = f", qop=auth, nc={count:08x}" if use else ""
        return (
            f"{self._start}, nonce={_quote(nonce)}, uri={_quote(target)}, "
            f'response="{response}"{self._end}{qop}'
        )


def _best_challenge(headers: Headers) -> Challenge | None:
    """Return the strongest Digest challenge that is supported."""
    answerable = [
        challenge
        for challenge in parse_challenges(headers.get_list("www-authenticate"))
        if challenge.scheme == "digest"
        and "nonce" in challenge.parameters
        and _get_algorithm(challenge)[0] in ALGORITHMS
        and _offers_auth(challenge.parameters.get("qop", ""))
    ]
    strength = list(ALGORITHMS)
    return min(answerable, key=lambda it: strength.index(_get_algorithm(it)[0]), default=None)


def _get_algorithm(challenge: Challenge) -> tuple[str, bool]:
    """Return the algorithm's name, and whether it is the "-sess" form."""
    return parse_algorithm(challenge.parameters.get("algorithm", "MD5"))


def _offers_auth(qop: str) -> bool:
    # Not auth-int, which hashes a body that may not have been produced yet.
    return not qop or "auth" in re.split(r"[\s,]+", qop.lower())


def _get_origin(response: Response) -> str:
    """Return the origin that a response comes from: of several endpoints, their common one."""
    url = parse_url(response.url)
    rotation = (response.request.extensions or {}).get(ENDPOINTS)
    return url.origin if rotation is None else str(rotation.get_origin(url))


def _is_stale(challenge: Challenge) -> bool:
    return _is_true(challenge.parameters.get("stale"))


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() == "true"


def _encode_pair(username: str | bytes, password: str | bytes, charset: str) -> tuple[bytes, bytes]:
    """Return both in the charset of a challenge, or else in UTF-8."""

    def encode(text: str | bytes) -> bytes:
        if isinstance(text, bytes):
            return text
        if charset in _LATIN1:  # the RFC has no such value, but servers do
            return text.encode("latin-1")
        # In NFC (section 4).
        return encode_credential(unicodedata.normalize("NFC", text) if charset == _UTF8 else text)

    try:
        return encode(username), encode(password)
    except UnicodeEncodeError:
        return encode_credential(username), encode_credential(password)


def _to_wire(text: str) -> bytes:
    """Return a text of a header, which stands for bytes by Latin-1."""
    return text.encode("latin-1", "replace")


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
