"""Folders of files, on this machine or in what fsspec reaches.

A file is written under another name and renamed, or put as a whole: it is there complete, or not.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["OutFolder", "folder_of", "is_remote", "local_path", "open_to_read"]

_MARK = ".tmp-"  # in the names of files that are not complete
_LEAST = 1 << 20  # bytes that must be free
_PIECE = 1 << 20  # bytes
_AT_ONCE = 1000  # files that are read together


def is_remote(path: str) -> bool:
    """Return whether a path is an fsspec URL, but not of this machine's own files."""
    return "://" in path and not path.startswith(("file://", "local://"))


def local_path(path: str) -> Path:
    """Return the path that a str stands for, which may begin with file://."""
    return Path(path.removeprefix("file://").removeprefix("local://"))


def _filesystem(url: str) -> tuple[Any, str]:  # Any: fsspec has no types
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(
            f"{url.partition('://')[0]}:// needs fsspec: pip install 'curlhttp[parquet]', "
            "and the package of that scheme, such as s3fs"
        ) from error
    return cast("tuple[Any, str]", url_to_fs(url))


@contextmanager
def open_to_read(path: str) -> Iterator[BinaryIO]:
    """Open a file of bytes in which one can seek.

    Args:
        path: of the file, or an fsspec URL.
    """
    if not is_remote(path):
        with open(local_path(path), "rb") as stream:
            yield stream
        return
    filesystem, name = _filesystem(path)
    with io.BufferedReader(filesystem.open(name, "rb"), _PIECE) as remote:
        yield remote


class OutFolder(Protocol):
    """A folder and those below it; names have "/" between their parts.

    Attributes:
        is_remote: its files are objects that fsspec reaches.
    """

    is_remote: bool

    def make(self) -> None:
        """Make the folder, if need be.

        Raises:
            OSError: that cannot be done, or there is no room for a file.
        """

    def path(self, name: str) -> str:
        """Return the path or URL of a file."""

    def writing(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that is there once the block ends well, and not before."""

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, None if it is not there."""

    def read_all(self, folder: str, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Give what files of a folder hold, with their names."""

    def exists(self, name: str) -> bool:
        """Return whether a file is there."""

    def names(self, folder: str) -> Iterable[str]:
        """Give the names of the files in a folder, without it; none if it is not there."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def tidy(self) -> None:
        """Remove what killed workers left incomplete; only where none is at work any more."""


def folder_of(path: str) -> OutFolder:
    """Return the folder that a path or an fsspec URL means.

    Raises:
        ImportError: it needs fsspec, or a package of fsspec's.
    """
    return _Remote(path) if is_remote(path) else _Local(local_path(path))


class _Local:
    is_remote = False

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def make(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(self._root).free < _LEAST:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._root))

    def path(self, name: str) -> str:
        return str(self._root / name)

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        file = self._root / name
        part = file.with_name(f"{_MARK}{uuid.uuid4().hex[:8]}-{file.name}")
        if not file.parent.is_dir():
            file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(part, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(file)
        except BaseException as error:
            with suppress(OSError):
                part.unlink()
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise OSError(error.errno, error.strerror, str(file)) from None
            raise

    def read(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def read_all(self, folder: str, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for name in names:
            yield name, (self._root / folder / name).read_bytes()

    def exists(self, name: str) -> bool:
        return (self._root / name).exists()

    def names(self, folder: str) -> Iterator[str]:
        try:
            entries = os.scandir(self._root / folder)
        except FileNotFoundError:
            return
        with entries:
            for entry in entries:
                if not entry.name.startswith(_MARK):
                    yield entry.name

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def tidy(self) -> None:
        for path in self._root.glob(f"*/**/{_MARK}{'[0-9a-f]' * 8}-*"):
            path.unlink(missing_ok=True)


class _Remote:
    is_remote = True

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._fs, self._root = _filesystem(self._url)

    def make(self) -> None:
        self._fs.makedirs(self._root, exist_ok=True)

    def _name(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def path(self, name: str) -> str:
        return self._url + "/" + name

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        stream = self._fs.open(self._name(name), "wb", autocommit=False)
        try:
            yield stream
            stream.close()
            stream.commit()
        except BaseException:
            with suppress(Exception):
                stream.discard()
            raise

    def read(self, name: str) -> bytes | None:
        try:
            return cast(bytes, self._fs.cat_file(self._name(name)))
        except FileNotFoundError:
            return None

    def read_all(self, folder: str, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for begin in range(0, len(names), _AT_ONCE):
            some = names[begin : begin + _AT_ONCE]
            paths = [self._name(f"{folder}/{name}") for name in some]
            yield from zip(some, map(self._fs.cat(paths).__getitem__, paths), strict=True)

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._name(name)))

    def names(self, folder: str) -> Iterator[str]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._name(folder), detail=False)
        except FileNotFoundError:
            return
        for path in found:
            yield path.rstrip("/").rpartition("/")[2]

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._name(name))

    def tidy(self) -> None:
        pass  # what was not put is not there
