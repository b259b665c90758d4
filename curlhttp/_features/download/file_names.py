"""The names of downloaded files: safe ones from URLs and servers, and each for one download."""

from __future__ import annotations

import os
import re
import unicodedata
from hashlib import blake2b

from curlhttp._http.redaction import redact_url
from curlhttp._http.url import URL

PARTIAL_SUFFIXES = (".part", ".part.json")
"""Of the files of an interrupted download."""

_LONGEST_NAME = 200  # bytes; file systems allow 255, and a hash and ".part.json" may follow
# Also the characters that change the direction of text, so that "exe.txt" may be "txt.exe".
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:\.|$)", re.I)
_HASH_SIZE = 4  # bytes


def sanitize_name(text: str, *, for_windows: bool = os.name == "nt") -> str | None:
    """Return the last segment of a path as a safe file name, or None if nothing is left of it.

    Args:
        text: the path, which is not trusted.
        for_windows: the name is one that Windows takes as it is.
    """
    name = _CONTROLS.sub("_", text.replace("\\", "/").rpartition("/")[2]).strip().lstrip(".")
    name = name.encode("utf-8", "replace").decode()
    stem, suffix = split_suffix(name)
    room = _LONGEST_NAME - len(suffix.encode())
    if room < _LONGEST_NAME // 2:  # hardly a suffix
        stem, suffix, room = name, "", _LONGEST_NAME
    name = stem.encode()[:room].decode("utf-8", "ignore") + suffix
    return (make_windows_name(name) if for_windows else name) or None


def make_windows_name(name: str) -> str:
    """Return a file name that Windows takes as it is.

    There a name may not have some characters ("a:b" is a stream of the file "a"), loses dots and
    spaces at its end, and may mean a device, whatever its suffix ("aux.txt").

    Args:
        name: without folders.
    """
    name = _NOT_ON_WINDOWS.sub("_", name).rstrip(". ")
    return f"_{name}" if _DEVICE.match(name) else name


def split_suffix(name: str) -> tuple[str, str]:
    """Split a file name before its suffix, such as ".txt" or ".tar.gz"."""
    stem, suffix = os.path.splitext(name)
    if stem.endswith(".tar"):
        stem, suffix = stem.removesuffix(".tar"), f".tar{suffix}"
    return stem, suffix


def avoid_partial_suffix(name: str) -> str:
    """Return a name that is not the one of an interrupted download's file."""
    return f"{name}.bin" if name.lower().endswith(PARTIAL_SUFFIXES) else name


def is_folder(path: str) -> bool:
    """Return whether a path is that of a folder: it is one, or ends with a slash."""
    return path.endswith((os.sep, os.altsep or os.sep)) or os.path.isdir(path)


class Targets:
    """The files of several downloads, none of which may have the file of another one.

    Names depend on nothing but the URLs and their order, so that a later run resumes each file.
    """

    def __init__(self) -> None:
        self._taken: set[bytes] = set()  # hashes, because there may be millions

    def claim(self, url: URL, path: str | os.PathLike[str]) -> str:
        """Return the path of the file for a URL, which no other download gets.

        In a folder, the file is named like the last segment of the URL's path. If an earlier URL
        has that name, a hash of the URL is added.

        Args:
            url: of the download.
            path: of the file, or of its folder. One that ends with a slash is created.

        Raises:
            ValueError: another download has the file.
            OSError: the folder cannot be created.
        """
        text = os.fspath(path)
        if not is_folder(text):
            if not self._take(text, is_chosen=False):
                raise ValueError(
                    f"two downloads to {text}, the second one from {redact_url(url)}; if this is "
                    f"a folder, write {text + os.sep!r}"
                )
            return text
        os.makedirs(text, exist_ok=True)
        name = avoid_partial_suffix(sanitize_name(url.path, for_windows=True) or "index")
        stem, suffix = split_suffix(name)
        digest = blake2b(url.wire.encode("utf-8", "surrogateescape"), digest_size=_HASH_SIZE)
        plain = os.path.join(text, name)
        distinct = os.path.join(text, f"{stem}-{digest.hexdigest()}{suffix}")
        # Both, so that the same URL never gets two files.
        if not self._take(distinct, is_chosen=True):
            raise ValueError(f"two downloads of {redact_url(url)} to the folder {text}")
        return plain if self._take(plain, is_chosen=True) else distinct

    def _take(self, path: str, *, is_chosen: bool) -> bool:
        """Note a file, unless it is one of another download, or becomes one during that.

        Args:
            path: of the file.
            is_chosen: the name was chosen here, so it also differs from all others if case counts
                for nothing.
        """
        real = os.path.normcase(os.path.realpath(path))
        folded = _fold(real)
        key = folded if is_chosen else real
        others = {key, *(key + end for end in PARTIAL_SUFFIXES)}
        others |= {key.removesuffix(end) for end in PARTIAL_SUFFIXES}
        if not self._taken.isdisjoint(map(_hash, others)):
            return False
        self._taken |= {_hash(real), _hash(folded)}
        return True


def _fold(path: str) -> str:
    """Return a path as file systems compare it that ignore case, or normalize Unicode."""
    folder, name = os.path.split(path)
    return os.path.join(folder, unicodedata.normalize("NFC", name.casefold()))


def _hash(text: str) -> bytes:
    return blake2b(os.fsencode(text), digest_size=8).digest()
