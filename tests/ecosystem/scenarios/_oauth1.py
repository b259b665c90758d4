"""What a service does with a request that is signed by OAuth 1: it signs it again and compares."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import parse_qsl, quote, unquote

from tests.servers import Record


def verify_signature(record: Record, base: str, secrets: tuple[str, str]) -> dict[str, str]:
    """Check the HMAC-SHA1 signature in the Authorization header; returns its fields.

    Args:
        record: the request.
        base: the URL of the service without its path.
        secrets: of the client and of the token.
    """
    values = record.values("authorization")
    assert len(values) == 1, values
    scheme, _, rest = values[0].partition(" ")
    assert scheme == "OAuth", values
    fields = {}
    for item in rest.split(","):
        name, _, value = item.strip().partition("=")
        fields[unquote(name)] = unquote(value.strip('"'))
    signature = fields.pop("oauth_signature")
    assert fields["oauth_signature_method"] == "HMAC-SHA1"
    pairs = [*fields.items(), *record.pairs]
    if record.header("content-type") == "application/x-www-form-urlencoded":
        pairs += parse_qsl(record.body.decode("ascii"), keep_blank_values=True)
    normal = "&".join(f"{name}={value}" for name, value in sorted((_q(n), _q(v)) for n, v in pairs))
    text = "&".join([record.method, _q(base + record.path), _q(normal)])
    key = "&".join(_q(secret) for secret in secrets)
    digest = hmac.new(key.encode(), text.encode(), hashlib.sha1).digest()
    assert signature == base64.b64encode(digest).decode(), (text, signature)
    return fields


def _q(text: str) -> str:
    return quote(text, safe="~")
