"""The partial file of a download, on disk next to the file that it becomes. Independent of HTTP.

A thread may still write to it after its download was cancelled, so each method holds a lock. No
method uses a closed descriptor.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import FileIO
from typing import NamedTuple, Protocol

from curlhttp._flow.file_lock import lock_file
from curlhttp._flow.rename import rename_over
from curlhttp._policy.resume import ResumeRecord

# --- The expected checksum of a file, as "algorithm:hex" ---


class Hasher(Protocol):
    """A hash object of hashlib."""

    @property
    def digest_size(self) -> int:
        """Return the size of the digest in bytes."""

    def update(self, data: bytes, /) -> None:
        """Add data."""

    def hexdigest(self) -> str:
        """Return the digest of all data so far, in hex."""


class Checksum(NamedTuple):
    """The expected digest of a file.

    Attributes:
        algorithm: the name of an algorithm in hashlib, such as "sha256".
        digest: in lowercase hex.
    """

    algorithm: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """Parse "algorithm:hex".

        Raises:
            TypeError: it is not a str.
            ValueError: it has another form, hashlib does not have the algorithm, or the digest has
                the wrong length.
        """
        if not isinstance(text, str):
            raise TypeError(f"a checksum must be a str such as 'sha256:9f86...', not {text!r}")
        algorithm, colon, digest = text.strip().lower().partition(":")
        if not colon:
            raise ValueError(f"a checksum must have the form 'sha256:9f86...', not {text!r}")
        size = cls(algorithm, digest).make_hasher().digest_size
        if not size:
            raise ValueError(f"{algorithm} has no fixed length, so it cannot be a file's checksum")
        if len(digest) != 2 * size or not set(digest) <= set("0123456789abcdef"):
            raise ValueError(f"{algorithm} must have {2 * size} hex digits, not {digest!r}")
        return cls(algorithm, digest)

    def make_hasher(self) -> Hasher:
        """Return a new hash object.

        Raises:
            ValueError: hashlib does not have the algorithm.
        """
        try:
            return hashlib.new(self.algorithm, usedforsecurity=False)
        except ValueError as error:
            raise ValueError(f"hashlib has no checksum {self.algorithm!r}") from error

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.digest}"


def _get_flags(*names: str) -> int:
    """Return the flags of open(2) with these names that the system has."""
    return sum(getattr(os, name, 0) for name in (*names, "O_CLOEXEC", "O_BINARY"))


_FLAGS = _get_flags("O_RDWR", "O_CREAT", "O_NOFOLLOW")
_SHARE_ALL, _OPEN_ALWAYS = 1 | 2 | 4, 4  # of CreateFile; os.open does not share deleting
# Pieces that the system writes at once.
_MOST_PIECES = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in getattr(os, "sysconf_names", ()) else 0
_HASH_CHUNK = 4 * 1024 * 1024  # bytes read at once
_MAX_RECORD = 64 * 1024  # bytes; a larger file is not a record of ours


class PartialFile:
    """Collect a file in `<path>.part` under a lock; `<path>.part.json` records its source.

    Args:
        path: the file that it becomes. The target of a symbolic link is replaced, not the link.
        resumes: whether to continue an existing partial file, and to keep this one for later.

    Attributes:
        path: the file that it becomes, with symbolic links resolved.
        size: the bytes written so far.
        record: the source of the file, or None if the download cannot resume later.

    Raises:
        OSError: the path cannot be a file, the file is not writable, or another download to it is
            running.
    """

    def __init__(self, path: str | os.PathLike[str], *, resumes: bool) -> None:
        self.path, self._mode = _resolve_target(path)
        self._part_path = self.path + ".part"
        self._record_path = self._part_path + ".json"
        self._resumes = resumes
        self._lock = threading.Lock()
        self._is_ours = self._is_done = False
        self._file = _open_locked(self._part_path)
        self.size = os.fstat(self._file.fileno()).st_size
        self.record: ResumeRecord | None = None
        try:
            record = _read_record(self._record_path)
            self.record = record if resumes else None
            if self._mode is not None:  # a private file must not be readable by others meanwhile
                self._set_mode(self._mode | stat.S_IWUSR | stat.S_IRUSR)
        except BaseException:
            self.close()
            raise

    @property
    def is_kept(self) -> bool:
        """Return whether a later download can resume from this file."""
        return self.record is not None and self.size > 0 and not self._is_done

    def restart(self, record: ResumeRecord | None) -> None:
        """Truncate the file to start over.

        Args:
            record: the new source of the file, or None.
        """
        with self._lock, _add_filename(self._part_path):
            self.record = None
            # In this order, so that a crash never leaves a record with bytes of another file.
            has_room = _remove_record(self._record_path)
            self._file.truncate(0)
            self._file.seek(0)
            self.size, self._is_ours = 0, True
            if self._resumes and record is not None and has_room:
                _write_record(self._record_path, record)
                self.record = record

    def resume(self, start: int) -> None:
        """Truncate the file to `start` bytes, and append from there."""
        with self._lock, _add_filename(self._part_path):
            self._file.truncate(start)
            self._file.seek(start)
            self.size = start

    def discard(self) -> None:
        """Let `close` remove the file, because its content is wrong."""
        self.record, self._is_ours = None, True

    def write(self, pieces: list[bytes]) -> None:
        """Append bytes, without joining their pieces if the system can."""
        with self._lock, _add_filename(self._part_path):
            written = 0
            if 1 < len(pieces) <= _MOST_PIECES:
                written = os.writev(self._file.fileno(), pieces)
                self.size += written
                if written == sum(map(len, pieces)):
                    return
            view = memoryview(b"".join(pieces))[written:]
            while view:
                written = self._file.write(view)
                self.size += written
                view = view[written:]

    def hash_into(self, hasher: Hasher, offset: int) -> int:
        """Hash some bytes from an offset; return how many, or 0 at the end."""
        with self._lock, _add_filename(self._part_path):
            end = self._file.seek(0, os.SEEK_CUR)
            self._file.seek(offset)
            data = self._file.read(_HASH_CHUNK)
            self._file.seek(end)
        hasher.update(data)
        return len(data)

    def commit(self) -> None:
        """Sync the file to disk, and rename it to its final path."""
        with self._lock, _add_filename(self._part_path):
            if self._mode is not None:
                self._set_mode(self._mode)
            os.fsync(self._file.fileno())
            self._is_done = True
            try:
                rename_over(self._part_path, self.path)
            except OSError as error:
                error.strerror = f"{error.strerror}; the download stays in {self._part_path}"
                raise
        # The file is complete: what fails from here on is not an error of the download.
        with suppress(OSError):
            os.unlink(self._record_path)
        with suppress(OSError):
            _sync_folder(self.path)

    def _set_mode(self, mode: int) -> None:
        if hasattr(os, "fchmod"):
            os.fchmod(self._file.fileno(), mode)

    def close(self) -> None:
        """Release the file, and remove it if a later download cannot resume it."""
        with self._lock:
            if not self._is_done and (self.size == 0 or (self._is_ours and not self.is_kept)):
                for path in (self._record_path, self._part_path):  # the latter ends the lock
                    with suppress(OSError):  # an earlier error matters more
                        os.unlink(path)
            self._file.close()


def _resolve_target(path: str | os.PathLike[str]) -> tuple[str, int | None]:
    """Return the path with symbolic links resolved, and the mode of an existing file."""
    text = os.fsdecode(path)
    real = os.path.realpath(text)
    if text.endswith((os.sep, os.altsep or os.sep)) or os.path.isdir(real):
        raise IsADirectoryError(errno.EISDIR, "a download needs the path of a file", text)
    folder = os.path.dirname(real)
    if not os.path.isdir(folder) and not os.path.exists(real):  # NUL of Windows has no folder
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist", folder)
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return real, None
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "a download replaces only regular files", text)
    if not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is not writable", text)
    return real, stat.S_IMODE(mode) & 0o777


def _open_locked(path: str) -> FileIO:
    """Open the partial file and lock it (flock(2))."""
    while True:
        descriptor = _open_for_writing(path)
        try:
            _lock_regular_file(descriptor, path)
            if _is_still_at(descriptor, path):
                return FileIO(descriptor, "r+")
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the download that held the lock has renamed or removed the file


def _open_for_writing(path: str) -> int:
    """Open a file that may be renamed and removed while it is open."""
    if os.name != "nt":
        return os.open(path, _FLAGS, 0o666)
    import msvcrt

    windows = import_module("_winapi")
    access = windows.GENERIC_READ | windows.GENERIC_WRITE
    with _add_filename(path):
        handle = windows.CreateFile(path, access, _SHARE_ALL, 0, _OPEN_ALWAYS, 0, 0)
    try:
        descriptor: int = msvcrt.open_osfhandle(handle, _FLAGS)  # type: ignore[attr-defined]
    except BaseException:
        windows.CloseHandle(handle)
        raise
    return descriptor


def _lock_regular_file(descriptor: int, path: str) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "this is not a regular file", path)
    if status.st_nlink > 1:  # perhaps an attack, to overwrite the other file
        raise OSError(errno.EMLINK, "this is a hard link to another file", path)
    try:
        lock_file(descriptor)
    except BlockingIOError as error:
        reason = "another download to this path is running"
        raise BlockingIOError(error.errno, reason, path) from None


def _is_still_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _read_record(path: str) -> ResumeRecord | None:
    """Return the record in a file, or None if the file is missing or not a valid record."""
    try:  # NONBLOCK: opening a FIFO must not block
        descriptor = os.open(path, _get_flags("O_RDONLY", "O_NONBLOCK"))
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # a record could not be written either
            raise
        return None
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return ResumeRecord.from_json(os.read(descriptor, _MAX_RECORD)) if is_file else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _remove_record(path: str) -> bool:
    """Remove a record. Return whether another can be written: a folder is not removed."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            return False
        raise
    return True


def _write_record(path: str, record: ResumeRecord) -> None:
    # An incomplete record counts as none, so a temporary file is not needed. Its mode is private
    # because it may contain query strings.
    descriptor = os.open(path, _get_flags("O_WRONLY", "O_CREAT", "O_EXCL"), 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(record.to_json())
        file.flush()
        os.fsync(descriptor)


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), _get_flags("O_RDONLY", "O_DIRECTORY"))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _add_filename(path: str) -> Iterator[None]:
    """Add the path to errors of calls that only know the descriptor."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise
