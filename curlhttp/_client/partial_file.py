"""The partial file of a download: on disk next to the file that it becomes. Knows nothing of HTTP.

A thread may still be at work on it when its download was cancelled: each method holds the lock, so
that none of them touches a descriptor that was closed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from typing import NamedTuple, Protocol

from curlhttp._flow.file_lock import lock_file
from curlhttp._policy.resume import ResumeRecord

# --- A checksum that a file shall have, as "algorithm:hex" ---


class Hasher(Protocol):
    """A hash object of hashlib."""

    @property
    def digest_size(self) -> int:
        """Return the bytes of the digest."""

    def update(self, data: bytes, /) -> None:
        """Take more data."""

    def hexdigest(self) -> str:
        """Return the digest of all data so far, in hex."""


class Checksum(NamedTuple):
    """What the digest of a file must be.

    Attributes:
        algorithm: a name of hashlib's, such as "sha256".
        digest: in lower-case hex.
    """

    algorithm: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """Read "algorithm:hex".

        Raises:
            TypeError: it is not a str.
            ValueError: it has another form, hashlib does not have the algorithm, or the digest is
                of another length.
        """
        if not isinstance(text, str):
            raise TypeError(f"a checksum is a str such as 'sha256:9f86...', not {text!r}")
        algorithm, colon, digest = text.strip().lower().partition(":")
        if not colon:
            raise ValueError(f"a checksum has the form 'sha256:9f86...', not {text!r}")
        size = cls(algorithm, digest).hasher().digest_size
        if not size:
            raise ValueError(f"{algorithm} has no fixed length: it cannot be a file's checksum")
        if len(digest) != 2 * size or not set(digest) <= set("0123456789abcdef"):
            raise ValueError(f"a {algorithm} has {2 * size} hex digits, not {digest!r}")
        return cls(algorithm, digest)

    def hasher(self) -> Hasher:
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


def _flags(*names: str) -> int:
    """Return those flags of open(2) that the system has."""
    return sum(getattr(os, name, 0) for name in (*names, "O_CLOEXEC", "O_BINARY"))


_FLAGS = _flags("O_RDWR", "O_CREAT", "O_NOFOLLOW")
_IS_WINDOWS = os.name == "nt"  # where a file that is open can be neither renamed nor removed
_HASHED = 4 * 1024 * 1024  # bytes read at once
_RECORD = 64 * 1024  # bytes; more is none of ours


class PartialFile:
    """Collect a file in `<path>.part`, alone; what it is part of is in `<path>.part.json`.

    Args:
        path: what it becomes. A symbolic link stays; the file that it leads to is replaced.
        resumes: what is there may be completed, and what is here in the end is kept for that.

    Attributes:
        path: the file that it becomes.
        size: bytes that it has.
        stored: what it is part of, or None: it cannot be completed later.

    Raises:
        OSError: the path is no place for a file, it must not be written, or another download to
            it is under way.
    """

    def __init__(self, path: str | os.PathLike[str], *, resumes: bool) -> None:
        self.path, self._mode = _place(path)
        self._part = self.path + ".part"
        self._record = self._part + ".json"
        self._resumes = resumes
        self._lock = threading.Lock()
        self._is_ours = self._is_done = False
        self._file = _open_alone(self._part)
        self.size = os.fstat(self._file.fileno()).st_size
        self.stored: ResumeRecord | None = None
        try:
            stored = _read_record(self._record)
            self.stored = stored if resumes else None
            if self._mode is not None:  # what is private must not be open to all meanwhile
                self._set_mode(self._mode | stat.S_IWUSR | stat.S_IRUSR)
        except BaseException:
            self.close()
            raise

    @property
    def is_kept(self) -> bool:
        """Return whether another download can go on from here."""
        return self.stored is not None and self.size > 0 and not self._is_done

    def restart(self, stored: ResumeRecord | None) -> None:
        """Begin with nothing.

        Args:
            stored: what it is part of from now on, or None.
        """
        with self._lock, _naming(self._part):
            self.stored = None
            # In this order: a crash leaves no record of one file next to the bytes of another.
            has_room = _remove(self._record)
            self._file.truncate(0)
            self._file.seek(0)
            self.size, self._is_ours = 0, True
            if self._resumes and stored is not None and has_room:
                _write_record(self._record, stored)
                self.stored = stored

    def go_on(self, start: int) -> None:
        """Append from an offset on."""
        with self._lock, _naming(self._part):
            self._file.truncate(start)
            self._file.seek(start)
            self.size = start

    def forget(self) -> None:
        """Keep nothing: what is here is known to be wrong."""
        self.stored, self._is_ours = None, True

    def write(self, data: bytes) -> None:
        """Append."""
        view = memoryview(data)
        with self._lock, _naming(self._part):
            while view:
                written = self._file.write(view)
                self.size += written
                view = view[written:]

    def hash_into(self, hasher: Hasher, offset: int) -> int:
        """Feed a hash object with some bytes from an offset on; return how many, 0 at the end."""
        with self._lock, _naming(self._part):
            end = self._file.seek(0, os.SEEK_CUR)
            self._file.seek(offset)
            data = self._file.read(_HASHED)
            self._file.seek(end)
        hasher.update(data)
        return len(data)

    def commit(self) -> None:
        """Put it in the file's place, for good."""
        with self._lock, _naming(self._part):
            if self._mode is not None:
                self._set_mode(self._mode)
            os.fsync(self._file.fileno())
            if _IS_WINDOWS:
                self._file.close()
            os.replace(self._part, self.path)
            self._is_done = True
        # The file is in its place: what follows is not worth an error.
        with suppress(OSError):
            os.unlink(self._record)
        with suppress(OSError):
            _sync_folder(self.path)

    def _set_mode(self, mode: int) -> None:
        if hasattr(os, "fchmod"):
            os.fchmod(self._file.fileno(), mode)

    def close(self) -> None:
        """Let go of it; what cannot be completed later is removed."""
        with self._lock:
            if _IS_WINDOWS:
                self._file.close()
            if not self._is_done and (self.size == 0 or (self._is_ours and not self.is_kept)):
                for path in (self._record, self._part):  # the lock goes with the latter
                    with suppress(OSError):  # what else went wrong matters more
                        os.unlink(path)
            self._file.close()


def _place(path: str | os.PathLike[str]) -> tuple[str, int | None]:
    """Return the file that is meant, and its mode if there is one."""
    text = os.fsdecode(path)
    real = os.path.realpath(text)
    if text.endswith(os.sep) or os.path.isdir(real):
        raise IsADirectoryError(errno.EISDIR, "a download needs the name of a file", text)
    folder = os.path.dirname(real)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", folder)
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return real, None
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "a download replaces nothing but files", text)
    if not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, "the file must not be written", text)
    return real, stat.S_IMODE(mode) & 0o777


def _open_alone(path: str) -> FileIO:
    """Open the partial file, with a lock on it (flock(2))."""
    while True:
        descriptor = os.open(path, _FLAGS, 0o666)
        try:
            _take(descriptor, path)
            if _is_still_at(descriptor, path):
                return FileIO(descriptor, "r+")
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the download that had the lock has moved or removed it


def _take(descriptor: int, path: str) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "this is no file", path)
    if status.st_nlink > 1:  # perhaps on purpose, to have the other one overwritten
        raise OSError(errno.EMLINK, "this is another file as well, by a hard link", path)
    try:
        lock_file(descriptor)
    except BlockingIOError as error:
        reason = "another download to this path is under way"
        raise BlockingIOError(error.errno, reason, path) from None


def _is_still_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _read_record(path: str) -> ResumeRecord | None:
    """Return what a record says; whatever else is in its place counts as none."""
    try:  # NONBLOCK: a FIFO must not keep us waiting
        descriptor = os.open(path, _flags("O_RDONLY", "O_NONBLOCK"))
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # there would be no place for another one
            raise
        return None
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return ResumeRecord.from_json(os.read(descriptor, _RECORD)) if is_file else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _remove(path: str) -> bool:
    """Remove a record, and return whether there is room for another: a folder stays."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            return False
        raise
    return True


def _write_record(path: str, stored: ResumeRecord) -> None:
    # A torn record reads as none, so this needs no second name. Query strings may be in it.
    descriptor = os.open(path, _flags("O_WRONLY", "O_CREAT", "O_EXCL"), 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(stored.to_json())
        file.flush()
        os.fsync(descriptor)


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path), _flags("O_RDONLY", "O_DIRECTORY"))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Name the file in errors of calls that know its descriptor alone."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise
