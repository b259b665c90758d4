"""Redact whole requests and responses: mask credentials, which are found by their names.

Content that cannot be parsed completely may hold credentials, and is masked as a whole. Before
playback compares a request with a recording, it redacts the request in the same way, so that any
value of a masked parameter matches.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import quopri
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, unquote_plus

from curlhttp._http.decoding import chosen_charset, decode_readable
from curlhttp._http.redaction import (
    describes,
    is_secret_header,
    is_secret_member,
    is_secret_parameter,
    redact_field,
    redact_text,
    redact_url,
)

if TYPE_CHECKING:
    from curlhttp._http.headers import Headers
    from curlhttp._http.url import URL

_MASK = "***"
_NO_SECRETS = frozenset({"", "true", "false"})
_MASKED = b"***"  # a body that is masked as a whole
FORM = "application/x-www-form-urlencoded"
_DEEPEST = 5  # of JSON in strings of JSON, and of parts within parts
_ROUNDS = 4  # of masking, until nothing changes: recordings are masked again to be compared

# Other numbers, such as "max_tokens", are not secret.
_SECRET_NUMBER = re.compile(
    r"(?:passwor[dt]|passwd|passphrase|passcode|pwd|secret|(?:^|[-_. ])(?:otp|pass|pin))\Z",
    re.IGNORECASE,
).search

# A string without an end extends to the end of the text.
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)(?:"|\\?\Z)', re.DOTALL).match
_BLOCK = re.compile(r'"""(.*?)(?:"""|\Z)', re.DOTALL).match  # GraphQL's
# JSON may continue in the next line of a server-sent event.
_COLON = re.compile(r"(?:\s|data:)*:(?:\s|data:)*").match
_NUMBER = re.compile(r"-?\d[\d.eE+-]*")
_BRACKETS = re.compile(r"[][{}]").finditer
# GraphQL, XML and others have names without quotes.
_BARE_NAME = re.compile(r"([A-Za-z_$][\w$.-]*)\s*[:=]\s*\Z").search
_LONGEST_BARE_NAME = 100  # characters, including what surrounds it
# For text with a single quotation mark, so that the text between strings looks like strings.
_MEMBER = re.compile(r'"([^"\\]{1,64})"\s*:\s*(?=")').search
_CUT_ESCAPE = re.compile(r"\\u?[0-9A-Fa-f]{0,3}\Z")
_CUT_URL = re.compile(r"://[^/?#\s@]*:[^/?#\s@]*\Z").search  # perhaps in the password
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_PAIRS = re.compile(r"([?&;]|^)([^=&;#?/]*)=([^&;#]*(?:;[^=&;#\s]*(?=[&;#]|\Z))*)")
_WHOLE_FORM = re.compile(r"[^\s=&]+=[^\s=&][^\s&]*(?:&[^\s=&]+=[^\s&]*)*\s*").fullmatch
_WORDS = re.compile(r"\S+")
_USERINFO = re.compile(r"://[^/?#@\s\"]*@")

_START_TAG = re.compile(r"<((?:[\w.-]+:)?([\w.-]+))(?:\s[^<>]*)?(?<!/)>")
_TEXT_NODES = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|(<[^<>]*>)|[^<]*[^<\s][^<]*|<", re.DOTALL
)
_SINGLE_QUOTED = re.compile(r"(?<![\w.-])([\w.-]+)(\s*=\s*)'([^']*)('|\Z)")

_BOUNDARY = re.compile(
    r"\A\s*multipart/.*?;\s*boundary\s*=\s*(?:\"([^\"]+)\"|([^\s;\"]+))", re.IGNORECASE
).search
_BLANK_LINE = re.compile(rb"\r?\n\r?\n").search
_PART_NAMES = re.compile(
    r"[;\s](?:file)?name[*\d]*\s*=\s*(\"(?:[^\"\\]|\\.)*(?:\"|\Z)|[^;\s]+)", re.IGNORECASE
).findall
_FIELDS = re.compile(
    r"^([!#$%&'*+.^_`|~\w-]+):[ \t]*([^\r\n]*(?:\r?\n[ \t]+[^\r\n]*)*)", re.MULTILINE
)
_REQUEST_LINE = re.compile(r"^([A-Z]+ )((?:/|https?://)\S*)", re.MULTILINE)
_FOLD = re.compile(r"\r?\n[ \t]+")

_ASCII = frozenset({"ascii", "latin_1", "utf_8", "utf_8_sig"})
search_charset = re.compile(r"charset\s*=\s*[\"']?([\w.:+-]+)", re.IGNORECASE).search
_IS_TEXT = re.compile(r"text/|.*(?:json|xml|form-url|javascript|graphql|yaml)").match
_CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c\x1d\x1f]").search


class Redactor:
    """Mask credentials in URLs, headers and bodies.

    Args:
        names: further headers, parameters, form fields and members of JSON to mask.
        keeps_kinds: replace digits by "0", and keep empty and Boolean values, so that a program can
            still read what is played back.

    Raises:
        TypeError: the names are one string, each letter of which would count as a name.
    """

    def __init__(self, names: Iterable[str] = (), *, keeps_kinds: bool = False) -> None:
        if isinstance(names, (str, bytes)):
            raise TypeError("secrets must be a list of names, not one string")
        self._names = frozenset(name.lower() for name in names)
        self._keeps_kinds = keeps_kinds

    def stand_in(self, value: str) -> str:
        """Return what replaces the value of a secret."""
        if self._keeps_kinds:
            if value.lower() in _NO_SECRETS:
                return value
            if value.isascii() and value.isdigit():
                return "0"
        return _MASK

    def url(self, url: URL | str) -> str:
        """Return a URL with the values of its secret parameters masked."""
        return self._mask_pairs(redact_url(url))

    def headers(self, headers: Headers) -> list[tuple[str, str]]:
        """Return the fields with secret values masked.

        The names of cookies are kept, and the scheme of Authorization.
        """
        secret = self._names | headers.sensitive
        return [
            (name, self._mask_field(name, value, is_secret=name.lower() in secret))
            for name, value in headers.multi_items()
        ]

    def _mask_field(self, name: str, value: str, *, is_secret: bool) -> str:
        lower = name.lower()
        if lower == "set-cookie":
            cookie, semicolon, attributes = value.partition(";")
            return f"{self._mask_cookie(cookie)}{semicolon}{attributes}"
        if lower == "cookie":
            return "; ".join(map(self._mask_cookie, value.split(";")))
        if is_secret or is_secret_header(name):
            scheme, blank, _ = value.partition(" ")
            is_scheme = blank and lower.endswith("authorization")
            return f"{scheme} {_MASK}" if is_scheme else self.stand_in(value)
        value = redact_field(name, value)
        if "?" in value or lower in {"location", "referer"}:
            value = self._mask_pairs(redact_text(value))
        return self._mask_quoted(value, _DEEPEST) if '"' in value else value

    def _mask_cookie(self, pair: str) -> str:
        name, equals, value = pair.strip().partition("=")
        # Without a name, all of it is the value.
        return f"{name}={self.stand_in(value)}" if equals else _MASK

    def words(self, text: str) -> str:
        """Return a text about an exchange with the secrets of its URLs and JSON masked."""
        text = _WORDS.sub(lambda found: self._mask_pairs(redact_text(found[0])), text)
        return self._mask_quoted(text, _DEEPEST) if '"' in text else text

    def body(self, body: bytes | None, media_type: str) -> bytes:
        """Return a body with its secrets masked; one that is not text is returned unchanged.

        Args:
            body: without content coding, see decode_readable; it may be truncated. None for one
                that cannot be decoded.
            media_type: its Content-Type, or "".
        """
        if body is None:
            return _MASKED
        for _ in range(_ROUNDS):
            masked = self._mask_body(body, media_type, _DEEPEST)
            if masked == body:
                return masked
            body = masked
        return b'"%s"' % _MASKED if "json" in media_type.lower() else _MASKED

    def _mask_body(self, body: bytes, media_type: str, depth: int) -> bytes:
        if not body:
            return body
        kind = media_type.partition(";")[0].strip().lower()
        if kind.startswith("multipart/"):
            return self._mask_multipart(body, media_type, depth)
        found = search_charset(media_type)
        named = None if found is None else chosen_charset(found[1])
        is_read = False
        for charset, is_guess in _guess_charsets(body, named):
            try:  # not final, because it may be truncated
                text = codecs.getincrementaldecoder(charset)("strict").decode(body)
            except UnicodeError:
                continue
            is_read = is_read or not is_guess
            masked = self._mask_text(text, kind, depth)
            if masked != text:
                return _encode(masked, charset)
        is_known = found is None or (named is not None and (is_read or _reads_ascii(named)))
        if _IS_TEXT(kind) and not is_read and _is_unreadable(body, is_known=is_known):
            return _MASKED
        text = body.decode("utf-8", "surrogateescape")
        return _encode(self._mask_text(text, kind, depth), "utf-8")

    def _mask_text(self, text: str, kind: str, depth: int) -> str:
        begin = text[:100].lstrip("\ufeff \t\r\n")
        if kind in ("application/http", "message/http"):
            text = self._mask_message(text)
        if "xml" in kind or begin.startswith("<"):
            text = self._mask_elements(text)
        if '"' in text:
            text = self._mask_quoted(text, depth)
        is_form = kind == FORM or (not kind and not begin.startswith(("{", "[", "<", '"')))
        return self._mask_form(text) if is_form or _WHOLE_FORM(text) else text

    # --- parameters ---

    def _is_secret(self, name: str) -> bool:
        """Return whether a parameter is secret; UTF-16 has NUL between letters."""
        name = unquote_plus(name).replace("\0", "")
        return name.lower() in self._names or is_secret_parameter(name)

    def _mask_form(self, text: str) -> str:
        """Mask a form, whose values may contain ";" and "#", unlike those of a URL."""
        if "=" not in text:
            return text
        return "&".join(map(self._mask_form_field, text.split("&")))

    def _mask_form_field(self, pair: str) -> str:
        name, equals, value = pair.partition("=")
        if equals and self._is_secret(name):
            return f"{name}={self.stand_in(value)}"
        return self._mask_pairs(redact_text(pair))

    def _mask_pairs(self, text: str) -> str:
        """Mask the caller's names, and values that contain JSON."""
        if not (self._names or '"' in text or "%" in text):
            return text
        return _PAIRS.sub(self._mask_pair, text)

    def _mask_pair(self, found: re.Match[str]) -> str:
        lead, name, value = found.groups()
        is_named = unquote_plus(name).replace("\0", "").lower() in self._names
        if is_named or self._contains_secret_json(value, 3):
            return f"{lead}{name}={_MASK}"
        return found[0]

    def _contains_secret_json(self, value: str, depth: int) -> bool:
        """Return whether the value of a parameter contains JSON with a secret."""
        if '"' in value and self._mask_quoted(value, _DEEPEST) != value:
            return True
        if "%" not in value:
            return False
        plain = unquote_plus(value)
        return plain != value and (not depth or self._contains_secret_json(plain, depth - 1))

    # --- JSON, GraphQL and similar text ---

    def _mask_quoted(self, text: str, depth: int) -> str:
        return self._mask_misaligned(_JSONWalker(text).mask(self, depth))

    def _mask_misaligned(self, text: str) -> str:
        """Mask members that follow a surplus quotation mark."""
        parts: list[str] = []
        at = start = 0
        while found := _MEMBER(text, start):
            start = found.end()
            if self.is_secret_string(found[1]):
                value = _STRING(text, start)
                assert value is not None
                parts += text[at : value.start(1)], self.stand_in(value[1])
                at = value.end(1)
                start = max(start + 1, at)
        return "".join([*parts, text[at:]])

    def is_secret_number(self, name: str) -> bool:
        """Return whether a number with this name is secret."""
        return name.lower() in self._names or _SECRET_NUMBER(name) is not None

    def is_secret_string(self, name: str) -> bool:
        """Return whether a string with this name is secret."""
        return name.lower() in self._names or is_secret_member(name)

    def is_own(self, name: str) -> bool:
        """Return whether the caller gave this name: then all of its value is secret."""
        return name.lower() in self._names

    def string(self, raw: str, depth: int) -> str:
        """Return the text between two quotation marks with its secrets masked."""
        if not ("\\" in raw or "=" in raw or "://" in raw):
            return raw
        plain = _unescape(raw)
        if not depth and '"' in plain:
            return _MASK  # too deep to parse
        masked = plain
        if "://" in plain:
            masked = self._mask_pairs(redact_text(_USERINFO.sub("://***@", plain)))
        masked = self._mask_string(masked, depth - 1)
        return raw if masked == plain else _escape(masked)

    def _mask_string(self, text: str, depth: int) -> str:
        if text.lstrip().startswith("<"):
            text = self._mask_elements(text)
        if '"' in text:
            text = self._mask_quoted(text, depth)
        return self._mask_form(text) if _WHOLE_FORM(text) else text

    # --- XML ---

    def _mask_elements(self, text: str) -> str:
        """Mask the text of elements with secret names, and attributes in single quotation marks.

        Attributes in double quotation marks are masked like GraphQL.
        """
        text = _SINGLE_QUOTED.sub(self._mask_attribute, text)
        parts: list[str] = []
        at = 0
        for found in _START_TAG.finditer(text):
            if found.start() < at or not self.is_secret_string(found[2]):
                continue
            end = text.find(f"</{found[1]}", found.end())
            end = len(text) if end < 0 else end
            inner = _TEXT_NODES.sub(
                lambda node: node[1] or self.stand_in(node[0]), text[found.end() : end]
            )
            parts += text[at : found.end()], inner
            at = end
        return "".join([*parts, text[at:]])

    def _mask_attribute(self, found: re.Match[str]) -> str:
        name, equals, value, end = found.groups()
        if not self.is_secret_string(name):
            return found[0]
        return f"{name}{equals}'{self.stand_in(value)}{end}"

    # --- parts ---

    def _mask_message(self, text: str) -> str:
        """Mask the fields of a head anywhere in a text."""
        text = _REQUEST_LINE.sub(
            lambda found: found[1] + self._mask_pairs(redact_text(found[2])), text
        )
        return _FIELDS.sub(self._mask_line, text)

    def _mask_line(self, found: re.Match[str]) -> str:
        name, value = found.groups()
        masked = self._mask_field(name, value, is_secret=name.lower() in self._names)
        return found[0] if masked == value else f"{name}: {masked}"

    def _mask_multipart(self, body: bytes, media_type: str, depth: int) -> bytes:
        boundary = parse_boundary(media_type)
        mark = b"--" + (boundary or "").encode("latin-1", "replace")
        if boundary is None or mark not in body or not depth:
            return _MASKED  # its fields cannot be found
        preamble, *parts = body.split(mark)
        masked = [self._mask_part(part, depth - 1) for part in parts]
        return mark.join([self._mask_body(preamble, "text/plain", depth - 1), *masked])

    def _mask_part(self, part: bytes, depth: int) -> bytes:
        """Return a part of a form, from one boundary to the next, with its secrets masked."""
        if part.startswith(b"--"):  # after the last part
            return part[:2] + self._mask_body(part[2:], "text/plain", depth)
        blank = _BLANK_LINE(part)
        if blank is None:  # a truncated head
            return b"\r\n***\r\n" if part.strip() else part
        head = part[: blank.start()].decode("utf-8", "surrogateescape")
        value = part[blank.end() :]
        ends = b"\r\n" if value.endswith(b"\r\n") else b"\n" if value.endswith(b"\n") else b""
        value = value[: len(value) - len(ends)]
        masked = _MASKED if self._has_secret_name(head) else self._mask_value(value, head, depth)
        masked_head = self._mask_message(head).encode("utf-8", "surrogateescape")
        return masked_head + blank[0] + (masked if value else value) + ends

    def _has_secret_name(self, head: str) -> bool:
        """Return whether the name of a part, or of its file, sounds like a secret."""
        found = [unquote(_ESCAPED.sub(r"\1", name.strip('"')))
                 for name in _PART_NAMES(_FOLD.sub(" ", head))]  # fmt: skip
        # RFC 2231 allows names in pieces, RFC 2047 in base64.
        return any(map(self._is_secret, [*found, "".join(found)])) or any("=?" in n for n in found)

    def _mask_value(self, value: bytes, head: str, depth: int) -> bytes:
        fields = {
            name.lower(): _FOLD.sub(" ", text).strip() for name, text in _FIELDS.findall(head)
        }
        plain = _decode_transfer(value, fields.get("content-transfer-encoding", "").lower())
        if plain is not None:
            plain = decode_readable(plain, [fields.get("content-encoding", "")])
        if plain is None:
            return _MASKED
        masked = self._mask_body(plain, fields.get("content-type", ""), depth)
        if masked == plain:
            return value
        return masked if plain == value else _MASKED


class _JSONWalker:
    """Walk through JSON, or similar text, from one string to the next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0  # the text before this position was read
        self._parts: list[str] = []
        self._inside = 0  # open brackets within a member with a secret name
        self._has_secret_numbers = False
        self._hides_all = False  # the name of that member is the caller's
        self._is_description = False  # of such a member, in the next string

    def mask(self, redactor: Redactor, depth: int) -> str:
        """Return the text with its secrets masked; whitespace and order are kept."""
        for start in self._quotation_marks():
            before = self._text[max(self._at, start - _LONGEST_BARE_NAME) : start]
            self._skip_to(start)
            found = _BLOCK(self._text, start) or _STRING(self._text, start)
            assert found is not None  # a string without an end extends to the end of the text
            colon = _COLON(self._text, found.end())
            if colon is not None and not self._text.startswith('"""', start):
                self._take(colon.end())
                self._begin_value(_unescape(found[1]), redactor)
                continue
            bare = _BARE_NAME(before)
            is_cut = not self._text.startswith('"', found.end(1)) and bool(_CUT_URL(found[1]))
            hides = self._inside and not self._is_description
            self._is_description = False
            if hides or is_cut or (bare is not None and redactor.is_secret_string(bare[1])):
                self._mask(found, redactor)
            else:
                raw = redactor.string(found[1], depth)
                if raw != found[1]:
                    self._put(found.start(1), raw)
                    self._at = found.end(1)
                self._take(found.end())
        self._skip_to(len(self._text))
        return "".join(self._parts)

    def _quotation_marks(self) -> Iterator[int]:
        while (found := self._text.find('"', self._at)) >= 0:
            yield found

    def _begin_value(self, name: str, redactor: Redactor) -> None:
        """Continue after a name and a colon."""
        begin = self._text[self._at : self._at + 1]
        if self._inside:
            self._is_description = begin == '"' and not self._hides_all and describes(name)
            return
        if redactor.is_secret_number(name) and (number := _NUMBER.match(self._text, self._at)):
            self._put(self._at, "0")
            self._at = number.end()
        elif redactor.is_secret_string(name):
            if begin == '"':
                found = _BLOCK(self._text, self._at) or _STRING(self._text, self._at)
                assert found is not None
                self._mask(found, redactor)
            elif begin and begin in "[{":
                self._take(self._at + 1)
                self._inside = 1
                self._hides_all = redactor.is_own(name)
                self._has_secret_numbers = redactor.is_secret_number(name)

    def _mask(self, found: re.Match[str], redactor: Redactor) -> None:
        self._put(found.start(1), redactor.stand_in(found[1]))
        self._at = found.end(1)
        self._take(found.end())

    def _put(self, start: int, text: str) -> None:
        self._parts += self._text[self._at : start], text

    def _take(self, end: int) -> None:
        self._parts.append(self._text[self._at : end])
        self._at = end

    def _skip_to(self, end: int) -> None:
        """Copy the text between two strings, where brackets open and close."""
        if self._inside:
            closes = end
            for bracket in _BRACKETS(self._text, self._at, end):
                self._inside += 1 if bracket[0] in "[{" else -1
                if not self._inside:
                    closes = bracket.start()
                    break
            if self._has_secret_numbers:
                self._parts.append(_NUMBER.sub("0", self._text[self._at : closes]))
                self._at = closes
        self._take(end)


def parse_boundary(media_type: str) -> str | None:
    """Return the boundary in a media type, or None if it is not multipart."""
    found = _BOUNDARY(media_type)
    return None if found is None else found[1] or found[2]


def _unescape(raw: str) -> str:
    """Return the text of a JSON string, which may be truncated."""
    if "\\" not in raw:
        return raw
    for text in (raw, _CUT_ESCAPE.sub("", raw)):
        with suppress(ValueError):
            found: str = json.loads(f'"{text}"', strict=False)
            return found
    return _ESCAPED.sub(r"\1", raw)


def _escape(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(text)[1:-1]
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _encode(text: str, charset: str) -> bytes:
    try:
        return text.encode(charset, "surrogateescape" if charset == "utf-8" else "strict")
    except UnicodeError:
        return _MASKED


def _guess_charsets(body: bytes, named: str | None) -> Iterator[tuple[str, bool]]:
    """Yield charsets with which to read a body, and whether each is a guess.

    After these, the caller tries UTF-8.
    """
    is_wide = b"\0" in body
    if is_wide:
        found = json.detect_encoding(body)
        if found in ("utf-16", "utf-32"):  # with a byte order mark, which is kept
            is_big = body.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
            yield found + ("-be" if is_big else "-le"), False
        elif not found.startswith("utf-8"):
            yield found, False
    if named is not None and named not in _ASCII and named not in ("utf_16", "utf_32"):
        yield named, False
    if is_wide:
        is_declared = named in ("utf_16", "utf_32")
        for name in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
            yield name, not is_declared


def _reads_ascii(charset: str) -> bool:
    """Return whether a charset includes ASCII unchanged."""
    plain = bytes(range(32, 127))
    return plain.decode(charset, "replace") == plain.decode()


def _is_unreadable(body: bytes, *, is_known: bool) -> bool:
    """Return whether a body that claims to be text is not, or has an unknown charset."""
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(body)
    except UnicodeError:
        return not is_known or _CONTROLS(body) is not None
    return False


def _decode_transfer(value: bytes, encoding: str) -> bytes | None:
    """Return a part without its transfer encoding, or None if that cannot be decoded."""
    if encoding in ("", "7bit", "8bit", "binary"):
        return value
    if encoding == "quoted-printable":
        return quopri.decodestring(value)
    if encoding != "base64":
        return None
    try:
        return base64.b64decode(b"".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
