"""Routes that require credentials: Basic, Bearer, and Digest as RFC 7616 verifies it.

The server's side only, written from the RFC so that the client is not checked against itself.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets

from tests.servers.record import Record
from tests.servers.routes import Out, Route

REALM = "test"
_FIELD = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]*))')


def basic(record: Record, out: Out) -> None:
    pair = f"{record.query('user')}:{record.query('password')}".encode()
    expected = "Basic " + base64.b64encode(pair).decode("ascii")
    _answer(out, record.header("authorization") == expected, f'Basic realm="{REALM}"')


def bearer(record: Record, out: Out) -> None:
    expected = f"Bearer {record.query('token')}"
    _answer(out, record.header("authorization") == expected, f'Bearer realm="{REALM}"')


def digest(record: Record, out: Out) -> None:
    algorithm, qop = record.query("algorithm", "MD5"), record.query("qop", "auth")
    single_use = record.query("stale") == "1"
    fields = digest_fields(record.header("authorization") or "")
    nonce = fields.get("nonce", "")
    stale = single_use and out.memory.nonces.get(nonce, 0) > 0
    good = not stale and _digest_is_right(record, fields, algorithm, qop, out.memory.nonces)
    _answer(out, good, "" if good else _challenge(out, algorithm, qop, stale))


def digest_fields(header: str) -> dict[str, str]:
    """Return the parameters of a Digest Authorization header; {} for anything else."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "digest":
        return {}
    return {
        name.lower(): re.sub(r"\\(.)", r"\1", quoted) or bare
        for name, quoted, bare in _FIELD.findall(rest)
    }


def _answer(out: Out, good: bool, challenge: str) -> None:
    if good:
        out.reply(200, b"welcome")
    else:
        out.reply(401, b"who are you?", [("WWW-Authenticate", challenge)])


def _challenge(out: Out, algorithm: str, qop: str, stale: bool) -> str:
    nonce = secrets.token_hex(16)
    out.memory.nonces[nonce] = 0
    parts = [f'realm="{REALM}"', f'nonce="{nonce}"', f"algorithm={algorithm}", 'opaque="o"']
    parts += [f'qop="{qop}"'] if qop else []
    parts += ["stale=true"] if stale else []
    return "Digest " + ", ".join(parts)


def _digest_is_right(
    record: Record, fields: dict[str, str], algorithm: str, qop: str, nonces: dict[str, int]
) -> bool:
    nonce, count = fields.get("nonce", ""), int(fields.get("nc") or "1", 16)
    user = fields.get("username", "").encode("latin-1").decode("utf-8", "replace")
    right = (
        user == record.query("user")
        and fields.get("realm") == REALM
        and fields.get("uri") == record.target
        and fields.get("opaque") == "o"
        and fields.get("qop", "") == qop.split(",")[0].strip()
        # RFC 7616 section 3.4: the count rises with each use of a nonce, or it is a replay.
        and nonce in nonces
        and (not qop or count > nonces[nonce])
        and fields.get("response") == _expected(record, fields, algorithm)
    )
    if right:
        nonces[nonce] = max(count, nonces[nonce])
    return right


def _expected(record: Record, fields: dict[str, str], algorithm: str) -> str:
    def hashed(*parts: str) -> str:
        data = ":".join(parts).encode()
        name = algorithm.upper().removesuffix("-SESS").replace("SHA-", "sha").replace("-", "_")
        return hashlib.new(name, data, usedforsecurity=False).hexdigest()

    nonce, cnonce = fields.get("nonce", ""), fields.get("cnonce", "")
    first = hashed(record.query("user"), REALM, record.query("password"))
    if algorithm.lower().endswith("-sess"):
        first = hashed(first, nonce, cnonce)
    second = hashed(record.method, fields.get("uri", ""))
    if qop := fields.get("qop"):
        return hashed(first, nonce, fields.get("nc", ""), cnonce, qop, second)
    return hashed(first, nonce, second)


AUTH: dict[str, Route] = {"/basic": basic, "/bearer": bearer, "/digest": digest}
