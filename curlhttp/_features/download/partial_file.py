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

from curlhttp._features.download.resume import ForeignFile, ResumeRecord
from curlhttp._features.download.spans import LINE, Spans
from curlhttp._features.file_lock import lock_file
from curlhttp._features.rename import rename_over

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

    The record is JSON. While segments are written, a page follows with the spans that are there. It
    is written in one piece and after the bytes, so whenever the process is killed, the file has
    what the spans claim.

    Args:
        path: the file that it becomes. The target of a symbolic link is replaced, not the link.
        resumes: whether to continue an existing partial file, and to keep this one for later.
        adopts: whether to continue also one that another program wrote.

    Attributes:
        path: the file that it becomes, with symbolic links resolved.
        size: the bytes written so far.
        spans: where they are, or None if they are one piece from the beginning on.
        foreign: the file of another program, until the server's response decides about it.
        record: the source of the file, or None if the download cannot resume later.

    Raises:
        OSError: the path cannot be a file, the file is not writable, or another download to it is
            running.
    """

    hasher: Hasher | None = None  # the file is hashed at the end

    def __init__(
        self, path: str | os.PathLike[str], *, resumes: bool, adopts: bool = False
    ) -> None:
        self.path, self._mode = _resolve_target(path)
        self._part_path = self.path + ".part"
        self._record_path = self._part_path + ".json"
        self._resumes = resumes
        self._lock = threading.Lock()
        self._is_ours = self._is_done = False
        self._file = _open_locked(self._part_path)
        self._state: FileIO | None = None  # the record, while spans are written
        self.size = os.fstat(self._file.fileno()).st_size
        self.record: ResumeRecord | None = None
        self.spans: Spans | None = None
        try:
            record, spans, is_adoptable = _read_record(self._record_path)
            if spans is not None and spans.end > self.size:  # somebody has cut the file
                record = None
            if resumes and record is not None:
                self.record, self.spans = record, spans
                self.size = self.size if spans is None else spans.size
            self.foreign = self._find_foreign() if adopts and is_adoptable else None
            if self._mode is not None:  # a private file must not be readable by others meanwhile
                self._set_mode(self._mode | stat.S_IWUSR | stat.S_IRUSR)
        except BaseException:
            self.close()
            raise

    @property
    def is_kept(self) -> bool:
        """Return whether a later download can resume from this file."""
        return self.record is not None and self.size > 0 and not self._is_done

    @property
    def after_mismatch(self) -> str:
        """Return what becomes of a file with a wrong checksum, for a message."""
        return f"it was removed, and {self.path} is unchanged"

    def _find_foreign(self) -> ForeignFile | None:
        found = os.fstat(self._file.fileno())
        if not found.st_size and self._mode is not None:
            found = os.stat(self.path)
        return ForeignFile(found.st_size, found.st_mtime) if found.st_size else None

    def adopt(self, start: int, record: ResumeRecord | None) -> None:
        """Continue the file of another program, which becomes `<path>.part`.

        Args:
            start: how many bytes of it to keep.
            record: the source of the rest, or None.
        """
        with self._lock, _add_filename(self._part_path):
            if not self.size:
                if os.name == "nt":  # where no open file can be replaced
                    self._file.close()
                rename_over(self.path, self._part_path)
                self._file.close()
                self._file = _open_locked(self._part_path)
            self.foreign = None
            if record is not None and _remove_record(self._record_path):
                _write_record(self._record_path, record)
                self.record = record
        self.resume(start)

    def restart(self, record: ResumeRecord | None) -> None:
        """Truncate the file to start over.

        Args:
            record: the new source of the file, or None.
        """
        with self._lock, _add_filename(self._part_path):
            self.record = self.foreign = self.spans = None
            self._close_state()
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
            self._write(pieces)

    def _write(self, pieces: list[bytes]) -> None:
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

    # segments

    def split(self) -> bool:
        """Have bytes written at any place from here on.

        Returns:
            False if a later download could not tell which bytes are there.
        """
        with self._lock, _add_filename(self._record_path):
            if self.record is None:
                return False
            if self._state is None:
                spans = self.spans or Spans([(0, self.size)] if self.size else [])
                state = _open_state(self._record_path, self.record, spans)
                if state is None:
                    return False
                self._state, self.spans = state, spans
            return True

    def write_at(self, position: int, pieces: list[bytes]) -> None:
        """Write bytes at a place, and then that they are there."""
        with self._lock:
            spans, state, before = self.spans, self._state, self.size
            assert spans is not None
            assert state is not None
            try:
                with _add_filename(self._part_path):
                    self._file.seek(position)
                    self._write(pieces)
            finally:
                spans.add(position, position + self.size - before)
                self.size = spans.size
                with _add_filename(self._record_path):
                    _write_spans(state, spans)

    def join(self) -> None:
        """Keep the bytes from the beginning on, up to the first one that is missing."""
        with self._lock, _add_filename(self._part_path):
            record, spans, self.record, self.spans = self.record, self.spans, None, None
            self._close_state()
            has_room = _remove_record(self._record_path)
            self.size = 0 if spans is None else spans.prefix
            self._file.truncate(self.size)
            self._file.seek(self.size)
            self._is_ours = True
            if record is not None and has_room and self.size:
                _write_record(self._record_path, record)
                self.record = record

    def _close_state(self) -> None:
        state, self._state = self._state, None
        if state is not None:
            state.close()

    def hash_into(self, hasher: Hasher, offset: int) -> int:
        """Hash some bytes from an offset; return how many, or 0 at the end."""
        with self._lock, _add_filename(self._part_path):
            end = self._file.seek(0, os.SEEK_CUR)
            self._file.seek(offset)
            data = self._file.read(_HASH_CHUNK)
            self._file.seek(end)
        hasher.update(data)
        return len(data)

    def commit(self, modified: float | None = None) -> None:
        """Sync the file to disk, and rename it to its final path.

        Args:
            modified: the time to give it, in seconds since the epoch; None for the current one.
        """
        with self._lock, _add_filename(self._part_path):
            if self._mode is not None:
                self._set_mode(self._mode)
            if modified is not None:
                with suppress(OSError, OverflowError):  # a time that the file system cannot store
                    os.utime(self._part_path, (modified, modified))
            os.fsync(self._file.fileno())
            self._is_done = True
            self._close_state()
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
            self._close_state()
            if not self._is_done and (self.size == 0 or (self._is_ours and not self.is_kept)):
                for path in (self._record_path, self._part_path):  # the latter ends the lock
                    with suppress(OSError):  # an earlier error matters more
                        os.unlink(path)
            self._file.close()


def count_kept(path: str | os.PathLike[str]) -> int:
    """Return how many bytes an interrupted download to a path has kept."""
    part = os.path.realpath(path) + ".part"
    record, spans, _ = _read_record(part + ".json")
    if record is None or not os.path.exists(part):
        return 0
    return os.stat(part).st_size if spans is None else spans.size


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


def _read_record(path: str) -> tuple[ResumeRecord | None, Spans | None, bool]:
    """Return the record in a file and its spans, and whether the partial file may be foreign.

    There are no spans if the file is one piece from the beginning on, and no record if it is
    missing or invalid. If there were spans, the partial file is not that of another program.
    """
    try:  # NONBLOCK: opening a FIFO must not block
        descriptor = os.open(path, _get_flags("O_RDONLY", "O_NONBLOCK"))
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # a record could not be written either
            raise
        return None, None, True
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None, None, True
        text, _, line = os.read(descriptor, _MAX_RECORD).partition(b"\n")
    except OSError:
        return None, None, False
    finally:
        os.close(descriptor)
    if not line.strip():
        record = ResumeRecord.from_json(text)
        return record, None, record is None
    spans = Spans.from_line(line)
    # If the spans are not readable, the file may have holes anywhere.
    return None if spans is None else ResumeRecord.from_json(text), spans, False


def _open_state(path: str, record: ResumeRecord, spans: Spans) -> FileIO | None:
    """Add spans to a record, and return its file; None if it is too long or not the record."""
    text = record.to_json().encode()
    size = -(-len(text) // LINE) * LINE  # up to the next page
    if size + LINE > _MAX_RECORD:
        return None
    state = FileIO(_open_for_writing(path), "r+")
    try:
        if state.read(len(text)) == text:
            state.seek(len(text))
            state.write(b" " * (size - len(text)))
            _write_spans(state, spans)
            return state
    except BaseException:
        state.close()
        raise
    state.close()
    return None


def _write_spans(state: FileIO, spans: Spans) -> None:
    """Replace the spans; the file stays where they begin."""
    place = state.tell()
    state.write(spans.to_line())
    state.seek(place)


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
