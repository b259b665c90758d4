"""Find the charset of a document as browsers do: default_encoding="html".

In the order of the WHATWG's HTML standard (section 13.2.3, "determining the character encoding"): a
byte order mark, the charset of Content-Type, then what the first 1,024 bytes declare: an XML
declaration or a <meta>. Names of charsets mean what the Encoding standard says (section 4.2), so
ISO-8859-1 is windows-1252. Without any of these it is UTF-8, where browsers choose by language.
"""

from __future__ import annotations

import codecs
import re

from curlhttp._http.decoding import known_charset

PRESCAN_SIZE = 1024  # bytes
_MARKS = (
    (codecs.BOM_UTF8, "utf_8_sig"),
    (codecs.BOM_UTF16_LE, "utf_16"),
    (codecs.BOM_UTF16_BE, "utf_16"),
)
_LONGEST_MARK = 3
# What the labels of Python's narrower charsets mean in the Encoding standard.
_WIDER = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859_11": "cp874",
    "iso8859_9": "cp1254",
    "latin_1": "cp1252",
    "shift_jis": "cp932",
    "tis_620": "cp874",
    "utf_16": "utf_16_le",
}
_USER_DEFINED = "x-user-defined"
_SPACE = rb"\t\n\x0c\r "
_ATTRIBUTE = re.compile(
    rb"[%(s)s/]*([^%(s)s/>][^%(s)s/>=]*)"
    rb"(?:[%(s)s]*=[%(s)s]*(?:\"([^\"]*)\"|'([^']*)'|([^%(s)s>\"'][^%(s)s>]*)?))?" % {b"s": _SPACE}
)
_CHARSET = re.compile(
    rb"charset[%(s)s]*=[%(s)s]*(?:\"([^\"]*)\"|'([^']*)'|([^%(s)s;\"']+))" % {b"s": _SPACE}
)
_META = re.compile(rb"<meta(?=[%(s)s/])" % {b"s": _SPACE})
_TAG = re.compile(rb"</?[a-z][^%(s)s>]*" % {b"s": _SPACE})
_END_OF_TAG = re.compile(rb"[%(s)s/]*[\"'>]" % {b"s": _SPACE})
_DECLARATION = re.compile(
    rb"<\?xml[^>]*?\bencoding[%(s)s]*=[%(s)s]*(?:\"([^\">]*)\"|'([^'>]*)')" % {b"s": _SPACE}
)
_XML = re.compile(r"\b(?:text|application)/xml\b|\+xml\b").search
_HTML = re.compile(r"\btext/html\b|\bapplication/xhtml\+xml\b").search


class HTMLCharset:
    """Find the charset of a body from how it begins.

    Args:
        content_type: the header field, or None.
        named: the charset that it names, or None.
    """

    def __init__(self, content_type: str | None, named: str | None) -> None:
        kind = (content_type or "").lower()
        self._named = _resolve(named or "")
        # A body without a type may be anything, and a document says so.
        self._has_declaration = not kind.strip() or bool(_XML(kind) or _HTML(kind))
        self._has_meta = not kind.strip() or bool(_HTML(kind))

    def find(self, begin: bytes) -> str:
        """Return Python's name for the charset.

        Args:
            begin: the first PRESCAN_SIZE bytes of the body, or all of it.
        """
        for mark, charset in _MARKS:
            if begin.startswith(mark):
                return charset
        if self._named is not None:
            return self._named
        return self._find_declared(begin[:PRESCAN_SIZE].lower()) or "utf_8"

    def is_certain(self, begin: bytes) -> bool:
        """Return whether more bytes of the body would not change what find() returns."""
        if len(begin) >= PRESCAN_SIZE:
            return True
        if len(begin) < _LONGEST_MARK:
            return False
        if self._named is not None or not (self._has_declaration or self._has_meta):
            return True
        is_marked = any(begin.startswith(mark) for mark, _ in _MARKS)
        return is_marked or self._find_declared(begin.lower()) is not None

    def _find_declared(self, begin: bytes) -> str | None:
        found = None
        if self._has_declaration:
            if begin.startswith(b"<\0?\0x\0"):
                return "utf_16_le"
            if begin.startswith(b"\0<\0?\0x"):
                return "utf_16_be"
            declared = _DECLARATION.match(begin)
            found = declared and _resolve_declared(declared[1] or declared[2] or b"")
        return found or (_prescan(begin) if self._has_meta else None)


def _prescan(begin: bytes) -> str | None:
    """Return the charset that a <meta> names (HTML, "prescan a byte stream").

    Args:
        begin: in lower case.
    """
    at = 0
    while (at := begin.find(b"<", at)) >= 0:
        if begin.startswith(b"<!--", at):
            end = begin.find(b"-->", at + 2)
            if end < 0:
                return None
            at = end + 3
        elif meta := _META.match(begin, at):
            attributes, at = _read_attributes(begin, meta.end())
            if at < 0:
                return None
            charset = _get_meta_charset(attributes)
            if charset is not None:
                return charset
        elif tag := _TAG.match(begin, at):
            _, at = _read_attributes(begin, tag.end())
            if at < 0:
                return None
        elif begin[at + 1 : at + 2] in (b"!", b"/", b"?"):
            at = begin.find(b">", at)
            if at < 0:
                return None
        else:
            at += 1
    return None


def _read_attributes(begin: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """Return the attributes of a tag, the first of each name, and where they end.

    The end is -1 if the tag does not end, because then its last attribute may be incomplete.
    """
    attributes: dict[bytes, bytes] = {}
    while found := _ATTRIBUTE.match(begin, at):
        attributes.setdefault(found[1], found[2] or found[3] or found[4] or b"")
        at = found.end()
    end = _END_OF_TAG.match(begin, at)
    return attributes, -1 if end is None else end.end()


def _get_meta_charset(attributes: dict[bytes, bytes]) -> str | None:
    label = attributes.get(b"charset")
    if label is None and attributes.get(b"http-equiv") == b"content-type":
        found = _CHARSET.search(attributes.get(b"content", b""))
        label = found and (found[1] or found[2] or found[3])
    return None if label is None else _resolve_declared(label)


def _resolve_declared(label: bytes) -> str | None:
    """Return the charset of a label in a document, which is ASCII, so it is not UTF-16."""
    name = label.decode("latin-1").strip("\t\n\x0c\r ")
    if name == _USER_DEFINED:
        return "cp1252"
    charset = _resolve(name)
    return "utf_8" if charset is not None and charset.startswith(("utf_16", "utf_32")) else charset


def _resolve(name: str) -> str | None:
    """Return Python's name for what a label means to browsers."""
    charset = known_charset(name)
    return None if charset is None else _WIDER.get(charset, charset)
