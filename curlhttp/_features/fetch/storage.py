"""Folders on this machine, or in an object store through fsspec.

Every write is atomic, so a file under its final name is complete: a local file is written under a
temporary name and renamed, and a remote file is uploaded as a whole.
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

from curlhttp._features.map.bodies import BodyFile, open_body_file, open_temporary_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TEMPORARY = ".tmp-"  # in the names of incomplete files
_MIN_FREE = 1 << 20  # bytes that must be free on the disk
_BLOCK_SIZE = 1 << 20  # bytes
_BATCH = 1000  # files that are read at once


def _is_remote(path: str) -> bool:
    """Return whether a path is an fsspec URL that does not name a local file."""
    return "://" in path and not path.startswith(("file://", "local://"))


def _to_local_path(path: str) -> Path:
    return Path(path.removeprefix("file://").removeprefix("local://"))


def _open_filesystem(url: str) -> tuple[Any, str]:  # Any: fsspec has no types
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError(
            f"{url.partition('://')[0]}:// needs fsspec: pip install 'curlhttp[parquet]', "
            "and the package for that scheme, such as s3fs"
        ) from error
    return cast("tuple[Any, str]", url_to_fs(url))


@contextmanager
def open_input_file(path: str) -> Iterator[BinaryIO]:
    """Open a seekable binary file for reading.

    Args:
        path: the path of the file, or its fsspec URL.
    """
    if not _is_remote(path):
        with open(_to_local_path(path), "rb") as stream:
            yield stream
        return
    filesystem, name = _open_filesystem(path)
    with io.BufferedReader(filesystem.open(name, "rb"), _BLOCK_SIZE) as remote:
        yield remote


class OutputFolder(Protocol):
    """A folder and its subfolders. File names are relative, with "/" between their parts.

    Attributes:
        is_remote: the folder is in an object store.
    """

    is_remote: bool

    def create(self) -> None:
        """Create the folder if it does not exist.

        Raises:
            OSError: the folder cannot be created, or the disk is full.
        """

    def path(self, name: str) -> str:
        """Return the path or URL of a file."""

    def write(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for writing. It appears only when the block ends without an error."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""

    def read_all(self, folder: str, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the names and contents of files in a subfolder."""

    def exists(self, name: str) -> bool:
        """Return whether a file exists."""

    def names(self, folder: str) -> Iterable[str]:
        """Yield the names of the files in a subfolder, if it exists."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def make_body_file(self, *, is_stored: bool) -> BodyFile:
        """Return an empty file for a body.

        Args:
            is_stored: it will probably be stored, rather than copied to a part.

        Raises:
            OSError: it cannot be created.
        """

    def store(self, body: BodyFile, name: str) -> None:
        """Store a body as a file, and close it."""

    def remove_temporary(self) -> None:
        """Remove the incomplete files of killed workers. No worker may be running."""


def open_folder(path: str) -> OutputFolder:
    """Return the folder at a path or an fsspec URL.

    Raises:
        ImportError: the scheme needs fsspec, or a package for fsspec that is not installed.
    """
    return _RemoteFolder(path) if _is_remote(path) else _LocalFolder(_to_local_path(path))


def _copy(folder: OutputFolder, body: BodyFile, name: str) -> None:
    with folder.write(name) as stream:
        stream.writelines(body.pieces())
    body.close()


def _make_temporary(file: Path) -> Path:
    """Return the name of a file while it is incomplete."""
    return file.with_name(f"{_TEMPORARY}{uuid.uuid4().hex[:8]}-{file.name}")


class _LocalFolder:
    is_remote = False

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def create(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(self._root).free < _MIN_FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._root))

    def path(self, name: str) -> str:
        return str(self._root / name)

    @contextmanager
    def write(self, name: str) -> Iterator[BinaryIO]:
        file = self._root / name
        temporary = _make_temporary(file)
        if not file.parent.is_dir():
            file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(file)
        except BaseException as error:
            with suppress(OSError):
                temporary.unlink()
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
                if not entry.name.startswith(_TEMPORARY):
                    yield entry.name

    def remove(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def make_body_file(self, *, is_stored: bool) -> BodyFile:
        if not is_stored:
            return open_temporary_body(self._root)
        file = self._root / "bodies" / "body"
        file.parent.mkdir(parents=True, exist_ok=True)
        return open_body_file(_make_temporary(file))

    def store(self, body: BodyFile, name: str) -> None:
        file = self._root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if body.is_named:
            body.sync()
            body.move(str(file))
        else:
            _copy(self, body, name)

    def remove_temporary(self) -> None:
        for path in self._root.glob(f"*/**/{_TEMPORARY}{'[0-9a-f]' * 8}-*"):
            path.unlink(missing_ok=True)


class _RemoteFolder:
    is_remote = True

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._fs, self._root = _open_filesystem(self._url)

    def create(self) -> None:
        self._fs.makedirs(self._root, exist_ok=True)

    def _key(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def path(self, name: str) -> str:
        return self._url + "/" + name

    @contextmanager
    def write(self, name: str) -> Iterator[BinaryIO]:
        stream = self._fs.open(self._key(name), "wb", autocommit=False)
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
            return cast(bytes, self._fs.cat_file(self._key(name)))
        except FileNotFoundError:
            return None

    def read_all(self, folder: str, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        for begin in range(0, len(names), _BATCH):
            batch = names[begin : begin + _BATCH]
            keys = [self._key(f"{folder}/{name}") for name in batch]
            yield from zip(batch, map(self._fs.cat(keys).__getitem__, keys), strict=True)

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._key(name)))

    def names(self, folder: str) -> Iterator[str]:
        self._fs.invalidate_cache()
        try:
            paths = self._fs.ls(self._key(folder), detail=False)
        except FileNotFoundError:
            return
        for path in paths:
            yield path.rstrip("/").rpartition("/")[2]

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._key(name))

    def make_body_file(self, *, is_stored: bool) -> BodyFile:
        return open_temporary_body(None)

    def store(self, body: BodyFile, name: str) -> None:
        _copy(self, body, name)

    def remove_temporary(self) -> None:
        pass  # an upload that is not committed leaves nothing
