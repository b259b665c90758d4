"""Change http URLs to https for hosts that require it (RFC 6797), and save those hosts."""

from __future__ import annotations

import calendar
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._features.file_lock import lock_file
from curlhttp._features.hsts.policy import HSTSEntry, HSTSStore, is_address
from curlhttp._features.rename import rename_over
from curlhttp._http.errors import validate_path
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.url import URL, parse_origin
from curlhttp._runtime.engine import Layer, Send

_HTTP, _HTTPS = 80, 443
_MAX_FILE = 4 * 1024 * 1024  # bytes of a file that are read
# The format of curl's --hsts; a leading dot includes subdomains.
_LINE = re.compile(r'(\.?)([0-9a-z_.-]{1,253}) "(\d{8} \d\d:\d\d:\d\d|unlimited)"')
_DATE = "%Y%m%d %H:%M:%S"
_FOR_EVER = 4102444800.0  # 2100-01-01
_LOCK_SECONDS = 1.0  # to wait for the lock, whose holder may be stopped; then write without it
_LOCK_POLL_SECONDS = 0.002
_TITLE = "# Hosts that require HTTPS (HSTS), in the format of curl --hsts.\n"


def start(settings: Settings, host: Host) -> None:
    """Open the file.

    Raises:
        OSError: it cannot be read, or its folder does not exist.
    """
    settings["hsts"] = HSTS(settings["hsts"], host.runtime.wall)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that upgrades the first hop of a request."""
    entries: HSTS = context.settings["hsts"]
    return entries.upgrade_layer


def make_hop_layer(context: LayerContext) -> Layer:
    """Return the layer that stores Strict-Transport-Security of each hop."""
    entries: HSTS = context.settings["hsts"]
    return entries.learning_layer


class HSTS:
    """The HSTS entries of a client and their file. Thread-safe.

    Args:
        path: of the file, in curl's format; created with the first entry.
        wall: returns seconds since the epoch.

    Raises:
        OSError: the file cannot be read, or its folder does not exist.
    """

    def __init__(self, path: str | os.PathLike[str], wall: Callable[[], float]) -> None:
        self._path = os.path.realpath(validate_path("hsts", path))
        self._wall = wall
        self._hosts = HSTSStore()
        self._hosts.by_name.update(_load(self._path) or ())
        self._unsaved: set[str] = set()  # hosts whose latest entry is not in the file
        if not os.path.isdir(os.path.dirname(self._path)):
            raise FileNotFoundError(f"hsts: the folder of {self._path} does not exist")

    def upgrade(self, request: ClientRequest) -> ClientRequest:
        """Return the request, with an https URL if the host requires that."""
        url = request.url
        if url.scheme != "http" or not self._covers(url.host):
            return request
        request = request.copy()
        request.url = _to_https(url)
        return request

    def _covers(self, host: str) -> bool:
        return self._hosts.covers(host, self._wall())

    def upgrade_layer(self, send: Send) -> Send:
        """Return the layer that upgrades the first hop of a request."""

        async def through(request: ClientRequest) -> Response:
            return await send(self.upgrade(request))

        return through

    def learning_layer(self, send: Send) -> Send:
        """Return the layer that stores Strict-Transport-Security of each hop."""

        async def through(request: ClientRequest) -> Response:
            response = await send(request)
            tls = request.route.tls
            is_checked = tls.verify is not False and tls.check_hostname
            # Only from hosts with a verified certificate (RFC 6797, section 8.1).
            if is_checked and request.url.scheme == "https":
                values = response.headers.get_list("strict-transport-security")
                if values:
                    self._note(request.url.host, values[0])
            return response

        return through

    def _note(self, host: str, value: str) -> None:
        name = host.rstrip(".")
        was_unsaved = name in self._unsaved
        # First, because another thread that writes meanwhile would drop the new entry.
        self._unsaved.add(name)
        if self._hosts.note(host, value, self._wall()):
            # A full disk must not fail the request.
            with suppress(OSError), _locked(self._path):
                self._write()
        elif not was_unsaved:
            self._unsaved.discard(name)

    def _write(self) -> None:
        """Write unsaved entries to the file, and read those that other clients have added."""
        now, ours, unsaved = self._wall(), self._hosts.by_name, self._unsaved.copy()
        theirs = _load(self._path)
        for name, known in (theirs or {}).items():
            if name not in unsaved and (name not in ours or ours[name].expires < known.expires):
                ours[name] = known
        # Copies, because other threads may add entries.
        if theirs is not None:  # otherwise the file was removed
            for name in list(ours):
                if name not in theirs and name not in self._unsaved:
                    ours.pop(name, None)  # another client has removed it
        kept = [each for each in list(ours.items()) if each[1].expires > now]
        lines = [_format_line(name, known) for name, known in kept]
        folder, name = os.path.split(self._path)
        descriptor, new = tempfile.mkstemp(dir=folder, prefix=name + ".")
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.writelines([_TITLE, *lines])
            rename_over(new, self._path)
            self._unsaved -= unsaved
        except BaseException:
            with suppress(OSError):
                os.unlink(new)
            raise


def _to_https(url: URL) -> URL:
    # RFC 6797, section 8.3: a port other than 80 is kept.
    port = "" if url.port in (_HTTP, _HTTPS) else f":{url.port}"
    origin = parse_origin(f"https://{url.host}{port}")
    return url._with_origin(origin, url.target, url.fragment)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Prevent other clients, in this process or another, from writing the file.

    This locks the folder, because the file is replaced, and a separate lock file would remain.
    """
    try:
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
    except PermissionError:  # Windows cannot open folders
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                lock_file(descriptor)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    break
                time.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _load(path: str) -> dict[str, HSTSEntry] | None:
    """Return the entries in a file, None if it does not exist."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(_MAX_FILE)
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


def _format_line(name: str, known: HSTSEntry) -> str:
    date = time.strftime(_DATE, time.gmtime(known.expires))
    return f'{"." if known.has_subdomains else ""}{name} "{date}"\n'
