"""User names and passwords: text for programs, bytes for servers.

Text is sent as UTF-8, for Basic (RFC 7617) and for proxies; Digest also follows its challenge. In
text, surrogates stand for bytes that are not UTF-8, as `os.fsdecode` returns them: a URL or a
command line may have such bytes.
"""

from __future__ import annotations

from curlhttp._http.percent import unquote


def encode_credential(text: str | bytes) -> bytes:
    """Encode a user name or password in UTF-8; bytes stay as they are.

    Raises:
        TypeError: it is neither str nor bytes.
        ValueError: it has a surrogate that stands for no byte.
    """
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"a user name or password must be str or bytes, not {type(text).__name__}")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # without its cause, whose `object` is the password
        raise ValueError("a user name or password has a lone surrogate; pass bytes") from None


def unquote_credential(text: str) -> str:
    """Decode the percent-encoded user name or password of a URL."""
    return unquote(text, errors="surrogateescape")
