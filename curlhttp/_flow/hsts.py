"""Change http URLs to https for hosts that require it (RFC 6797), and save those hosts."""

from __future__ import annotations

import calendar
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from curlhttp._engine.engine import Send
from curlhttp._flow.file_lock import lock_file
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._models.url import URL, parse_url
from curlhttp._policy.hsts import HSTSEntry, HSTSStore, is_address

__all__ = ["HSTS"]

_HTTP, _HTTPS = 80, 443
_MOST = 4 * 1024 * 1024  # bytes of a file that are read
# As curl's --hsts writes it; a dot in front stands for the sub-domains as well.
_LINE = re.compile(r'(\.?)([0-9a-z_.-]{1,253}) "(\d{8} \d\d:\d\d:\d\d|unlimited)"')
_DATE = "%Y%m%d %H:%M:%S"
_FOR_EVER = 4102444800.0  # 2100-01-01
_PATIENCE = 1.0  # seconds to wait for the lock of one who may stand still, and then do without
_ASKED_EVERY = 0.002  # seconds
_TITLE = "# Hosts that are asked by HTTPS alone (HSTS), as curl --hsts keeps them.\n"


class HSTS:
    """The known hosts of a client, for any thread.

    Args:
        path: of the file, in curl's format; it is made when there is something to keep.
        wall: gives seconds since the epoch.

    Raises:
        OSError: it cannot be read, or there is no such folder.
    """

    def __init__(self, path: str | os.PathLike[str], wall: Callable[[], float]) -> None:
        self._path = os.path.realpath(os.fspath(path))
        self._wall = wall
        self._hosts = HSTSStore()
        self._hosts.by_name.update(_read(self._path) or ())
        self._owed: set[str] = set()  # hosts of which the file does not know the latest
        if not os.path.isdir(os.path.dirname(self._path)):
            raise FileNotFoundError(f"hsts: there is no folder for {self._path}")

    def upgrade(self, request: Request) -> Request:
        """Return a request as it may go out: by HTTPS, if the host wants that."""
        url = request.url
        if url.scheme != "http" or not self._covers(url.host):
            return request
        request = request.copy()
        request.url = _by_https(url)
        return request

    def _covers(self, host: str) -> bool:
        return self._hosts.covers(host, self._wall())

    def around(self, send: Send) -> Send:
        """Return the layer for the first hop of a request; see `Chain`."""

        async def through(request: Request) -> Response:
            return await send(self.upgrade(request))

        return through

    def listening(self, send: Send) -> Send:
        """Return the layer that hears what hosts want, on each hop."""

        async def through(request: Request) -> Response:
            response = await send(request)
            tls = request.transport.tls
            is_checked = tls.verify is not False and tls.check_hostname
            # What a certificate did not vouch for may be anybody's word (RFC 6797, section 8.1).
            if is_checked and request.url.scheme == "https":
                values = response.headers.get_list("strict-transport-security")
                if values:
                    self._note(request.url.host, values[0])
            return response

        return through

    def _note(self, host: str, value: str) -> None:
        name = host.rstrip(".")
        was_owed = name in self._owed
        # Before it is known: another thread that writes meanwhile would take it for removed.
        self._owed.add(name)
        if self._hosts.note(host, value, self._wall()):
            # A disk that is full must not fail the request.
            with suppress(OSError), _locked(self._path):
                self._write()
        elif not was_owed:
            self._owed.discard(name)

    def _write(self) -> None:
        """Write what the file does not know into it, and take in what others have put there."""
        now, ours, owed = self._wall(), self._hosts.by_name, self._owed.copy()
        theirs = _read(self._path)
        for name, known in (theirs or {}).items():
            if name not in owed and (name not in ours or ours[name].expires < known.expires):
                ours[name] = known
        # Copies, because other threads may take in others.
        if theirs is not None:  # else somebody has removed the file
            for name in list(ours):
                if name not in theirs and name not in self._owed:
                    ours.pop(name, None)  # its host has told another client to forget it
        kept = [each for each in list(ours.items()) if each[1].expires > now]
        lines = [_line(name, known) for name, known in kept]
        folder, name = os.path.split(self._path)
        descriptor, new = tempfile.mkstemp(dir=folder, prefix=name + ".")
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.writelines([_TITLE, *lines])
            os.replace(new, self._path)
            self._owed -= owed
        except BaseException:
            with suppress(OSError):
                os.unlink(new)
            raise


def _by_https(url: URL) -> URL:
    # RFC 6797, section 8.3: another port than 80 stays.
    port = "" if url.port in (_HTTP, _HTTPS) else f":{url.port}"
    return parse_url(f"https://{url.host}{port}/")._with(url.target, url.fragment)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Keep other clients, of this process or another, from writing a file.

    The folder is what is locked: the file itself is replaced, and one next to it would stay.
    """
    try:
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
    except PermissionError:  # Windows opens no folders
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                lock_file(descriptor)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    break
                time.sleep(_ASKED_EVERY)
        yield
    finally:
        os.close(descriptor)


def _read(path: str) -> dict[str, HSTSEntry] | None:
    """Return what is in a file, None where there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(_MOST)
    except FileNotFoundError:
        return None
    found = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None or is_address(match[2]):
            continue
        try:
            expires = (
                _FOR_EVER
                if match[3] == "unlimited"
                else float(calendar.timegm(time.strptime(match[3], _DATE)))
            )
        except ValueError:
            continue
        found[match[2].rstrip(".")] = HSTSEntry(expires, bool(match[1]))
    return found


def _line(name: str, known: HSTSEntry) -> str:
    date = time.strftime(_DATE, time.gmtime(known.expires))
    return f'{"." if known.has_subdomains else ""}{name} "{date}"\n'
