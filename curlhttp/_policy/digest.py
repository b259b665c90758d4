"""Challenges, and how Digest answers them (RFC 7616). Loaded with the first DigestAuth."""

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

from curlhttp._models.url import parse_url
from curlhttp._policy.auth import Auth, AuthFlow, encoded

if TYPE_CHECKING:
    from curlhttp._models.headers import Headers
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response

__all__ = ["Challenge", "DigestAuth", "parse_challenges", "parse_parameters"]

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110, section 5.6.2
# No control characters: what is quoted here goes back to the server in a header of ours.
_QUOTED = r'"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*)"'
_PARAMETER = re.compile(rf"({_TOKEN})[ \t]*=[ \t]*(?:{_QUOTED}|({_TOKEN}))(?=[ \t]*(?:,|$))")
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+|(?=,)|$)")
_TOKEN68 = re.compile(r"([A-Za-z0-9._~+/-]+=*)[ \t]*(?=,|$)")
_SEPARATORS = re.compile(r"[ \t,]*")

# Strongest first: the order in which a client prefers them (RFC 7616, section 3.7). SHA-512 is not
# in the RFC; it is what some servers and requests have.
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
_MOST_ORIGINS = 256  # sessions that one DigestAuth remembers


# --- challenges ---


@dataclass(frozen=True)
class Challenge:
    """Hold one challenge of WWW-Authenticate; scheme and parameter names in lower case."""

    scheme: str
    parameters: dict[str, str] = field(default_factory=dict)
    token68: str | None = None


def parse_challenges(values: Iterable[str]) -> list[Challenge]:
    """Parse WWW-Authenticate values, several challenges in one or not (RFC 9110, 11.6.1).

    Parsing a value ends at the first thing that is no challenge; what came before it counts.
    """
    return [challenge for value in values for challenge in _parse_value(value)]


def _parse_value(value: str) -> Generator[Challenge, None, None]:
    current: Challenge | None = None
    position = _skip(value, 0)
    while position < len(value):
        # "name = value" belongs to the challenge before it; anything else begins a new one.
        if current is not None and (match := _PARAMETER.match(value, position)):
            name, text = _parameter(match)
            current.parameters.setdefault(name, text)
        elif match := _SCHEME.match(value, position):
            if current is not None:
                yield current
            token = _TOKEN68.match(value, match.end())
            # "Negotiate, Basic" has no token68; "Basic realm=x" matches only up to "=".
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
    """Parse a bare list of parameters, such as Authentication-Info (RFC 7615)."""
    parameters: dict[str, str] = {}
    position = _skip(value, 0)
    # Not finditer(): it tries again at each character, quadratic for a hostile value.
    while match := _PARAMETER.match(value, position):
        name, text = _parameter(match)
        parameters.setdefault(name, text)
        position = _skip(value, match.end())
    return parameters


# --- the arithmetic (RFC 7616, section 3.4) ---


def algorithm_of(name: str) -> tuple[str, bool]:
    """Return the name of an algorithm's hash, in upper case, and whether it is the -sess form.

    Args:
        name: as a challenge has it, such as "SHA-256-sess".
    """
    upper = name.upper()
    return upper.removesuffix("-SESS"), upper.endswith("-SESS")


def hashed(hash_name: str, *parts: bytes) -> str:
    """Return the hash of the parts, joined by colons, in hexadecimal digits.

    Args:
        hash_name: one of hashlib's.
        parts: what is hashed.
    """
    return hashlib.new(hash_name, b":".join(parts), usedforsecurity=False).hexdigest()


def digest_secret(
    hash_name: str, username: bytes, realm: bytes, password: bytes, *nonces: bytes
) -> bytes:
    """Return the hash of A1 (RFC 7616, section 3.4.2), in hexadecimal digits.

    Args:
        hash_name: one of hashlib's.
        username: in the charset of the challenge, like the two that follow.
        realm: of the challenge.
        password: of the user.
        nonces: for the -sess form the server's and the client's, in that order.
    """
    secret = hashed(hash_name, username, realm, password)
    return hashed(hash_name, secret.encode(), *nonces).encode() if nonces else secret.encode()


def digest_response(
    hash_name: str, secret: bytes, method: str, target: str, nonce: bytes, *use: bytes
) -> str:
    """Return what proves that the secret is known (RFC 7616, section 3.4.1).

    Args:
        hash_name: one of hashlib's.
        secret: see digest_secret.
        method: of the request.
        target: what the request line asks for.
        nonce: the server's.
        use: where there is a qop: the count, the client's nonce and the qop.
    """
    request = hashed(hash_name, method.encode(), target.encode())
    return hashed(hash_name, secret, nonce, *use, request.encode())


# --- Digest ---


class DigestAuth(Auth):
    """Answer Digest challenges (RFC 7616, and RFC 2069 where a server offers no qop).

    Knows MD5, SHA-256, SHA-512 and SHA-512-256 (where OpenSSL has it), each also as -sess, and qop
    auth. A nonce is used again, and sent unasked, for later requests to the same origin.

    Args:
        username: the user's name.
        password: the password.
        cnonce: a function that returns a fresh client nonce; random by default.
    """

    def __init__(
        self,
        username: str,
        password: str,
        *,
        cnonce: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._username = username
        self._password = password
        self._cnonce = cnonce
        self._lock = threading.Lock()
        self._sessions: dict[str, _DigestSession] = {}

    def auth_flow(self, request: Request) -> AuthFlow:
        """Yield the request, and again with an answer when it is challenged."""
        origin = request.url.origin
        session = self._sessions.get(origin)
        if session is not None:
            request.headers["Authorization"] = self._sign(session, request)
        response = yield request
        # One answer; a second one only for a nonce that the server calls stale.
        for is_last in (False, True):
            if response.status_code != 401 or parse_url(response.url).origin != origin:
                break  # a middleware below may have gone to another origin
            challenge = _best_challenge(response.headers)
            if challenge is None or (is_last and not _is_stale(challenge)):
                break
            session = self._begin(origin, challenge)
            response = yield self._answer(session, request)
        self._conclude(origin, session, response)

    def _answer(self, session: _DigestSession, request: Request) -> Request:
        again = request.copy()
        if again.body is not None:
            again.body.rewind()
        again.headers["Authorization"] = self._sign(session, again)
        return again

    def _sign(self, session: _DigestSession, request: Request) -> str:
        with self._lock:
            session.count += 1
            nonce, count = session.nonce, session.count
        return session.authorization(request.method, request.url.target, nonce, count)

    def _begin(self, origin: str, challenge: Challenge) -> _DigestSession:
        session = _DigestSession(challenge, self._username, self._password, self._cnonce())
        with self._lock:
            self._sessions.pop(origin, None)
            while len(self._sessions) >= _MOST_ORIGINS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[origin] = session
        return session

    def _conclude(self, origin: str, session: _DigestSession | None, response: Response) -> None:
        """Forget a session that was refused, and take over the nonce that comes next."""
        if session is None:
            return
        with self._lock:
            if response.status_code == 401:
                if self._sessions.get(origin) is session:
                    del self._sessions[origin]
                return
            info = response.headers.get("authentication-info")
            following = parse_parameters(info).get("nextnonce") if info else None
            if following and following != session.nonce:
                session.nonce, session.count = following, 0


class _DigestSession:
    """One challenge that is being answered: its nonce, how often used, and what never changes."""

    def __init__(self, challenge: Challenge, username: str, password: str, cnonce: str) -> None:
        offered = challenge.parameters
        name, is_session = _algorithm_of(challenge)
        self.nonce = offered["nonce"]
        self.count = 0
        self._hash_name = ALGORITHMS[name]
        self._cnonce = cnonce
        self._has_qop = bool(offered.get("qop"))
        in_utf8 = offered.get("charset", "").lower() == "utf-8"
        user, realm = _in_charset(username, in_utf8), encoded(offered.get("realm", ""))
        # Both nonces are those of the first request, for all that follow (section 3.4.2).
        nonces = (encoded(self.nonce), encoded(cnonce)) if is_session else ()
        self._secret = digest_secret(
            self._hash_name, user, realm, _in_charset(password, in_utf8), *nonces
        )

        if hides_user := _is_true(offered.get("userhash")):
            who = f'username="{hashed(self._hash_name, user, realm)}"'
        elif in_utf8 and not username.isascii():
            who = f"username*=UTF-8''{quote(user, safe='')}"
        else:
            who = f"username={_quoted(user.decode('latin-1'))}"
        self._start = f"Digest {who}, realm={_quoted(offered.get('realm', ''))}"
        options = {
            "algorithm": offered.get("algorithm"),
            "opaque": _quoted(offered["opaque"]) if "opaque" in offered else None,
            "userhash": "true" if hides_user else None,
            # Without a qop only -sess needs the client's nonce.
            "cnonce": _quoted(cnonce) if self._has_qop or is_session else None,
        }
        self._end = "".join(f", {key}={text}" for key, text in options.items() if text)

    def authorization(self, method: str, target: str, nonce: str, count: int) -> str:
        """Return the Authorization value for the count-th request with the nonce."""
        use = (f"{count:08x}", self._cnonce, "auth") if self._has_qop else ()
        response = digest_response(
            self._hash_name, self._secret, method, target, *map(encoded, (nonce, *use))
        )
        qop = f", qop=auth, nc={count:08x}" if use else ""
        return (
            f"{self._start}, nonce={_quoted(nonce)}, uri={_quoted(target)}, "
            f'response="{response}"{self._end}{qop}'
        )


def _best_challenge(headers: Headers) -> Challenge | None:
    """Return the strongest Digest challenge that can be answered."""
    answerable = [
        challenge
        for challenge in parse_challenges(headers.get_list("www-authenticate"))
        if challenge.scheme == "digest"
        and "nonce" in challenge.parameters
        and _algorithm_of(challenge)[0] in ALGORITHMS
        and _offers_auth(challenge.parameters.get("qop", ""))
    ]
    strength = list(ALGORITHMS)
    return min(answerable, key=lambda it: strength.index(_algorithm_of(it)[0]), default=None)


def _algorithm_of(challenge: Challenge) -> tuple[str, bool]:
    """Return the name of the hash and whether its -sess form is asked for."""
    return algorithm_of(challenge.parameters.get("algorithm", "MD5"))


def _offers_auth(qop: str) -> bool:
    # auth-int alone cannot be met: it hashes a body that may not have been produced yet.
    return not qop or "auth" in re.split(r"[\s,]+", qop.lower())


def _is_stale(challenge: Challenge) -> bool:
    return _is_true(challenge.parameters.get("stale"))


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() == "true"


def _in_charset(text: str, in_utf8: bool) -> bytes:
    return unicodedata.normalize("NFC", text).encode() if in_utf8 else encoded(text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
