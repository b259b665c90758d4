"""Which charset a body is text in, and how it is decoded: whole, or piece by piece.

A server may name any of Python's codecs. Some are no charsets, some take a time that grows with
the square of the text, and each unknown name would stay in a cache of Python's for ever. So a name
that was received means one of those here, or none at all; a name that the caller chose may be any
other codec for text as well.
"""

from __future__ import annotations

import codecs
import re
from encodings.aliases import aliases
from functools import lru_cache

__all__ = ["Decoder", "chosen_charset", "decode", "known_charset"]

_OTHER_THAN_LETTERS = re.compile("[^a-z0-9]+")
_LONGEST_NAME = 40  # characters

# Python's names for the charsets that HTTP has met: those of the WHATWG's Encoding standard, their
# close relatives, and what old systems wrote. Without UTF-7, which hides markup.
_NAMES = """
    ascii big5 big5hkscs cp437 cp720 cp737 cp775 cp850 cp852 cp855 cp857 cp858 cp860 cp861 cp862
    cp863 cp864 cp865 cp866 cp869 cp874 cp932 cp949 cp950 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255
    cp1256 cp1257 cp1258 euc_jis_2004 euc_jisx0213 euc_jp euc_kr gb18030 gb2312 gbk hz iso2022_jp
    iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3 iso2022_jp_ext iso2022_kr iso8859_2
    iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7 iso8859_8 iso8859_9 iso8859_10 iso8859_11
    iso8859_13 iso8859_14 iso8859_15 iso8859_16 johab koi8_r koi8_t koi8_u kz1048 latin_1
    mac_cyrillic mac_greek mac_iceland mac_latin2 mac_roman mac_turkish ptcp154 shift_jis
    shift_jis_2004 shift_jisx0213 tis_620 utf_16 utf_16_be utf_16_le utf_32 utf_32_be utf_32_le
    utf_8 utf_8_sig
"""
_CHARSETS = frozenset(_NAMES.split())
# Names of the Encoding standard that Python does not know, or took for a narrower charset before
# 3.15.
_MORE_NAMES = {
    "cn_big5": "big5",
    "dos_874": "cp874",
    "iso_8859_8_e": "iso8859_8",
    "iso_8859_8_i": "iso8859_8",
    "koi": "koi8_r",
    "koi8": "koi8_r",
    "korean": "cp949",
    "ks_c_5601": "cp949",
    "ks_c_5601_1987": "cp949",
    "ks_x_1001": "cp949",
    "ksc5601": "cp949",
    "ksx1001": "cp949",
    "unicode_1_1_utf_8": "utf_8",
    "windows_874": "cp874",
    "windows_949": "cp949",
    "x_cp1250": "cp1250",
    "x_cp1251": "cp1251",
    "x_cp1252": "cp1252",
    "x_euc_jp": "euc_jp",
    "x_gbk": "gbk",
    "x_mac_cyrillic": "mac_cyrillic",
    "x_mac_roman": "mac_roman",
    "x_sjis": "shift_jis",
    "x_x_big5": "big5",
}
# Codecs for text that are none for bodies: they fail whatever is to be done about errors.
_UNFIT = ("idna", "punycode", "undefined")
_MARKS = {
    "utf_16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf_32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}


@lru_cache(maxsize=256)
def known_charset(name: str) -> str | None:
    """Return Python's name for a charset, or None for what is none that HTTP uses.

    Args:
        name: as received, such as "UTF-8", "latin1" or "windows-1252".
    """
    if len(name) > _LONGEST_NAME:
        return None
    plain = _OTHER_THAN_LETTERS.sub("_", name.lower()).strip("_")
    found = _MORE_NAMES.get(plain) or aliases.get(plain, plain)
    return found if found in _CHARSETS else None


def chosen_charset(name: str) -> str | None:
    """Return Python's name for a charset that the caller chose, or None for what is none.

    Args:
        name: any name of a codec for text, or of a charset.
    """
    known = known_charset(name)
    if known is not None:
        return known
    try:
        b"a".decode(name, errors="replace")  # fails for what is no charset, such as base64
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return None if found in _UNFIT else found


def decode(content: bytes, charset: str) -> str:
    """Return a whole body as text; what is wrong is replaced.

    Args:
        content: the body.
        charset: as known_charset or chosen_charset gave it.
    """
    return content.decode(_ordered(charset, content), errors="replace")


def _ordered(charset: str, begin: bytes) -> str:
    """Return the charset with its byte order: without a mark the usual one."""
    marks = _MARKS.get(charset)
    return charset if marks is None or begin.startswith(marks) else f"{charset}_le"


class Decoder(codecs.IncrementalDecoder):
    """Decode a body piece by piece, to what decode() makes of all of it.

    Args:
        charset: as known_charset or chosen_charset gave it.
        errors: what to do about what is wrong.
    """

    def __init__(self, charset: str, errors: str = "replace") -> None:
        super().__init__(errors)
        self._charset = charset
        self._longest_mark = len(_MARKS[charset][0]) if charset in _MARKS else 0
        self._held = b""
        self._inner: codecs.IncrementalDecoder | None = None

    def decode(self, piece: bytes, final: bool = False) -> str:  # type: ignore[override]
        """Return the text of one more piece."""
        if self._held:
            piece, self._held = self._held + piece, b""
        if self._inner is None:
            if len(piece) < self._longest_mark and not final:
                self._held = piece
                return ""
            kind = codecs.getincrementaldecoder(_ordered(self._charset, piece))
            self._inner = kind(errors=self.errors)
        try:
            return self._inner.decode(piece, final)
        except UnicodeError:  # Python's ISO-2022 has no room for escape sequences without an end
            if self.errors != "replace":
                raise
            self._inner.reset()
            return "\ufffd" + decode(piece, self._charset)
